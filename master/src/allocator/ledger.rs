//! What one agent adds to the sums of the cluster: shares, quota, totals. An agent's old ledger
//! is withdrawn and its new one deposited, so that no sum can drift. Must not know what is done
//! with the sums. Next: `filters.rs`.

use std::collections::{BTreeMap, BTreeSet};

use resources::collection::Resources;
use resources::id::FrameworkId;
use resources::resource::Resource;
use resources::role::Role;

use super::agent::Agent;
use super::amounts::{Amounts, Kinds, is_countable};
use super::clients::Clients;
use super::drf::{NodeId, Tree};
use super::few::Few;
use super::quota::Quotas;

/// One agent's part of the sums.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ledger {
    total: Amounts,
    /// Used and held, per framework and role.
    clients: Few<Amounts>,
    /// Shared volumes that several below one node hold count there once.
    duplicates: Vec<(NodeId, Amounts)>,
    /// What counts against the quota of each role that has one.
    consumed: BTreeMap<Role, Amounts>,
    /// Free and countable: what guarantees can still be met from.
    open: Amounts,
}

/// The sums of the cluster.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) kinds: Kinds,
    pub(super) tree: Tree,
    pub(super) quotas: Quotas,
    pub(super) clients: Clients,
}

impl Books {
    /// Replaces an agent's part by what follows from its present state.
    pub(super) fn restate(&mut self, agent: &mut Agent) {
        let ledger = self.ledger_of(agent);
        if ledger != agent.ledger {
            // Deposit first: a framework that stays is never without entries in between.
            self.deposit(&ledger);
            let before = std::mem::replace(&mut agent.ledger, ledger);
            self.withdraw(&before);
        }
    }
    /// Takes an agent's part out for good.
    pub(super) fn close(&mut self, agent: &mut Agent) {
        let before = std::mem::take(&mut agent.ledger);
        self.withdraw(&before);
    }

    fn ledger_of(&mut self, agent: &Agent) -> Ledger {
        let mut by_client: BTreeMap<NodeId, Resources> = BTreeMap::new();
        for ((framework_id, role), part) in &agent.resources.used {
            let client = self.client(role, framework_id);
            by_client.entry(client).or_default().add_all(part);
        }
        for (client, part) in agent.held.iter() {
            by_client.entry(client).or_default().add_all(part);
        }
        let mut ledger =
            Ledger { total: self.kinds.amounts(&agent.resources.total), ..Ledger::default() };
        let mut seen: BTreeSet<(NodeId, &Resource)> = BTreeSet::new();
        for (client, part) in &by_client {
            ledger.clients.get_or_insert(*client, self.kinds.amounts(part));
            for volume in part.iter().filter(|resource| resource.shared) {
                for node in self.tree.above(*client) {
                    if !seen.insert((node, volume)) {
                        let amounts = self.kinds.amounts(&std::iter::once(volume).collect());
                        ledger.duplicates.push((node, amounts));
                    }
                }
            }
        }
        if !self.quotas.is_empty() {
            self.count_quota(agent, &by_client, &mut ledger);
        }
        ledger
    }
    fn count_quota(
        &mut self,
        agent: &Agent,
        by_client: &BTreeMap<NodeId, Resources>,
        ledger: &mut Ledger,
    ) {
        for resource in agent.resources.total.iter() {
            let Some(role) = resource.reservation_role() else { continue };
            if let (Some(top), Some(scalar)) =
                (self.quotas.role_over(role), resource.value.as_scalar())
            {
                let kind = self.kinds.number(&resource.name);
                let consumed = ledger.consumed.entry(top.clone()).or_default();
                consumed.add_one(kind, i128::from(scalar.milli()));
            }
        }
        for (client, part) in by_client {
            let Some(top) = self.clients.role(*client).and_then(|role| self.quotas.role_over(role))
            else {
                continue;
            };
            let amounts = self.kinds.amounts_where(part, is_countable);
            ledger.consumed.entry(top.clone()).or_default().add(&amounts);
        }
        ledger.open = self.kinds.amounts_where(&agent.free.unreserved, is_countable);
    }

