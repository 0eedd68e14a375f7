//! Offers of this term: which are out, which an ACCEPT that is under way holds, and the allocator
//! that makes them. Soft: all of it ends with the term, and no id is ever used twice. Must not
//! know streams or the log. Next: `offers/feeding.rs`, `offers/ruling.rs`, `offers/room.rs`,
//! `offers/holds.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

mod feeding;
mod holds;
mod room;
mod ruling;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use resources::collection::Resources;
use resources::id::{AgentId, ClusterId, ExecutorId, FrameworkId, OfferId, Term};
use resources::resource::Resource;
use resources::time::Timestamp;

pub(super) use self::holds::{Hold, Taken, Taking};
use super::event::{AskId, CallId};
use super::scheduler::Offer;
use crate::allocator::calls::Given;
use crate::allocator::view::REFUSE_DEFAULT;
use crate::allocator::{Allocation, Allocator, Part, Settings};
use crate::state::{Agent, State};

/// Agents that a new leader's allocator takes in between two other events: about 2 ms.
const AGENTS_PER_SLICE: usize = 500;

/// All offers of the term.
#[derive(Debug)]
pub(super) struct Offers {
    settings: Settings,
    /// Time after which an unused offer is taken back.
    timeout: Option<Duration>,
    term: Term,
    allocator: Allocator,
    /// The number of the last offer.
    made: u64,
    outstanding: BTreeMap<u64, Outstanding>,
    by_agent: BTreeMap<AgentId, BTreeSet<u64>>,
    by_framework: BTreeMap<FrameworkId, BTreeSet<u64>>,
    /// Offers of an ACCEPT that is proposed and not decided.
    holds: BTreeMap<AskId, Hold>,
    held_by: BTreeMap<u64, AskId>,
    /// What operators' calls that are proposed and not decided will take.
    wanted: BTreeMap<AgentId, BTreeMap<CallId, Vec<Resource>>>,
    wanted_of: BTreeMap<CallId, Vec<AgentId>>,
    /// Agents whose resources may have changed since the allocator was told.
    stale: BTreeSet<AgentId>,
    /// Agents that a new leader has not told the allocator of yet.
    untold: VecDeque<AgentId>,
    is_ready: bool,
    /// When the next run is due, and whether one is due at once.
    run_at: Timestamp,
    is_urgent: bool,
}

#[derive(Debug)]
struct Outstanding {
    offer: Offer,
    since: Timestamp,
}

impl Offers {
    pub(super) fn new(settings: Settings, timeout: Option<Duration>) -> Self {
        Self {
            allocator: Allocator::new(settings.clone()),
            settings,
            timeout,
            term: Term(0),
            made: 0,
            outstanding: BTreeMap::new(),
            by_agent: BTreeMap::new(),
            by_framework: BTreeMap::new(),
            holds: BTreeMap::new(),
            held_by: BTreeMap::new(),
            wanted: BTreeMap::new(),
            wanted_of: BTreeMap::new(),
            stale: BTreeSet::new(),
            untold: VecDeque::new(),
            is_ready: false,
            run_at: Timestamp::default(),
            is_urgent: false,
        }
    }

    /// A term begins: the allocator is made anew from the state, in slices.
    pub(super) fn take_office(&mut self, state: &State, term: Term, now: Timestamp) {
        self.forget();
        self.term = term;
        self.untold = state.counted_agents().map(|agent| agent.id.clone()).collect();
        if self.feed_rules(state) {
            self.allocator.recover(self.untold.len(), now);
        }
        for framework in state.frameworks() {
            self.framework_changed(framework, &framework.suppressed);
        }
    }
    /// Everything soft ends with the term.
    pub(super) fn forget(&mut self) {
        *self = Self::new(self.settings.clone(), self.timeout);
    }
    /// Whether the allocator still has to take in the state of a new leader.
    pub(super) fn is_rebuilding(&self) -> bool {
        !self.is_ready && self.term != Term(0)
    }
    /// One slice of that.
    pub(super) fn rebuild(&mut self, state: &State) {
        if !self.is_rebuilding() {
            return;
        }
        for _ in 0..AGENTS_PER_SLICE {
            let Some(agent_id) = self.untold.pop_front() else { break };
            // One that is live by now was told of when it came.
            self.tell_of(state, &agent_id);
        }
        let left = self.allocator.rebuild(AGENTS_PER_SLICE);
        if self.untold.is_empty() && left == 0 {
            self.is_ready = true;
            self.is_urgent = true;
        }
    }

