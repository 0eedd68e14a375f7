//! Messages to the master in one line: their types belong to another crate. Next: `carry.rs`.

use std::fmt;

use resources::message::{AgentMessage, Registration};
use resources::task::{StatusUpdate, TaskReport};

use super::event::{list, settled};

/// `Display` of a message to the master: its type belongs to another crate.
pub(crate) struct Shown<'a>(pub(crate) &'a AgentMessage);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            AgentMessage::Register(registration) => register(f, registration),
            AgentMessage::Report { upto, exceptions } => {
                let failed = exceptions.iter().map(|(seq, reason)| format!("{seq}: {reason}"));
                write!(f, "report up to {upto}, failed {}", list(failed))
            }
            AgentMessage::Resend { from } => write!(f, "resend from {from}"),
            AgentMessage::Total { applied_seq, resources } => {
                write!(f, "total at {applied_seq}: {}", list(resources))
            }
            AgentMessage::Pong => f.write_str("pong"),
            AgentMessage::Unregister => f.write_str("unregister"),
            AgentMessage::Statuses(updates) => {
                let updates =
                    updates.iter().map(|StatusUpdate { framework_id, status, latest }| {
                        format!("{framework_id}/{status}, by now {latest}")
                    });
                write!(f, "statuses {}", list(updates))
            }
            AgentMessage::Exited(exits) => {
                let exits = exits.iter().map(|exit| format!("{} {}", exit.executor, exit.status));
                write!(f, "exited {}", list(exits))
            }
            AgentMessage::FrameworkMessage { executor, data } => {
                write!(f, "message of {executor}, {} bytes", data.as_bytes().len())
            }
        }
    }
}

fn register(f: &mut fmt::Formatter<'_>, registration: &Registration) -> fmt::Result {
    let Registration { checkpoint_id, boot_counter, agent_id, applied_seq, .. } = registration;
    write!(f, "register {checkpoint_id} boot {boot_counter} as ")?;
    match agent_id {
        Some(agent_id) => write!(f, "{agent_id}")?,
        None => f.write_str("a new agent")?,
    }
    write!(f, ", applied {applied_seq}, ")?;
    write!(f, "settled {}, ", list(registration.settled.iter().map(settled)))?;
    write!(f, "unavailable {}", list(&registration.unavailable))?;
    let task = |task: &TaskReport| format!("{}/{} {}", task.framework_id, task.task_id, task.state);
    if !registration.tasks.is_empty() {
        write!(f, ", tasks {}", list(registration.tasks.iter().map(task)))?;
    }
    if registration.executors.is_empty() {
        return Ok(());
    }
    write!(f, ", executors {}", list(&registration.executors))
}
