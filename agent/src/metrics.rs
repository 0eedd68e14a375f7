//! Every metric of an agent: its name for Mesos' dashboards, its name for Prometheus, its help
//! text, and how it is read off the facts. Names stand nowhere else. Must not know HTTP.
//! Next: `http.rs`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Map, Value};

use resources::collection::Resources;
use resources::task::TaskState;

use crate::driver::View;
use crate::runner::disk::Used;

/// Resources whose totals are metrics.
const TOTALS: [&str; 4] = ["cpus", "gpus", "mem", "disk"];

/// Counts since the start of the process.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counters {
    /// Orders carried out.
    pub(crate) orders_finished: u64,
    /// Orders that failed.
    pub(crate) orders_failed: u64,
    /// Transactions of the checkpoint.
    pub(crate) checkpoints: u64,
    /// Time spent in them.
    pub(crate) checkpoint_time: Duration,
    /// Registrations that a master answered.
    pub(crate) registrations: u64,
    /// Tasks that were launched.
    pub(crate) tasks_launched: u64,
    /// Tasks that ended, by their last state.
    pub(crate) tasks_ended: [u64; TaskState::ALL.len()],
}

impl Counters {
    /// One more task ended so.
    pub(crate) fn ended(&mut self, state: TaskState) {
        let position = TaskState::ALL.iter().position(|known| *known == state);
        if let Some(count) = position.and_then(|position| self.tasks_ended.get_mut(position)) {
            *count += 1;
        }
    }
}

/// One value with its names.
#[derive(Debug, Clone, PartialEq)]
struct Sample {
    /// Its name in `/metrics/snapshot`, where Mesos has such a metric.
    mesos: Option<String>,
    family: &'static str,
    help: &'static str,
    kind: &'static str,
    label: Option<(&'static str, &'static str)>,
    value: f64,
}

fn gauge(family: &'static str, help: &'static str, value: f64) -> Sample {
    Sample { mesos: None, family, help, kind: "gauge", label: None, value }
}

fn counter(family: &'static str, help: &'static str, value: u64) -> Sample {
    Sample { kind: "counter", ..gauge(family, help, number(value)) }
}

impl Sample {
    fn mesos(self, name: impl Into<String>) -> Self {
        Self { mesos: Some(name.into()), ..self }
    }
    fn label(self, name: &'static str, value: &'static str) -> Self {
        Self { label: Some((name, value)), ..self }
    }
}

/// The values of this moment; `view` is none until the agent has read its checkpoint.
fn samples(uptime: Duration, view: Option<&View>) -> Vec<Sample> {
    let is_registered = view.is_some_and(|view| view.is_registered);
    let unavailable = view.map_or(0, |view| view.unavailable.len());
    let mut samples = vec![
        gauge("agent_uptime_seconds", "Time since the start.", uptime.as_secs_f64())
            .mesos("slave/uptime_secs"),
        gauge(
            "agent_registered",
            "Whether a leading master knows this agent.",
            flag(is_registered),
        )
        .mesos("slave/registered"),
        gauge("agent_recovering", "Whether the start is not finished.", flag(view.is_none())),
        gauge("agent_volumes_unavailable", "Volumes whose directory cannot be used.", {
            number(unavailable as u64)
        })
        .mesos("slave/recovery_errors"),
    ];
    if let Some(view) = view {
        samples.extend(totals(&view.total, &view.used()));
        samples.extend(orders(view));
        samples.extend(tasks(view));
        samples.extend(volumes(view));
    }
    samples
}

fn totals(total: &Resources, used: &Resources) -> impl Iterator<Item = Sample> {
    let help = "Resources of the agent; mem and disk in megabytes.";
    TOTALS.into_iter().flat_map(move |name| {
        let amount = total.scalar(name).unwrap_or_default().to_f64();
        let in_use = used.scalar(name).unwrap_or_default().to_f64();
        let ratio = if amount > 0.0 { in_use / amount } else { 0.0 };
        [
            gauge("agent_resources_total", help, amount)
                .label("resource", name)
                .mesos(format!("slave/{name}_total")),
            gauge("agent_resources_used", "Resources used by tasks.", in_use)
                .label("resource", name)
                .mesos(format!("slave/{name}_used")),
            gauge("agent_resources_used_ratio", "Used share of the total.", ratio)
                .label("resource", name)
                .mesos(format!("slave/{name}_percent")),
        ]
    })
}