    /// Whether the allocator is to run: it is time, or something came that does not wait for
    /// the time (spec §8.1).
    pub(super) fn is_run_due(&self, now: Timestamp) -> bool {
        self.is_ready && (now >= self.run_at || self.is_urgent)
    }
    /// Runs the allocator: offers by framework and role.
    pub(super) fn run(&mut self, state: &State, now: Timestamp) -> Vec<(FrameworkId, Vec<Offer>)> {
        let Some(cluster_id) = state.cluster_id() else { return Vec::new() };
        self.is_urgent = false;
        self.run_at = now + self.settings.allocation_interval;
        let allocations = self.allocator.allocate(now);
        let mut made = Vec::new();
        for Allocation { framework_id, role, parts } in allocations {
            let mut offers = Vec::with_capacity(parts.len());
            for Part { agent_id, resources } in parts {
                let given = Given {
                    framework_id: &framework_id,
                    role: &role,
                    agent_id: &agent_id,
                    resources: &resources,
                };
                let Some(agent) = state.agent(&agent_id) else {
                    self.allocator.give_back(given);
                    continue;
                };
                let resources = self.without_wanted(given);
                if resources.is_empty() {
                    continue;
                }
                self.made += 1;
                let offer = Offer {
                    offer_id: offer_id(cluster_id, self.term, self.made),
                    framework_id: framework_id.clone(),
                    role: role.clone(),
                    agent_id,
                    agent: agent.info.clone(),
                    resources,
                    executor_ids: executors(agent, &framework_id),
                    unavailability: state.unavailability(&agent.info),
                };
                self.put_out(self.made, offer.clone(), now);
                offers.push(offer);
            }
            if !offers.is_empty() {
                made.push((framework_id, offers));
            }
        }
        made
    }

    /// A name that no offer has had and none will have.
    pub(super) fn fresh_id(&mut self, state: &State) -> Option<OfferId> {
        self.made += 1;
        Some(offer_id(state.cluster_id()?, self.term, self.made))
    }

    /// What of a part no operator's call that is under way takes; the rest goes back.
    fn without_wanted(&mut self, given: Given<'_>) -> Resources {
        let Some(calls) = self.wanted.get(given.agent_id) else { return given.resources.clone() };
        let mut rest = given.resources.clone();
        for resource in calls.values().flatten() {
            rest.subtract(resource);
        }
        let mut taken = given.resources.clone();
        taken.subtract_all(&rest);
        self.allocator.give_back(Given { resources: &taken, ..given });
        rest
    }

    fn put_out(&mut self, number: u64, offer: Offer, since: Timestamp) {
        self.by_agent.entry(offer.agent_id.clone()).or_default().insert(number);
        self.by_framework.entry(offer.framework_id.clone()).or_default().insert(number);
        self.outstanding.insert(number, Outstanding { offer, since });
    }

    /// Takes an offer in, whatever for. Its resources stay held.
    fn take_in(&mut self, number: u64) -> Option<Offer> {
        let Outstanding { offer, since: _ } = self.outstanding.remove(&number)?;
        forget_number(&mut self.by_agent, &offer.agent_id, number);
        forget_number(&mut self.by_framework, &offer.framework_id, number);
        Some(offer)
    }
    /// Takes offers in; their resources are free again and not refused.
    fn take_back(&mut self, numbers: impl IntoIterator<Item = u64>) -> Vec<Offer> {
        let mut taken = Vec::new();
        for number in numbers {
            let Some(offer) = self.take_in(number) else { continue };
            self.allocator.give_back(given(&offer));
            taken.push(offer);
        }
        taken
    }
    fn number_of(&self, id: &OfferId) -> Option<u64> {
        let (_, number) = id.as_str().rsplit_once('-')?;
        let number = number.parse().ok()?;
        let outstanding = self.outstanding.get(&number)?;
        (outstanding.offer.offer_id == *id).then_some(number)
    }
}

