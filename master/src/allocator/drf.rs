//! Who comes first: the tree of roles and frameworks under hierarchical weighted dominant
//! resource fairness (spec §8.2; Ghodsi et al., NSDI 2011). Keeps the children of every node in
//! order. Must not know of agents, filters or quota. Next:
//! `clients.rs`.
//!
//! The frameworks of a role stand below a virtual child `.` of it, which competes with the
//! role's sub-roles. Only what can be offered something is in an order; what is inactive keeps
//! its place in the sums. Equal shares are ordered by the number of grants, then by name.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use resources::id::FrameworkId;
use resources::role::Role;

use super::amounts::{Amounts, Kinds};
use super::share::{Share, WEIGHT_ONE};

/// A place in the tree. Reused after its node is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeId(pub(super) usize);

const ROOT: NodeId = NodeId(0);

#[derive(Debug)]
struct Node {
    name: String,
    parent: NodeId,
    depth: usize,
    children: usize,
    /// Of its role; none for groups and frameworks.
    role: Option<Role>,
    weight: u64,
    allocated: Amounts,
    grants: u64,
    share: Share,
    /// Children that are active or have something active below them.
    order: Vec<NodeId>,
    is_sorted: bool,
    /// For frameworks: whether it can be offered anything.
    is_active: bool,
}

/// The tree.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    vacant: Vec<NodeId>,
    roles: BTreeMap<Role, NodeId>,
    groups: BTreeMap<NodeId, NodeId>,
    clients: BTreeMap<(NodeId, FrameworkId), NodeId>,
    weights: BTreeMap<Role, u64>,
    total: Amounts,
    is_total_new: bool,
    unsorted: BTreeSet<NodeId>,
}

impl Tree {
    pub(super) fn new() -> Self {
        let mut tree = Self {
            nodes: Vec::new(),
            vacant: Vec::new(),
            roles: BTreeMap::new(),
            groups: BTreeMap::new(),
            clients: BTreeMap::new(),
            weights: BTreeMap::new(),
            total: Amounts::default(),
            is_total_new: false,
            unsorted: BTreeSet::new(),
        };
        tree.insert(String::new(), ROOT, None);
        tree
    }

    pub(super) fn role_node(&self, role: &Role) -> Option<NodeId> {
        self.roles.get(role).copied()
    }
    pub(super) fn find_client(&self, role: &Role, framework_id: &FrameworkId) -> Option<NodeId> {
        let group = self.groups.get(self.roles.get(role)?)?;
        self.clients.get(&(*group, framework_id.clone())).copied()
    }
    /// The place of a framework in a role; made, inactive, when there is none.
    pub(super) fn client(&mut self, role: &Role, framework_id: &FrameworkId) -> NodeId {
        let role_node = self.role(role);
        let group = match self.groups.get(&role_node) {
            Some(group) => *group,
            None => {
                let group = self.insert(".".to_owned(), role_node, None);
                self.groups.insert(role_node, group);
                group
            }
        };
        let key = (group, framework_id.clone());
        if let Some(client) = self.clients.get(&key) {
            return *client;
        }
        let client = self.insert(framework_id.to_string(), group, None);
        self.clients.insert(key, client);
        client
    }
    fn role(&mut self, role: &Role) -> NodeId {
        if let Some(node) = self.roles.get(role) {
            return *node;
        }
        let parent = role.ancestors().next().map_or(ROOT, |parent| self.role(&parent));
        let (_, name) = role.as_str().rsplit_once('/').unwrap_or(("", role.as_str()));
        let node = self.insert(name.to_owned(), parent, Some(role.clone()));
        self.roles.insert(role.clone(), node);
        node
    }
    fn insert(&mut self, name: String, parent: NodeId, role: Option<Role>) -> NodeId {
        let weight = role.as_ref().and_then(|role| self.weights.get(role)).copied();
        let node = Node {
            name,
            parent,
            depth: self.nodes.get(parent.0).map_or(0, |parent| parent.depth + 1),
            children: 0,
            role,
            weight: weight.unwrap_or(WEIGHT_ONE),
            allocated: Amounts::default(),
            grants: 0,
            share: Share::NOTHING,
            order: Vec::new(),
            is_sorted: true,
            is_active: false,
        };
        if let Some(parent) = self.nodes.get_mut(parent.0) {
            parent.children += 1;
        }
        match self.vacant.pop() {
            Some(place) => {
                self.nodes[place.0] = node;
                place
            }
            None => {
                self.nodes.push(node);
                NodeId(self.nodes.len() - 1)
            }
        }
    }
    /// Takes out a framework that holds nothing, and the roles above it that are left empty.
    pub(super) fn remove_client(
        &mut self,
        role: &Role,
        framework_id: &FrameworkId,
    ) -> Option<NodeId> {
        let client = self.find_client(role, framework_id)?;
        self.set_active(client, false);
        let mut node = client;
        while node != ROOT && self.nodes[node.0].children == 0 {
            let parent = self.nodes[node.0].parent;
            self.nodes[parent.0].children -= 1;
            self.unsorted.remove(&node);
            self.vacant.push(node);
            if let Some(role) = self.nodes[node.0].role.take() {
                self.roles.remove(&role);
                self.groups.remove(&node);
            } else if self.groups.get(&parent) == Some(&node) {
                self.groups.remove(&parent);
            } else {
                self.clients.remove(&(parent, framework_id.clone()));
            }
            node = parent;
        }
        Some(client)
    }

