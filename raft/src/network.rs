//! Peers talking to peers over gRPC streams. Must not know what entries mean.
//! Reading order: `hello.rs` (who speaks), `greeting.rs`, `client.rs`, `server.rs`, `socket.rs`.

mod client;
mod greeting;
mod hello;
mod server;
mod socket;

use std::time::Duration;

pub(crate) use client::Dialer;
pub(crate) use greeting::{Unmet, greet, meet};
pub(crate) use hello::Handshake;
pub(crate) use server::{PeerService, serve};

/// Idle time after which a connection is probed. A peer that vanished without a reset is
/// noticed after this and [`KEEPALIVE_TIMEOUT`]; without it a stream would hang until the
/// system gives up, many minutes later.
const KEEPALIVE_INTERVAL: Duration = Duration::from_millis(500);
/// Time that a probe may take.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(1);
/// Flow-control windows that hold a few full messages.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;
