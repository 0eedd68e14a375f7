//! Calls to peers, as the consensus library wants them. Must not know what entries mean.
//! Next: `server.rs`.
//!
//! Each peer has three connections, so that neither a batch of entries nor a snapshot delays a
//! heartbeat or a vote. Every failure of transport is reported as "unreachable", because only
//! that makes the library back off.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use hyper_util::rt::TokioIo;
use openraft::OptionalSend;
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{
    Backoff, NetBackoff, NetSnapshot, NetStreamAppend, NetTransferLeader, NetVote, RPCOption,
    RaftNetworkFactory,
};
use openraft::raft::{
    AppendEntriesRequest, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::storage::Snapshot;
use parking_lot::Mutex;
use proto::holdfast::raft as wire;
use proto::holdfast::raft::raft_service_client::RaftServiceClient;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Request, Response, Status};

use super::{CONNECTION_WINDOW, Handshake, KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT, STREAM_WINDOW};
use crate::codec::{self, Undecodable};
use crate::env::Network;
use crate::log_store::LogStore;
use crate::machine::Machine;
use crate::members::Members;
use crate::snapshot::{self, Image};
use crate::types::{CommittedLeaderId, Peer, Types, Vote};

/// Longest time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// Shortest deadline for opening a stream; the library's own may be as short as a heartbeat.
const OPEN_TIMEOUT: Duration = Duration::from_millis(500);

type Failure<M> = RPCError<Types<M>>;
type Client = RaftServiceClient<Channel>;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    /// Heartbeats, votes, transfers of leadership.
    Control,
    /// Entries.
    Log,
    /// Snapshots.
    Bulk,
}

/// Connects to peers.
pub(crate) struct Dialer<M: Machine> {
    links: Arc<Links<M>>,
}

struct Links<M: Machine> {
    log: LogStore<M>,
    network: Arc<dyn Network>,
    handshake: Arc<Handshake>,
    message_bytes: usize,
    backoff: Duration,
    members: Arc<Members>,
    channels: Mutex<BTreeMap<(u64, Lane), (String, Channel)>>,
}

impl<M: Machine> Dialer<M> {
    pub(crate) fn new(
        log: LogStore<M>,
        network: Arc<dyn Network>,
        handshake: Arc<Handshake>,
        members: Arc<Members>,
        message_bytes: usize,
        backoff: Duration,
    ) -> Self {
        let channels = Mutex::default();
        let links = Links { log, network, handshake, message_bytes, backoff, members, channels };
        Self { links: Arc::new(links) }
    }

    fn connection(&self, target: u64, node: &Peer, lane: Lane) -> Connection<M> {
        Connection { links: self.links.clone(), target, address: node.addr.clone(), lane }
    }
}

impl<M: Machine> Links<M> {
    /// The connection for this lane; it is made at the first call and again whenever it broke.
    /// The one to a former address goes.
    fn channel(
        &self,
        target: u64,
        lane: Lane,
        address: &str,
    ) -> Result<Channel, tonic::transport::Error> {
        let mut channels = self.channels.lock();
        match channels.get(&(target, lane)) {
            Some((at, channel)) if at == address => return Ok(channel.clone()),
            Some(_) | None => {}
        }
        let (network, to) = (self.network.clone(), address.to_owned());
        let connector = tower::service_fn(move |_: Uri| {
            let connecting = network.connect(to.clone());
            async move {
                match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
                    Ok(connected) => connected.map(TokioIo::new),
                    Err(_) => Err(io::ErrorKind::TimedOut.into()),
                }
            }
        });
        let channel = Endpoint::from_shared(format!("http://{address}"))?
            .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .connect_with_connector_lazy(connector);
        channels.insert((target, lane), (address.to_owned(), channel.clone()));
        Ok(channel)
    }
}

impl<M: Machine> RaftNetworkFactory<Types<M>> for Dialer<M> {
    type Network = Connection<M>;