fn orders(view: &View) -> Vec<Sample> {
    let Counters { orders_finished, orders_failed, checkpoints, .. } = view.counters;
    let ended = "Orders that are carried out or failed, by their end.";
    vec![
        counter("agent_orders_total", ended, orders_finished).label("outcome", "finished"),
        counter("agent_orders_total", ended, orders_failed).label("outcome", "failed"),
        gauge("agent_orders_pending", "Orders not carried out yet.", {
            number(view.pending.len() as u64)
        }),
        gauge("agent_orders_unacknowledged", "Orders whose outcome is not acknowledged.", {
            number(view.ended.len() as u64)
        }),
        gauge("agent_applied_seq", "Last order carried out.", number(view.applied_seq.0)),
        counter("agent_checkpoints_total", "Transactions of the checkpoint.", checkpoints),
        Sample {
            kind: "counter",
            ..gauge("agent_checkpoint_seconds_total", "Time in them.", {
                view.counters.checkpoint_time.as_secs_f64()
            })
        },
        counter("agent_registrations_total", "Registrations that a master answered.", {
            view.counters.registrations
        }),
        gauge("agent_volumes", "Persistent volumes.", {
            number(view.total.volumes().count() as u64)
        }),
    ]
}

/// Tasks and executors: those that are there by state, those that are over by their end.
fn tasks(view: &View) -> Vec<Sample> {
    let mut samples = vec![
        counter("agent_tasks_launched_total", "Tasks that were launched.", {
            view.counters.tasks_launched
        }),
        gauge("agent_executors", "Executors that run, or are about to.", {
            number(view.executors.len() as u64)
        })
        .mesos("slave/executors_running"),
        gauge("agent_frameworks", "Frameworks with a task or an executor here.", {
            number(view.frameworks.len() as u64)
        })
        .mesos("slave/frameworks_active"),
        gauge("agent_statuses_unacknowledged", "Statuses that wait for their frameworks.", {
            number(view.tasks.iter().map(|task| task.status.queue.len() as u64).sum())
        }),
    ];
    for (state, ended) in TaskState::ALL.iter().zip(view.counters.tasks_ended) {
        let name = state.as_str();
        let short = name.trim_start_matches("TASK_").to_lowercase();
        if state.is_terminal() {
            let help = "Tasks that ended, by their last state.";
            let sample = counter("agent_tasks_ended_total", help, ended);
            samples.push(sample.label("state", name).mesos(format!("slave/tasks_{short}")));
        } else if !matches!(state, TaskState::Unreachable | TaskState::Unknown) {
            let here = view.tasks.iter().filter(|task| task.status.state == *state).count();
            let sample = gauge("agent_tasks", "Tasks by state.", number(here as u64));
            samples.push(sample.label("state", name).mesos(format!("slave/tasks_{short}")));
        }
    }
    samples
}

/// What volumes hold, as far as it was measured.
fn volumes(view: &View) -> Vec<Sample> {
    let sum = |of: fn(&Used) -> u64| number(view.disk.values().map(of).sum());
    vec![
        gauge(
            "agent_volumes_used_bytes",
            "What all measured volumes hold.",
            sum(|used| used.bytes),
        ),
        gauge("agent_volumes_size_bytes", "The sizes of all measured volumes.", {
            sum(|used| used.limit_bytes)
        }),
        gauge("agent_volumes_over_size", "Volumes that hold more than their size.", {
            number(view.disk.values().filter(|used| used.is_over()).count() as u64)
        }),
    ]
}

/// Mesos' form: one object of names and numbers.
pub(crate) fn snapshot(uptime: Duration, view: Option<&View>) -> Map<String, Value> {
    let named = |sample: Sample| Some((sample.mesos?, sample.value.into()));
    samples(uptime, view).into_iter().filter_map(named).collect()
}

/// The text form of Prometheus (exposition format 0.0.4).
pub(crate) fn prometheus(uptime: Duration, view: Option<&View>) -> String {
    let samples = samples(uptime, view);
    let mut families: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
    for sample in &samples {
        families.entry(sample.family).or_default().push(sample);
    }
    let mut text = String::new();
    for (family, samples) in families {
        let Sample { help, kind, .. } = samples[0];
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {family} {help}\n# TYPE {family} {kind}");
        for sample in samples {
            let label = sample.label.map(|(name, value)| format!("{{{name}=\"{value}\"}}"));
            let _ = writeln!(text, "{family}{} {}", label.unwrap_or_default(), sample.value);
        }
    }
    text
}

/// A count as a double, which is what every reader of these takes.
#[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
const fn number(count: u64) -> f64 {
    count as f64
}

fn flag(on: bool) -> f64 {
    if on { 1.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_recovery() {
        let text = prometheus(Duration::from_millis(1500), None);
        assert!(text.contains("# TYPE agent_uptime_seconds gauge\nagent_uptime_seconds 1.5\n"));
        assert!(text.contains("agent_recovering 1\n"), "{text}");
        let snapshot = snapshot(Duration::from_millis(1500), None);
        assert_eq!(snapshot["slave/registered"], 0.0);
        assert_eq!(snapshot["slave/uptime_secs"], 1.5);
    }
}
