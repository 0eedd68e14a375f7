//! `/state-summary` (spec §6.2): agents and frameworks with their sums, and how many tasks of
//! which state each has. Next: `state.rs`.

use std::collections::{BTreeMap, BTreeSet};

use axum::response::Response;
use resources::id::{AgentId, FrameworkId};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::json;
use crate::http::App;
use crate::http::error::Failure;
use crate::http::incoming::Incoming;
use crate::http::picture::Picture;
use crate::http::shapes::framework::{FrameworkShape, Standing};
use crate::http::shapes::task::Counts;
use crate::http::shapes::{Detail, Slave, Slaves, lazily};
use crate::http::usage::Usage;

/// The body.
#[derive(Serialize)]
struct Overview<'a, S: Serialize, F: Serialize> {
    hostname: &'a str,
    slaves: S,
    frameworks: F,
}

/// An agent with its counts.
#[derive(Serialize)]
struct SlaveOverview<'a> {
    #[serde(flatten)]
    slave: &'a Slave<'a>,
    #[serde(flatten)]
    counts: Counts,
    framework_ids: &'a BTreeSet<&'a FrameworkId>,
}

/// A framework with its counts.
struct FrameworkOverview<'a> {
    shape: FrameworkShape<'a>,
    counts: Counts,
    slave_ids: &'a BTreeSet<&'a AgentId>,
}

impl Serialize for FrameworkOverview<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.shape.brief(&mut map)?;
        for (state, count) in self.counts.iter() {
            map.serialize_entry(state, &count)?;
        }
        map.serialize_entry("slave_ids", self.slave_ids)?;
        map.end()
    }
}

/// Tasks counted from both sides.
#[derive(Default)]
struct Census<'a> {
    agents: BTreeMap<&'a AgentId, (Counts, BTreeSet<&'a FrameworkId>)>,
    frameworks: BTreeMap<&'a FrameworkId, (Counts, BTreeSet<&'a AgentId>)>,
}

impl<'a> Census<'a> {
    fn of(picture: &Picture<'a>) -> Self {
        let mut census = Self::default();
        for framework in picture.frameworks() {
            let of_framework = census.frameworks.entry(&framework.id).or_default();
            let known = picture.known_tasks(framework);
            for task in known.chain(picture.completed_tasks(framework)) {
                let of_agent = census.agents.entry(&task.agent_id).or_default();
                of_agent.0.count(task);
                of_agent.1.insert(&framework.id);
                of_framework.0.count(task);
                of_framework.1.insert(&task.agent_id);
            }
        }
        census
    }
}

pub(in crate::http) fn overview(
    app: &App,
    picture: &Picture<'_>,
    incoming: &Incoming,
) -> Result<Response, Failure> {
    let usage = Usage::of(&picture.view.state);
    let census = Census::of(picture);
    let slaves = Slaves::of(picture, None, Detail::Summaries).slaves;
    let nobody = (Counts::default(), BTreeSet::new());
    let nothing = (Counts::default(), BTreeSet::new());
    let body = Overview {
        hostname: app.config.advertise.host(),
        slaves: lazily(|| {
            slaves.iter().map(|slave| {
                let of_agent = census.agents.get(slave.id());
                let (counts, framework_ids) = of_agent.unwrap_or(&nobody);
                SlaveOverview { slave, counts: *counts, framework_ids }
            })
        }),
        frameworks: lazily(|| {
            picture.frameworks().map(|framework| {
                let of_framework = census.frameworks.get(&framework.id);
                let (counts, slave_ids) = of_framework.unwrap_or(&nothing);
                let standing = Standing::Live;
                let shape =
                    FrameworkShape { picture: *picture, usage: &usage, framework, standing };
                FrameworkOverview { shape, counts: *counts, slave_ids }
            })
        }),
    };
    json(incoming, &body)
}
