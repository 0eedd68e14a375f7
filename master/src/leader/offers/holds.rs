//! Offers that an ACCEPT has taken: held until the log has decided it, or the term ends; never
//! given back on a timeout, because its outcome may still come. Next: `../accepting.rs`.

use std::collections::BTreeSet;
use std::time::Duration;

use resources::collection::Resources;
use resources::id::{AgentId, FrameworkId, OfferId, StreamId};
use resources::resource::Resource;
use resources::role::Role;
use resources::time::Timestamp;

use super::{Offers, given};
use crate::allocator::calls::Given;
use crate::leader::event::AskId;
use crate::leader::scheduler::{Offer, SchedulerCall};
use crate::state::State;
use crate::state::accept::Step;

/// An ACCEPT that is under way.
#[derive(Debug)]
pub(in crate::leader) struct Hold {
    /// What it took, by number.
    pub(in crate::leader) offers: Vec<(u64, Offer)>,
    /// What it says, for the case that it is not taken.
    pub(in crate::leader) steps: Vec<Step>,
    /// How long what is left is not wanted.
    pub(in crate::leader) refuse: Duration,
    /// Through which stream the offers went out and it came.
    pub(in crate::leader) stream_id: Option<StreamId>,
    /// Repeats of it that came meanwhile.
    pub(in crate::leader) repeats: Vec<(AskId, Box<SchedulerCall>)>,
    /// When it came.
    pub(in crate::leader) since: Timestamp,
}

/// What came of the wish to take offers.
#[derive(Debug)]
pub(in crate::leader) enum Taking {
    /// They are held.
    Taken(Taken),
    /// One of them is held already by this ACCEPT of the same framework.
    Held(AskId),
    /// They cannot be used together, in words. Those of them that are this framework's own are
    /// free again.
    Invalid {
        /// Why.
        why: String,
        /// How many were given back.
        discarded: usize,
    },
}

/// What offers hold together.
#[derive(Debug)]
pub(in crate::leader) struct Taken {
    /// Of which agent.
    pub(in crate::leader) agent_id: AgentId,
    /// In which role.
    pub(in crate::leader) role: Role,
    /// What.
    pub(in crate::leader) resources: Resources,
    /// Their numbers.
    pub(in crate::leader) offers: Vec<(u64, Offer)>,
}

impl Offers {
    /// Takes the offers of an ACCEPT, all or none (spec §2.3, step 1).
    pub(in crate::leader) fn take(
        &mut self,
        framework_id: &FrameworkId,
        ids: &[OfferId],
    ) -> Taking {
        if let Some(ask_id) = self.held_of(framework_id, ids) {
            return Taking::Held(ask_id);
        }
        if let Err(why) = self.check(framework_id, ids) {
            let own = ids
                .iter()
                .filter_map(|id| self.number_of(id))
                .filter(|number| self.outstanding[number].offer.framework_id == *framework_id);
            let own: BTreeSet<u64> = own.collect();
            let discarded = self.take_back(own).len();
            return Taking::Invalid { why, discarded };
        }
        let numbers = ids.iter().filter_map(|id| self.number_of(id));
        let numbers: Vec<u64> = numbers.collect();
        let mut offers = Vec::with_capacity(numbers.len());
        let mut resources = Resources::new();
        for number in numbers {
            let Some(offer) = self.take_in(number) else { continue };
            resources.add_all(&offer.resources);
            offers.push((number, offer));
        }
        let first = &offers.first().expect("an ACCEPT without an offer is invalid").1;
        let (agent_id, role) = (first.agent_id.clone(), first.role.clone());
        Taking::Taken(Taken { agent_id, role, resources, offers })
    }

