//! The HTTP client of the operator commands. Finds the leader among the masters it is given,
//! follows 307 with method, body and credential kept, and retries what is safe: reads always,
//! mutating calls only when the earlier attempt was certainly not executed (connection refused,
//! 307, 503). Must not know what a call means. Next: `output.rs`.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use reqwest::header::{HeaderMap, LOCATION};
use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::exit::Failure;

/// How long a command looks for a leader.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long one attempt may take, beside the time the master itself was asked to wait.
const ATTEMPT: Duration = Duration::from_secs(10);

/// Pause before the next attempt when a master cannot serve now.
const PAUSE: Duration = Duration::from_millis(20);

const OPERATION_ID: &str = "holdfast-operation-id";
const ERRORS: (&str, &str) = ("holdfast-errors", "json");

/// Name and secret for Basic authentication.
#[derive(Debug, Clone)]
pub(crate) struct Credential {
    /// The principal.
    pub(crate) principal: String,
    /// Its secret.
    pub(crate) secret: String,
}

/// A client that remembers where the leader was.
#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    masters: Vec<String>,
    credential: Option<Credential>,
    /// Address that answered last, and its number when known.
    leader: Option<(String, Option<u64>)>,
    /// Whether somebody reads along: only then changes of leader are told.
    is_watched: bool,
}

/// A mutating call that was accepted.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// Under which id its progress can be asked for.
    pub(crate) operation_id: Option<String>,
}

struct Request<'a> {
    method: Method,
    /// Path and query.
    path: &'a str,
    body: Option<&'a Value>,
    timeout: Duration,
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

/// How one attempt ended.
enum Attempt {
    Answered(Answer),
    /// The answer names the leader: the full address to go on with.
    Redirected(String),
    /// Certainly not executed.
    NotNow(String),
    /// Sent, and no answer came.
    Broken(String),
}

impl Client {
    /// A client of these masters.
    pub(crate) fn new(
        masters: Vec<String>,
        credential: Option<Credential>,
    ) -> Result<Self, Failure> {
        let masters: Vec<String> = masters.iter().map(|master| trim(master)).collect();
        for master in &masters {
            let is_address = master.rsplit_once(':').is_some_and(|(host, port)| {
                !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
            });
            if !is_address {
                return Err(Failure::Usage(format!("--master '{master}': expected host:port")));
            }
        }
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .map_err(|error| Failure::Refused(error.to_string()))?;
        let is_watched = std::io::stderr().is_terminal();
        Ok(Self { http, masters, credential, leader: None, is_watched })
    }

    /// The masters that were given.
    pub(crate) fn masters(&self) -> &[String] {
        &self.masters
    }

    /// GET of `path` from the leader.
    pub(crate) async fn get(&mut self, path: &str) -> Result<Value, Failure> {
        let request = Request { method: Method::GET, path, body: None, timeout: ATTEMPT };
        let answer = self.send(&request).await?;
        if answer.status != StatusCode::OK {
            return Err(refusal(&answer));
        }
        serde_json::from_slice(&answer.body)
            .map_err(|error| Failure::Refused(format!("{path}: the answer is no JSON: {error}")))
    }

    /// GET of `path` from one master, whether it leads or not.
    pub(crate) async fn get_at(&self, address: &str, path: &str) -> Result<Value, String> {
        let url = format!("http://{address}{path}");
        let request = Request { method: Method::GET, path, body: None, timeout: ATTEMPT };
        match self.attempt(&url, &request).await {
            Attempt::Answered(answer) if answer.status == StatusCode::OK => {
                serde_json::from_slice(&answer.body).map_err(|error| error.to_string())
            }
            Attempt::Answered(answer) => Err(message(&answer)),
            Attempt::Redirected(to) => Err(format!("redirects to {to}")),
            Attempt::NotNow(text) | Attempt::Broken(text) => Err(text),
        }
    }

