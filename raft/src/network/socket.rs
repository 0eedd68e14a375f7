//! Accepted connections: an accept loop that survives errors, and sockets that close with the
//! node and tell their end at once, before any protocol above them has noticed it.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{Stream, stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

use crate::env::{Listener, Socket};
use crate::failover::{Line, Lines};

/// Pause after a failed accept: a process out of descriptors would spin otherwise.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts until the caller drops the stream. An error is no reason to stop listening.
pub(super) fn incoming(
    listener: Box<dyn Listener>,
    lines: Arc<Lines>,
    closing: CancellationToken,
) -> impl Stream<Item = Result<PeerSocket, Infallible>> {
    stream::unfold((listener, lines, closing), |(listener, lines, closing)| async move {
        loop {
            match listener.accept().await {
                Ok(socket) => {
                    let peer = PeerSocket::new(socket, lines.accept(), closing.clone());
                    return Some((Ok(peer), (listener, lines, closing)));
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
    line: Line,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
    is_closed: bool,
}

impl PeerSocket {
    fn new(socket: Box<dyn Socket>, line: Line, closing: CancellationToken) -> Self {
        Self { socket, line, closing: Box::pin(closing.cancelled_owned()), is_closed: false }
    }

    fn poll_closed(&mut self, context: &mut Context<'_>) -> bool {
        self.is_closed = self.is_closed || self.closing.as_mut().poll(context).is_ready();
        self.is_closed
    }
}

impl Connected for PeerSocket {
    type ConnectInfo = Line;
    fn connect_info(&self) -> Line {
        self.line.clone()
    }
}

impl Drop for PeerSocket {
    fn drop(&mut self) {
        self.line.close();
    }
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
        let (had, room) = (buffer.filled().len(), buffer.remaining());
        let read = Pin::new(&mut self.socket).poll_read(context, buffer);
        let is_end = match &read {
            Poll::Ready(Ok(())) => buffer.filled().len() == had && room > 0,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if is_end {
            self.line.close();
        }
        read
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