    fn check(&self, framework_id: &FrameworkId, ids: &[OfferId]) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        let mut first: Option<&Offer> = None;
        for id in ids {
            if !seen.insert(id) {
                return Err(format!("offer {id} is named twice"));
            }
            let number = self.number_of(id);
            let number = number.ok_or_else(|| format!("offer {id} is no longer valid"))?;
            let offer = &self.outstanding[&number].offer;
            if offer.framework_id != *framework_id {
                return Err(format!("offer {id} was not made to this framework"));
            }
            let first = first.get_or_insert(offer);
            if first.role != offer.role {
                return Err(format!("offers {} and {id} are for two roles", first.offer_id));
            }
            if first.agent_id != offer.agent_id {
                return Err(format!("offers {} and {id} are of two agents", first.offer_id));
            }
        }
        if first.is_some() { Ok(()) } else { Err("no offer is named".to_owned()) }
    }

    /// The ACCEPT of this framework that holds one of these offers.
    fn held_of(&self, framework_id: &FrameworkId, ids: &[OfferId]) -> Option<AskId> {
        if self.holds.is_empty() {
            return None;
        }
        ids.iter().find_map(|id| {
            let (_, number) = id.as_str().rsplit_once('-')?;
            let ask_id = self.held_by.get(&number.parse().ok()?)?;
            let mut held = self.holds.get(ask_id)?.offers.iter();
            let is_own =
                held.any(|(_, offer)| offer.offer_id == *id && offer.framework_id == *framework_id);
            is_own.then_some(*ask_id)
        })
    }

    /// The ACCEPT is proposed: what it took is held until it is decided.
    pub(in crate::leader) fn hold(&mut self, ask_id: AskId, hold: Hold) {
        for (number, _) in &hold.offers {
            self.held_by.insert(*number, ask_id);
        }
        self.holds.insert(ask_id, hold);
    }
    /// The same ACCEPT came again: it is looked at when the first one is decided.
    pub(in crate::leader) fn repeat(
        &mut self,
        held_by: AskId,
        repeat: (AskId, Box<SchedulerCall>),
    ) {
        if let Some(hold) = self.holds.get_mut(&held_by) {
            hold.repeats.push(repeat);
        }
    }
    /// The ACCEPT is decided, or never proposed.
    pub(in crate::leader) fn let_go(&mut self, ask_id: AskId) -> Option<Hold> {
        let hold = self.holds.remove(&ask_id)?;
        for (number, _) in &hold.offers {
            self.held_by.remove(number);
        }
        Some(hold)
    }
    /// Nobody can say yet whether the ACCEPT will be applied: what it took stays held until the
    /// term ends. Gives the repeats that nobody can answer either.
    pub(in crate::leader) fn keep_holding(
        &mut self,
        ask_id: AskId,
    ) -> Vec<(AskId, Box<SchedulerCall>)> {
        let hold = self.holds.get_mut(&ask_id);
        hold.map(|hold| std::mem::take(&mut hold.repeats)).unwrap_or_default()
    }

    /// What was held and not used is free again, and what was offered and not wanted is refused.
    pub(in crate::leader) fn settle(
        &mut self,
        state: &State,
        hold: &Hold,
        unused: &[Resource],
        now: Timestamp,
    ) {
        let Some((_, first)) = hold.offers.first() else { return };
        // What the ACCEPT uses is told before anything is given back.
        self.stale.remove(&first.agent_id);
        self.tell_of(state, &first.agent_id);
        for (_, offer) in &hold.offers {
            self.allocator.give_back(given(offer));
        }
        let unused: Resources = unused.iter().collect();
        let refused = Given { resources: &unused, ..given(first) };
        self.allocator.refuse(refused, hold.refuse, now);
    }
    /// Nothing came of an ACCEPT: its offers are free again, and nothing is refused.
    pub(in crate::leader) fn discard(&mut self, offers: &[(u64, Offer)]) {
        for (_, offer) in offers {
            self.allocator.give_back(given(offer));
        }
    }
    /// An ACCEPT was never proposed, and may come again: its offers are out as they were.
    pub(in crate::leader) fn restore(&mut self, hold: Hold) {
        let since = hold.since;
        for (number, offer) in hold.offers {
            self.put_out(number, offer, since);
        }
    }
    /// A framework declines what it accepts for nothing.
    pub(in crate::leader) fn decline_taken(
        &mut self,
        taken: &Taken,
        refuse: Duration,
        now: Timestamp,
    ) {
        for (_, offer) in &taken.offers {
            self.allocator.decline(given(offer), refuse, now);
        }
    }
    /// Before an ACCEPT destroys a shared volume, the others' offers of it go, if the operation
    /// would apply: those before it are tried in turn, and no task uses the volume.
    pub(in crate::leader) fn make_room_for(
        &mut self,
        state: &State,
        taken: &Taken,
        steps: &[Step],
        now: Timestamp,
    ) -> Vec<Offer> {
        let Some(agent) = state.agent(&taken.agent_id) else { return Vec::new() };
        let mut left = taken.resources.clone();
        let mut rescinded = Vec::new();
        for step in steps {
            let Step::Operate { operation: Ok(operation), .. } = step else { continue };
            let takes = operation.consumed().into_iter();
            let is_used = takes.filter(|r| r.shared).any(|r| agent.used.contains_one(&r));
            if left.apply(operation).is_ok() && !is_used {
                rescinded.extend(self.rescind_shared(&taken.agent_id, operation, now));
            }
        }
        rescinded
    }
}