    pub(super) fn is_active(&self, client: NodeId) -> bool {
        self.nodes.get(client.0).is_some_and(|node| node.is_active)
    }
    /// Puts a framework into the order, or takes it out.
    pub(super) fn set_active(&mut self, client: NodeId, is_active: bool) {
        if self.nodes[client.0].is_active == is_active {
            return;
        }
        self.nodes[client.0].is_active = is_active;
        let mut node = client;
        while node != ROOT {
            let parent = self.nodes[node.0].parent;
            let order = &mut self.nodes[parent.0].order;
            if is_active {
                order.push(node);
                let was_empty = order.len() == 1;
                self.unsort(parent);
                if !was_empty {
                    return;
                }
            } else {
                order.retain(|child| *child != node);
                if !order.is_empty() {
                    return;
                }
            }
            node = parent;
        }
    }
    /// The weight of a role in millionths; none is one.
    pub(super) fn set_weight(&mut self, role: &Role, weight: Option<u64>) {
        match weight {
            Some(weight) => self.weights.insert(role.clone(), weight.max(1)),
            None => self.weights.remove(role),
        };
        if let Some(node) = self.role_node(role) {
            let weight = weight.unwrap_or(WEIGHT_ONE).max(1);
            self.nodes[node.0].weight = weight;
            self.nodes[node.0].share.weight = weight;
            self.unsort(self.nodes[node.0].parent);
        }
    }

    /// Changes what there is in the cluster.
    pub(super) fn change_total(&mut self, change: impl FnOnce(&mut Amounts)) {
        change(&mut self.total);
        self.is_total_new = true;
    }
    /// Counts something as allocated to a framework and to everything above it.
    pub(super) fn charge(&mut self, client: NodeId, amounts: &Amounts, kinds: &Kinds) {
        self.change_up(client, kinds, |allocated| allocated.add(amounts));
    }
    /// Counts it no more.
    pub(super) fn discharge(&mut self, client: NodeId, amounts: &Amounts, kinds: &Kinds) {
        self.change_up(client, kinds, |allocated| allocated.subtract(amounts));
    }
    fn change_up(&mut self, client: NodeId, kinds: &Kinds, change: impl Fn(&mut Amounts)) {
        let mut node = client;
        while node != ROOT {
            change(&mut self.nodes[node.0].allocated);
            self.weigh(node, kinds);
            let parent = self.nodes[node.0].parent;
            self.unsort(parent);
            node = parent;
        }
    }
    /// Changes one node alone: a shared volume counts once in each sum.
    pub(super) fn correct(
        &mut self,
        node: NodeId,
        kinds: &Kinds,
        change: impl FnOnce(&mut Amounts),
    ) {
        change(&mut self.nodes[node.0].allocated);
        self.weigh(node, kinds);
        self.unsort(self.nodes[node.0].parent);
    }
    /// The nodes above a framework, nearest first, without the root.
    pub(super) fn above(&self, client: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let parent = |node: &NodeId| Some(self.nodes[node.0].parent);
        std::iter::successors(parent(&client), parent).take_while(|node| *node != ROOT)
    }
    /// As [`Self::charge`], within a run: the orders stay sorted.
    pub(super) fn grant(&mut self, client: NodeId, amounts: &Amounts, kinds: &Kinds) {
        let mut node = client;
        while node != ROOT {
            self.nodes[node.0].allocated.add(amounts);
            self.nodes[node.0].grants += 1;
            self.weigh(node, kinds);
            let parent = self.nodes[node.0].parent;
            self.move_back(parent, node);
            node = parent;
        }
    }
    /// Restores the order after one child grew. It stood near the front: it was offered to.
    fn move_back(&mut self, parent: NodeId, child: NodeId) {
        let mut order = std::mem::take(&mut self.nodes[parent.0].order);
        if let Some(at) = order.iter().position(|other| *other == child) {
            let smaller =
                order[at + 1..].partition_point(|other| self.compare(*other, child).is_lt());
            order[at..=at + smaller].rotate_left(1);
        }
        self.nodes[parent.0].order = order;
    }

