//! The public listener: one port for HTTP/1.1, HTTP/2 and gRPC. Connections are served until a
//! signal, then given a moment to end. Must not know any endpoint. Next: `../lib.rs`.

use std::io;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpConnectInfo;
use tower::ServiceExt as _;

use super::incoming::Peer;
use crate::config::Address;

/// How long a client may take to send its first byte, and then the head of a request. Also ends
/// connections that idle between requests.
const HEAD_TIME_MAX: Duration = Duration::from_secs(60);
/// How long requests in flight may take once the process is to end.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(3);
/// HTTP/2 pings on connections that say nothing: too eager ones kill healthy streams.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// How long their answer may take.
const PING_TIME_MAX: Duration = Duration::from_secs(20);
/// Rest after a failed accept, such as for want of file descriptors.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// Takes the public port.
///
/// # Errors
/// When it is taken or may not be listened on.
pub(crate) async fn bind(address: &Address) -> io::Result<TcpListener> {
    TcpListener::bind((address.host(), address.port())).await
}

/// A listener that is being served.
pub(crate) struct Server {
    stop: CancellationToken,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Serves `router` on `listener` until [`Server::shutdown`].
    pub(crate) fn start(listener: TcpListener, router: Router) -> Self {
        let stop = CancellationToken::new();
        Self { accepting: tokio::spawn(accept(listener, router, stop.clone())), stop }
    }

    /// Takes no further connections, lets requests in flight end, and closes the rest.
    pub(crate) async fn shutdown(self) {
        self.stop.cancel();
        if let Err(error) = self.accepting.await {
            tracing::error!(%error, "the public listener broke off");
        }
    }
}

async fn accept(listener: TcpListener, router: Router, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        // Each arm may be dropped: accepting and joining lose nothing when they are.
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    connections.spawn(serve(stream, Peer(peer), router.clone(), stop.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_REST).await;
                }
            },
            Some(_) = connections.join_next() => {}
            () = stop.cancelled() => break,
        }
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_TIME_MAX, drained).await.is_err() {
        tracing::info!(open = connections.len(), "connections are closed in use");
    }
    connections.shutdown().await;
}

async fn serve(stream: TcpStream, peer: Peer, router: Router, stop: CancellationToken) {
    // Nagle's algorithm and delayed acknowledgements together cost 40 ms per answer.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, peer = %peer.0, "no TCP_NODELAY");
    }
    // The protocol is chosen by the first bytes, and the library waits for those without end.
    let mut byte = [0; 1];
    tokio::select! {
        first = tokio::time::timeout(HEAD_TIME_MAX, stream.peek(&mut byte)) => {
            if !matches!(first, Ok(Ok(1))) {
                return;
            }
        }
        () = stop.cancelled() => return,
    }
    let service = service_fn(move |request: http::Request<Incoming>| {
        let mut request = request.map(Body::new);
        let extensions = request.extensions_mut();
        extensions.insert(peer);
        // The gRPC edge looks for its own library's type.
        extensions.insert(TcpConnectInfo { local_addr: None, remote_addr: Some(peer.0) });
        router.clone().oneshot(request)
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIME_MAX);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, peer = %peer.0, "connection ended");
    }
}
