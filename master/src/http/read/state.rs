//! `/state` (spec §6.2): this master, who leads, agents, and frameworks with all their tasks.
//! Next: `../extension.rs`.

use std::collections::BTreeMap;

use axum::response::Response;
use serde::Serialize;

use super::{frameworks, json};
use crate::http::App;
use crate::http::about::{self, Version};
use crate::http::error::Failure;
use crate::http::incoming::Incoming;
use crate::http::picture::Picture;
use crate::http::redirect::Standing;
use crate::http::shapes::{self, Detail, RecoveredSlave, Slave, Slaves};
use crate::http::usage::Usage;
use crate::leader::View;
use crate::metrics;

/// The body.
#[derive(Serialize)]
struct State<'a, F: Serialize, C: Serialize> {
    #[serde(flatten)]
    version: Version,
    id: String,
    cluster_id: Option<&'a str>,
    pid: String,
    hostname: &'a str,
    start_time: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    elected_time: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leader_info: Option<LeaderInfo>,
    capabilities: &'static [&'static str],
    activated_slaves: f64,
    deactivated_slaves: f64,
    unreachable_slaves: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    flags: Option<&'a BTreeMap<String, String>>,
    slaves: Vec<Slave<'a>>,
    recovered_slaves: Vec<RecoveredSlave<'a>>,
    frameworks: F,
    completed_frameworks: C,
    orphan_tasks: [(); 0],
    unregistered_frameworks: [(); 0],
}

/// Who leads, as `/state` says it.
#[derive(Serialize)]
struct LeaderInfo {
    id: String,
    pid: String,
    hostname: String,
    port: u16,
}

impl LeaderInfo {
    fn of(app: &App, view: &View) -> Option<Self> {
        let announced = view.state.leader();
        let (id, advertise) = match app.gate.standing() {
            Standing::Here(_) => (app.config.id, app.config.advertise.to_string()),
            Standing::Elsewhere(advertise) => (announced?.master_id, advertise),
            Standing::Nowhere => return None,
        };
        let address: crate::config::Address = advertise.parse().ok()?;
        Some(Self {
            id: shapes::master_id(view.state.cluster_id(), id),
            pid: shapes::master_pid(&address),
            hostname: address.host().to_owned(),
            port: address.port(),
        })
    }
}

pub(in crate::http) fn state(
    app: &App,
    picture: &Picture<'_>,
    incoming: &Incoming,
) -> Result<Response, Failure> {
    let view = picture.view;
    let usage = Usage::of(&view.state);
    let all = Slaves::of(picture, None, Detail::Summaries);
    let active = all.slaves.iter().filter(|slave| slave.is_active()).count();
    let leader_info = LeaderInfo::of(app, view);
    let state = State {
        version: about::version(),
        id: shapes::master_id(view.state.cluster_id(), app.config.id),
        cluster_id: view.state.cluster_id().map(resources::id::ClusterId::as_str),
        pid: shapes::master_pid(&app.config.advertise),
        hostname: app.config.advertise.host(),
        start_time: shapes::seconds(view.identity.started_at),
        elected_time: view.elected_at.map(shapes::seconds),
        leader: leader_info.as_ref().map(|leader| leader.pid.clone()),
        leader_info,
        capabilities: about::MASTER_CAPABILITIES,
        activated_slaves: metrics::number(active),
        deactivated_slaves: metrics::number(all.slaves.len() - active),
        unreachable_slaves: metrics::number(all.unreachable_slaves.len()),
        flags: picture.viewer.sees_flags().then_some(&app.config.flags),
        slaves: all.slaves,
        recovered_slaves: all.recovered_slaves,
        frameworks: frameworks::live(picture, &usage, None),
        completed_frameworks: frameworks::completed(picture, &usage, None),
        orphan_tasks: [],
        unregistered_frameworks: [],
    };
    json(incoming, &state)
}
