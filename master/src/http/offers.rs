//! Offers that are out, by agent and by framework. They belong to the leader alone and are no
//! part of the replicated state, so that they are asked for beside it: an offer that is accepted
//! in between may be missing, or show beside what it was used for. Next: `usage.rs`.

use std::collections::BTreeMap;

use resources::collection::Resources;
use resources::id::{AgentId, FrameworkId};

use super::App;
use super::usage::allocated_to;
use crate::leader::scheduler::Offer;

/// The offers of one moment.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    all: Vec<Offer>,
    by_agent: BTreeMap<AgentId, Vec<usize>>,
    by_framework: BTreeMap<FrameworkId, Vec<usize>>,
}

impl Offers {
    /// Those of this moment; none on a master that does not lead.
    pub(super) async fn now(app: &App) -> Self {
        Self::from(app.handle.outstanding_offers().await)
    }

    /// Those made to a framework.
    pub(crate) fn to(&self, framework_id: &FrameworkId) -> impl Iterator<Item = &Offer> {
        let places = self.by_framework.get(framework_id).into_iter().flatten();
        places.map(|place| &self.all[*place])
    }

    fn of_agent(&self, agent_id: &AgentId) -> impl Iterator<Item = &Offer> {
        let places = self.by_agent.get(agent_id).into_iter().flatten();
        places.map(|place| &self.all[*place])
    }

    /// What of an agent is offered; a shared volume with one share per offer.
    pub(crate) fn on(&self, agent_id: &AgentId) -> Resources {
        let mut sum = Resources::new();
        self.of_agent(agent_id).for_each(|offer| sum.add_all(&offer.resources));
        sum
    }

    /// The same, by role.
    pub(crate) fn allocated_on(&self, agent_id: &AgentId) -> Resources {
        let mut sum = Resources::new();
        self.of_agent(agent_id)
            .for_each(|offer| sum.add_all(&allocated_to(&offer.resources, &offer.role)));
        sum
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Offer> {
        self.all.iter()
    }
}

impl From<Vec<Offer>> for Offers {
    fn from(all: Vec<Offer>) -> Self {
        let (mut by_agent, mut by_framework) = (BTreeMap::new(), BTreeMap::new());
        for (place, offer) in all.iter().enumerate() {
            let of_agent: &mut Vec<usize> = by_agent.entry(offer.agent_id.clone()).or_default();
            of_agent.push(place);
            let id = offer.framework_id.clone();
            let of_framework: &mut Vec<usize> = by_framework.entry(id).or_default();
            of_framework.push(place);
        }
        Self { all, by_agent, by_framework }
    }
}
