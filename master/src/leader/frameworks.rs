//! Schedulers' streams under this leader: which framework has one, when it last beat, and what
//! is still to be said on it. Also whose stream ended and who stayed away for too long, which the
//! log is told. Soft: all of it ends with the term. Must not know offers. Next:
//! `frameworks/backlog.rs`, `scheduling.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

mod backlog;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use resources::id::{FrameworkId, StreamId};
use resources::role::Role;
use resources::time::Timestamp;

pub(super) use self::backlog::{Backlog, Later};
use super::event::{Action, AskId, Origin, Proposal};
use super::scheduler::{SchedulerEvent, Subscribing};
use crate::state::State;
use crate::state::command::{CommandKind, Notice};
use crate::state::frameworks::{Connection, Framework};

/// Time between two heartbeats, whatever else is said (spec §4.2).
const HEARTBEAT: Duration = Duration::from_secs(15);

/// All streams of the term.
#[derive(Debug)]
pub(super) struct Frameworks {
    /// Time that frameworks get which did not leave, but lost their leader.
    grace: Duration,
    streams: BTreeMap<FrameworkId, Stream>,
    by_stream: BTreeMap<StreamId, FrameworkId>,
    /// Proposed, and not decided.
    subscribing: BTreeMap<AskId, Box<Subscribing>>,
    /// Streams whose owners went before they were subscribed.
    gone: BTreeSet<StreamId>,
    /// Subscribed, says the state, by streams that this leader or the last one ended.
    bereft: BTreeSet<FrameworkId>,
    /// Departures are proposed and not decided.
    is_departing: bool,
    /// A stream ended since the last look.
    has_departed: bool,
    /// Removals that are proposed and not decided.
    removing: BTreeSet<FrameworkId>,
}

/// The open stream of a framework.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) stream_id: StreamId,
    beat_at: Timestamp,
    pub(super) backlog: Backlog,
    /// The suppressed roles that were proposed last, and how many such proposals are under way.
    suppressing: Option<(BTreeSet<Role>, usize)>,
}

impl Stream {
    /// Something for the scheduler.
    pub(super) fn say(&self, event: SchedulerEvent) -> Action {
        Action::Say(self.stream_id.clone(), Box::new(event))
    }
    pub(super) fn notice(&self, notice: Notice) -> Action {
        self.say(SchedulerEvent::Notice(Box::new(notice)))
    }
    /// The suppressed roles as they will be when all that was proposed is applied.
    pub(super) fn suppressed<'a>(&'a self, framework: &'a Framework) -> &'a BTreeSet<Role> {
        self.suppressing.as_ref().map_or(&framework.suppressed, |(roles, _)| roles)
    }
    pub(super) fn suppress(&mut self, roles: BTreeSet<Role>) {
        let before = self.suppressing.as_ref().map_or(0, |(_, proposals)| *proposals);
        self.suppressing = Some((roles, before + 1));
    }
    /// One such proposal came to its end.
    pub(super) fn suppression_ended(&mut self) {
        if let Some((_, proposals)) = &mut self.suppressing {
            *proposals -= 1;
            if *proposals == 0 {
                self.suppressing = None;
            }
        }
    }
}

impl Frameworks {
    pub(super) const fn new(grace: Duration) -> Self {
        Self {
            grace,
            streams: BTreeMap::new(),
            by_stream: BTreeMap::new(),
            subscribing: BTreeMap::new(),
            gone: BTreeSet::new(),
            bereft: BTreeSet::new(),
            is_departing: false,
            has_departed: false,
            removing: BTreeSet::new(),
        }
    }

    pub(super) fn stream(&self, framework_id: &FrameworkId) -> Option<&Stream> {
        self.streams.get(framework_id)
    }
    pub(super) fn stream_mut(&mut self, framework_id: &FrameworkId) -> Option<&mut Stream> {
        self.streams.get_mut(framework_id)
    }
    /// Frameworks with an open stream.
    pub(super) fn connected(&self) -> impl Iterator<Item = &FrameworkId> {
        self.streams.keys()
    }

    /// A SUBSCRIBE is proposed.
    pub(super) fn subscribing(&mut self, ask_id: AskId, subscribing: Box<Subscribing>) {
        self.subscribing.insert(ask_id, subscribing);
    }
    /// And decided, or not: what was asked, and whether whoever asked is still there.
    pub(super) fn subscribe_ended(&mut self, ask_id: AskId) -> Option<(Box<Subscribing>, bool)> {
        let subscribing = self.subscribing.remove(&ask_id)?;
        let is_there = !self.gone.remove(&subscribing.stream_id);
        self.has_departed |= !is_there;
        Some((subscribing, is_there))
    }

    /// A framework is subscribed by this stream. The old one, if it is open, ends.
    pub(super) fn opened(
        &mut self,
        framework: &Framework,
        stream_id: StreamId,
        now: Timestamp,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        if let Some(old) = self.streams.remove(&framework.id) {
            self.by_stream.remove(&old.stream_id);
            actions.push(old.notice(Notice::Error("Framework failed over".to_owned())));
            actions.push(Action::EndStream(old.stream_id));
        }
        self.bereft.remove(&framework.id);
        self.by_stream.insert(stream_id.clone(), framework.id.clone());
        let backlog = Backlog::default();
        let stream = Stream { stream_id, beat_at: now, backlog, suppressing: None };
        let info = framework.info.clone();
        actions.push(stream.say(SchedulerEvent::Subscribed(framework.id.clone(), info)));
        // Some clients look at an event only when the next one is there.
        actions.push(stream.say(SchedulerEvent::Heartbeat));
        self.streams.insert(framework.id.clone(), stream);
        actions
    }

