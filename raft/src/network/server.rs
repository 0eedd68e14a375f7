//! Calls from peers, handed to the consensus library. Must not know what entries mean.
//! Next: `socket.rs`.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use openraft::raft::AppendEntriesRequest;
use openraft::storage::Snapshot;
use openraft::vote::RaftLeaderId;
use proto::holdfast::raft as wire;
use proto::holdfast::raft::raft_service_server::{RaftService, RaftServiceServer};
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use super::socket::incoming;
use super::{CONNECTION_WINDOW, Handshake, KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT, STREAM_WINDOW};
use crate::codec;
use crate::env::Listener;
use crate::failover::{Failover, Incarnation, Line};
use crate::leadership::Heard;
use crate::machine::Machine;
use crate::members::Members;
use crate::snapshot::{Head, Image, Source, Verifier};
use crate::types::{Raft, Types, Vote};
use crate::watchdog::Stall;

type AppendEntries<M> = AppendEntriesRequest<Types<M>>;

/// The peer service of one node.
pub(crate) struct PeerService<M: Machine> {
    pub(crate) raft: Raft<M>,
    pub(crate) handshake: Arc<Handshake>,
    pub(crate) heard: Arc<Heard>,
    pub(crate) failover: Arc<Failover<M>>,
    pub(crate) members: Arc<Members>,
    pub(crate) stall: Arc<Stall>,
    /// Whether this node has no initial members to form a cluster with.
    pub(crate) is_joining: bool,
}

/// A peer's process, and the connection on which it calls.
struct Caller {
    boot: u64,
    line: Line,
}

/// Serves peers until `closing`.
pub(crate) async fn serve<M: Machine>(
    listener: Box<dyn Listener>,
    service: PeerService<M>,
    message_bytes: usize,
    closing: CancellationToken,
) {
    let lines = service.failover.lines.clone();
    let service = RaftServiceServer::new(service)
        .max_decoding_message_size(message_bytes)
        .max_encoding_message_size(message_bytes);
    let served = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .add_service(service)
        .serve_with_incoming_shutdown(
            incoming(listener, lines, closing.clone()),
            closing.cancelled_owned(),
        )
        .await;
    if let Err(error) = served {
        tracing::error!(%error, "peers are no longer served");
    }
}

fn invalid(error: impl ToString) -> Status {
    Status::invalid_argument(error.to_string())
}

fn stopped(error: impl ToString) -> Status {
    Status::unavailable(error.to_string())
}

impl<M: Machine> PeerService<M> {
    fn answer<T>(&self, message: T) -> Response<T> {
        let mut response = Response::new(message);
        self.handshake.stamp(response.metadata_mut(), 0);
        response
    }

    /// Checks who calls, and notes that its process has this connection.
    fn admit<T>(&self, request: &Request<T>) -> Result<Caller, Status> {
        let hello = self.handshake.check(request.metadata())?;
        self.may_promise_to(&hello)?;
        let line = request.extensions().get::<Line>().expect("each connection has its line");
        line.claim(Incarnation { node: hello.node, boot: hello.boot });
        Ok(Caller { boot: hello.boot, line: line.clone() })
    }

    /// A node without a history promises nothing before it is sure that it never had one (see
    /// `formation.rs`). One that waits to be added is sure when a leader knows its directory.
    fn may_promise_to(&self, caller: &wire::Hello) -> Result<(), Status> {
        let members = &self.members;
        if members.may_promise() {
            return Ok(());
        }
        if !self.is_joining || caller.you != members.own() {
            return Err(Status::unavailable("this master is not a member yet"));
        }
        self.handshake.join(&caller.cluster_id);
        members.admit();
        Ok(())
    }

    /// A vote that cannot be written down would only block the core, and the candidate with it.
    fn expect_disk(&self) -> Result<(), Status> {
        match self.stall.is_on() {
            true => Err(Status::unavailable("the disk of this master does not answer")),
            false => Ok(()),
        }
    }

    /// The requests of one stream. An unreadable one ends the stream: to skip it would leave a
    /// gap in the middle of the pipeline.
    fn requests(
        &self,
        input: Streaming<wire::AppendRequest>,
        caller: Caller,
    ) -> impl Stream<Item = AppendEntries<M>> + Send + use<M> {
        let heard = self.heard.clone();
        stream::unfold((input, heard, caller), |(mut input, heard, caller)| async move {
            let message = match input.message().await {
                Ok(message) => message?,
                Err(status) => {
                    tracing::debug!(%status, "a peer's stream of entries broke");
                    return None;
                }
            };
            match codec::append_from_wire::<M>(message) {
                Ok(request) => {
                    // What a dead process sent last is no sign of its life.
                    if caller.line.is_open() {
                        heard.note(&request.vote, caller.boot);
                    }
                    Some((request, (input, heard, caller)))
                }
                Err(error) => {
                    tracing::error!(%error, "a peer sent entries that cannot be read");
                    None
                }
            }
        })
    }
}

