//! The HTTP client of the operator commands. Finds the leader among the masters it is given,
//! follows 307 with method, body and credential kept, and retries what is safe: reads and calls
//! with an idempotency key always, other mutating calls only when the earlier attempt was
//! certainly not executed (connection refused, 307, 503). Must not know what a call means.
//! Next: `refusal.rs`.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use reqwest::header::{HeaderMap, LOCATION};
use reqwest::{Method, StatusCode};
use serde_json::Value;

use super::call::{Accepted, Key, Mutating};
use super::refusal;
use crate::exit::Failure;

/// How long a command looks for a leader.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long one attempt may take, beside the time the master itself was asked to wait.
const ATTEMPT: Duration = Duration::from_secs(10);

/// How long a file may take.
const DOWNLOAD: Duration = Duration::from_secs(3600);

/// How a master begins that knows no leader.
const NO_LEADER: &str = "No leader";

/// Pause before the next attempt when a master cannot serve now.
const PAUSE: Duration = Duration::from_millis(20);

const OPERATION_ID: &str = "holdfast-operation-id";
const TRANSACTION_ID: &str = "holdfast-transaction-id";
const IDEMPOTENCY_KEY: &str = "idempotency-key";
const IF_MATCH: &str = "if-match";
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

#[derive(Debug, Clone)]
struct Request<'a> {
    method: Method,
    /// Path and query.
    path: &'a str,
    body: Option<&'a Value>,
    timeout: Duration,
    key: Option<&'a str>,
    if_version: Option<u64>,
}

impl<'a> Request<'a> {
    fn get(path: &'a str) -> Self {
        let (method, body, timeout) = (Method::GET, None, ATTEMPT);
        Self { method, path, body, timeout, key: None, if_version: None }
    }

