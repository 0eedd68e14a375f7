//! Laws of the allocator against a naive account of every offer: nothing goes out twice, what
//! comes back is free again, no reservation reaches another role, and what nobody took is taken
//! as soon as somebody may.

use std::time::Duration;

use proptest::prelude::*;
use resources::collection::Resources;
use resources::id::{AgentId, FrameworkId};
use resources::quota::Quota;
use resources::role::Role;
use resources::time::Timestamp;

use master::allocator::calls::Given;
use master::allocator::view::{AgentResources, Capabilities, FrameworkView, Standing};
use master::allocator::{Allocation, Allocator, Settings};

use super::notation;

const AGENTS: [&str; 3] = [
    "cpus:4;mem:1024;disk:100",
    "cpus:2;mem:512;disk:50;cpus:2@ads;disk:30@ads;disk:20@ads#v1",
    "cpus:1;mem:64;disk:10@eng/web;cpus:1@eng;disk:20@eng#v2&",
];
const ROLES: [&str; 4] = ["ads", "eng", "eng/web", "*"];

#[derive(Debug, Clone)]
enum Step {
    Run,
    /// An offer comes back, declined for so many seconds.
    Decline(usize, u64),
    /// An offer becomes a task.
    Use(usize),
    /// All tasks of an agent end.
    End(usize),
    /// An agent's resources are confirmed only in part.
    Confirm(usize, bool),
    Suppress(usize),
    Revive(usize),
    Stand(usize, bool),
    Quota(usize, u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => Just(Step::Run),
        5 => (0usize..20, 0u64..4).prop_map(|(offer, seconds)| Step::Decline(offer, seconds)),
        3 => (0usize..20).prop_map(Step::Use),
        2 => (0usize..3).prop_map(Step::End),
        2 => (0usize..3, any::<bool>()).prop_map(|(agent, all)| Step::Confirm(agent, all)),
        1 => (0usize..4).prop_map(Step::Suppress),
        2 => (0usize..4).prop_map(Step::Revive),
        1 => (0usize..3, any::<bool>()).prop_map(|(agent, is_up)| Step::Stand(agent, is_up)),
        1 => (0usize..2, 0u8..4).prop_map(|(role, size)| Step::Quota(role, size)),
    ]
}

#[derive(Clone)]
struct Offer {
    framework: usize,
    agent: usize,
    resources: Resources,
}

struct World {
    allocator: Allocator,
    agents: Vec<AgentResources>,
    offers: Vec<Offer>,
    is_up: [bool; 3],
    now: Timestamp,
}

fn resources(text: &str) -> Resources {
    notation::list(text).iter().collect()
}
fn role(framework: usize) -> Role {
    Role::parse(ROLES[framework]).unwrap()
}
fn framework_id(framework: usize) -> FrameworkId {
    FrameworkId::parse(format!("F{framework}")).unwrap()
}
fn agent_id(agent: usize) -> AgentId {
    AgentId::parse(format!("A{agent}")).unwrap()
}
fn unshared(set: &Resources) -> Resources {
    set.filter(|resource| !resource.shared)
}

impl World {
    fn new() -> Self {
        let mut allocator = Allocator::new(Settings::default());
        let mut agents = Vec::new();
        for framework in 0..ROLES.len() {
            let view = FrameworkView {
                roles: [role(framework)].into(),
                capabilities: Capabilities {
                    shared_resources: framework != 2,
                    ..Capabilities::default()
                },
                ..FrameworkView::default()
            };
            allocator.framework_changed(&framework_id(framework), view);
            allocator.framework_standing(&framework_id(framework), Standing::Active);
        }
        for (agent, text) in AGENTS.iter().enumerate() {
            let own = AgentResources { total: resources(text), ..AgentResources::default() };
            allocator.agent_resources(&agent_id(agent), own.clone());
            allocator.agent_standing(&agent_id(agent), Standing::Active);
            agents.push(own);
        }
        let now = Timestamp::default();
        Self { allocator, agents, offers: Vec::new(), is_up: [true; 3], now }
    }

