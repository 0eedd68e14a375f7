//! Bytes of everything that reaches a disk or a peer. The formats are ours (see
//! `proto/holdfast/raft.proto`), so the consensus library may change its types without changing a
//! byte here; its own serialisation is used nowhere. Must not know where the bytes go.
//! Next: `database.rs`.
//!
//! A batch is MessagePack with field names: it can be read without this program and grows by
//! fields with defaults. Everything around it is protobuf.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use openraft::EntryPayload;
use openraft::raft::{
    StreamAppendError, StreamAppendResult, TransferLeaderError, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::vote::{RaftLeaderId, RaftVote};
use prost::Message;
use proto::holdfast::raft as wire;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::machine::{Batch, Machine};
use crate::types::{
    CommittedLeaderId, Entry, LeaderId, LogId, Membership, Peer, Proposal, StoredMembership, Types,
    Vote,
};

/// Version of the entries that this program writes, and the highest that it reads.
pub(crate) const ENTRY_VERSION: u32 = 1;

/// Bytes that this program cannot read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum Undecodable {
    #[error("not the expected encoding: {0}")]
    Encoding(String),
    #[error("field '{0}' is missing")]
    Missing(&'static str),
    #[error("version {found} is higher than {known}, the highest this program reads")]
    Version { found: u32, known: u32 },
    #[error("entry {found} came where entry {expected} was due")]
    Gap { expected: u64, found: u64 },
    #[error("membership is contradictory: {0}")]
    Membership(String),
}

impl From<prost::DecodeError> for Undecodable {
    fn from(error: prost::DecodeError) -> Self {
        Self::Encoding(error.to_string())
    }
}

pub(crate) fn check_version(found: u32, known: u32) -> Result<(), Undecodable> {
    if found > known { Err(Undecodable::Version { found, known }) } else { Ok(()) }
}

fn required<T>(field: Option<T>, name: &'static str) -> Result<T, Undecodable> {
    field.ok_or(Undecodable::Missing(name))
}

pub(crate) fn encode_batch<C: Serialize>(batch: &Batch<C>) -> Bytes {
    pack(batch).into()
}

pub(crate) fn decode_batch<C: DeserializeOwned>(bytes: &[u8]) -> Result<Batch<C>, Undecodable> {
    rmp_serde::from_slice(bytes).map_err(|error| Undecodable::Encoding(error.to_string()))
}

/// MessagePack with field names.
pub(crate) fn pack<T: Serialize>(value: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("commands and responses are plain data, memory takes it")
}

pub(crate) fn log_id_to_wire(id: &LogId) -> wire::LogId {
    wire::LogId { term: id.committed_leader_id().term, index: id.index }
}

pub(crate) fn log_id_from_wire(id: &wire::LogId) -> LogId {
    LogId::new(CommittedLeaderId::new(id.term), id.index)
}

pub(crate) fn vote_to_wire(vote: &Vote) -> wire::Vote {
    wire::Vote {
        term: vote.leader_id().term(),
        node: *vote.leader_id().node_id(),
        committed: vote.is_committed(),
    }
}

pub(crate) fn vote_from_wire(vote: &wire::Vote) -> Vote {
    Vote::from_leader_id(LeaderId::new(vote.term, vote.node), vote.committed)
}

fn required_vote(vote: Option<&wire::Vote>) -> Result<Vote, Undecodable> {
    Ok(vote_from_wire(required(vote, "vote")?))
}

pub(crate) fn membership_to_wire(membership: &Membership) -> wire::Membership {
    wire::Membership {
        voters: membership
            .get_joint_config()
            .iter()
            .map(|set| wire::VoterSet { nodes: set.iter().copied().collect() })
            .collect(),
        members: membership
            .nodes()
            .map(|(node, peer)| wire::Member {
                node: *node,
                address: peer.addr.clone(),
                store: peer.store,
            })
            .collect(),
    }
}

pub(crate) fn membership_from_wire(from: wire::Membership) -> Result<Membership, Undecodable> {
    if from.voters.is_empty() && from.members.is_empty() {
        return Ok(Membership::default());
    }
    let voters = from.voters.into_iter().map(|set| set.nodes.into_iter().collect());
    let members =
        from.members.into_iter().map(|m| (m.node, Peer { addr: m.address, store: m.store }));
    Membership::new(
        voters.collect::<Vec<BTreeSet<u64>>>(),
        members.collect::<BTreeMap<u64, Peer>>(),
    )
    .map_err(|error| Undecodable::Membership(error.to_string()))
}

pub(crate) fn stored_membership_to_wire(stored: &StoredMembership) -> wire::StoredMembership {
    wire::StoredMembership {
        at: stored.log_id().as_ref().map(log_id_to_wire),
        membership: Some(membership_to_wire(stored.membership())),
    }
}

pub(crate) fn stored_membership_from_wire(
    from: Option<wire::StoredMembership>,
) -> Result<StoredMembership, Undecodable> {
    let from = from.unwrap_or_default();
    let membership = membership_from_wire(from.membership.unwrap_or_default())?;
    Ok(StoredMembership::new(from.at.as_ref().map(log_id_from_wire), membership))
}

pub(crate) fn entry_to_wire<M: Machine>(entry: &Entry<M>) -> wire::Entry {
    use wire::entry::Payload;
    let payload = match &entry.payload {
        EntryPayload::Blank => Payload::Blank(wire::Blank {}),
        EntryPayload::Normal(proposal) => Payload::Batch(proposal.bytes().clone()),
        EntryPayload::Membership(membership) => Payload::Membership(membership_to_wire(membership)),
    };
    wire::Entry {
        version: ENTRY_VERSION,
        id: Some(log_id_to_wire(&entry.log_id)),
        payload: Some(payload),
    }
}

pub(crate) fn entry_from_wire<M: Machine>(from: wire::Entry) -> Result<Entry<M>, Undecodable> {
    use wire::entry::Payload;
    check_version(from.version, ENTRY_VERSION)?;
    let log_id = log_id_from_wire(&required(from.id, "id")?);
    let payload = match required(from.payload, "payload")? {
        Payload::Blank(_) => EntryPayload::Blank,
        Payload::Batch(bytes) => EntryPayload::Normal(Proposal::from_bytes(bytes)),
        Payload::Membership(membership) => {
            EntryPayload::Membership(membership_from_wire(membership)?)
        }
    };
    Ok(Entry::<M> { log_id, payload })
}

pub(crate) fn encode_entry<M: Machine>(entry: &Entry<M>) -> Vec<u8> {
    entry_to_wire::<M>(entry).encode_to_vec()
}

pub(crate) fn decode_entry<M: Machine>(bytes: &[u8]) -> Result<Entry<M>, Undecodable> {
    entry_from_wire::<M>(wire::Entry::decode(bytes)?)
}

type AppendEntries<M> = openraft::raft::AppendEntriesRequest<Types<M>>;

pub(crate) fn append_to_wire<M: Machine>(request: &AppendEntries<M>) -> wire::AppendRequest {
    wire::AppendRequest {
        vote: Some(vote_to_wire(&request.vote)),
        previous: request.prev_log_id.as_ref().map(log_id_to_wire),
        entries: request.entries.iter().map(entry_to_wire::<M>).collect(),
        committed: request.leader_commit.as_ref().map(log_id_to_wire),
    }
}

pub(crate) fn append_from_wire<M: Machine>(
    from: wire::AppendRequest,
) -> Result<AppendEntries<M>, Undecodable> {
    let previous = from.previous.as_ref().map(log_id_from_wire);
    let entries: Vec<Entry<M>> =
        from.entries.into_iter().map(entry_from_wire::<M>).collect::<Result<_, _>>()?;
    // The library takes this for granted, and would leave a gap in the log without a word.
    let first = previous.map_or(0, |id| id.index + 1);
    for (expected, entry) in (first..).zip(&entries) {
        if entry.log_id.index != expected {
            return Err(Undecodable::Gap { expected, found: entry.log_id.index });
        }
    }
    Ok(AppendEntries::<M> {
        vote: required_vote(from.vote.as_ref())?,
        prev_log_id: previous,
        entries,
        leader_commit: from.committed.as_ref().map(log_id_from_wire),
    })
}

pub(crate) fn appended_to_wire<M: Machine>(
    result: &StreamAppendResult<Types<M>>,
) -> wire::AppendResponse {
    use wire::append_response::Result as Answer;
    let answer = match result {
        Ok(Some(matched)) => Answer::Matched(log_id_to_wire(matched)),
        Ok(None) => Answer::MatchedNothing(wire::Empty {}),
        Err(StreamAppendError::Conflict(at)) => Answer::Conflict(log_id_to_wire(at)),
        Err(StreamAppendError::HigherVote(vote)) => Answer::HigherVote(vote_to_wire(vote)),
    };
    wire::AppendResponse { result: Some(answer) }
}

pub(crate) fn appended_from_wire<M: Machine>(
    from: wire::AppendResponse,
) -> Result<StreamAppendResult<Types<M>>, Undecodable> {
    use wire::append_response::Result as Answer;
    Ok(match required(from.result, "result")? {
        Answer::Matched(matched) => Ok(Some(log_id_from_wire(&matched))),
        Answer::MatchedNothing(_) => Ok(None),
        Answer::Conflict(at) => Err(StreamAppendError::Conflict(log_id_from_wire(&at))),
        Answer::HigherVote(vote) => Err(StreamAppendError::HigherVote(vote_from_wire(&vote))),
    })
}

pub(crate) fn vote_request_to_wire<M: Machine>(
    request: &VoteRequest<Types<M>>,
) -> wire::VoteRequest {
    wire::VoteRequest {
        vote: Some(vote_to_wire(&request.vote)),
        last_log: request.last_log_id.as_ref().map(log_id_to_wire),
        leadership_transfer: request.leadership_transfer,
    }
}

pub(crate) fn vote_request_from_wire<M: Machine>(
    from: &wire::VoteRequest,
) -> Result<VoteRequest<Types<M>>, Undecodable> {
    Ok(VoteRequest {
        vote: required_vote(from.vote.as_ref())?,
        last_log_id: from.last_log.as_ref().map(log_id_from_wire),
        leadership_transfer: from.leadership_transfer,
    })
}

pub(crate) fn vote_response_to_wire<M: Machine>(
    response: &VoteResponse<Types<M>>,
) -> wire::VoteResponse {
    wire::VoteResponse {
        vote: Some(vote_to_wire(&response.vote)),
        granted: response.vote_granted,
        last_log: response.last_log_id.as_ref().map(log_id_to_wire),
    }
}

pub(crate) fn vote_response_from_wire<M: Machine>(
    from: &wire::VoteResponse,
) -> Result<VoteResponse<Types<M>>, Undecodable> {
    Ok(VoteResponse {
        vote: required_vote(from.vote.as_ref())?,
        vote_granted: from.granted,
        last_log_id: from.last_log.as_ref().map(log_id_from_wire),
    })
}

pub(crate) fn transfer_to_wire<M: Machine>(
    request: &TransferLeaderRequest<Types<M>>,
) -> wire::TransferRequest {
    wire::TransferRequest {
        from: Some(vote_to_wire(request.from_leader())),
        to: *request.to_node_id(),
        last_log: request.last_log_id().map(log_id_to_wire),
    }
}

pub(crate) fn transfer_from_wire<M: Machine>(
    from: &wire::TransferRequest,
) -> Result<TransferLeaderRequest<Types<M>>, Undecodable> {
    let vote = required_vote(from.from.as_ref())?;
    Ok(TransferLeaderRequest::new(vote, from.to, from.last_log.as_ref().map(log_id_from_wire)))
}

pub(crate) fn transferred_to_wire<M: Machine>(
    response: &TransferLeaderResponse<Types<M>>,
) -> wire::TransferResponse {
    use wire::transfer_response::Result as Answer;
    let answer = match response {
        Ok(()) => Answer::Accepted(wire::Empty {}),
        Err(TransferLeaderError::VoteChanged { expected, actual }) => {
            Answer::VoteChanged(wire::VoteChanged {
                expected: Some(vote_to_wire(expected)),
                actual: Some(vote_to_wire(actual)),
            })
        }
        Err(TransferLeaderError::LogNotFlushed { expected, actual }) => {
            Answer::NotFlushed(wire::NotFlushed {
                expected: expected.as_ref().map(log_id_to_wire),
                actual: actual.as_ref().map(log_id_to_wire),
            })
        }
    };
    wire::TransferResponse { result: Some(answer) }
}

pub(crate) fn transferred_from_wire<M: Machine>(
    from: wire::TransferResponse,
) -> Result<TransferLeaderResponse<Types<M>>, Undecodable> {
    use wire::transfer_response::Result as Answer;
    Ok(match required(from.result, "result")? {
        Answer::Accepted(_) => Ok(()),
        Answer::VoteChanged(changed) => Err(TransferLeaderError::VoteChanged {
            expected: required_vote(changed.expected.as_ref())?,
            actual: required_vote(changed.actual.as_ref())?,
        }),
        Answer::NotFlushed(behind) => Err(TransferLeaderError::LogNotFlushed {
            expected: behind.expected.as_ref().map(log_id_from_wire),
            actual: behind.actual.as_ref().map(log_id_from_wire),
        }),
    })
}
