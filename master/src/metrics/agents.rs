//! Agents by state, and how they came. Next: `amounts.rs`.

use super::facts::Facts;
use super::{Sample, count, number};
use crate::leader::AgentCounts;

pub(super) fn samples(facts: &Facts) -> Vec<Sample> {
    let (all, counts) = (facts.state.agents, &facts.counts);
    let connected = facts.agents_connected.min(all);
    let active = facts.agents_active.min(connected);
    let agents = &counts.agents;
    let gauge = |mesos: &'static str, state: &'static str, value: usize| {
        Sample::gauge("master_agents", "Agents by state.", number(value))
            .label("state", state)
            .mesos(mesos)
    };
    let registrations = |mesos: &'static str, kind: &'static str, value: u64| {
        let help = "Agents that this process registered as the leader.";
        Sample::counter("master_agent_registrations_total", help, value)
            .label("kind", kind)
            .mesos(mesos)
    };
    vec![
        gauge("master/slaves_connected", "connected", connected),
        gauge("master/slaves_disconnected", "disconnected", all - connected),
        gauge("master/slaves_active", "active", active),
        gauge("master/slaves_inactive", "inactive", all - active),
        gauge("master/slaves_unreachable", "unreachable", facts.state.unreachable_agents),
        registrations("master/slave_registrations", "new_or_changed", counts.agents_registered),
        registrations("master/slave_reregistrations", "unchanged", counts.agents_reregistered),
        Sample::only_mesos("master/messages_register_slave", count(counts.agents_registered)),
        Sample::only_mesos("master/messages_reregister_slave", count(counts.agents_reregistered)),
        Sample::only_mesos("master/messages_unregister_slave", count(agents.unregistered)),
        moved("departed", agents.departed).mesos("master/slave_unreachable_scheduled"),
        moved("returned", agents.returned).mesos("master/slave_unreachable_canceled"),
        moved("unreachable", agents.unreachable).mesos("master/slave_unreachable_completed"),
        moved("unregistered", agents.unregistered)
            .mesos("master/slave_removals/reason_unregistered"),
        moved("gone", agents.gone),
    ]
    .into_iter()
    .chain(removals(agents))
    .collect()
}

fn moved(to: &'static str, value: u64) -> Sample {
    let help = "Agents that came to a state under this process as the leader.";
    Sample::counter("master_agent_changes_total", help, value).label("to", to)
}

/// What Mesos counts in several ways. No agent is shut down here because it was away, and no
/// registration takes the place of another agent.
fn removals(agents: &AgentCounts) -> impl Iterator<Item = Sample> {
    let removed = agents.unreachable + agents.unregistered + agents.gone;
    let named = [
        ("master/slave_removals", removed),
        ("master/slave_removals/reason_unhealthy", agents.unreachable),
        ("master/slave_removals/reason_registered", 0),
        ("master/recovery_slave_removals", agents.not_recovered),
        ("master/slave_shutdowns_scheduled", 0),
        ("master/slave_shutdowns_canceled", 0),
        ("master/slave_shutdowns_completed", 0),
    ];
    named.into_iter().map(|(name, value)| Sample::only_mesos(name, count(value)))
}
