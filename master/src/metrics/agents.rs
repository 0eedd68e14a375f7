//! Agents by state, and how they came. Next: `amounts.rs`.

use super::facts::Facts;
use super::{Sample, count, number};

pub(super) fn samples(facts: &Facts) -> Vec<Sample> {
    let (all, counts) = (facts.state.agents, &facts.counts);
    let connected = facts.agents_connected.min(all);
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
        gauge("master/slaves_active", "active", connected),
        gauge("master/slaves_inactive", "inactive", all - connected),
        // This version lets an agent that is away stay what it was.
        gauge("master/slaves_unreachable", "unreachable", 0),
        registrations("master/slave_registrations", "new_or_changed", counts.agents_registered),
        registrations("master/slave_reregistrations", "unchanged", counts.agents_reregistered),
        Sample::only_mesos("master/messages_register_slave", count(counts.agents_registered)),
        Sample::only_mesos("master/messages_reregister_slave", count(counts.agents_reregistered)),
    ]
}