    /// The place of a framework in a role, made when there is none.
    pub(super) fn client(&mut self, role: &Role, framework_id: &FrameworkId) -> NodeId {
        let client = self.tree.client(role, framework_id);
        self.clients.ensure(client, role, framework_id);
        client
    }
    fn deposit(&mut self, ledger: &Ledger) {
        self.tree.change_total(|total| total.add(&ledger.total));
        for (client, amounts) in ledger.clients.iter() {
            self.clients.refer(client);
            self.tree.charge(client, amounts, &self.kinds);
        }
        for (node, amounts) in &ledger.duplicates {
            self.tree.correct(*node, &self.kinds, |allocated| allocated.subtract(amounts));
        }
        for (role, amounts) in &ledger.consumed {
            self.quotas.consume(role, amounts);
        }
        self.quotas.open(&ledger.open);
    }
    fn withdraw(&mut self, ledger: &Ledger) {
        self.tree.change_total(|total| total.subtract(&ledger.total));
        for (node, amounts) in &ledger.duplicates {
            self.tree.correct(*node, &self.kinds, |allocated| allocated.add(amounts));
        }
        for (role, amounts) in &ledger.consumed {
            self.quotas.release(role, amounts);
        }
        self.quotas.close(&ledger.open);
        for (client, amounts) in ledger.clients.iter() {
            self.tree.discharge(client, amounts, &self.kinds);
            self.clients.unrefer(client);
        }
    }

    /// Books what a run gives away, and keeps the orders sorted.
    pub(super) fn grant(&mut self, agent: &mut Agent, client: NodeId, amounts: &Amounts) {
        self.tree.grant(client, amounts, &self.kinds);
        let (own, is_new) = agent.ledger.clients.get_or_insert(client, Amounts::default());
        own.add(amounts);
        if is_new {
            self.clients.refer(client);
        }
    }
    /// Books what a run gives away against quota; at once, while [`Self::grant`] waits until
    /// the agent's turn is over.
    pub(super) fn consume(&mut self, agent: &mut Agent, client: NodeId, given: &Resources) {
        let amounts = self.kinds.amounts_where(given, is_countable);
        self.quotas.close(&amounts);
        agent.ledger.open.subtract(&amounts);
        let role = self.clients.role(client);
        if let Some(top) = role.and_then(|role| self.quotas.role_over(role)).cloned() {
            self.quotas.consume(&top, &amounts);
            agent.ledger.consumed.entry(top).or_default().add(&amounts);
        }
    }
    /// Books what comes back and is free again.
    pub(super) fn give_back(
        &mut self,
        agent: &mut Agent,
        client: NodeId,
        role: &Role,
        returned: &Resources,
    ) {
        let amounts = self.kinds.amounts(returned);
        self.tree.discharge(client, &amounts, &self.kinds);
        if let Some(own) = agent.ledger.clients.get_mut(client) {
            own.subtract(&amounts);
        }
        if !self.quotas.is_empty() {
            let amounts = self.kinds.amounts_where(returned, is_countable);
            self.quotas.open(&amounts);
            agent.ledger.open.add(&amounts);
            if let Some(top) = self.quotas.role_over(role).cloned() {
                self.quotas.release(&top, &amounts);
                agent.ledger.consumed.entry(top).or_default().subtract(&amounts);
            }
        }
    }
    /// Forgets that an agent has entries of a framework that holds nothing there any more.
    pub(super) fn leave(&mut self, agent: &mut Agent, client: NodeId) {
        if agent.ledger.clients.get(client).is_some_and(Amounts::is_zero)
            && agent.held.get(client).is_none()
            && (agent.resources.used.is_empty()
                || !agent.resources.used.contains_key(&self.clients.key(client)))
        {
            agent.ledger.clients.remove(client);
            self.clients.unrefer(client);
        }
    }
}
