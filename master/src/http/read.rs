//! The unversioned reads (spec §6.2): `/slaves`, `/roles`, `/flags`, `/version`, metrics and
//! health, as JSON or JSONP. Must not know the shape of an agent: `shapes.rs` does. Reading
//! order: this file, `read/frameworks.rs`, `read/tasks.rs`, `read/overview.rs`
//! (`/state-summary`), `read/state.rs`. Next: `extension.rs`.

mod frameworks;
mod overview;
mod state;
mod tasks;

use std::collections::BTreeMap;

use axum::body::Body;
use axum::response::Response;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use serde::Serialize;

use super::App;
use super::about;
use super::error::Failure;
use super::incoming::Incoming;
use super::negotiate::Media;
use super::offers::Offers;
use super::picture::Picture;
use super::redirect::Standing;
use super::roles::Roles;
use super::shapes::{Detail, Slaves};
use crate::leader::Consistency;
use crate::metrics::{self, Facts, RaftFacts, Sample, StateFacts};

pub(super) use self::frameworks::frameworks;
pub(super) use self::overview::overview;
pub(super) use self::state::state;
pub(super) use self::tasks::tasks;

/// The process lives.
pub(super) fn health() -> Response {
    Response::new(Body::empty())
}

/// Whether this master knows a leader and has applied what it knows to be committed.
pub(super) fn ready(app: &App) -> Result<Response, Failure> {
    let status = app.handle.status();
    if app.gate.standing() == Standing::Nowhere {
        return Err(Failure::NoLeader);
    }
    if status.applied < status.committed {
        return Err(Failure::Overloaded {
            what: "this master has not applied everything yet",
            retry_after: std::time::Duration::from_secs(1),
        });
    }
    Ok(Response::new(Body::empty()))
}

pub(super) fn version(incoming: &Incoming) -> Result<Response, Failure> {
    json(incoming, &about::version())
}

pub(super) fn flags(app: &App, incoming: &Incoming) -> Result<Response, Failure> {
    if !app.viewer(incoming).sees_flags() {
        return Err(Failure::Forbidden("the flags are not for everybody to see".to_owned()));
    }
    json(incoming, &BTreeMap::from([("flags", &app.config.flags)]))
}

pub(super) fn slaves(picture: &Picture<'_>, incoming: &Incoming) -> Result<Response, Failure> {
    let query = incoming.query()?;
    let slave_id = query.get("slave_id").map(String::as_str);
    json(incoming, &Slaves::of(picture, slave_id, Detail::Full))
}

pub(super) fn roles(
    app: &App,
    picture: &Picture<'_>,
    incoming: &Incoming,
) -> Result<Response, Failure> {
    json(incoming, &Roles::of(picture, app.config.whitelist.as_ref()))
}

/// The metrics of this moment, of this master.
pub(super) async fn samples(app: &App) -> Vec<Sample> {
    let status = app.handle.status();
    let mut facts = Facts {
        uptime: app.started.elapsed(),
        is_leader: matches!(app.gate.standing(), Standing::Here(_)),
        raft: RaftFacts::of(&status),
        counts: app.handle.counts(),
        ..Facts::default()
    };
    // A stale view waits for nobody; while there is none the rest is known all the same.
    if let Ok(view) = app.handle.view(Consistency::Stale).await {
        if facts.is_leader {
            let connected = view.sessions.keys().filter_map(|id| view.state.agent(id));
            let active = connected.filter(|agent| agent.activation.is_active()).count();
            (facts.agents_connected, facts.agents_active) = (view.sessions.len(), active);
            let offers = Offers::now(app).await;
            let offered = offers.iter().map(|offer| (&offer.role, &offer.resources));
            facts.state = StateFacts::of_leader(&view.state, offered);
        } else {
            facts.state = StateFacts::of_follower(&view.state);
        }
    }
    metrics::samples(&facts, &app.counters)
}

/// Rules on endpoints name Mesos' path of the metrics; they hold for both forms.
fn may_read_metrics(app: &App, incoming: &Incoming) -> Result<(), Failure> {
    match app.viewer(incoming).reads("/metrics/snapshot") {
        true => Ok(()),
        false => Err(Failure::Forbidden("the metrics are not for everybody to see".to_owned())),
    }
}

pub(super) async fn metrics(app: &App, incoming: &Incoming) -> Result<Response, Failure> {
    const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    may_read_metrics(app, incoming)?;
    let mut response = Response::new(Body::from(metrics::prometheus(&samples(app).await)));
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    Ok(response)
}

pub(super) async fn metrics_snapshot(app: &App, incoming: &Incoming) -> Result<Response, Failure> {
    may_read_metrics(app, incoming)?;
    if let Some(timeout) = incoming.query()?.get("timeout") {
        resources::parse::duration(timeout).map_err(|error| {
            Failure::bad_request(format!("Invalid timeout '{timeout}': {error}"))
        })?;
    }
    let samples = samples(app).await;
    let named = samples.iter().filter_map(|sample| Some((sample.mesos.as_deref()?, sample.value)));
    json(incoming, &named.collect::<BTreeMap<&str, f64>>())
}

/// A value as JSON, or as a call of the function that `?jsonp=` names.
pub(super) fn json(incoming: &Incoming, value: &impl Serialize) -> Result<Response, Failure> {
    const SCRIPT: HeaderValue = HeaderValue::from_static("text/javascript");
    let query = incoming.query()?;
    let mut body = Vec::new();
    let content_type = match query.get("jsonp") {
        None => Media::Json.header(),
        Some(function) if is_function(function) => {
            body.extend_from_slice(function.as_bytes());
            body.push(b'(');
            SCRIPT
        }
        Some(_) => return Err(Failure::bad_request("Malformed 'jsonp': expecting a name")),
    };
    serde_json::to_writer(&mut body, value)
        .map_err(|error| Failure::Internal(format!("an answer cannot be written: {error}")))?;
    if content_type == SCRIPT {
        body.extend_from_slice(b");");
    }
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    Ok(response)
}

/// Whether a text can be the name of a function: what is echoed must not be a script.
fn is_function(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_$.[]".contains(c))
}

#[cfg(test)]
mod tests {
    use axum::extract::Request;

    use super::*;
    use crate::http::error::ErrorForm;

    async fn answer(uri: &str) -> (u16, String, String) {
        let request = Request::builder().uri(uri).body(Body::empty()).unwrap();
        let response = json(&Incoming::new(request), &BTreeMap::from([("a", 1)]))
            .unwrap_or_else(|failure| failure.into_response(ErrorForm::Text));
        let status = response.status().as_u16();
        let kind = response.headers()[CONTENT_TYPE].to_str().unwrap().to_owned();
        let body = axum::body::to_bytes(response.into_body(), 1000).await.unwrap();
        (status, kind, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn json_and_jsonp() {
        let json = (200, "application/json".to_owned(), "{\"a\":1}".to_owned());
        assert_eq!(answer("/slaves").await, json);
        let script = (200, "text/javascript".to_owned(), "f.g({\"a\":1});".to_owned());
        assert_eq!(answer("/slaves?jsonp=f.g").await, script);
        for wrong in ["", "alert(1)", "a%3Cb"] {
            assert_eq!(answer(&format!("/slaves?jsonp={wrong}")).await.0, 400, "{wrong}");
        }
    }
}