    async fn new_client(&mut self, target: u64, node: &Peer) -> Connection<M> {
        self.connection(target, node, Lane::Log)
    }
    async fn new_heartbeat_client(&mut self, target: u64, node: &Peer) -> Connection<M> {
        self.connection(target, node, Lane::Control)
    }
    async fn new_snapshot_client(&mut self, target: u64, node: &Peer) -> Connection<M> {
        self.connection(target, node, Lane::Bulk)
    }
}

/// Calls to one peer.
pub(crate) struct Connection<M: Machine> {
    links: Arc<Links<M>>,
    target: u64,
    address: String,
    lane: Lane,
}

impl<M: Machine> Connection<M> {
    fn client(&self, lane: Lane) -> Result<Client, Failure<M>> {
        // The library keeps its streams when a member moves, so the address is looked up.
        let moved = self.links.members.address_of(self.target);
        let address = moved.as_ref().unwrap_or(&self.address);
        let channel =
            self.links.channel(self.target, lane, address).map_err(|e| unreachable(&e))?;
        Ok(RaftServiceClient::new(channel)
            .max_decoding_message_size(self.links.message_bytes)
            .max_encoding_message_size(self.links.message_bytes))
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        self.links.handshake.stamp(request.metadata_mut(), self.target);
        request
    }

    /// The message of an answer, after a look at who sent it.
    fn open<T>(&self, answer: Result<Response<T>, Status>) -> Result<T, Failure<M>> {
        let answer = answer.map_err(|status| unreachable(&status))?;
        self.links.handshake.check(answer.metadata()).map_err(|status| unreachable(&status))?;
        Ok(answer.into_inner())
    }

    async fn ask_vote(
        &self,
        request: &VoteRequest<Types<M>>,
        deadline: Duration,
        is_pre_vote: bool,
    ) -> Result<VoteResponse<Types<M>>, Failure<M>> {
        let mut client = self.client(Lane::Control)?;
        let request = self.request(codec::vote_request_to_wire::<M>(request));
        let answer = within::<M, _>(deadline, async {
            if is_pre_vote { client.pre_vote(request).await } else { client.vote(request).await }
        })
        .await?;
        decoded::<M, _>(codec::vote_response_from_wire::<M>(&self.open(answer)?))
    }
}

