//! Accepted connections: an accept loop that survives errors, and sockets that close with the
//! node.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{Stream, stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

use crate::env::{Listener, Socket};

/// Pause after a failed accept: a process out of descriptors would spin otherwise.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts until the caller drops the stream. An error is no reason to stop listening.
pub(super) fn incoming(
    listener: Box<dyn Listener>,
    closing: CancellationToken,
) -> impl Stream<Item = Result<PeerSocket, Infallible>> {
    stream::unfold((listener, closing), |(listener, closing)| async move {
        loop {
            match listener.accept().await {
                Ok(socket) => {
                    let peer = PeerSocket::new(socket, closing.clone());
                    return Some((Ok(peer), (listener, closing)));
                }
                Err(error) => {
                    tracing::warn!(%error, "a peer connection was not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    })
}

/// A connection from a peer. Its streams never end by themselves, so it ends with the node.
pub(super) struct PeerSocket {
    socket: Box<dyn Socket>,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
    is_closed: bool,
}

impl PeerSocket {
    fn new(socket: Box<dyn Socket>, closing: CancellationToken) -> Self {
        Self { socket, closing: Box::pin(closing.cancelled_owned()), is_closed: false }
    }

    fn poll_closed(&mut self, context: &mut Context<'_>) -> bool {
        self.is_closed = self.is_closed || self.closing.as_mut().poll(context).is_ready();
        self.is_closed
    }
}

impl Connected for PeerSocket {
    type ConnectInfo = ();
    fn connect_info(&self) {}
}

impl AsyncRead for PeerSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.poll_closed(context) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for PeerSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
