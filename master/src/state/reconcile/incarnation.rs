//! Masters that were restored from a backup: their log ends before what agents did since. Each
//! incarnation of the cluster has a higher number than those before; an agent that comes from an
//! earlier one may be ahead of the log, which under one incarnation cannot be. Next: `running.rs`.

use resources::id::{AgentId, Incarnation, Seq};
use resources::message::Registration;

use super::super::State;
use super::super::agents::{Agent, AgentStatus};
use super::super::command::{Effect, Response};
use super::Held;

impl State {
    /// From now on the log is another one than agents knew. A number that is not higher changes
    /// nothing.
    pub(in crate::state) fn begin_anew(
        &mut self,
        incarnation: Incarnation,
    ) -> (Response, Vec<Effect>) {
        self.incarnation = self.incarnation.max(incarnation);
        self.is_restored = false;
        (Response::Done, Vec::new())
    }

    /// Whether an agent obeyed an earlier incarnation last.
    pub(super) fn is_from_before(&self, registration: &Registration) -> bool {
        registration.fence.as_ref().is_some_and(|fence| fence.incarnation < self.incarnation)
    }

    /// The id that a new agent had in the part of the log that is lost, if nobody has it now. It
    /// is not given again.
    pub(in crate::state) fn former_id(&mut self, registration: &Registration) -> Option<AgentId> {
        let id = registration.agent_id.clone().filter(|_| self.is_from_before(registration))?;
        let prefix = format!("{}-S", self.cluster_id.as_ref()?);
        let number: u64 = id.as_str().strip_prefix(&prefix)?.parse().ok()?;
        if self.agents.contains_key(&id) || self.gone_agent(&id).is_some() {
            return None;
        }
        self.agents_made = self.agents_made.max(number.saturating_add(1));
        Some(id)
    }
}

impl Agent {
    /// A new agent that has done more than this log knows counts on from there. What it holds
    /// beyond what it declares is an operator's choice. Gives what an operator must see.
    pub(in crate::state) fn count_from_before(
        &mut self,
        registration: &Registration,
    ) -> Option<String> {
        let applied_seq = registration.applied_seq;
        if applied_seq == Seq(0) {
            return None;
        }
        if self.is_held(registration) {
            self.count_from(applied_seq, registration);
            return None;
        }
        self.status = AgentStatus::diverged();
        Some(format!("{}: at order {applied_seq}, unknown here until now", self.id))
    }

    /// Whether it holds just what is on record, and no order is on its way.
    pub(super) fn is_held(&self, registration: &Registration) -> bool {
        self.pending.is_empty() && self.confirmed().digest() == registration.resources_digest
    }

    /// Its orders go on behind its last one.
    pub(super) fn count_from(&mut self, applied_seq: Seq, registration: &Registration) {
        self.confirmed_seq = self.confirmed_seq.max(applied_seq);
        self.next_seq = self.next_seq.max(self.confirmed_seq.next());
        self.adopts = Some(Held { applied_seq, digest: registration.resources_digest });
    }
}
