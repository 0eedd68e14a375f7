//! Quota and weights as the allocator is told of them, and the offers that a change of them takes
//! back (spec §5.2). None of these is refused by its framework: what is left of it comes again
//! with the next run. Next: `room.rs`.

use std::collections::BTreeSet;

use resources::quantity::Quantities;
use resources::role::Role;

use super::Offers;
use crate::allocator::Allocator;
use crate::leader::scheduler::Offer;
use crate::state::State;
use crate::state::frameworks::Framework;

impl Offers {
    /// Tells a new leader's allocator of all rules. Says whether there is any quota.
    pub(super) fn feed_rules(&mut self, state: &State) -> bool {
        for (role, weight) in state.weights() {
            self.allocator.set_weight(role, Some(weight.millionths()));
        }
        let mut has_quota = false;
        for (role, quota) in state.quotas() {
            self.allocator.set_quota(role, quota);
            has_quota = true;
        }
        has_quota
    }

    /// UPDATE_QUOTA and REMOVE_QUOTA: offers of these roles go until they are within their
    /// limits, then others' until what guarantees miss is free.
    pub(in crate::leader) fn quota_updated(&mut self, state: &State, roles: &[Role]) -> Vec<Offer> {
        let mut gone = self.feed_quota(state, roles);
        for role in roles {
            while let Some(number) = self.next_above_limits(role) {
                gone.extend(self.take_back([number]));
            }
        }
        while let Some(number) = self.next_for_guarantees() {
            gone.extend(self.take_back([number]));
        }
        gone
    }

    /// SET_QUOTA: all offers of one agent after the other go, until they held what is guaranteed
    /// and came from as many agents as the roles have frameworks.
    pub(in crate::leader) fn quota_set(&mut self, state: &State, roles: &[Role]) -> Vec<Offer> {
        let mut gone = self.feed_quota(state, roles);
        let mut wanted = Quantities::default();
        for quota in roles.iter().filter_map(|role| state.quota(role)) {
            wanted.add(&quota.guarantees);
        }
        let is_in_one = |framework: &&Framework| {
            framework.is_subscribed() && roles.iter().any(|role| is_in(framework, role))
        };
        let frameworks = state.frameworks().filter(is_in_one).count();
        let mut rescinded = Quantities::default();
        let mut visited = 0;
        while let Some(agent_id) = self.by_agent.keys().next().cloned() {
            if visited >= frameworks && rescinded.contains(&wanted) {
                break;
            }
            for offer in self.agent_lost(&agent_id) {
                rescinded.add(&Quantities::from(&offer.resources));
                gone.push(offer);
            }
            visited += 1;
        }
        gone
    }

    /// UPDATE_WEIGHTS: all offers go, if a framework is in one of the roles or below it.
    pub(in crate::leader) fn weights_updated(
        &mut self,
        state: &State,
        roles: &[Role],
    ) -> Vec<Offer> {
        for role in roles {
            let weight = state.weight(role).map(resources::weight::Weight::millionths);
            self.allocator.set_weight(role, weight);
        }
        let is_active = |role: &Role| state.frameworks().any(|framework| is_in(framework, role));
        if !roles.iter().any(is_active) {
            return Vec::new();
        }
        let all: Vec<u64> = self.outstanding.keys().copied().collect();
        self.take_back(all)
    }

    /// Gives the offers that turn out to be void while everything is brought up to date.
    fn feed_quota(&mut self, state: &State, roles: &[Role]) -> Vec<Offer> {
        for role in roles {
            let quota = state.quota(role).cloned().unwrap_or_default();
            self.allocator.set_quota(role, &quota);
        }
        if self.outstanding.is_empty() { Vec::new() } else { self.tell(state) }
    }

    /// The oldest offer of the role, or below it, with something of which the role has too much.
    fn next_above_limits(&mut self, role: &Role) -> Option<u64> {
        if self.outstanding.is_empty() {
            return None;
        }
        let kinds = self.allocator.above_limits(role);
        self.oldest(&kinds, |_, offer| is_at(&offer.role, role))
    }

    /// The oldest offer with something that guarantees miss, whose own role can do without.
    fn next_for_guarantees(&mut self) -> Option<u64> {
        if self.outstanding.is_empty() {
            return None;
        }
        let kinds = self.allocator.short_of();
        self.oldest(&kinds, |allocator, offer| allocator.can_spare(&offer.role, &offer.resources))
    }

    fn oldest(
        &mut self,
        kinds: &BTreeSet<String>,
        may_go: impl Fn(&mut Allocator, &Offer) -> bool,
    ) -> Option<u64> {
        let Self { outstanding, allocator, .. } = self;
        let found = outstanding.iter().find(|(_, outstanding)| {
            let offer = &outstanding.offer;
            Allocator::holds_any(kinds, &offer.resources) && may_go(allocator, offer)
        });
        found.map(|(number, _)| *number)
    }
}

fn is_at(role: &Role, top: &Role) -> bool {
    role == top || role.is_strict_subrole_of(top)
}

fn is_in(framework: &Framework, role: &Role) -> bool {
    framework.info.roles.iter().any(|own| is_at(own, role))
}
