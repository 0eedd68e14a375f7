//! One agent's turn in a run: who gets what of it (spec §8.3 to §8.5). Must not know why the
//! agent is looked at. Next: `calls.rs`.

use std::collections::{BTreeMap, BTreeSet};

use resources::collection::Resources;
use resources::resource::Resource;
use resources::role::Role;

use super::agent::{Agent, AgentIndex, Work};
use super::amounts::Amounts;
use super::clients::Client;
use super::drf::NodeId;
use super::filters::Filters;
use super::ledger::Books;
use super::view::{Capabilities, Part, Settings, Standing};

/// The two passes of a run over its agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Guarantees,
    Fairness,
}

/// The run so far.
pub(super) struct Run<'a> {
    pub(super) books: &'a mut Books,
    pub(super) filters: &'a Filters,
    pub(super) settings: &'a Settings,
    /// Shared volumes that went out in this run: no second copy of any.
    pub(super) given_shared: BTreeMap<AgentIndex, Resources>,
    /// By place of the framework.
    pub(super) given: Vec<Vec<Part>>,
    pub(super) withheld: Vec<AgentIndex>,
}

/// What one framework gets.
struct Offer {
    resources: Resources,
    amounts: Amounts,
    /// It is everything that lies there for the role.
    is_all: bool,
}

/// One agent's turn.
#[derive(Default)]
struct Turn {
    grants: Vec<(NodeId, Resources, Amounts)>,
    /// Kinds of framework that what is left cannot satisfy, and with it no smaller rest.
    hopeless: BTreeSet<(NodeId, Capabilities)>,
    is_withheld: bool,
    /// The scalars of what is free, while nothing was taken.
    free: Option<Amounts>,
}