    /// POST of a mutating operator call, with a query such as `?wait=checkpointed`. `wait` is
    /// how long the master was asked to hold its answer.
    pub(crate) async fn execute(
        &mut self,
        query: &str,
        call: &Value,
        wait: Duration,
    ) -> Result<Accepted, Failure> {
        let path = format!("/api/v1{query}");
        let timeout = ATTEMPT + wait;
        let request = Request { method: Method::POST, path: &path, body: Some(call), timeout };
        let answer = self.send(&request).await?;
        let operation_id =
            answer.headers.get(OPERATION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
        match answer.status {
            StatusCode::OK | StatusCode::ACCEPTED => Ok(Accepted { operation_id }),
            StatusCode::GATEWAY_TIMEOUT => {
                let id = operation_id.map(|id| {
                    format!("; it is operation {id}, see: holdfast operation inspect {id}")
                });
                let text = message(&answer);
                Err(Failure::Unknown(format!(
                    "the outcome is not known yet: {text}{}",
                    id.unwrap_or_default()
                )))
            }
            _ => Err(refusal(&answer)),
        }
    }

    /// Sends until some master answers, at most [`PATIENCE`] long.
    async fn send(&mut self, request: &Request<'_>) -> Result<Answer, Failure> {
        let begin = Instant::now();
        let mut place = 0;
        let mut url = match &self.leader {
            Some((address, _)) => format!("http://{address}{}", request.path),
            None => format!("http://{}{}", self.masters[place], request.path),
        };
        loop {
            let reason = match self.attempt(&url, request).await {
                Attempt::Answered(answer) => {
                    self.found(&url, begin.elapsed()).await;
                    return Ok(answer);
                }
                Attempt::Redirected(location) if begin.elapsed() < PATIENCE => {
                    url = location;
                    continue;
                }
                Attempt::Redirected(location) => format!("{url} redirects to {location}"),
                Attempt::Broken(reason) if request.method != Method::GET => {
                    return Err(Failure::Unknown(format!(
                        "the outcome is unknown: {url}: {reason}"
                    )));
                }
                Attempt::NotNow(reason) | Attempt::Broken(reason) => reason,
            };
            if begin.elapsed() >= PATIENCE {
                let masters = self.masters.join(",");
                return Err(Failure::NoLeader(format!(
                    "no leader answered within {} s (masters {masters}): {reason}",
                    PATIENCE.as_secs()
                )));
            }
            url = format!("http://{}{}", self.masters[place], request.path);
            place = (place + 1) % self.masters.len();
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn attempt(&self, url: &str, request: &Request<'_>) -> Attempt {
        let mut builder = self
            .http
            .request(request.method.clone(), url)
            .timeout(request.timeout)
            .header(ERRORS.0, ERRORS.1);
        if let Some(credential) = &self.credential {
            builder = builder.basic_auth(&credential.principal, Some(&credential.secret));
        }
        if let Some(body) = request.body {
            builder = builder.json(body);
        }
        let response = match builder.send().await {
            Ok(response) => response,
            Err(error) if error.is_connect() => return Attempt::NotNow(cause(&error)),
            Err(error) if error.is_builder() => return Attempt::NotNow(cause(&error)),
            Err(error) => return Attempt::Broken(cause(&error)),
        };
        let (status, headers) = (response.status(), response.headers().clone());
        if status == StatusCode::TEMPORARY_REDIRECT {
            let location = headers.get(LOCATION).and_then(|location| location.to_str().ok());
            return match location.and_then(absolute) {
                Some(location) => Attempt::Redirected(location),
                None => Attempt::NotNow(format!("{url} redirects nowhere")),
            };
        }
        let body = match response.bytes().await {
            Ok(body) => body.to_vec(),
            Err(error) if status.is_success() && request.method == Method::GET => {
                return Attempt::Broken(cause(&error));
            }
            // The status line of a mutating call says it all.
            Err(_) => Vec::new(),
        };
        let answer = Answer { status, headers, body };
        if status == StatusCode::SERVICE_UNAVAILABLE {
            return Attempt::NotNow(message(&answer));
        }
        Attempt::Answered(answer)
    }

    /// Remembers who answered, and says on a terminal when that is another master than before.
    async fn found(&mut self, url: &str, elapsed: Duration) {
        let address = url.strip_prefix("http://").unwrap_or(url);
        let address = address.split(['/', '?']).next().unwrap_or(address).to_owned();
        if self.leader.as_ref().is_some_and(|(known, _)| *known == address) {
            return;
        }
        let number = if self.is_watched { self.number(&address).await } else { None };
        let old = self.leader.replace((address.clone(), number));
        if let (true, Some((old_address, old_number))) = (self.is_watched, old) {
            let name = |number: Option<u64>, address: String| {
                number.map_or(address, |number| number.to_string())
            };
            let (old, new) = (name(old_number, old_address), name(number, address));
            eprintln!("leader changed {old}→{new}, resumed after {} ms", elapsed.as_millis());
        }
    }

    async fn number(&self, address: &str) -> Option<u64> {
        self.get_at(address, "/api/v1/server").await.ok()?["id"].as_u64()
    }
}

fn trim(master: &str) -> String {
    let master = master.trim().strip_prefix("http://").unwrap_or(master.trim());
    master.trim_end_matches('/').to_owned()
}

/// A `Location` as a full address. Masters send protocol-relative ones, as Mesos does.
fn absolute(location: &str) -> Option<String> {
    if location.starts_with("//") {
        return Some(format!("http:{location}"));
    }
    location.starts_with("http://").then(|| location.to_owned())
}

fn refusal(answer: &Answer) -> Failure {
    let text = message(answer);
    match answer.status {
        StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED => Failure::Conflict(text),
        status if status.is_server_error() => Failure::Unknown(text),
        _ => Failure::Refused(text),
    }
}

/// What the master says, in one line: its JSON form when it has one, else the plain text.
fn message(answer: &Answer) -> String {
    let text = String::from_utf8_lossy(&answer.body).trim().to_owned();
    let status = answer.status.as_u16();
    let Ok(Value::Object(error)) = serde_json::from_str::<Value>(&text) else {
        let reason = answer.status.canonical_reason().unwrap_or_default();
        let text = if text.is_empty() { reason.to_owned() } else { text };
        return format!("{text} ({status})");
    };
    let mut line = error.get("message").and_then(Value::as_str).unwrap_or(&text).to_owned();
    for (key, label) in [
        ("wanted", "wanted"),
        ("available", "available"),
        ("blocked_by", "blocked by"),
        ("hint", "hint"),
    ] {
        if let Some(detail) = error.get(key).filter(|detail| !detail.is_null()) {
            let detail = detail.as_str().map_or_else(|| detail.to_string(), str::to_owned);
            line = format!("{line}; {label}: {detail}");
        }
    }
    format!("{line} ({status})")
}

/// The innermost cause: the outer texts only repeat the address.
fn cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_masters() {
        assert_eq!(trim(" http://a:1/ "), "a:1");
        for bad in ["", "a", "a:0", ":1", "a:70000"] {
            assert!(Client::new(vec![bad.to_owned()], None).is_err(), "{bad}");
        }
    }

    #[test]
    fn locations() {
        assert_eq!(absolute("//a:1/x?y"), Some("http://a:1/x?y".to_owned()));
        assert_eq!(absolute("http://a:1"), Some("http://a:1".to_owned()));
        assert_eq!(absolute("/x"), None);
    }

    #[test]
    fn messages_are_one_line() {
        let answer = |status, body: &str| Answer {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: body.as_bytes().to_vec(),
        };
        let check = |status, body, expected| {
            assert_eq!(message(&answer(status, body)), expected);
        };
        check(400, "No agent found with specified ID", "No agent found with specified ID (400)");
        check(503, "", "Service Unavailable (503)");
        check(
            409,
            r#"{"code":409,"message":"not enough","wanted":"cpus:2","available":null}"#,
            "not enough; wanted: cpus:2 (409)",
        );
        let failure = refusal(&answer(409, "x"));
        assert_eq!(failure, Failure::Conflict("x (409)".to_owned()));
    }
}