    fn tell(&mut self, agent: usize) {
        self.allocator.agent_resources(&agent_id(agent), self.agents[agent].clone());
    }
    fn settle(&mut self, at: usize, how: impl FnOnce(&mut Allocator, Given<'_>)) -> Option<Offer> {
        if at >= self.offers.len() {
            return None;
        }
        let offer = self.offers.swap_remove(at);
        let given = Given {
            framework_id: &framework_id(offer.framework),
            role: &role(offer.framework),
            agent_id: &agent_id(offer.agent),
            resources: &offer.resources,
        };
        how(&mut self.allocator, given);
        Some(offer)
    }

    fn play(&mut self, step: &Step) {
        match *step {
            Step::Run => self.run(),
            Step::Decline(at, seconds) => {
                let now = self.now;
                self.settle(at, |allocator, given| {
                    allocator.decline(given, Duration::from_secs(seconds), now);
                });
            }
            Step::Use(at) => {
                let Some(offer) = self.offers.get(at).cloned() else { return };
                let key = (framework_id(offer.framework), role(offer.framework));
                let used = self.agents[offer.agent].used.entry(key).or_default();
                used.add_all(&offer.resources);
                self.tell(offer.agent);
                self.settle(at, Allocator::give_back);
            }
            Step::End(agent) => {
                self.agents[agent].used.clear();
                self.tell(agent);
            }
            Step::Confirm(agent, all) => {
                let total = &self.agents[agent].total;
                let part = total.filter(|resource| resource.is_reserved());
                self.agents[agent].unconfirmed = if all { Resources::new() } else { part };
                self.tell(agent);
            }
            Step::Suppress(framework) => {
                self.allocator.suppress(&framework_id(framework), &[]).unwrap();
            }
            Step::Revive(framework) => {
                self.allocator.revive(&framework_id(framework), &[role(framework)]).unwrap();
            }
            Step::Stand(agent, is_up) => {
                self.is_up[agent] = is_up;
                let standing = if is_up { Standing::Active } else { Standing::Inactive };
                self.allocator.agent_standing(&agent_id(agent), standing);
            }
            Step::Quota(top, size) => {
                let text = format!("cpus:{size}");
                let quota = Quota {
                    guarantees: resources::quantity::Quantities::parse(&text).unwrap(),
                    limits: resources::quantity::Limits::parse(&format!("cpus:{}", size + 1))
                        .unwrap(),
                };
                self.allocator.set_quota(&role(top), &quota);
            }
        }
    }

    fn run(&mut self) {
        self.now = self.now + Duration::from_secs(1);
        let given = self.allocator.allocate(self.now);
        self.note(given);
        self.check();
        self.nothing_more_is_wanted();
    }
    fn note(&mut self, given: Vec<Allocation>) {
        for allocation in given {
            let framework = (0..ROLES.len())
                .find(|framework| framework_id(*framework) == allocation.framework_id)
                .unwrap();
            for part in allocation.parts {
                let agent =
                    (0..AGENTS.len()).find(|agent| agent_id(*agent) == part.agent_id).unwrap();
                for resource in part.resources.iter() {
                    assert!(resource.is_allocatable_to(&allocation.role), "{resource}");
                    assert!(!resource.shared || framework != 2, "{resource}");
                    let unconfirmed = &self.agents[agent].unconfirmed;
                    assert!(!unconfirmed.contains_one(resource), "{resource} is unconfirmed");
                }
                self.offers.push(Offer { framework, agent, resources: part.resources });
            }
        }
    }

    /// Used, offered and free make up the total of each agent, and no more.
    fn check(&mut self) {
        for agent in 0..AGENTS.len() {
            let own = &self.agents[agent];
            let mut used = Resources::new();
            own.used.values().for_each(|part| used.add_all(&unshared(part)));
            let mut sum = unshared(&own.unconfirmed);
            sum.subtract_all(&used);
            sum.add_all(&used);
            for offer in self.offers.iter().filter(|offer| offer.agent == agent) {
                sum.add_all(&unshared(&offer.resources));
            }
            let is_over = !unshared(&own.total).contains(&sum);
            let free = unshared(&self.allocator.free(&agent_id(agent)));
            sum.add_all(&free);
            if is_over {
                // Offers were out when a part of the agent became unconfirmed.
                assert!(!own.unconfirmed.is_empty());
            } else {
                assert_eq!(sum, unshared(&self.agents[agent].total), "agent {agent}");
            }
        }
    }

    /// After a run nobody takes anything that is left: what the run passed over, because
    /// nothing had changed there, was rightly passed over.
    fn nothing_more_is_wanted(&mut self) {
        for agent in (0..AGENTS.len()).filter(|agent| self.is_up[*agent]) {
            for standing in [Standing::Inactive, Standing::Active] {
                self.allocator.agent_standing(&agent_id(agent), standing);
            }
        }
        let again = self.allocator.allocate(self.now);
        for part in again.iter().flat_map(|allocation| &allocation.parts) {
            // A shared volume alone may go to one more framework.
            assert!(part.resources.iter().any(|resource| resource.shared), "{part:?}");
        }
        self.note(again);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_given_twice_or_lost(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new();
        for step in &steps {
            world.play(step);
        }
        // Everything ends: then everything is free, and a revived cluster gives all of it that
        // can go out.
        while !world.offers.is_empty() {
            world.play(&Step::Decline(0, 0));
        }
        for agent in 0..AGENTS.len() {
            world.play(&Step::End(agent));
            world.play(&Step::Confirm(agent, true));
            world.play(&Step::Stand(agent, true));
            let free = world.allocator.free(&agent_id(agent));
            prop_assert_eq!(&free, &world.agents[agent].total);
        }
        for framework in 0..ROLES.len() {
            world.play(&Step::Revive(framework));
        }
        for top in ["ads", "eng"] {
            world.allocator.set_quota(&Role::parse(top).unwrap(), &Quota::default());
        }
        world.run();
        for agent in 0..AGENTS.len() {
            // A disk that is left alone is no offer.
            let free = world.allocator.free(&agent_id(agent));
            prop_assert!(free.scalar("cpus").or(free.scalar("mem")).is_none(), "{}", free);
        }
    }

    /// The same calls give the same answers.
    #[test]
    fn runs_are_deterministic(steps in prop::collection::vec(step(), 1..40)) {
        let play = || {
            let mut world = World::new();
            steps.iter().for_each(|step| world.play(step));
            let offers = world.offers.iter();
            offers.map(|offer| (offer.framework, offer.agent, offer.resources.to_string()))
                .collect::<Vec<_>>()
        };
        prop_assert_eq!(play(), play());
    }

    /// Equal agents go to equal frameworks in equal numbers, and by weight to others.
    #[test]
    fn shares_follow_weights(frameworks in 1usize..6, each in 1usize..20, weight in 1u64..5) {
        let mut allocator = Allocator::new(Settings::default());
        for framework in 0..frameworks {
            let role = Role::parse(format!("r{framework}")).unwrap();
            if framework == 0 {
                allocator.set_weight(&role, Some(weight * 1_000_000));
            }
            let view = FrameworkView { roles: [role].into(), ..FrameworkView::default() };
            allocator.framework_changed(&framework_id(framework), view);
            allocator.framework_standing(&framework_id(framework), Standing::Active);
        }
        let whole = usize::try_from(weight).unwrap() + frameworks - 1;
        for agent in 0..whole * each {
            let own = AgentResources { total: resources("cpus:1;mem:64"), ..Default::default() };
            allocator.agent_resources(&agent_id(agent), own);
            allocator.agent_standing(&agent_id(agent), Standing::Active);
        }
        let given = allocator.allocate(Timestamp::from_nanos(1));
        for (framework, allocation) in given.iter().enumerate() {
            let weight = if framework == 0 { usize::try_from(weight).unwrap() } else { 1 };
            prop_assert_eq!(allocation.parts.len(), weight * each);
        }
    }
}
