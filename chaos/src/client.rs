//! One HTTP call to one address, and what its end means for the caller. Follows no redirect: a
//! drill wants to see them. Must not know which master leads. Next: `history.rs`.

use std::fs;
use std::time::Duration;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;

/// A call that takes longer counts as one with unknown outcome.
const CALL_DEADLINE: Duration = Duration::from_secs(10);

/// Header that names the operation of an accepted call.
const OPERATION_ID: &str = "holdfast-operation-id";

/// Deadline of a stream of events: none.
const ENDLESS: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Who calls, when the masters ask for it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Credential {
    /// The name; also the principal of what the caller reserves.
    pub principal: String,
    /// The password.
    pub secret: String,
}

#[derive(Deserialize)]
struct CredentialFile {
    credentials: Vec<Credential>,
}

impl Credential {
    /// The first credential of the file that a master's arguments name with `--credentials`.
    ///
    /// # Errors
    /// When that file cannot be read.
    pub fn of_master(argv: &[String]) -> anyhow::Result<Option<Self>> {
        let mut path = None;
        for (place, argument) in argv.iter().enumerate() {
            if argument == "--credentials" {
                path = argv.get(place + 1).map(String::as_str);
            } else if let Some(value) = argument.strip_prefix("--credentials=") {
                path = Some(value);
            }
        }
        let Some(path) = path else { return Ok(None) };
        let path = path.strip_prefix("file://").unwrap_or(path);
        let text = fs::read_to_string(path).with_context(|| format!("credentials {path}"))?;
        let file: CredentialFile =
            serde_json::from_str(&text).with_context(|| format!("credentials {path}"))?;
        Ok(file.credentials.into_iter().next())
    }
}

/// How a mutating call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// 202: must stand for ever.
    Accepted,
    /// Refused for a reason that another attempt will not change.
    Refused {
        /// HTTP status.
        status: u16,
        /// What the master said.
        text: String,
    },
    /// Certainly not executed, and worth another attempt: connection refused, 307, 503.
    NotExecuted {
        /// Where the leader is, when the answer said so.
        leader: Option<String>,
    },
    /// May or may not have been executed.
    Unknown {
        /// What is known of it.
        reason: String,
    },
}

/// How a mutating call ended, and what the master calls its operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// How it ended.
    pub outcome: Outcome,
    /// The id under which the operation can be looked up; only of accepted calls.
    pub operation_id: Option<String>,
}

/// An HTTP client for black-box use.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    credential: Option<Credential>,
}

