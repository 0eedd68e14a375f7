//! `GET /api/v1/snapshot` (contract, `snapshot save`): everything that is committed by now, as
//! one file that verifies itself. Read from the disk part by part, so that a large state takes
//! no memory. Must not know what is in it. Next: `server.rs`.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::App;
use super::error::Failure;
use super::incoming::Incoming;
use crate::auth::Action;
use crate::leader::Consistency;

/// Parts that were read and not sent yet, each at most 1 MiB.
const PARTS_AHEAD: usize = 4;

/// Answers with the file.
pub(super) async fn save(app: &App, incoming: &Incoming) -> Result<Response, Failure> {
    if !app.config.authorizer.may(incoming.principal.as_ref(), Action::ManageServers, None) {
        return Err(Failure::Forbidden("the snapshot is not yours to take".to_owned()));
    }
    // What was acknowledged before the call is in it.
    app.view(incoming, Consistency::Linearizable).await?;
    let export = app.handle.export().await.map_err(|_| Failure::NoLeader)?;
    tracing::info!(index = export.index().0, "a snapshot is given out");
    let (parts, body) = mpsc::channel::<std::io::Result<Bytes>>(PARTS_AHEAD);
    tokio::task::spawn_blocking(move || {
        for part in export {
            if let Err(error) = &part {
                tracing::warn!(%error, "a snapshot breaks off");
            }
            if parts.blocking_send(part).is_err() {
                // The client went away.
                return;
            }
        }
    });
    let mut response = Response::new(Body::from_stream(ReceiverStream::new(body)));
    let binary = HeaderValue::from_static("application/octet-stream");
    response.headers_mut().insert(CONTENT_TYPE, binary);
    Ok(response)
}
