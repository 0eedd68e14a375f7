//! One question on a fresh connection: who is there? Must not know why it is asked.

use std::io;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use proto::holdfast::raft as wire;
use proto::holdfast::raft::raft_service_client::RaftServiceClient;
use thiserror::Error;
use tonic::transport::{Endpoint, Uri};
use tonic::{Code, Request, Status};

use super::Handshake;
use crate::env::{Network, Socket};

/// Time for a whole greeting, the connection included.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why nobody answered as who was asked for.
#[derive(Debug, Error)]
pub(crate) enum Unmet {
    /// Nobody answers.
    #[error("nobody answers: {0}")]
    Silent(String),
    /// Whoever answers is somebody else.
    #[error("{0}")]
    Stranger(String),
}

/// Connects to `address` and asks whether it is `node`.
pub(crate) async fn meet(
    network: &dyn Network,
    handshake: &Handshake,
    node: u64,
    address: &str,
) -> Result<wire::Hello, Unmet> {
    let meeting = async {
        let socket = network.connect(address.to_owned()).await;
        let socket = socket.map_err(|error| Unmet::Silent(error.to_string()))?;
        greet(handshake, socket, node, address).await.map_err(|status| match status.code() {
            Code::FailedPrecondition => Unmet::Stranger(status.message().to_owned()),
            _ => Unmet::Silent(status.message().to_owned()),
        })
    };
    let silent = |_| Unmet::Silent(format!("no answer within {PATIENCE:?}"));
    tokio::time::timeout(PATIENCE, meeting).await.map_err(silent)?
}

/// Asks who is at the other end of a fresh connection.
pub(crate) async fn greet(
    handshake: &Handshake,
    socket: Box<dyn Socket>,
    node: u64,
    address: &str,
) -> Result<wire::Hello, Status> {
    let unavailable = |error: tonic::transport::Error| Status::unavailable(error.to_string());
    let mut socket = Some(socket);
    let connector = tower::service_fn(move |_: Uri| {
        let socket = socket.take().map(TokioIo::new);
        // One connection, one question: nobody connects again behind our back.
        std::future::ready(socket.ok_or(io::Error::from(io::ErrorKind::NotConnected)))
    });
    let channel = Endpoint::from_shared(format!("http://{address}"))
        .map_err(unavailable)?
        .connect_with_connector(connector)
        .await
        .map_err(unavailable)?;
    let mut request = Request::new(handshake.hello(node));
    handshake.stamp(request.metadata_mut(), node);
    let answer = RaftServiceClient::new(channel).greet(request).await?;
    handshake.check(answer.metadata())?;
    Ok(answer.into_inner())
}