impl Client {
    /// A client that presents `credential` with each call.
    ///
    /// # Errors
    /// When the HTTP library cannot be set up.
    pub fn new(credential: Option<Credential>) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .timeout(CALL_DEADLINE)
            .build()?;
        Ok(Self { http, credential })
    }

    /// The principal of this client's calls.
    #[must_use]
    pub fn principal(&self) -> Option<&str> {
        self.credential.as_ref().map(|credential| credential.principal.as_str())
    }

    fn authorised(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match &self.credential {
            Some(credential) => request.basic_auth(&credential.principal, Some(&credential.secret)),
            None => request,
        }
    }

    /// GET of `path` at `address`; the JSON body of a 200.
    ///
    /// # Errors
    /// Says what came instead.
    pub async fn get(&self, address: &str, path: &str) -> Result<Value, String> {
        let text = self.text(address, path).await?;
        serde_json::from_str(&text).map_err(|error| format!("{address}{path}: {error}"))
    }

    /// GET of `path` at `address`; the body of a 200 as it is.
    ///
    /// # Errors
    /// Says what came instead.
    pub async fn text(&self, address: &str, path: &str) -> Result<String, String> {
        let request = self.authorised(self.http.get(format!("http://{address}{path}")));
        let response = request.send().await.map_err(|error| cause(&error))?;
        let status = response.status();
        let text = response.text().await.map_err(|error| cause(&error))?;
        match status {
            reqwest::StatusCode::OK => Ok(text),
            status => Err(format!("{address}{path} answers {status} {text}")),
        }
    }

    /// POST of a v1 operator call to `address`.
    pub async fn call(&self, address: &str, call: &Value) -> Outcome {
        self.call_with(address, "", call).await
    }

    /// POST of a v1 operator call to `address`, with a query such as `?wait=checkpointed`.
    pub async fn call_with(&self, address: &str, query: &str, call: &Value) -> Outcome {
        self.post(&format!("http://{address}/api/v1{query}"), call, None).await
    }

    /// POST of a v1 operator call to `address` under an idempotency key: it may be repeated.
    pub async fn call_keyed(&self, address: &str, key: &str, call: &Value) -> Outcome {
        self.send_keyed(address, "/api/v1", key, call).await
    }

    /// POST of `body` to any other `path` at `address`, under a key.
    pub async fn send_keyed(&self, address: &str, path: &str, key: &str, body: &Value) -> Outcome {
        let url = format!("http://{address}{path}");
        self.post(&url, body, Some(("idempotency-key", key))).await
    }

    /// POST of a v1 operator call to `address`, with the id of what was accepted.
    pub async fn operate(&self, address: &str, call: &Value) -> Reply {
        self.reply(&format!("http://{address}/api/v1"), call, None).await
    }

    /// POST of `body` to any other `path` at `address`.
    pub async fn send(&self, address: &str, path: &str, body: &Value) -> Outcome {
        self.post(&format!("http://{address}{path}"), body, None).await
    }

    /// A POST whose answer may take for ever.
    pub(crate) fn endless(&self, url: &str) -> reqwest::RequestBuilder {
        self.authorised(self.http.post(url)).timeout(ENDLESS)
    }

    /// POST of a call, with one header more.
    pub(crate) async fn post(
        &self,
        url: &str,
        call: &Value,
        header: Option<(&str, &str)>,
    ) -> Outcome {
        self.reply(url, call, header).await.outcome
    }

    async fn reply(&self, url: &str, call: &Value, header: Option<(&str, &str)>) -> Reply {
        let without_id = |outcome| Reply { outcome, operation_id: None };
        let mut request = self.authorised(self.http.post(url).json(call));
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) if error.is_connect() => {
                return without_id(Outcome::NotExecuted { leader: None });
            }
            Err(error) => return without_id(Outcome::Unknown { reason: cause(&error) }),
        };
        let status = response.status().as_u16();
        let header = |name: &str| response.headers().get(name)?.to_str().ok().map(str::to_owned);
        let leader = header("location").as_deref().and_then(authority);
        let operation_id = header(OPERATION_ID);
        // The status line alone decides: a body that is cut off takes nothing back.
        let text = response.text().await.unwrap_or_default();
        match status {
            200 | 202 => Reply { outcome: Outcome::Accepted, operation_id },
            307 | 503 => without_id(Outcome::NotExecuted { leader }),
            500.. => without_id(Outcome::Unknown { reason: format!("{status} {text}") }),
            _ => without_id(Outcome::Refused { status, text }),
        }
    }
}

/// `host:port` of a protocol-relative `Location`.
pub(crate) fn authority(location: &str) -> Option<String> {
    let rest = location.strip_prefix("http:").unwrap_or(location).strip_prefix("//")?;
    let authority = rest.split('/').next()?;
    (!authority.is_empty()).then(|| authority.to_owned())
}

/// The innermost cause: the outer texts of the HTTP library only repeat the address.
pub(crate) fn cause(error: &reqwest::Error) -> String {
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
    fn authority_of_a_location() {
        for (location, expected) in [
            ("//127.0.0.1:5050/master/api/v1?x=1", Some("127.0.0.1:5050")),
            ("//127.0.0.1:5050", Some("127.0.0.1:5050")),
            ("http://a:1/x", Some("a:1")),
            ("/relative", None),
        ] {
            assert_eq!(authority(location).as_deref(), expected, "{location}");
        }
    }

    #[tokio::test]
    async fn refused_connection_is_not_executed() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let client = Client::new(None).unwrap();
        let outcome = client.call(&address, &serde_json::json!({"type": "GET_HEALTH"})).await;
        assert_eq!(outcome, Outcome::NotExecuted { leader: None });
    }
}
