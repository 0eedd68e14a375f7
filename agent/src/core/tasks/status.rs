//! Statuses: each is stored before it is said, one at a time is on its way per task, and it is
//! said again until the framework has acknowledged it (spec §7.9).

use std::time::Duration;

use resources::id::UpdateId;
use resources::task::{
    ExecutorName, StatusReason, StatusSource, StatusUpdate, TaskState, TaskStatus,
};

use super::event::{Run, Tell};
use super::row::TaskName;
use super::{LAZY, Tasks, is_live};

/// From a status to its repetition; it doubles each time.
const RETRY_MIN: Duration = Duration::from_secs(10);
const RETRY_MAX: Duration = Duration::from_secs(600);
/// Statuses of one task that wait. Beyond it the newest replaces the one before, which nobody
/// has seen.
const QUEUE_MAX: usize = 256;
/// Names of statuses that are known again.
const SEEN_MAX: usize = 32;

impl Tasks {
    /// The agent's own word on a task.
    pub(super) fn say_as_agent(
        &mut self,
        name: &TaskName,
        state: TaskState,
        reason: StatusReason,
        message: &str,
    ) {
        let status = TaskStatus {
            task_id: name.task_id.clone(),
            state,
            agent_id: None,
            executor_id: None,
            source: StatusSource::Agent,
            reason: Some(reason),
            message: (!message.is_empty()).then(|| message.to_owned()),
            uuid: None,
            at: self.clock.wall,
            unreachable_at: None,
            healthy: None,
            data: resources::opaque::Opaque::default(),
            wire: resources::opaque::Opaque::default(),
        };
        self.say(name, status);
    }

    /// Queues a status. Nothing follows on an end.
    pub(super) fn say(&mut self, name: &TaskName, mut status: TaskStatus) {
        let is_gone = self.is_gone(&name.framework_id);
        let Some(task) = self.tasks.get_mut(name) else { return };
        if task.status.state.is_terminal() {
            return;
        }
        status.agent_id.clone_from(&self.agent_id);
        status.executor_id = Some(task.row.executor_id.clone());
        let uuid = *status.uuid.get_or_insert_with(|| {
            self.named += 1;
            uuid(self.settings.nonce, self.named)
        });
        let row = &mut task.status;
        row.state = status.state;
        row.last = Some(status.clone());
        row.seen.push_back(uuid);
        if row.seen.len() > SEEN_MAX {
            row.seen.pop_front();
        }
        self.dirty.statuses.insert(name.clone());
        if is_gone {
            if status.state.is_terminal() {
                self.remove_task(name);
            }
            return;
        }
        if row.queue.len() >= QUEUE_MAX {
            row.queue.pop_back();
        }
        row.queue.push_back(status);
        if row.queue.len() == 1 {
            self.unsent.insert(name.clone());
        }
    }

    /// A status that a custom executor says. It is acknowledged once it is stored.
    pub(super) fn take_update(&mut self, executor: &ExecutorName, status: TaskStatus) {
        let framework_id = executor.framework_id.clone();
        let name = TaskName { framework_id, task_id: status.task_id.clone() };
        let Some(uuid) = status.uuid else { return };
        let task_id = status.task_id.clone();
        let is_new = self.tasks.get(&name).is_some_and(|task| {
            task.row.executor_id == executor.executor_id && !task.status.seen.contains(&uuid)
        });
        if is_new {
            self.say(&name, status);
        }
        // What is known already, or of no use to anybody, must not be said again either.
        let told = Tell::Acknowledged(task_id, uuid);
        self.out.runs.push(Run::Tell(executor.clone(), told));
    }

    /// The framework has this status: the next one may go.
    pub(in crate::core) fn acknowledge(&mut self, name: &TaskName, uuid: UpdateId) {
        let Some(task) = self.tasks.get_mut(name) else { return };
        let is_first = task.status.queue.front().is_some_and(|first| first.uuid == Some(uuid));
        if !is_first {
            return;
        }
        task.status.queue.pop_front();
        self.dirty.lazy.insert(name.clone());
        self.lazy_at.get_or_insert(self.clock.elapsed.saturating_add(LAZY));
        if let Some((at, _)) = task.retry.take() {
            self.retries.remove(&(at, name.clone()));
        }
        if !task.status.queue.is_empty() {
            self.unsent.insert(name.clone());
        } else if !is_live(task) {
            self.remove_task(name);
        }
    }

    /// A master knows this agent: it is told everything that waits.
    pub(in crate::core) fn say_everything(&mut self) {
        for (name, task) in &mut self.tasks {
            if task.status.queue.is_empty() {
                continue;
            }
            if let Some((at, _)) = task.retry.take() {
                self.retries.remove(&(at, name.clone()));
            }
            self.unsent.insert(name.clone());
        }
    }

    /// What was not acknowledged in time is said again.
    pub(super) fn retry_due(&mut self) {
        while let Some((at, name)) = self.retries.first().cloned() {
            if at > self.clock.elapsed {
                return;
            }
            self.retries.remove(&(at, name.clone()));
            self.unsent.insert(name);
        }
    }

    /// The statuses to be sent now; only for a master that knows this agent.
    pub(in crate::core) fn outgoing(&mut self) -> Vec<StatusUpdate> {
        let mut updates = Vec::new();
        let (now, held) = (self.clock.elapsed, &self.held.tasks);
        let (later, unsent): (std::collections::BTreeSet<_>, _) =
            std::mem::take(&mut self.unsent).into_iter().partition(|name| held.contains(name));
        self.unsent = later;
        for name in unsent {
            let Some(task) = self.tasks.get_mut(&name) else { continue };
            let Some(status) = task.status.queue.front().cloned() else { continue };
            let pause = task.retry.map_or(RETRY_MIN, |(_, pause)| (pause * 2).min(RETRY_MAX));
            if let Some((at, _)) = task.retry {
                self.retries.remove(&(at, name.clone()));
            }
            let at = now.saturating_add(pause);
            task.retry = Some((at, pause));
            self.retries.insert((at, name.clone()));
            let (framework_id, latest) = (name.framework_id, task.status.state);
            updates.push(StatusUpdate { framework_id, status, latest });
        }
        updates
    }

    /// Without a session nothing is repeated: the next registration says everything.
    pub(in crate::core) fn hush(&mut self) {
        self.retries.clear();
        for task in self.tasks.values_mut() {
            task.retry = None;
        }
    }
}

/// A name that no other status of this agent has.
fn uuid(nonce: u64, number: u64) -> UpdateId {
    let mut bytes = (u128::from(nonce) << 64 | u128::from(number)).to_be_bytes();
    // The form of a UUID of version 8.
    bytes[6] = (bytes[6] & 0x0f) | 0x80;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    UpdateId(bytes)
}