impl Run<'_> {
    fn can_offer(&self, agent: &Agent) -> bool {
        let is_listed = |hosts: &BTreeSet<String>| hosts.contains(&agent.profile.hostname);
        agent.standing == Standing::Active && self.settings.whitelist.as_ref().is_none_or(is_listed)
    }

    /// The first stage: roles whose guarantee is not met.
    pub(super) fn guarantee(&mut self, index: AgentIndex, agent: &mut Agent) {
        if !self.can_offer(agent) || agent.free.unreserved.is_empty() {
            return;
        }
        let roles = self.books.quotas.unsatisfied().cloned();
        let mut roles: Vec<(NodeId, Role)> =
            roles.filter_map(|role| Some((self.books.tree.role_node(&role)?, role))).collect();
        roles.sort_by(|(left, _), (right, _)| self.books.tree.compare_places(*left, *right));
        let mut turn = Turn::default();
        for (node, role) in roles {
            let mut walk = self.books.tree.walk_below(node);
            while let Some(client) = walk.next(&self.books.tree) {
                if agent.free.unreserved.is_empty() || self.books.quotas.is_satisfied(&role) {
                    break;
                }
                self.show(index, agent, client, Stage::Guarantees, &mut turn);
            }
        }
        self.end_turn(index, agent, turn);
    }

    /// The second stage: everybody.
    pub(super) fn share_out(&mut self, index: AgentIndex, agent: &mut Agent) {
        let work = std::mem::take(&mut agent.work);
        if !self.can_offer(agent) || (agent.free.is_empty() && !agent.free.has_shared()) {
            return;
        }
        let free = agent.free.amounts(&mut self.books.kinds);
        let is_enough = self.is_enough(&free);
        let mut turn = Turn { free: Some(free), ..Turn::default() };
        if !is_enough {
            self.show_to_the_modest(index, agent, &mut turn);
        } else {
            match work {
                Work::Nothing => {}
                Work::Clients(clients) => {
                    self.show_to_few(index, agent, clients.into_iter().collect(), &mut turn);
                }
                Work::Everything => self.show_to_all(index, agent, &mut turn),
            }
        }
        self.end_turn(index, agent, turn);
    }
    fn show_to_few(
        &mut self,
        index: AgentIndex,
        agent: &mut Agent,
        mut few: Vec<NodeId>,
        turn: &mut Turn,
    ) {
        few.retain(|client| self.books.tree.is_active(*client));
        if few.len() > 1 {
            few.sort_by(|left, right| self.books.tree.compare_places(*left, *right));
        }
        for client in few {
            self.show(index, agent, client, Stage::Fairness, turn);
        }
    }
    /// Those with a minimum of their own: they may take what is too little for others.
    fn show_to_the_modest(&mut self, index: AgentIndex, agent: &mut Agent, turn: &mut Turn) {
        let few = self.books.clients.with_own_minimum().collect();
        self.show_to_few(index, agent, few, turn);
    }
    fn show_to_all(&mut self, index: AgentIndex, agent: &mut Agent, turn: &mut Turn) {
        let mut walk = self.books.tree.walk();
        while self.is_unreserved_enough(agent, turn) {
            let grants = turn.grants.len();
            while turn.grants.len() == grants {
                let Some(client) = walk.next(&self.books.tree) else { return };
                self.show(index, agent, client, Stage::Fairness, turn);
            }
        }
        // Only with reserved resources can what is left be enough: the owners and those below
        // them can have it, and no two of these subtrees have a role in common.
        let left = agent.free.amounts(&mut self.books.kinds);
        if self.is_enough(&left) && !agent.free.is_plain() {
            let tree = &self.books.tree;
            let mut owners = agent.free.topmost_owners(|role| tree.role_node(role));
            owners.sort_by(|left, right| tree.compare_places(*left, *right));
            for owner in owners {
                let mut walk = self.books.tree.walk_below(owner);
                while let Some(client) = walk.next(&self.books.tree) {
                    self.show(index, agent, client, Stage::Fairness, turn);
                }
            }
        }
        self.show_to_the_modest(index, agent, turn);
    }
    fn is_enough(&self, amounts: &Amounts) -> bool {
        let kinds = &self.books.kinds;
        let amount_of = |name: &str| kinds.find(name).map_or(0, |kind| amounts.get(kind));
        self.settings.min_allocatable.is_reached(amount_of)
    }
    /// Whether what is left without a reservation can be an offer by itself.
    fn is_unreserved_enough(&mut self, agent: &Agent, turn: &Turn) -> bool {
        if agent.free.unreserved.is_empty() {
            return false;
        }
        match &turn.free {
            Some(free) if agent.free.is_plain() => self.is_enough(free),
            Some(_) | None => {
                let amounts = self.books.kinds.amounts(&agent.free.unreserved);
                self.is_enough(&amounts)
            }
        }
    }

    /// Shows an agent to one framework in one role, which takes what it may and wants.
    fn show(
        &mut self,
        index: AgentIndex,
        agent: &mut Agent,
        node: NodeId,
        stage: Stage,
        turn: &mut Turn,
    ) {
        let Some(offer) = self.offer_for(index, agent, node, stage, turn) else { return };
        let Offer { resources, amounts, is_all } = offer;
        let kinds = &mut self.books.kinds;
        match self.books.clients.role(node) {
            Some(role) if is_all => agent.free.take_all(role, kinds),
            Some(_) | None => agent.free.take(&resources, kinds),
        }
        if !self.books.quotas.is_empty() {
            self.books.consume(agent, node, &resources);
        }
        if agent.free.has_shared() {
            let shared = resources.filter(|resource| resource.shared);
            if !shared.is_empty() {
                self.given_shared.entry(index).or_default().add_all(&shared);
            }
        }
        let (held, is_new) = agent.held.get_or_insert(node, resources.clone());
        if !is_new {
            held.add_all(&resources);
        }
        turn.free = None;
        turn.grants.push((node, resources, amounts));
    }

    /// What a framework is offered of an agent, if anything.
    fn offer_for(
        &mut self,
        index: AgentIndex,
        agent: &Agent,
        node: NodeId,
        stage: Stage,
        turn: &mut Turn,
    ) -> Option<Offer> {
        let client = self.books.clients.get(node)?;
        // Frameworks with the same capabilities in the same role see the same.
        let alike = (self.books.tree.group_of(node), client.capabilities);
        let is_ordinary = stage == Stage::Fairness && client.min_allocatable.is_none();
        if is_ordinary && turn.hopeless.contains(&alike) {
            return None;
        }
        if !is_eligible(self.settings, agent, client) {
            return None;
        }
        if !agent.free.has_shared() && self.filters.has(index, node) {
            let groups = agent.free.groups_for(&client.role);
            if self.filters.refuse(index, node, groups.into_iter()) {
                return None;
            }
        }
        let nothing = Resources::new();
        let given = self.given_shared.get(&index).unwrap_or(&nothing);
        let mut candidate = agent.free.candidate(&client.role, client.capabilities, given);
        let mut is_all = agent.free.is_understood(client.capabilities);
        if !self.books.quotas.is_empty() {
            let (quotas, kinds) = (&self.books.quotas, &mut self.books.kinds);
            let trimmed = match stage {
                Stage::Guarantees => quotas.guarantee(kinds, &candidate, &client.role)?,
                Stage::Fairness => quotas.trim(kinds, candidate, &client.role),
            };
            turn.is_withheld |= trimmed.is_trimmed;
            is_all &= !trimmed.is_trimmed;
            candidate = trimmed.resources;
        }
        let minimum = client.min_allocatable.as_ref().unwrap_or(&self.settings.min_allocatable);
        let amounts = match &turn.free {
            Some(free) if is_all && agent.free.is_plain() => free.clone(),
            Some(_) | None => self.books.kinds.amounts(&candidate),
        };
        let kinds = &self.books.kinds;
        let amount_of = |name: &str| kinds.find(name).map_or(0, |kind| amounts.get(kind));
        if candidate.is_empty() || !minimum.is_reached(amount_of) {
            if is_ordinary {
                turn.hopeless.insert(alike);
            }
            return None;
        }
        if self.filters.refuse(index, node, std::iter::once(&candidate)) {
            return None;
        }
        // A shared volume alone goes once to each: it stays free, and would go for ever.
        let has_it = |resource: &Resource| {
            resource.shared && agent.held.get(node).is_some_and(|held| held.contains_one(resource))
        };
        if candidate.iter().all(has_it) {
            return None;
        }
        Some(Offer { resources: candidate, amounts, is_all })
    }

    /// Books what was given in a turn. Shares change only now: all of a turn is by one order.
    fn end_turn(&mut self, index: AgentIndex, agent: &mut Agent, turn: Turn) {
        for (client, resources, amounts) in turn.grants {
            self.books.grant(agent, client, &amounts);
            if self.given.len() <= client.0 {
                self.given.resize_with(client.0 + 1, Vec::new);
            }
            let part = Part { agent_id: agent.agent_id.clone(), resources };
            self.given[client.0].push(part);
        }
        if turn.is_withheld {
            self.withheld.push(index);
        }
    }
}

/// Whether an agent may be offered to a framework at all (spec §8.3, step 2).
fn is_eligible(settings: &Settings, agent: &Agent, client: &Client) -> bool {
    let capabilities = client.capabilities;
    let has_gpus = agent.has_gpus && settings.filter_gpu_resources;
    let is_remote = match (&settings.region, &agent.profile.region) {
        (Some(own), Some(region)) => own != region,
        (None, _) | (_, None) => false,
    };
    (!has_gpus || capabilities.gpu_resources)
        && (!is_remote || capabilities.region_aware)
        && !(agent.profile.lacks_hierarchical_role && client.role.is_hierarchical())
        && client.constraints.as_ref().is_none_or(|wanted| wanted.admit(&agent.profile))
}
