//! The agent's HTTP server: paths, prefixes, methods. What the answers hold is in
//! `http/state.rs`, `http/api.rs` and `http/executor.rs`. Answers 503 until the agent has
//! recovered; holds no decision.

mod about;
mod api;
mod executor;
mod frameworks;
mod shapes;
mod state;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::SystemTime;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Duration, timeout};
use tower::ServiceExt as _;
use tower::service_fn;
use tracing::{debug, warn};

use axum::http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{Method, StatusCode};

pub(crate) use self::api::agent_info;
use crate::driver::{Handle, State, View};
use crate::metrics;

/// Largest body of a request.
const BODY_BYTES_MAX: usize = 8 << 20;
/// Time for open requests after the order to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// Both spellings of the name of the agent's process in Mesos.
const PREFIXES: [&str; 2] = ["/slave(1)", "/slave%281%29"];

/// Media type of `/metrics`.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the server knows.
#[derive(Debug)]
pub(crate) struct Server {
    /// The agent; none until it has read its checkpoint.
    pub(crate) driver: watch::Receiver<Option<Handle>>,
    /// Flags with their values.
    pub(crate) flags: std::collections::BTreeMap<String, String>,
    /// When the process started.
    pub(crate) started_at: SystemTime,
}

impl Server {
    fn uptime(&self) -> Duration {
        self.started_at.elapsed().unwrap_or_default()
    }
}

/// Serves until `stop` turns true, then lets open requests end for a moment.
pub(crate) async fn serve(
    listener: TcpListener,
    server: Arc<Server>,
    mut stop: watch::Receiver<bool>,
) {
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            _ = stop.wait_for(|is_stopped| *is_stopped) => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "connection without TCP_NODELAY");
        }
        let server = server.clone();
        let service = service_fn(move |request: axum::http::Request<hyper::body::Incoming>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(answer(&server, request.map(Body::new)).await) }
        });
        let service = hyper_util::service::TowerToHyperService::new(service.boxed_clone());
        let watcher = graceful.watcher();
        connections.spawn(async move {
            let builder = auto::Builder::new(TokioExecutor::new());
            let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
            if let Err(error) = watcher.watch(connection).await {
                debug!(%error, "connection ended");
            }
        });
    }
    drop(listener);
    if timeout(DRAIN_TIMEOUT, graceful.shutdown()).await.is_err() {
        debug!("connections were still open");
    }
    connections.shutdown().await;
}

async fn answer(server: &Server, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = match axum::body::to_bytes(body, BODY_BYTES_MAX).await {
        Ok(body) => body,
        Err(_) => return plain(StatusCode::PAYLOAD_TOO_LARGE, "body is larger than 8 MiB"),
    };
    let path = route(parts.uri.path());
    let response = match path {
        "/health" => StatusCode::OK.into_response(),
        "/version" => json_answer(&about::version()),
        "/flags" => json_answer(&json!({ "flags": server.flags })),
        "/metrics" => {
            let text = metrics::prometheus(server.uptime(), ready(server).await.as_ref());
            ([(CONTENT_TYPE, PROMETHEUS)], text).into_response()
        }
        "/metrics/snapshot" => {
            let view = ready(server).await;
            json_answer(&Value::Object(metrics::snapshot(server.uptime(), view.as_ref())))
        }
        "/state" => match ready(server).await {
            Some(view) => json_answer(&state::state(&view, server)),
            None => recovering(),
        },
        // Not wrapped for `jsonp`: a stream has no end.
        "/api/v1/executor" => return v1_executor(server, &parts, &body).await,
        "/api/v1" => v1(server, &parts, &body).await,
        _ => StatusCode::NOT_FOUND.into_response(),
    };
    jsonp(parts.uri.query(), response).await
}

async fn v1_executor(
    server: &Server,
    parts: &axum::http::request::Parts,
    body: &Bytes,
) -> Response {
    let driver = server.driver.borrow().clone();
    let is_recovering = |driver: &Handle| *driver.state().borrow() == State::Recovering;
    match driver.filter(|driver| !is_recovering(driver)) {
        None => recovering(),
        Some(_) if parts.method != Method::POST => not_post(&parts.method),
        Some(driver) => executor::call(&parts.headers, body, &driver).await,
    }
}

fn not_post(method: &Method) -> Response {
    let text = format!("Expecting one of {{ 'POST' }}, but received '{method}'.");
    let text = format!("405 Method Not Allowed. {text}");
    (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "POST")], text).into_response()
}

async fn v1(server: &Server, parts: &axum::http::request::Parts, body: &Bytes) -> Response {
    let Some(view) = ready(server).await else { return recovering() };
    if parts.method != Method::POST {
        return not_post(&parts.method);
    }
    api::call(&parts.headers, body, &view, server)
}

/// The longest known path that the request's path begins with, as libprocess routes: in whole
/// segments, with or without the name of the process.
fn route(path: &str) -> &'static str {
    const KNOWN: [&str; 8] = [
        "/api/v1/executor",
        "/api/v1",
        "/flags",
        "/health",
        "/metrics",
        "/metrics/snapshot",
        "/state",
        "/version",
    ];
    let stripped = PREFIXES.iter().find_map(|prefix| path.strip_prefix(prefix));
    let path = stripped.filter(|rest| rest.starts_with('/')).unwrap_or(path);
    let begins = |known: &&str| {
        path.strip_prefix(*known).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    KNOWN.into_iter().filter(begins).max_by_key(|known| known.len()).unwrap_or_default()
}

async fn ready(server: &Server) -> Option<View> {
    let driver = server.driver.borrow().clone()?;
    if *driver.state().borrow() == State::Recovering {
        return None;
    }
    driver.view().await
}

fn recovering() -> Response {
    let text = "Agent has not finished recovery";
    (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], text).into_response()
}

fn plain(status: StatusCode, text: impl Into<String>) -> Response {
    (status, text.into()).into_response()
}

fn json_answer(value: &Value) -> Response {
    ([(CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

/// Wraps a JSON answer for `?jsonp=fn`, as Mesos does.
async fn jsonp(query: Option<&str>, response: Response) -> Response {
    let name = query.and_then(|q| q.split('&').find_map(|pair| pair.strip_prefix("jsonp=")));
    let is_json = response.headers().get(CONTENT_TYPE).is_some_and(|t| t == "application/json");
    let is_name = |name: &&str| {
        !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$'))
    };
    let (Some(name), true) = (name.filter(is_name), is_json) else { return response };
    let body = match axum::body::to_bytes(response.into_body(), usize::MAX).await {
        Ok(body) => String::from_utf8_lossy(&body).into_owned(),
        Err(error) => return plain(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    };
    ([(CONTENT_TYPE, "text/javascript")], format!("{name}({body});")).into_response()
}

/// The server without sockets, for the tests of the agent as a whole.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    fn server(driver: &Handle) -> Server {
        let (_sender, driver) = watch::channel(Some(driver.clone()));
        let flags = std::collections::BTreeMap::new();
        Server { driver, flags, started_at: SystemTime::now() }
    }

    pub(crate) async fn answer(driver: &Handle, request: Request) -> Response {
        super::answer(&server(driver), request).await
    }

    pub(crate) async fn get(driver: &Handle, path: &str) -> Value {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = answer(driver, request).await;
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        serde_json::from_slice(&body).unwrap()
    }
}

#[cfg(test)]
mod tests;