#[tonic::async_trait]
impl<M: Machine> RaftService for PeerService<M> {
    /// Not a call of a leader, so its connection is not noted: it ends with the answer.
    async fn greet(&self, request: Request<wire::Hello>) -> Result<Response<wire::Hello>, Status> {
        self.handshake.check_greeting(request.metadata())?;
        Ok(self.answer(self.handshake.introduction()))
    }

    type StreamAppendStream =
        Pin<Box<dyn Stream<Item = Result<wire::AppendResponse, Status>> + Send>>;

    async fn stream_append(
        &self,
        request: Request<Streaming<wire::AppendRequest>>,
    ) -> Result<Response<Self::StreamAppendStream>, Status> {
        let caller = self.admit(&request)?;
        let results = self.raft.stream_append(self.requests(request.into_inner(), caller));
        let answers = results.map(|result| match result {
            Ok(result) => Ok(codec::appended_to_wire::<M>(&result)),
            Err(fatal) => Err(stopped(fatal)),
        });
        Ok(self.answer(Box::pin(answers)))
    }

    async fn vote(
        &self,
        request: Request<wire::VoteRequest>,
    ) -> Result<Response<wire::VoteResponse>, Status> {
        self.admit(&request)?;
        self.expect_disk()?;
        let request = codec::vote_request_from_wire::<M>(request.get_ref()).map_err(invalid)?;
        // A transfer is authorised by the living leader.
        if !request.leadership_transfer {
            self.failover.before_vote(request.vote.leader_id().term()).await;
        }
        let response = self.raft.vote(request).await.map_err(stopped)?;
        Ok(self.answer(codec::vote_response_to_wire::<M>(&response)))
    }

    async fn pre_vote(
        &self,
        request: Request<wire::VoteRequest>,
    ) -> Result<Response<wire::VoteResponse>, Status> {
        self.admit(&request)?;
        self.expect_disk()?;
        let request = codec::vote_request_from_wire::<M>(request.get_ref()).map_err(invalid)?;
        self.failover.before_vote(request.vote.leader_id().term()).await;
        let response = self.raft.pre_vote(request).await.map_err(stopped)?;
        Ok(self.answer(codec::vote_response_to_wire::<M>(&response)))
    }

    async fn transfer_leader(
        &self,
        request: Request<wire::TransferRequest>,
    ) -> Result<Response<wire::TransferResponse>, Status> {
        self.admit(&request)?;
        let request = codec::transfer_from_wire::<M>(request.get_ref()).map_err(invalid)?;
        if *request.to_node_id() == self.handshake.node() {
            self.expect_disk()?;
        }
        let response = self.raft.handle_transfer_leader(request).await.map_err(stopped)?;
        Ok(self.answer(codec::transferred_to_wire::<M>(&response)))
    }

    async fn snapshot(
        &self,
        request: Request<Streaming<wire::SnapshotPart>>,
    ) -> Result<Response<wire::SnapshotResponse>, Status> {
        let caller = self.admit(&request)?;
        let (vote, image) = receive(request.into_inner()).await?;
        if caller.line.is_open() {
            self.heard.note(&vote, caller.boot);
        }
        let snapshot = Snapshot { meta: image.head.meta(), snapshot: image };
        let response = self.raft.install_full_snapshot(vote, snapshot).await.map_err(stopped)?;
        let vote = Some(codec::vote_to_wire(&response.vote));
        Ok(self.answer(wire::SnapshotResponse { vote }))
    }
}

/// Takes a snapshot in and checks all of it before anything is replaced.
async fn receive(mut parts: Streaming<wire::SnapshotPart>) -> Result<(Vote, Image), Status> {
    use wire::snapshot_part::Part;
    let Some(Part::Opening(opening)) = parts.message().await?.and_then(|part| part.part) else {
        return Err(invalid("a snapshot starts with its opening"));
    };
    let vote = opening.vote.ok_or_else(|| invalid("the opening has no vote"))?;
    let head = opening.head.ok_or_else(|| invalid("the opening has no head"))?;
    let head = Head::from_wire(head).map_err(invalid)?;
    let mut verifier = Verifier::default();
    let mut chunks: Vec<Bytes> = Vec::new();
    while let Some(part) = parts.message().await? {
        let Some(Part::Chunk(chunk)) = part.part else {
            return Err(invalid("a chunk was due"));
        };
        verifier.add(chunk.number, &chunk.data, &chunk.checksum).map_err(invalid)?;
        chunks.push(chunk.data);
    }
    verifier.finish(&head).map_err(invalid)?;
    Ok((codec::vote_from_wire(&vote), Image { head, source: Source::Received(chunks) }))
}