/// Offers that end.
impl Offers {
    /// All offers of an agent: it went, or may not be offered now.
    pub(super) fn agent_lost(&mut self, agent_id: &AgentId) -> Vec<Offer> {
        let numbers = self.by_agent.get(agent_id).cloned().unwrap_or_default();
        self.take_back(numbers)
    }
    /// All offers of a framework: it went, or is there anew.
    pub(super) fn framework_lost(&mut self, framework_id: &FrameworkId) -> Vec<Offer> {
        let numbers = self.by_framework.get(framework_id).cloned().unwrap_or_default();
        self.take_back(numbers)
    }
    /// Those offers of a framework that are for roles which it no longer has.
    pub(super) fn roles_lost(&mut self, state: &State, framework_id: &FrameworkId) -> Vec<Offer> {
        let Some(framework) = state.framework(framework_id) else { return Vec::new() };
        let numbers = self.by_framework.get(framework_id).cloned().unwrap_or_default();
        let is_lost = |number: &u64| {
            let outstanding = self.outstanding.get(number);
            outstanding.is_some_and(|o| !framework.info.roles.contains(&o.offer.role))
        };
        let lost: Vec<u64> = numbers.into_iter().filter(is_lost).collect();
        self.take_back(lost)
    }
    /// Those that were out for too long.
    pub(super) fn expired(&mut self, now: Timestamp) -> Vec<Offer> {
        let Some(timeout) = self.timeout else { return Vec::new() };
        let is_old = |outstanding: &Outstanding| now.since(outstanding.since) >= timeout;
        let old = self.outstanding.iter().take_while(|(_, outstanding)| is_old(outstanding));
        let old: Vec<u64> = old.map(|(number, _)| *number).collect();
        self.take_back(old)
    }
    /// DECLINE. Ids that are unknown or another's are ignored. Says how many were given back.
    pub(super) fn decline(
        &mut self,
        framework_id: &FrameworkId,
        ids: &[OfferId],
        refuse: Duration,
        now: Timestamp,
    ) -> usize {
        let mut declined = 0;
        for id in ids {
            let Some(number) = self.number_of(id) else { continue };
            if self.outstanding[&number].offer.framework_id != *framework_id {
                continue;
            }
            let Some(offer) = self.take_in(number) else { continue };
            self.allocator.decline(given(&offer), refuse, now);
            declined += 1;
        }
        declined
    }
    /// Takes an offer back for somebody else; its framework is not offered the same at once.
    fn rescind(&mut self, number: u64, now: Timestamp) -> Option<Offer> {
        let offer = self.take_in(number)?;
        self.allocator.decline(given(&offer), REFUSE_DEFAULT, now);
        Some(offer)
    }
}

/// Looking up.
impl Offers {
    /// Outstanding offers by id.
    pub(super) fn find(&self, ids: &[OfferId]) -> Vec<Option<Offer>> {
        let find = |id: &OfferId| {
            let number = self.number_of(id);
            number.map(|number| self.outstanding[&number].offer.clone())
        };
        ids.iter().map(find).collect()
    }
    /// All outstanding offers, oldest first.
    pub(super) fn all(&self) -> Vec<Offer> {
        self.outstanding.values().map(|outstanding| outstanding.offer.clone()).collect()
    }
}

/// An offer as the allocator knows it.
fn given(offer: &Offer) -> Given<'_> {
    Given {
        framework_id: &offer.framework_id,
        role: &offer.role,
        agent_id: &offer.agent_id,
        resources: &offer.resources,
    }
}

fn offer_id(cluster_id: &ClusterId, term: Term, number: u64) -> OfferId {
    OfferId::parse(format!("{cluster_id}-O{term}-{number}"))
        .expect("a cluster id is short, and the rest are letters, digits and dashes")
}

fn executors(agent: &Agent, framework_id: &FrameworkId) -> Vec<ExecutorId> {
    let names = agent.executors.keys().filter(|name| name.framework_id == *framework_id);
    names.map(|name| name.executor_id.clone()).collect()
}

fn forget_number<K: Ord>(index: &mut BTreeMap<K, BTreeSet<u64>>, key: &K, number: u64) {
    if let Some(numbers) = index.get_mut(key) {
        numbers.remove(&number);
        if numbers.is_empty() {
            index.remove(key);
        }
    }
}