    /// Whether it may be sent again after an attempt whose outcome is unknown.
    fn is_repeatable(&self) -> bool {
        self.method == Method::GET || self.key.is_some()
    }
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
    /// Certainly not executed: nobody leads, or nobody is there.
    NoLeader(String),
    /// Certainly not executed: the leader has too much to do.
    Busy(String),
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
        let answer = self.send(&Request::get(path)).await?;
        match answer.status {
            StatusCode::OK => json(path, &answer),
            status => Err(refusal::failure(status, &answer.body)),
        }
    }

    /// The same, or `None` where the leader knows nothing under this path.
    pub(crate) async fn find(&mut self, path: &str) -> Result<Option<Value>, Failure> {
        let answer = self.send(&Request::get(path)).await?;
        match answer.status {
            StatusCode::OK => json(path, &answer).map(Some),
            StatusCode::NOT_FOUND => Ok(None),
            status => Err(refusal::failure(status, &answer.body)),
        }
    }

    /// GET of a file from the leader, however long it takes.
    pub(crate) async fn download(&mut self, path: &str) -> Result<Vec<u8>, Failure> {
        let request = Request { timeout: DOWNLOAD, ..Request::get(path) };
        let answer = self.send(&request).await?;
        match answer.status {
            StatusCode::OK => Ok(answer.body),
            status => Err(refusal::failure(status, &answer.body)),
        }
    }

    /// GET of `path` from one master, whether it leads or not.
    pub(crate) async fn get_at(&self, address: &str, path: &str) -> Result<Value, String> {
        let url = format!("http://{address}{path}");
        match self.attempt(&url, &Request::get(path)).await {
            Attempt::Answered(answer) if answer.status == StatusCode::OK => {
                serde_json::from_slice(&answer.body).map_err(|error| error.to_string())
            }
            Attempt::Answered(answer) => Err(refusal::text(answer.status, &answer.body)),
            Attempt::Redirected(to) => Err(format!("redirects to {to}")),
            Attempt::NoLeader(text) | Attempt::Busy(text) | Attempt::Broken(text) => Err(text),
        }
    }

    /// POST of a mutating call.
    pub(crate) async fn execute(&mut self, call: &Mutating<'_>) -> Result<Accepted, Failure> {
        let mut request = Request {
            method: Method::POST,
            path: &call.path,
            body: Some(call.body),
            timeout: ATTEMPT + call.wait,
            key: call.key.text(),
            if_version: call.if_version,
        };
        let mut answer = self.send(&request).await?;
        if answer.status == StatusCode::TOO_MANY_REQUESTS && matches!(call.key, Key::Made(_)) {
            request.key = None;
            answer = self.send(&request).await?;
        }
        let id = |name: &str| {
            answer.headers.get(name).and_then(|id| id.to_str().ok()).map(str::to_owned)
        };
        let operation_id = id(TRANSACTION_ID).or_else(|| id(OPERATION_ID));
        match answer.status {
            StatusCode::OK | StatusCode::ACCEPTED => {
                let body = serde_json::from_slice(&answer.body).ok();
                Ok(Accepted { operation_id, body })
            }
            StatusCode::GATEWAY_TIMEOUT => {
                let text = refusal::text(answer.status, &answer.body);
                let (text, details) = text.split_once('\n').unwrap_or((&text, ""));
                let id = operation_id.map(|id| format!("; see: holdfast operation wait {id}"));
                let text = format!("{text}{}{}", id.unwrap_or_default(), again(&request));
                Err(Failure::Unknown(format!("{text}\n{details}")))
            }
            status => Err(refusal::failure(status, &answer.body)),
        }
    }

    /// Sends until some master answers, at most [`PATIENCE`] long.
    async fn send(&mut self, request: &Request<'_>) -> Result<Answer, Failure> {
        let begin = Instant::now();
        let mut place = 0;
        // Whether some attempt may have been executed.
        let mut is_unknown = false;
        let mut url = match &self.leader {
            Some((address, _)) => format!("http://{address}{}", request.path),
            None => format!("http://{}{}", self.masters[place], request.path),
        };
        loop {
            let attempt = self.attempt(&url, request).await;
            let is_late = begin.elapsed() >= PATIENCE;
            let reason = match attempt {
                Attempt::Answered(answer) => {
                    self.found(&url, begin.elapsed()).await;
                    return Ok(answer);
                }
                Attempt::Redirected(location) if !is_late => {
                    url = location;
                    continue;
                }
                Attempt::Redirected(location) => format!("{url} redirects to {location}"),
                Attempt::Broken(reason) => {
                    is_unknown |= request.method != Method::GET;
                    if is_late || !request.is_repeatable() {
                        let again = again(request);
                        let text = format!("the outcome is unknown: {url}: {reason}{again}");
                        return Err(Failure::Unknown(text));
                    }
                    reason
                }
                Attempt::Busy(reason) if is_late && !is_unknown => {
                    return Err(Failure::Refused(reason));
                }
                Attempt::NoLeader(reason) | Attempt::Busy(reason) => reason,
            };
            if is_late {
                return Err(self.no_leader(request, &reason, is_unknown));
            }
            url = format!("http://{}{}", self.masters[place], request.path);
            place = (place + 1) % self.masters.len();
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn no_leader(&self, request: &Request<'_>, reason: &str, is_unknown: bool) -> Failure {
        let (seconds, masters) = (PATIENCE.as_secs(), self.masters.join(","));
        let text = format!("no leader answered within {seconds} s (masters {masters}): {reason}");
        match is_unknown {
            true => Failure::Unknown(format!("the outcome is unknown: {text}{}", again(request))),
            false => Failure::NoLeader(text),
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
        if let Some(key) = request.key {
            builder = builder.header(IDEMPOTENCY_KEY, key);
        }
        if let Some(version) = request.if_version {
            builder = builder.header(IF_MATCH, format!("\"{version}\""));
        }
        let response = match builder.send().await {
            Ok(response) => response,
            Err(error) if error.is_connect() => return Attempt::NoLeader(cause(&error)),
            Err(error) if error.is_builder() => return Attempt::NoLeader(cause(&error)),
            Err(error) => return Attempt::Broken(cause(&error)),
        };
        let (status, headers) = (response.status(), response.headers().clone());
        if status == StatusCode::TEMPORARY_REDIRECT {
            let location = headers.get(LOCATION).and_then(|location| location.to_str().ok());
            return match location.and_then(absolute) {
                Some(location) => Attempt::Redirected(location),
                None => Attempt::NoLeader(format!("{url} redirects nowhere")),
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
            let text = refusal::text(answer.status, &answer.body);
            return match text.starts_with(NO_LEADER) {
                true => Attempt::NoLeader(text),
                false => Attempt::Busy(text),
            };
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

fn json(path: &str, answer: &Answer) -> Result<Value, Failure> {
    serde_json::from_slice(&answer.body)
        .map_err(|error| Failure::Refused(format!("{path}: the answer is no JSON: {error}")))
}

/// How to learn the outcome of a call that has a key.
fn again(request: &Request<'_>) -> String {
    let key = request.key.map(|key| {
        format!("; the same command with --key {key} has it done once and tells the outcome")
    });
    key.unwrap_or_default()
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
}
