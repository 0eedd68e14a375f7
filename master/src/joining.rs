//! How a master that was started with `--join` gets into a cluster: it asks any master of it to
//! be added as a learner, again until it finds itself among the members. Promotion is an
//! operator's choice. Must not know who leads: a redirect says it. Next: `lib.rs`.

use std::time::Duration;

use raft::Node;
use reqwest::header::LOCATION;
use reqwest::{Client, StatusCode, redirect};
use serde_json::{Value, json};

use crate::config::{Config, Join};
use crate::machine::Replica;

/// First pause between two attempts; each is twice the one before.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long one attempt may take: the leader looks for this master at its peer address.
const ATTEMPT: Duration = Duration::from_secs(30);
/// Redirects that one attempt follows.
const REDIRECTS_MAX: usize = 4;

/// Asks until this master is a member. Ends at once for a directory that is one already.
pub(crate) async fn ask(node: Node<Replica>, join: Join, config: &Config) {
    let id = config.id;
    let is_member = || node.membership().iter().any(|member| member.id == id);
    let peer = config.peer_address().to_string();
    let client = Client::builder()
        .redirect(redirect::Policy::none())
        .no_proxy()
        .timeout(ATTEMPT)
        .build()
        .expect("a client without certificates has nothing that can be missing");
    let mut pause = PAUSE;
    let mut told = None;
    while !is_member() {
        match attempt(&client, &join, &json!({"id": id.0, "peer": peer})).await {
            Ok(()) => {
                tracing::info!(%id, peer, cluster = %join, "the cluster has added this master");
                return;
            }
            Err(reason) if told.as_ref() != Some(&reason) => {
                tracing::warn!(%id, peer, cluster = %join, reason, "not added yet");
                told = Some(reason);
            }
            Err(_) => {}
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

async fn attempt(client: &Client, join: &Join, body: &Value) -> Result<(), String> {
    let mut url = format!("http://{}/api/v1/servers/add", join.address);
    for _ in 0..=REDIRECTS_MAX {
        let mut request = client.post(&url).json(body);
        if let Some((principal, secret)) = &join.credential {
            request = request.basic_auth(principal, Some(secret));
        }
        let answer = request.send().await.map_err(|error| chain(&error))?;
        let location = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        match (answer.status(), location) {
            (StatusCode::OK, _) => return Ok(()),
            (StatusCode::TEMPORARY_REDIRECT, Some(location)) => url = format!("http:{location}"),
            (status, _) => {
                let text = answer.text().await.unwrap_or_default();
                return Err(format!("{} ({})", text.trim(), status.as_u16()));
            }
        }
    }
    Err("too many redirects".to_owned())
}

/// An error with all that is below it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