    /// A stream ended by itself. Says whose it was, if it was anybody's.
    pub(super) fn ended(&mut self, stream_id: &StreamId) -> Option<FrameworkId> {
        if let Some(framework_id) = self.by_stream.remove(stream_id) {
            self.streams.remove(&framework_id);
            self.has_departed = true;
            return Some(framework_id);
        }
        if self.subscribing.values().any(|subscribing| subscribing.stream_id == *stream_id) {
            self.gone.insert(stream_id.clone());
        }
        None
    }

    /// Ends the stream of a framework that is no more.
    pub(super) fn removed(&mut self, framework_id: &FrameworkId) -> Option<Action> {
        self.bereft.remove(framework_id);
        let stream = self.streams.remove(framework_id)?;
        self.by_stream.remove(&stream.stream_id);
        Some(Action::EndStream(stream.stream_id))
    }

    /// Ends every stream: this leader may be deposed. Nobody left by himself.
    pub(super) fn end_all(&mut self) -> Vec<Action> {
        self.by_stream.clear();
        let streams = std::mem::take(&mut self.streams);
        self.bereft.extend(streams.keys().cloned());
        streams.into_values().map(|stream| Action::EndStream(stream.stream_id)).collect()
    }

    /// Everything soft ends with the term.
    pub(super) fn forget(&mut self) -> Vec<Action> {
        let mut actions = self.end_all();
        let subscribing = std::mem::take(&mut self.subscribing).into_values();
        actions.extend(subscribing.map(|asked| Action::EndStream(asked.stream_id)));
        *self = Self::new(self.grace);
        actions
    }

    /// A term begins: who is subscribed lost his leader and did not leave.
    pub(super) fn inherit(&mut self, state: &State) {
        let subscribed = state.frameworks().filter(|framework| is_subscribed(framework));
        self.bereft = subscribed.map(|framework| framework.id.clone()).collect();
        self.has_departed = true;
    }

    pub(super) fn beat(&mut self, now: Timestamp) -> Vec<Action> {
        let due = self.streams.values_mut().filter(|s| now.since(s.beat_at) >= HEARTBEAT);
        let beat = |stream: &mut Stream| {
            stream.beat_at = now;
            stream.say(SchedulerEvent::Heartbeat)
        };
        due.map(beat).collect()
    }
}

/// What the log is told of streams that ended.
impl Frameworks {
    /// Proposes the departure of those that the state holds for subscribed and that have no
    /// stream, if a stream ended since the last look.
    pub(super) fn depart(&mut self, state: &State) -> Vec<Action> {
        if std::mem::take(&mut self.has_departed) { self.departures(state) } else { Vec::new() }
    }

    fn departures(&mut self, state: &State) -> Vec<Action> {
        if self.is_departing {
            self.has_departed = true;
            return Vec::new();
        }
        let is_awaited = |id: &FrameworkId| {
            let mut pending = self.subscribing.values();
            pending.any(|asked| asked.framework_id.as_ref().is_none_or(|own| own == id))
        };
        let mut left = Vec::new();
        let mut bereft = Vec::new();
        for framework in state.frameworks().filter(|framework| is_subscribed(framework)) {
            if self.streams.contains_key(&framework.id) || is_awaited(&framework.id) {
                continue;
            }
            let one = (framework.id.clone(), framework.epoch);
            if self.bereft.contains(&framework.id) { bereft.push(one) } else { left.push(one) }
        }
        let mut actions = Vec::new();
        // Those who left come first: the others' grace is nothing that is waited for.
        for (frameworks, grace) in [(left, Duration::ZERO), (bereft, self.grace)] {
            if !frameworks.is_empty() {
                self.is_departing = true;
                let kind = CommandKind::Disconnect { frameworks, grace };
                actions.push(propose(Origin::Departures, kind));
            }
        }
        actions
    }
    /// Departures were decided, or not: whoever is still subscribed is found at the next tick.
    pub(super) fn departures_ended(&mut self) {
        self.is_departing = false;
    }

    /// Time has passed: departures that were lost, and absences that lasted too long.
    pub(super) fn tick(&mut self, state: &State, now: Timestamp) -> Vec<Action> {
        let mut actions = self.departures(state);
        self.has_departed = false;
        for framework in state.frameworks() {
            let Connection::Absent(absence) = framework.connection else { continue };
            if now >= absence.deadline && self.removing.insert(framework.id.clone()) {
                let framework_id = framework.id.clone();
                let origin = Origin::Removal(framework_id.clone());
                let kind = CommandKind::RemoveFramework { framework_id, witness: Some(absence) };
                actions.push(propose(origin, kind));
            }
        }
        actions
    }
    /// A removal was decided, or not.
    pub(super) fn removal_ended(&mut self, framework_id: &FrameworkId) {
        self.removing.remove(framework_id);
    }
}

fn is_subscribed(framework: &Framework) -> bool {
    match framework.connection {
        Connection::Subscribed => true,
        Connection::Absent(_) => false,
    }
}

/// A proposal of the leader itself.
pub(super) fn propose(origin: Origin, kind: CommandKind) -> Action {
    let proposal = Proposal::Plain { principal: None, source: None, kind: Box::new(kind) };
    Action::Propose(origin, proposal)
}
