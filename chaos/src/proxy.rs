//! Connections through the drill's own hands, so that they can be cut, cut one way, or slowed
//! down. What is held back is passed on later, as TCP would after a broken line. Knows bytes only.
//! Next: `report.rs`.

use std::fs::File;
use std::net::{TcpListener as StdListener, TcpStream as StdStream};
use std::os::fd::AsFd as _;
use std::sync::mpsc as thread_channel;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::namespace::Namespace;
use crate::wait;

/// Bytes passed on at once.
const CHUNK_BYTES: usize = 16 << 10;

/// What a link does with bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// Passes them on.
    Open,
    /// Holds all of them back.
    Cut,
    /// Passes on only what the one that called says.
    CallerOnly,
    /// Passes on only what the one that was called says.
    CalledOnly,
    /// Passes them on this much later.
    Slow(Duration),
}

/// Who says something on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Caller,
    Called,
}

impl Line {
    fn passes(self, side: Side) -> bool {
        match self {
            Self::Open | Self::Slow(_) => true,
            Self::Cut => false,
            Self::CallerOnly => side == Side::Caller,
            Self::CalledOnly => side == Side::Called,
        }
    }
}

/// A thread that opens sockets in another network.
#[derive(Debug, Clone)]
pub struct Door(thread_channel::Sender<Wish>);

#[derive(Debug)]
enum Wish {
    Listen(String, oneshot::Sender<std::io::Result<StdListener>>),
    Connect(String, oneshot::Sender<std::io::Result<StdStream>>),
}

impl Door {
    /// A door into the network of `namespace`.
    ///
    /// # Errors
    /// When the kernel does not let this process in.
    pub fn into(namespace: &Namespace) -> anyhow::Result<Self> {
        let network = File::open(format!("/proc/{}/ns/net", namespace.pid()))?;
        let (wishes, inbox) = thread_channel::channel();
        let (entered, has_entered) = thread_channel::channel();
        // Only this thread moves: the others stay where they are.
        thread::Builder::new().name("drill-door".to_owned()).spawn(move || {
            let moved =
                move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network));
            let may_go_on = moved.is_ok();
            if entered.send(moved).is_ok() && may_go_on {
                grant(&inbox);
            }
        })?;
        has_entered.recv()?.context("the network of the agent cannot be entered")?;
        Ok(Self(wishes))
    }

    async fn listen(&self, address: &str) -> anyhow::Result<TcpListener> {
        let (answer, listener) = oneshot::channel();
        self.0.send(Wish::Listen(address.to_owned(), answer))?;
        let listener = listener.await??;
        listener.set_nonblocking(true)?;
        Ok(TcpListener::from_std(listener)?)
    }

    async fn connect(&self, address: &str) -> anyhow::Result<TcpStream> {
        let (answer, stream) = oneshot::channel();
        self.0.send(Wish::Connect(address.to_owned(), answer))?;
        let stream = stream.await??;
        stream.set_nonblocking(true)?;
        Ok(TcpStream::from_std(stream)?)
    }
}

fn grant(inbox: &thread_channel::Receiver<Wish>) {
    while let Ok(wish) = inbox.recv() {
        // One that does not wait for its answer any more needs none.
        match wish {
            Wish::Listen(address, answer) => drop(answer.send(StdListener::bind(address))),
            Wish::Connect(address, answer) => drop(answer.send(StdStream::connect(address))),
        }
    }
}

/// Links between a network of its own and the one outside. They end with this value.
#[derive(Debug)]
pub struct Links {
    line: watch::Sender<Line>,
    /// The line that is never cut.
    _always: watch::Sender<Line>,
    links: JoinSet<()>,
}

/// Where a connection goes on.
#[derive(Debug, Clone)]
enum Way {
    /// In the network of this process.
    Here(String),
    /// In the network behind the door.
    Behind(Door, String),
}

impl Way {
    async fn connect(&self) -> anyhow::Result<TcpStream> {
        match self {
            Self::Here(address) => Ok(TcpStream::connect(address).await?),
            Self::Behind(door, address) => door.connect(address).await,
        }
    }
}

impl Links {
    /// Lets those inside reach the `outside` addresses under the same names, on a line that can be
    /// cut, and those outside reach the `inside` address, always.
    ///
    /// # Errors
    /// When an address cannot be listened on.
    pub async fn lay(door: &Door, outside: &[String], inside: &str) -> anyhow::Result<Self> {
        let line = watch::Sender::new(Line::Open);
        let mut links = JoinSet::new();
        for address in outside {
            let listener = door.listen(address).await?;
            links.spawn(serve(listener, line.subscribe(), Way::Here(address.clone())));
        }
        let listener = TcpListener::bind(inside).await.with_context(|| inside.to_owned())?;
        let always = watch::Sender::new(Line::Open);
        let way = Way::Behind(door.clone(), inside.to_owned());
        links.spawn(serve(listener, always.subscribe(), way));
        Ok(Self { line, _always: always, links })
    }

    /// Changes what the line does, for open connections and new ones.
    pub fn set(&self, line: Line) {
        self.line.send_replace(line);
    }

    /// Ends all links, and gives their addresses back.
    pub async fn end(mut self) {
        self.links.shutdown().await;
    }
}

async fn serve(listener: TcpListener, line: watch::Receiver<Line>, way: Way) {
    let mut connections = JoinSet::new();
    while let Ok((caller, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let (way, line) = (way.clone(), line.clone());
        connections.spawn(async move {
            // A connection that cannot be made is closed: the caller sees a refusal.
            let Ok(called) = way.connect().await else { return };
            // Small messages go at once, as they would without a link.
            let _set = (caller.set_nodelay(true), called.set_nodelay(true));
            let (from_caller, to_caller) = caller.into_split();
            let (from_called, to_called) = called.into_split();
            let there = pass(from_caller, to_called, Side::Caller, line.clone());
            let back = pass(from_called, to_caller, Side::Called, line);
            tokio::join!(there, back);
        });
    }
}

/// Passes one side's bytes on until it ends, or the other cannot take them.
async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    side: Side,
    mut line: watch::Receiver<Line>,
) {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = from.read(&mut chunk).await.unwrap_or_default();
        // Also the end of a connection is heard only when the line lets it through.
        let passing = line.wait_for(|line| line.passes(side)).await.map(|line| *line);
        match passing {
            Ok(Line::Slow(time)) => wait::some(time).await,
            Ok(_) => {}
            Err(_) => return,
        }
        if count == 0 || to.write_all(&chunk[..count]).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_cut_line_holds_back_and_passes_on_later() {
        let called = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = called.local_addr().unwrap().to_string();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let between = listener.local_addr().unwrap();
        let line = watch::Sender::new(Line::Open);
        let _link = tokio::spawn(serve(listener, line.subscribe(), Way::Here(address)));
        let mut caller = TcpStream::connect(between).await.unwrap();
        let (mut other, _) = called.accept().await.unwrap();
        let mut byte = [0];
        caller.write_all(b"1").await.unwrap();
        other.read_exact(&mut byte).await.unwrap();
        assert_eq!(&byte, b"1");

        // One way: the answer comes, the question does not.
        line.send_replace(Line::CalledOnly);
        caller.write_all(b"2").await.unwrap();
        other.write_all(b"3").await.unwrap();
        caller.read_exact(&mut byte).await.unwrap();
        assert_eq!(&byte, b"3");
        assert!(other.try_read(&mut byte).is_err());
        line.send_replace(Line::Open);
        other.read_exact(&mut byte).await.unwrap();
        assert_eq!(&byte, b"2");
    }
}
