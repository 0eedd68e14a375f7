//! Requests with all their headers, and whole answers: for tests that care about more than
//! whether a call was accepted.

use chaos::wait;
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::harness::{DEADLINE, Dev, operator_call};

/// The query of a call whose answer comes when the agent has it on its disk.
pub(crate) const CHECKPOINTED: &str = "/api/v1?wait=checkpointed&timeout=30s";

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text)
            .unwrap_or_else(|error| panic!("{} {}: {error}", self.status, self.text))
    }

    /// A header; empty when it is not there.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The id under which it was accepted.
    pub(crate) fn operation_id(&self) -> &str {
        assert_eq!(self.status, 202, "{}", self.text);
        self.header("holdfast-operation-id")
    }

    /// Fails unless it has that status and its text that part.
    pub(crate) fn expect(&self, what: &str, status: u16, part: &str) {
        let text = &self.text;
        assert_eq!(self.status, status, "{what}: {text}");
        assert!(text.contains(part), "{what}: '{text}' lacks '{part}'");
    }
}

/// One request to one address.
pub(crate) async fn once(
    method: Method,
    address: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<Answer, reqwest::Error> {
    let http = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .timeout(DEADLINE)
        .build()?;
    let mut request = http.request(method, format!("http://{address}{path}")).body(body.to_owned());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().await?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Ok(Answer { status, headers, text: response.text().await? })
}

impl Dev {
    /// A request to the leader, made again while that says that it did nothing (307, 503) and
    /// when the connection breaks: for calls that may be made twice.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        wait::until("an answer of the leader", DEADLINE, async || {
            let address = self.leader_address().await;
            let answer = once(method.clone(), &address, path, headers, body).await;
            let answer = answer.map_err(|error| error.to_string())?;
            match answer.status {
                307 | 503 => Err(format!("{} {}", answer.status, answer.text)),
                _ => Ok(answer),
            }
        })
        .await
        .unwrap()
    }

    /// POST of JSON to the leader.
    pub(crate) async fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let headers = [&[("content-type", "application/json")], headers].concat();
        self.ask(Method::POST, path, &headers, &body.to_string()).await
    }

    /// GET of JSON from the leader.
    pub(crate) async fn read(&self, path: &str) -> Value {
        let answer = self.ask(Method::GET, path, &[], "").await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        answer.json()
    }

    /// An operator call on resources or volumes of an agent, answered when the agent has it.
    pub(crate) async fn call(&self, agent: usize, kind: &str, resources: &[Value]) -> Answer {
        let call = operator_call(&self.agent_id(agent).await, kind, resources);
        self.post(CHECKPOINTED, &[], &call).await
    }

    /// Index of the last entry in the leader's log.
    pub(crate) async fn last_log(&self) -> u64 {
        self.read("/api/v1/server").await["last_log"].as_u64().unwrap()
    }

    /// What the leader lists as reserved on an agent, by role.
    pub(crate) async fn reserved_on(&self, agent: usize) -> Value {
        self.slave(agent).await["reserved_resources_full"].clone()
    }
}
