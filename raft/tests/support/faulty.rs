//! A network that cuts connections, falls silent, and lies about who listens where.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use raft::env::{BoxFuture, Listener, Network, Socket};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// The network of one node, with the node's faults.
pub(crate) struct Faulty {
    inner: Arc<dyn Network>,
    faults: Arc<Faults>,
}

/// What goes wrong at one node. Outlives its processes.
#[derive(Default)]
pub(crate) struct Faults(Mutex<State>);

#[derive(Default)]
struct State {
    cut: CancellationToken,
    is_silent: bool,
    silenced: Vec<Waker>,
    knocks: Knocks,
    lies: u64,
}

/// What a node hears when it knocks at an address to learn whether anybody listens.
#[derive(Default)]
enum Knocks {
    #[default]
    Honest,
    Refused,
    /// Now the truth, now a lie, now nothing, and often late.
    Random(Box<StdRng>),
}

/// One answer to a knock.
struct Answer {
    delay: Duration,
    lie: Option<io::ErrorKind>,
}

impl Faults {
    /// Ends every connection that was accepted so far.
    pub(crate) fn cut(&self) {
        std::mem::take(&mut self.0.lock().cut).cancel();
    }

    /// Nothing is read, written or accepted any more, and nothing is closed: what the peers of a
    /// stopped process see.
    pub(crate) fn fall_silent(&self) {
        self.0.lock().is_silent = true;
    }

    /// Knocks find that nobody listens, whoever does.
    pub(crate) fn refuse_knocks(&self) {
        self.0.lock().knocks = Knocks::Refused;
    }

    /// Knocks are answered at random.
    pub(crate) fn lie_at_random(&self, seed: u64) {
        self.0.lock().knocks = Knocks::Random(Box::new(StdRng::seed_from_u64(seed)));
    }

    /// Knocks are answered truly.
    pub(crate) fn be_honest(&self) {
        self.0.lock().knocks = Knocks::Honest;
    }

    /// Lies that were told.
    pub(crate) fn lies(&self) -> u64 {
        self.0.lock().lies
    }

    fn answer(&self) -> Answer {
        let mut state = self.0.lock();
        let refused = Some(io::ErrorKind::ConnectionRefused);
        let answer = match &mut state.knocks {
            Knocks::Honest => Answer { delay: Duration::ZERO, lie: None },
            Knocks::Refused => Answer { delay: Duration::ZERO, lie: refused },
            Knocks::Random(random) => {
                let late = if random.random_bool(0.2) { 180 } else { 5 };
                let delay = Duration::from_millis(random.random_range(0..late));
                let lie = match random.random_range(0..10) {
                    0..7 => refused,
                    7..8 => Some(io::ErrorKind::TimedOut),
                    _ => None,
                };
                Answer { delay, lie }
            }
        };
        state.lies += u64::from(answer.lie.is_some());
        answer
    }

    fn is_silent(&self, context: &Context<'_>) -> bool {
        let mut state = self.0.lock();
        if state.is_silent {
            state.silenced.push(context.waker().clone());
        }
        state.is_silent
    }

    fn socket(self: &Arc<Self>, inner: Box<dyn Socket>, cut: CancellationToken) -> Box<dyn Socket> {
        let cut = Box::pin(cut.cancelled_owned());
        Box::new(FaultySocket { inner, faults: self.clone(), cut, is_cut: false })
    }
}

impl Faulty {
    pub(crate) fn new(inner: impl Network, faults: &Arc<Faults>) -> Self {
        Self { inner: Arc::new(inner), faults: faults.clone() }
    }
}

impl Network for Faulty {
    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let inner = self.inner.listen(address).await?;
            let listener = FaultyListener { inner, faults: self.faults.clone() };
            Ok(Box::new(listener) as Box<dyn Listener>)
        })
    }
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Socket>>> {
        let (connecting, faults) = (self.inner.connect(address), self.faults.clone());
        // Only accepted connections are cut.
        Box::pin(async move { Ok(faults.socket(connecting.await?, CancellationToken::new())) })
    }
    fn knock(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Socket>>> {
        let (knocking, Answer { delay, lie }) = (self.connect(address), self.faults.answer());
        Box::pin(async move {
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            match lie {
                Some(kind) => Err(kind.into()),
                None => knocking.await,
            }
        })
    }
}

struct FaultyListener {
    inner: Box<dyn Listener>,
    faults: Arc<Faults>,
}

impl Listener for FaultyListener {
    fn accept(&self) -> BoxFuture<'_, io::Result<Box<dyn Socket>>> {
        Box::pin(async move {
            std::future::poll_fn(|context| match self.faults.is_silent(context) {
                true => Poll::Pending,
                false => Poll::Ready(()),
            })
            .await;
            let socket = self.inner.accept().await?;
            let cut = self.faults.0.lock().cut.clone();
            Ok(self.faults.socket(socket, cut))
        })
    }
    fn local_address(&self) -> io::Result<SocketAddr> {
        self.inner.local_address()
    }
}

struct FaultySocket {
    inner: Box<dyn Socket>,
    faults: Arc<Faults>,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    is_cut: bool,
}

impl FaultySocket {
    fn poll_cut(&mut self, context: &mut Context<'_>) -> bool {
        self.is_cut = self.is_cut || self.cut.as_mut().poll(context).is_ready();
        self.is_cut
    }
}

impl AsyncRead for FaultySocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.poll_cut(context) {
            return Poll::Ready(Ok(()));
        }
        if self.faults.is_silent(context) {
            return Poll::Pending;
        }
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl AsyncWrite for FaultySocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.poll_cut(context) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if self.faults.is_silent(context) {
            return Poll::Pending;
        }
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
