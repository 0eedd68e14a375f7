//! Frameworks, their offers, tasks and calls. What has a framework's name is for Mesos'
//! dashboards alone. Next: `quota.rs`.

use std::fmt::Write as _;

use resources::task::TaskState;

use super::facts::Facts;
use super::sums::FrameworkFacts;
use super::{Sample, count, flag, number};
use crate::leader::OfferCounts;

/// States that tasks are in, with their names in metrics.
const GAUGES: [(TaskState, &str); 5] = [
    (TaskState::Staging, "staging"),
    (TaskState::Starting, "starting"),
    (TaskState::Running, "running"),
    (TaskState::Killing, "killing"),
    (TaskState::Unreachable, "unreachable"),
];

/// States that tasks end in.
const ENDS: [(TaskState, &str); 8] = [
    (TaskState::Finished, "finished"),
    (TaskState::Failed, "failed"),
    (TaskState::Killed, "killed"),
    (TaskState::Lost, "lost"),
    (TaskState::Error, "error"),
    (TaskState::Dropped, "dropped"),
    (TaskState::Gone, "gone"),
    (TaskState::GoneByOperator, "gone_by_operator"),
];

/// Calls of schedulers, and Mesos' names of the messages that they stand for.
const CALLS: [(&str, &str); 11] = [
    ("TEARDOWN", "master/messages_unregister_framework"),
    ("DECLINE", "master/messages_decline_offers"),
    ("REVIVE", "master/messages_revive_offers"),
    ("SUPPRESS", "master/messages_suppress_offers"),
    ("KILL", "master/messages_kill_task"),
    ("ACKNOWLEDGE", "master/messages_status_update_acknowledgement"),
    ("ACKNOWLEDGE_OPERATION_STATUS", "master/messages_operation_status_update_acknowledgement"),
    ("RECONCILE", "master/messages_reconcile_tasks"),
    ("RECONCILE_OPERATIONS", "master/messages_reconcile_operations"),
    ("MESSAGE", "master/messages_framework_to_executor"),
    ("REQUEST", "master/messages_resource_request"),
];

pub(super) fn samples(facts: &Facts) -> Vec<Sample> {
    let mut samples = connections(facts);
    samples.extend(offers(facts));
    samples.extend(tasks(facts));
    samples.extend(calls(facts));
    for framework in &facts.state.frameworks {
        let offers = facts.counts.by_framework.get(&framework.id);
        of_one(framework, offers.copied().unwrap_or_default(), &mut samples);
    }
    samples
}

fn connections(facts: &Facts) -> Vec<Sample> {
    let frameworks = &facts.state.frameworks;
    let connected = frameworks.iter().filter(|framework| framework.is_subscribed).count();
    let away = frameworks.len() - connected;
    let gauge = |mesos: &'static str, state: &'static str, value: usize| {
        Sample::gauge("master_frameworks", "Frameworks by state.", number(value))
            .label("state", state)
            .mesos(mesos)
    };
    vec![
        gauge("master/frameworks_connected", "connected", connected),
        gauge("master/frameworks_disconnected", "disconnected", away),
        gauge("master/frameworks_active", "active", connected),
        gauge("master/frameworks_inactive", "inactive", away),
    ]
}

fn offers(facts: &Facts) -> Vec<Sample> {
    let out = number(facts.state.offers);
    let mut samples = vec![
        Sample::gauge("master_offers_outstanding", "Offers that are out.", out)
            .mesos("master/outstanding_offers"),
    ];
    samples.extend(of_offers(facts.counts.offers).map(|(what, value)| {
        let help = "What became of offers.";
        Sample::counter("master_offers_total", help, value).label("event", what)
    }));
    samples
}

fn of_offers(offers: OfferCounts) -> [(&'static str, u64); 4] {
    [
        ("sent", offers.sent),
        ("accepted", offers.accepted),
        ("declined", offers.declined),
        ("rescinded", offers.rescinded),
    ]
}

fn tasks(facts: &Facts) -> Vec<Sample> {
    let here = GAUGES.into_iter().map(|(state, name)| {
        let value = facts.state.tasks.get(&state).copied().unwrap_or_default();
        Sample::gauge("master_tasks", "Tasks by state.", count(value))
            .label("state", name)
            .mesos(format!("master/tasks_{name}"))
    });
    let ended = ENDS.into_iter().map(|(state, name)| {
        let value = facts.counts.tasks.get(&state).copied().unwrap_or_default();
        let help = "Tasks that ended under this process as the leader, by how.";
        Sample::counter("master_tasks_ended_total", help, value)
            .label("state", name)
            .mesos(format!("master/tasks_{name}"))
    });
    here.chain(ended).collect()
}

fn calls(facts: &Facts) -> Vec<Sample> {
    let counts = &facts.counts;
    let of = |name: &str| counts.calls.get(name).copied().unwrap_or_default();
    let mut samples: Vec<Sample> = CALLS
        .into_iter()
        .map(|(call, mesos)| {
            Sample::counter("master_scheduler_calls_total", "Calls of schedulers.", of(call))
                .label("call", call)
                .mesos(mesos)
        })
        .collect();
    for call in ["ACCEPT", "SHUTDOWN", "UPDATE_FRAMEWORK"] {
        samples.push(
            Sample::counter("master_scheduler_calls_total", "Calls of schedulers.", of(call))
                .label("call", call),
        );
    }
    samples.push(
        Sample::counter(
            "master_framework_subscriptions_total",
            "Subscriptions under this process as the leader.",
            counts.frameworks_subscribed,
        )
        .mesos("master/messages_register_framework"),
    );
    samples.push(
        Sample::counter(
            "master_task_status_updates_total",
            "Statuses of tasks that agents sent.",
            counts.status_updates,
        )
        .mesos("master/messages_status_update"),
    );
    samples
}

/// What stands under the name of one framework.
fn of_one(framework: &FrameworkFacts, offers: OfferCounts, samples: &mut Vec<Sample>) {
    let prefix = format!("master/frameworks/{}/{}", escaped(&framework.name), framework.id);
    let mut put = |name: &str, value: f64| {
        samples.push(Sample::only_mesos(format!("{prefix}/{name}"), value));
    };
    put("subscribed", flag(framework.is_subscribed));
    for (what, value) in of_offers(offers) {
        put(&format!("offers/{what}"), count(value));
    }
    for (state, _) in GAUGES {
        let value = framework.tasks.get(&state).copied().unwrap_or_default();
        put(&format!("tasks/active/{}", state.as_str().to_lowercase()), count(value));
    }
    for (role, is_suppressed) in &framework.roles {
        put(&format!("roles/{role}/suppressed"), flag(*is_suppressed));
    }
}

/// A name with everything but letters, digits and `-_.~` as percent signs and digits: it must
/// not look like a part of the path.
fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_paths() {
        assert_eq!(escaped("web-1.x_y~"), "web-1.x_y~");
        assert_eq!(escaped("a b/ü"), "a%20b%2F%C3%BC");
    }
}
