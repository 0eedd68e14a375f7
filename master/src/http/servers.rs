//! The masters themselves (contract, extensions): `GET /api/v1/servers` lists the members, and
//! `POST /api/v1/servers/{add,promote,remove,replace,transfer-leader}` changes them, one change
//! at a time; the answer comes when the change is complete, and lists the members after it. Every
//! call may be repeated. Must not judge a change: that is `raft`'s. Next: `server.rs`.

use axum::response::Response;
use raft::{Member, MembershipError, Role};
use resources::id::MasterId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::Failure;
use super::incoming::Incoming;
use super::negotiate::{self, Media};
use super::route::MemberCall;
use super::{App, read};
use crate::auth::Action;
use crate::config::Address;
use crate::leader::{Leadership, MemberChange};

/// One entry of `/api/v1/servers`.
#[derive(Debug, Serialize)]
struct Entry {
    id: u64,
    role: &'static str,
    leader: bool,
    peer: String,
    /// Its public address, once it was met.
    advertise: Option<String>,
    /// Whether it answered within the longest election timeout; known to the leader alone.
    answering: Option<bool>,
    /// The last entry known to be on its disk, and how many it lacks.
    matched: Option<u64>,
    lag: Option<u64>,
}

impl Entry {
    fn of(member: Member, leader: Option<MasterId>) -> Self {
        Self {
            id: member.id.0,
            role: match member.role {
                Role::Voter => "voter",
                Role::Learner => "learner",
            },
            leader: leader == Some(member.id),
            peer: member.address,
            advertise: member.advertise,
            answering: member.is_answering,
            matched: member.matched.map(|index| index.0),
            lag: member.lag,
        }
    }
}

/// The members as the leader sees them.
pub(super) fn list(app: &App, incoming: &Incoming) -> Result<Response, Failure> {
    let leader = match app.handle.leadership() {
        Leadership::Leading { .. } => Some(app.config.id),
        Leadership::Following { master_id, .. } => Some(master_id),
        Leadership::Unknown => None,
    };
    let members = app.handle.members().into_iter();
    let entries: Vec<Entry> = members.map(|member| Entry::of(member, leader)).collect();
    read::json(incoming, &entries)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct One {
    id: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Newcomer {
    id: u64,
    peer: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exchange {
    old: u64,
    new: u64,
    peer: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Successor {
    #[serde(default)]
    to: Option<u64>,
}

/// Carries one change out.
pub(super) async fn change(
    app: &App,
    incoming: &mut Incoming,
    call: MemberCall,
) -> Result<Response, Failure> {
    match negotiate::of_request(incoming.headers())? {
        Media::Json => {}
        Media::Protobuf => return Err(Failure::UnsupportedMediaType),
    }
    let change = decode(call, &incoming.bytes().await?)?;
    if !app.config.authorizer.may(incoming.principal.as_ref(), Action::ManageServers, None) {
        return Err(Failure::Forbidden("the members are not yours to change".to_owned()));
    }
    match app.handle.change_members(&change).await {
        Ok(()) => list(app, incoming),
        Err(MembershipError::NotLeader { .. }) => Err(app.not_here(incoming)),
        Err(MembershipError::NoQuorum | MembershipError::Stopped) => Err(Failure::NoLeader),
        Err(error) => Err(Failure::Members(error)),
    }
}

fn decode(call: MemberCall, body: &[u8]) -> Result<MemberChange, Failure> {
    Ok(match call {
        MemberCall::Add => {
            let Newcomer { id, peer } = parse(body, r#"{"id":4,"peer":"host:port"}"#)?;
            MemberChange::Add { id: member(id)?, peer: address(&peer)? }
        }
        MemberCall::Promote => MemberChange::Promote { id: one(body)? },
        MemberCall::Remove => MemberChange::Remove { id: one(body)? },
        MemberCall::Replace => {
            let form = r#"{"old":1,"new":4,"peer":"host:port"}"#;
            let Exchange { old, new, peer } = parse(body, form)?;
            MemberChange::Replace { old: member(old)?, new: member(new)?, peer: address(&peer)? }
        }
        MemberCall::TransferLeader => {
            let Successor { to } = parse(body, r#"{} or {"to":2}"#)?;
            MemberChange::TransferLeader { to: to.map(member).transpose()? }
        }
    })
}

fn one(body: &[u8]) -> Result<MasterId, Failure> {
    let One { id } = parse(body, r#"{"id":4}"#)?;
    member(id)
}

fn parse<T: DeserializeOwned>(body: &[u8], form: &str) -> Result<T, Failure> {
    serde_json::from_slice(body)
        .map_err(|error| Failure::bad_request(format!("Expecting {form}: {error}")))
}

fn member(id: u64) -> Result<MasterId, Failure> {
    match id {
        0 => Err(Failure::bad_request("The number of a master is a whole number from 1")),
        id => Ok(MasterId(id)),
    }
}

fn address(text: &str) -> Result<String, Failure> {
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::bad_request(format!("Expecting 'peer' to be host:port, found '{text}': {why}"))
    };
    let address: Address = text.parse().map_err(|error| wrong(&error))?;
    if address.is_wildcard() {
        return Err(wrong(&"the masters must be able to reach it"));
    }
    Ok(address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_refused(call: MemberCall, body: &str, expected: &str) {
        let failure = decode(call, body.as_bytes()).expect_err(body);
        assert_eq!(failure.status().as_u16(), 400, "{body}");
        let message = failure.full_report().message;
        assert!(message.contains(expected), "{body}: {message}");
    }

    #[test]
    fn bodies() {
        let decoded = |call, body: &str| decode(call, body.as_bytes()).unwrap();
        let (id, peer) = (MasterId(4), "127.0.0.1:6053".to_owned());
        assert_eq!(
            decoded(MemberCall::Add, r#"{"id":4,"peer":"127.0.0.1:6053"}"#),
            MemberChange::Add { id, peer: peer.clone() }
        );
        assert_eq!(decoded(MemberCall::Promote, r#"{"id":4}"#), MemberChange::Promote { id });
        assert_eq!(decoded(MemberCall::Remove, r#"{"id":4}"#), MemberChange::Remove { id });
        assert_eq!(
            decoded(MemberCall::Replace, r#"{"old":1,"new":4,"peer":"127.0.0.1:6053"}"#),
            MemberChange::Replace { old: MasterId(1), new: id, peer }
        );
        for (body, to) in [("{}", None), (r#"{"to":4}"#, Some(id))] {
            let expected = MemberChange::TransferLeader { to };
            assert_eq!(decoded(MemberCall::TransferLeader, body), expected);
        }
    }

    #[test]
    fn bodies_that_are_none() {
        check_refused(MemberCall::Add, "", r#"Expecting {"id":4,"peer":"host:port"}"#);
        check_refused(MemberCall::Add, r#"{"id":4}"#, "missing field `peer`");
        check_refused(MemberCall::Add, r#"{"id":0,"peer":"a:1"}"#, "from 1");
        check_refused(MemberCall::Add, r#"{"id":-1,"peer":"a:1"}"#, "invalid value");
        check_refused(MemberCall::Add, r#"{"id":4,"peer":"a"}"#, "host:port");
        check_refused(MemberCall::Add, r#"{"id":4,"peer":"0.0.0.0:1"}"#, "reach it");
        check_refused(MemberCall::Remove, r#"{"id":4,"force":true}"#, "unknown field `force`");
        check_refused(MemberCall::TransferLeader, "7", "Expecting {}");
    }
}
