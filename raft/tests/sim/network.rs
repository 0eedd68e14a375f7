//! Simulated sockets.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use raft::env::{BoxFuture, Listener, Network, Socket};
use turmoil::net::{TcpListener, TcpStream};

/// Addresses at which a process died while its machine lives. The simulator itself delivers
/// nothing to a host without software, so that a connection there would hang; a living machine
/// refuses it.
pub(crate) type Refusing = Arc<Mutex<BTreeSet<String>>>;

/// The network of the simulated host that runs the caller.
#[derive(Debug, Clone)]
pub(crate) struct SimNetwork {
    pub(crate) refusing: Refusing,
}

const REFUSAL_TIME: Duration = Duration::from_millis(1);

impl Network for SimNetwork {
    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let listener = TcpListener::bind(address).await?;
            Ok(Box::new(SimListener(listener)) as Box<dyn Listener>)
        })
    }
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Socket>>> {
        let refusing = self.refusing.clone();
        Box::pin(async move {
            if refusing.lock().contains(&address) {
                tokio::time::sleep(REFUSAL_TIME).await;
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let stream = TcpStream::connect(address).await?;
            Ok(Box::new(stream) as Box<dyn Socket>)
        })
    }
}

struct SimListener(TcpListener);

impl Listener for SimListener {
    fn accept(&self) -> BoxFuture<'_, io::Result<Box<dyn Socket>>> {
        Box::pin(async move {
            let (stream, _) = self.0.accept().await?;
            Ok(Box::new(stream) as Box<dyn Socket>)
        })
    }
    fn local_address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}