fn unreachable<M: Machine>(error: &(impl std::error::Error + 'static)) -> Failure<M> {
    RPCError::Unreachable(Unreachable::new(error))
}

async fn within<M: Machine, T>(
    deadline: Duration,
    call: impl Future<Output = T>,
) -> Result<T, Failure<M>> {
    tokio::time::timeout(deadline, call).await.map_err(|elapsed| unreachable(&elapsed))
}

fn decoded<M: Machine, T>(result: Result<T, Undecodable>) -> Result<T, Failure<M>> {
    result.map_err(|error| unreachable(&error))
}

type AppendResults<'s, M> = BoxStream<'s, Result<StreamAppendResult<Types<M>>, RPCError<Types<M>>>>;

impl<M: Machine> NetStreamAppend<Types<M>> for Connection<M> {
    fn stream_append<'s, S>(
        &'s mut self,
        mut input: S,
        option: RPCOption,
    ) -> BoxFuture<'s, Result<AppendResults<'s, M>, Failure<M>>>
    where
        S: Stream<Item = AppendEntriesRequest<Types<M>>> + OptionalSend + Unpin + 'static,
    {
        Box::pin(async move {
            // The library sleeps its backoff where its first request is polled. A connect that
            // fails never polls it, and would be tried tens of thousands of times a second.
            let Some(first) = input.next().await else {
                return Ok(Box::pin(stream::empty()) as AppendResults<'s, M>);
            };
            // The log was purged under this stream. With its end the library asks its core what
            // this follower needs now, which is the snapshot.
            let (log, is_log) = (self.links.log.clone(), self.lane == Lane::Log);
            let is_served = move |request: &AppendEntriesRequest<Types<M>>| {
                let next = request.prev_log_id.map_or(0, |id| id.index + 1);
                !is_log || next >= log.first()
            };
            if !is_served(&first) {
                return Err(unreachable(&io::Error::other("the entries are purged")));
            }
            let mut client = self.client(self.lane)?;
            let requests = stream::once(std::future::ready(first))
                .chain(input)
                .take_while(move |request| std::future::ready(is_served(request)))
                .map(|request| codec::append_to_wire::<M>(&request));
            let request = self.request(requests);
            let deadline = option.soft_ttl().max(OPEN_TIMEOUT);
            let answer = within::<M, _>(deadline, client.stream_append(request)).await?;
            let results = self.open(answer)?.map(|answer| {
                let answer = answer.map_err(|status| unreachable(&status))?;
                decoded::<M, _>(codec::appended_from_wire::<M>(answer))
            });
            Ok(Box::pin(results) as AppendResults<'s, M>)
        })
    }
}

impl<M: Machine> NetVote<Types<M>> for Connection<M> {
    async fn vote(
        &mut self,
        request: VoteRequest<Types<M>>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types<M>>, Failure<M>> {
        self.ask_vote(&request, option.soft_ttl(), false).await
    }

    /// The library's own version grants without asking.
    async fn pre_vote(
        &mut self,
        request: VoteRequest<Types<M>>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types<M>>, Failure<M>> {
        self.ask_vote(&request, option.soft_ttl(), true).await
    }
}

impl<M: Machine> NetTransferLeader<Types<M>> for Connection<M> {
    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types<M>>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types<M>>, Failure<M>> {
        let mut client = self.client(Lane::Control)?;
        let request = self.request(codec::transfer_to_wire::<M>(&request));
        let answer = within::<M, _>(option.soft_ttl(), client.transfer_leader(request)).await?;
        decoded::<M, _>(codec::transferred_from_wire::<M>(self.open(answer)?))
    }
}

impl<M: Machine> NetBackoff<Types<M>> for Connection<M> {
    fn backoff(&self) -> Option<Backoff> {
        Some(Backoff::new(std::iter::repeat(self.links.backoff)))
    }
}

impl<M: Machine> NetSnapshot<Types<M>> for Connection<M> {
    type SnapshotData = Image;

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot<CommittedLeaderId, u64, Peer, Image>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Types<M>>, StreamingError<Types<M>>> {
        let mut client = self.client(Lane::Bulk)?;
        let request = self.request(parts(&vote, snapshot.snapshot));
        let sending = within::<M, _>(option.soft_ttl(), client.snapshot(request));
        let answer = tokio::select! {
            biased;
            closed = cancel => return Err(StreamingError::Closed(closed)),
            answer = sending => answer?,
        };
        let answer = self.open(answer)?;
        let vote = answer.vote.as_ref().ok_or(Undecodable::Missing("vote"));
        let vote = decoded::<M, _>(vote)?;
        Ok(SnapshotResponse::new(codec::vote_from_wire(vote)))
    }
}

/// The snapshot as messages, each chunk read when its turn comes. A chunk that cannot be read
/// ends the stream; the receiver then misses chunks and refuses the whole.
fn parts(vote: &Vote, image: Image) -> impl Stream<Item = wire::SnapshotPart> + Send + 'static {
    use wire::snapshot_part::Part;
    let opening = wire::SnapshotOpening {
        vote: Some(codec::vote_to_wire(vote)),
        head: Some(image.head.to_wire()),
    };
    let opening = wire::SnapshotPart { part: Some(Part::Opening(opening)) };
    let serving = image.serve();
    let chunks = stream::unfold(0, move |number| {
        // Until the last chunk was taken, or nobody takes any more.
        let _serving = &serving;
        let chunk = (number < image.head.chunks).then(|| image.chunk(number));
        std::future::ready(match chunk {
            Some(Ok(data)) => {
                let checksum = snapshot::checksum(&data).to_vec().into();
                let chunk = wire::SnapshotChunk { number, data, checksum };
                Some((wire::SnapshotPart { part: Some(Part::Chunk(chunk)) }, number + 1))
            }
            Some(Err(error)) => {
                tracing::warn!(%error, number, "sending of a snapshot stopped");
                None
            }
            None => None,
        })
    });
    stream::once(std::future::ready(opening)).chain(chunks)
}
