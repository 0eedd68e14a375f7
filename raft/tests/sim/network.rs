//! Simulated sockets.

use std::io;
use std::net::SocketAddr;

use raft::env::{BoxFuture, Listener, Network, Socket};
use turmoil::net::{TcpListener, TcpStream};

/// The network of the simulated host that runs the caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SimNetwork;

impl Network for SimNetwork {
    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let listener = TcpListener::bind(address).await?;
            Ok(Box::new(SimListener(listener)) as Box<dyn Listener>)
        })
    }
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Socket>>> {
        Box::pin(async move {
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