    /// Sorts what changed. Must run before anything walks over the tree.
    pub(super) fn settle(&mut self, kinds: &Kinds) {
        if std::mem::take(&mut self.is_total_new) {
            for at in 1..self.nodes.len() {
                self.weigh(NodeId(at), kinds);
                self.unsort(NodeId(at));
            }
            self.unsort(ROOT);
        }
        for node in std::mem::take(&mut self.unsorted) {
            let mut order = std::mem::take(&mut self.nodes[node.0].order);
            order.sort_unstable_by(|left, right| self.compare(*left, *right));
            self.nodes[node.0].order = order;
            self.nodes[node.0].is_sorted = true;
        }
    }
    fn unsort(&mut self, node: NodeId) {
        if std::mem::take(&mut self.nodes[node.0].is_sorted) {
            self.unsorted.insert(node);
        }
    }
    fn weigh(&mut self, node: NodeId, kinds: &Kinds) {
        let node = &mut self.nodes[node.0];
        let clamp = |amount: i128| u64::try_from(amount.max(0)).unwrap_or(u64::MAX);
        let mut share = Share { weight: node.weight, ..Share::NOTHING };
        for (kind, part) in node.allocated.iter() {
            let (part, whole) = (clamp(part), clamp(self.total.get(kind)));
            if part > 0 && whole > 0 && kinds.is_fair(kind) {
                share = share.max(Share { part, whole, weight: node.weight });
            }
        }
        node.share = share;
    }
    fn compare(&self, left: NodeId, right: NodeId) -> Ordering {
        let (left, right) = (&self.nodes[left.0], &self.nodes[right.0]);
        let by_share = left.share.compare(&right.share);
        by_share
            .then_with(|| left.grants.cmp(&right.grants))
            .then_with(|| left.name.cmp(&right.name))
    }
    /// Which of two nodes a walk from the root meets first; neither is above the other.
    pub(super) fn compare_places(&self, left: NodeId, right: NodeId) -> Ordering {
        let (mut left, mut right) = (left, right);
        let depth = |node: NodeId| self.nodes[node.0].depth;
        while depth(left) > depth(right) {
            left = self.nodes[left.0].parent;
        }
        while depth(right) > depth(left) {
            right = self.nodes[right.0].parent;
        }
        while self.nodes[left.0].parent != self.nodes[right.0].parent {
            left = self.nodes[left.0].parent;
            right = self.nodes[right.0].parent;
        }
        if left == right { Ordering::Equal } else { self.compare(left, right) }
    }

    /// The virtual child that the framework stands below: all of one have the same role.
    pub(super) fn group_of(&self, client: NodeId) -> NodeId {
        self.nodes[client.0].parent
    }
    /// The active frameworks, in order.
    pub(super) fn walk(&self) -> Walk {
        self.walk_below(ROOT)
    }
    /// Those of one role and its sub-roles.
    pub(super) fn walk_below(&self, node: NodeId) -> Walk {
        Walk { stack: vec![(node, 0)] }
    }
    /// The dominant share of a role as (part, whole), unweighted.
    pub(super) fn dominant_share(&self, role: &Role) -> Option<(u64, u64)> {
        let share = self.nodes[self.role_node(role)?.0].share;
        Some((share.part, share.whole))
    }
}

/// A depth-first walk that does not borrow the tree. The tree must not change meanwhile.
#[derive(Debug)]
pub(super) struct Walk {
    stack: Vec<(NodeId, usize)>,
}

impl Walk {
    /// The next framework.
    pub(super) fn next(&mut self, tree: &Tree) -> Option<NodeId> {
        loop {
            let (node, at) = self.stack.last_mut()?;
            let Some(child) = tree.nodes[node.0].order.get(*at) else {
                self.stack.pop();
                continue;
            };
            *at += 1;
            if tree.nodes[child.0].is_active {
                return Some(*child);
            }
            self.stack.push((*child, 0));
        }
    }
}

#[cfg(test)]
mod tests;
