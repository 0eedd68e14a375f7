//! The order of the tree, by tables.

use super::*;

struct Forest {
    tree: Tree,
    kinds: Kinds,
}

impl Forest {
    fn new(clients: &[(&str, &str)]) -> Self {
        let mut forest = Self { tree: Tree::new(), kinds: Kinds::default() };
        for (role, name) in clients {
            let client = forest.client(role, name);
            forest.tree.set_active(client, true);
        }
        let total = forest.amounts("cpus:100;mem:1000");
        forest.tree.change_total(|sum| sum.add(&total));
        forest
    }
    fn client(&mut self, role: &str, name: &str) -> NodeId {
        let framework_id = FrameworkId::parse(name).unwrap();
        self.tree.client(&Role::parse(role).unwrap(), &framework_id)
    }
    fn amounts(&mut self, text: &str) -> Amounts {
        self.kinds.quantities(&resources::quantity::Quantities::parse(text).unwrap())
    }
    fn grant(&mut self, role: &str, name: &str, text: &str) {
        self.tree.settle(&self.kinds);
        let (client, amounts) = (self.client(role, name), self.amounts(text));
        self.tree.grant(client, &amounts, &self.kinds);
    }
    #[track_caller]
    fn check(&mut self, expected: &str) {
        self.tree.settle(&self.kinds);
        let mut walk = self.tree.walk();
        let mut names = Vec::new();
        while let Some(client) = walk.next(&self.tree) {
            names.push(self.tree.nodes[client.0].name.clone());
        }
        assert_eq!(names.join(" "), expected);
    }
}

#[test]
fn equal_shares_go_by_grants_then_names() {
    let mut forest = Forest::new(&[("b", "F3"), ("a", "F2"), ("a", "F1")]);
    forest.check("F1 F2 F3");
    forest.grant("a", "F1", "");
    forest.check("F3 F2 F1");
    forest.grant("b", "F3", "");
    forest.check("F2 F1 F3");
}

#[test]
fn the_dominant_kind_decides() {
    let mut forest = Forest::new(&[("a", "F1"), ("b", "F2"), ("c", "F3")]);
    forest.grant("a", "F1", "cpus:10;mem:10");
    forest.grant("b", "F2", "mem:90");
    forest.grant("c", "F3", "cpus:1;mem:95");
    forest.check("F2 F3 F1");
    let more = forest.amounts("mem:100");
    forest.tree.change_total(|sum| sum.subtract(&more));
    // Less memory there is, more of it each one has: 1/10, 1/10, 95/900.
    forest.check("F1 F2 F3");
}

#[test]
fn the_frameworks_of_a_role_compete_with_its_sub_roles() {
    let mut forest = Forest::new(&[("eng", "F1"), ("eng", "F2"), ("eng/db", "G"), ("ops", "H")]);
    forest.check("F1 F2 G H");
    forest.grant("eng", "F1", "cpus:4");
    forest.check("H G F2 F1");
    forest.grant("eng/db", "G", "cpus:5");
    forest.grant("ops", "H", "cpus:10");
    // 9 of `eng` against 10 of `ops`; within, 4 against 5.
    forest.check("F2 F1 G H");
    forest.tree.set_weight(&Role::parse("ops").unwrap(), Some(2 * WEIGHT_ONE));
    forest.check("H F2 F1 G");
    forest.tree.set_weight(&Role::parse("eng/db").unwrap(), Some(4 * WEIGHT_ONE));
    forest.check("H G F2 F1");
    forest.tree.set_weight(&Role::parse("ops").unwrap(), None);
    forest.check("G F2 F1 H");
}

#[test]
fn inactive_frameworks_keep_their_part_of_the_sums() {
    let mut forest = Forest::new(&[("a", "F1"), ("a", "F2"), ("b", "G")]);
    forest.grant("a", "F1", "cpus:4");
    let first = forest.client("a", "F1");
    forest.tree.set_active(first, false);
    forest.check("G F2");
    let second = forest.client("a", "F2");
    forest.tree.set_active(second, false);
    forest.check("G");
    forest.tree.set_active(first, true);
    forest.check("G F1");
}

#[test]
fn places_are_given_again() {
    let mut forest = Forest::new(&[("a/b/c", "F"), ("a", "G")]);
    let places = forest.tree.nodes.len();
    let role = Role::parse("a/b/c").unwrap();
    let framework_id = FrameworkId::parse("F").unwrap();
    assert!(forest.tree.remove_client(&role, &framework_id).is_some());
    assert!(forest.tree.role_node(&Role::parse("a/b").unwrap()).is_none());
    assert!(forest.tree.role_node(&Role::parse("a").unwrap()).is_some());
    forest.check("G");
    let client = forest.client("x/y", "H");
    forest.tree.set_active(client, true);
    assert_eq!(forest.tree.nodes.len(), places);
    forest.check("G H");
}

#[test]
fn places_compare_as_a_walk_meets_them() {
    let clients = [("eng", "F1"), ("eng", "F2"), ("eng/db", "G"), ("ops", "H"), ("*", "K")];
    let mut forest = Forest::new(&clients);
    forest.grant("eng", "F1", "cpus:4");
    forest.grant("*", "K", "cpus:1");
    forest.tree.settle(&forest.kinds);
    let mut walk = forest.tree.walk();
    let mut met = Vec::new();
    while let Some(client) = walk.next(&forest.tree) {
        met.push(client);
    }
    let mut sorted: Vec<NodeId> = met.iter().rev().copied().collect();
    sorted.sort_by(|left, right| forest.tree.compare_places(*left, *right));
    assert_eq!(sorted, met);
}
