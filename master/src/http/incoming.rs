//! A request while it is being answered: its head, and its body, which is read at most once and
//! within the limit, or thrown away so that the client gets to read the answer. Must not know
//! any endpoint. Next: `mod.rs`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use http::header::{CONTENT_LENGTH, EXPECT};
use http::request::Parts;
use http::{HeaderMap, HeaderName};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use resources::id::Principal;

use super::error::Failure;
use super::form;
use crate::state::command::SourceAddr;

/// Largest body that is read (published in the guide).
pub(crate) const BODY_BYTES_MAX: usize = 8 << 20;
/// How much of an unwanted body is thrown away before the connection is given up.
const DISCARD_BYTES_MAX: usize = 64 << 20;
/// How long a client may take to send its body.
const BODY_TIME_MAX: Duration = Duration::from_secs(30);
/// How long an unwanted body may take.
const DISCARD_TIME_MAX: Duration = Duration::from_secs(5);

/// Address of the client, put into a request's extensions by the accept loop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// A request while it is being answered.
pub(crate) struct Incoming {
    pub(crate) head: Parts,
    pub(crate) principal: Option<Principal>,
    body: Content,
}

enum Content {
    /// A body can be sent to another thread and not shared; the lock is never taken, it only
    /// lets a request be borrowed while its answer is waited for.
    Unread(Mutex<Body>),
    Read(Bytes),
    Refused,
}

impl Incoming {
    pub(crate) fn new(request: Request) -> Self {
        let (head, body) = request.into_parts();
        Self { head, principal: None, body: Content::Unread(Mutex::new(body)) }
    }

    /// One header as text.
    pub(crate) fn header(&self, name: HeaderName) -> Option<&str> {
        self.head.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// The parameters of the query string.
    pub(crate) fn query(&self) -> Result<BTreeMap<String, String>, Failure> {
        form::parse(self.head.uri.query().unwrap_or_default())
            .map_err(|error| Failure::bad_request(format!("Malformed query string: {error}")))
    }

    /// Where the request came from, for the audit.
    pub(crate) fn source(&self) -> SourceAddr {
        let peer = self.head.extensions.get::<Peer>();
        SourceAddr(peer.map_or_else(|| "unknown".to_owned(), |peer| peer.0.to_string()))
    }

    /// The whole body.
    pub(crate) async fn bytes(&mut self) -> Result<Bytes, Failure> {
        let mut body = match std::mem::replace(&mut self.body, Content::Refused) {
            Content::Unread(body) => body.into_inner(),
            Content::Read(bytes) => {
                self.body = Content::Read(bytes.clone());
                return Ok(bytes);
            }
            Content::Refused => return Err(too_large()),
        };
        if self.announced_bytes().is_some_and(|bytes| bytes > BODY_BYTES_MAX) {
            self.body = Content::Unread(Mutex::new(body));
            return Err(too_large());
        }
        let read = tokio::time::timeout(BODY_TIME_MAX, collect(&mut body, BODY_BYTES_MAX)).await;
        match read {
            Ok(Ok(bytes)) => {
                self.body = Content::Read(bytes.clone());
                Ok(bytes)
            }
            Ok(Err(failure)) => {
                self.body = Content::Unread(Mutex::new(body));
                Err(failure)
            }
            Err(_) => Err(Failure::bad_request("The request body did not arrive in time")),
        }
    }

    /// The length that the client says the body has. One that waits for `100 Continue` is told
    /// off by it before it sends anything.
    fn announced_bytes(&self) -> Option<usize> {
        self.header(CONTENT_LENGTH)?.parse().ok()
    }

    /// Reads what is left of the body and throws it away: a client that still writes would
    /// otherwise see a reset connection instead of the answer. A client that waits for a
    /// `100 Continue` sends nothing, so nothing is asked of it.
    pub(crate) async fn discard(mut self) {
        let Content::Unread(body) = &mut self.body else { return };
        let body = body.get_mut();
        if self.head.headers.contains_key(EXPECT) {
            return;
        }
        let drain = async {
            let mut left = DISCARD_BYTES_MAX;
            while let Some(Ok(frame)) = body.frame().await {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                match left.checked_sub(bytes) {
                    Some(rest) => left = rest,
                    None => break,
                }
            }
        };
        // Over time the connection is simply closed with the answer.
        let _ = tokio::time::timeout(DISCARD_TIME_MAX, drain).await;
    }
}

async fn collect(body: &mut Body, bytes_max: usize) -> Result<Bytes, Failure> {
    let mut collected: Vec<u8> = Vec::new();
    let mut only: Option<Bytes> = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Failure::bad_request("The request body broke off"))?;
        let Ok(data) = frame.into_data() else { continue };
        if collected.len() + only.as_ref().map_or(0, Bytes::len) + data.len() > bytes_max {
            return Err(too_large());
        }
        // The common body is one frame, which needs no copy.
        match only.take() {
            None if collected.is_empty() => only = Some(data),
            first => {
                collected.extend(first.iter().flatten());
                collected.extend_from_slice(&data);
            }
        }
    }
    Ok(only.unwrap_or_else(|| collected.into()))
}

const fn too_large() -> Failure {
    Failure::TooLarge { bytes_max: BODY_BYTES_MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incoming(chunks: Vec<Vec<u8>>) -> Incoming {
        let chunks = chunks.into_iter().map(|chunk| Ok::<_, std::io::Error>(Bytes::from(chunk)));
        Incoming::new(Request::new(Body::from_stream(futures::stream::iter(chunks))))
    }

    #[tokio::test]
    async fn bodies_within_the_limit() {
        for chunks in [vec![], vec![vec![1; 10]], vec![vec![1; 3], vec![2; 4], vec![], vec![3]]] {
            let whole = chunks.concat();
            let mut incoming = incoming(chunks);
            assert_eq!(incoming.bytes().await.unwrap(), whole);
            assert_eq!(incoming.bytes().await.unwrap(), whole, "a second time");
        }
        let mut full = incoming(vec![vec![0; BODY_BYTES_MAX - 1], vec![0; 1]]);
        assert_eq!(full.bytes().await.unwrap().len(), BODY_BYTES_MAX);
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused() {
        let mut over = incoming(vec![vec![0; BODY_BYTES_MAX], vec![0; 1], vec![0; 100]]);
        assert_eq!(over.bytes().await, Err(too_large()));
        over.discard().await;
    }
}
