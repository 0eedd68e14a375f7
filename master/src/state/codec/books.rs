//! Frameworks and what is theirs, as rows and back. What agents keep of tasks is not written: it
//! is made again from the tasks. Next: `thaw.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;

use resources::framework::FrameworkInfo;
use resources::id::FrameworkId;
use resources::opaque::Opaque;
use resources::persistent::PersistentMap;
use resources::role::Role;
use resources::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Corrupt, Row};
use crate::state::State;
use crate::state::frameworks::{Connection, Framework};
use crate::state::tasks::Task;

/// A framework without what stands in rows of its own.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FrameworkRow {
    /// Of a removed one, its place in the order of removals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    id: FrameworkId,
    info: Arc<FrameworkInfo>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    suppressed: BTreeSet<Role>,
    #[serde(default, skip_serializing_if = "Opaque::is_empty")]
    constraints: Opaque,
    epoch: u64,
    connection: Connection,
    subscribed_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resubscribed_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    disconnected_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    removed_at: Option<Timestamp>,
}

/// All rows of frameworks.
pub(super) fn rows(state: &State) -> impl Iterator<Item = Row> + '_ {
    let live = state.frameworks.values().map(|framework| (None, framework));
    let removed = state.completed_frameworks.iter().map(|(number, of)| (Some(*number), of));
    let tombstones = state.tombstones.iter();
    live.chain(removed)
        .flat_map(|(number, framework)| framework_rows(state, number, framework))
        .chain(tombstones.map(|(id, number)| Row::Tombstone { id: id.clone(), number: *number }))
}

fn framework_rows<'a>(
    state: &'a State,
    number: Option<u64>,
    framework: &'a Framework,
) -> impl Iterator<Item = Row> + 'a {
    let row = FrameworkRow {
        number,
        id: framework.id.clone(),
        info: Arc::clone(&framework.info),
        suppressed: framework.suppressed.clone(),
        constraints: framework.constraints.clone(),
        epoch: framework.epoch,
        connection: framework.connection,
        subscribed_at: framework.subscribed_at,
        resubscribed_at: framework.resubscribed_at,
        disconnected_at: framework.disconnected_at,
        removed_at: framework.removed_at,
    };
    let copy = |task: &Arc<Task>| Box::new((**task).clone());
    let tasks = framework.tasks.values().map(move |task| Row::Task(copy(task)));
    let completed = framework.completed_tasks.iter();
    let completed = completed
        .map(move |(number, task)| Row::CompletedTask { number: *number, task: copy(task) });
    let records = framework.operations.values().filter_map(|id| state.operation(id));
    let unacknowledged = records
        .filter(|record| record.is_settled())
        .map(|record| Row::Unacknowledged(Box::new(record.clone())));
    std::iter::once(Row::Framework(Box::new(row)))
        .chain(tasks)
        .chain(completed)
        .chain(unacknowledged)
}

/// Frameworks as their rows come.
#[derive(Default)]
pub(super) struct Books {
    open: Option<(Option<u64>, Framework)>,
}

impl Books {
    /// Takes a row of a framework; false when it is not its turn.
    pub(super) fn take(&mut self, state: &mut State, row: Row) -> Result<bool, Corrupt> {
        match row {
            Row::Framework(row) => {
                self.close(state)?;
                self.open = Some(row.open());
            }
            Row::Tombstone { id, number } => {
                self.close(state)?;
                state.tombstones.insert_mut(id, number);
            }
            Row::Task(task) => match &mut self.open {
                Some((None, framework)) => take_task(state, framework, *task)?,
                Some((Some(_), _)) | None => return Ok(false),
            },
            Row::CompletedTask { number, task } => match &mut self.open {
                Some((_, framework)) => {
                    framework.completed_tasks.insert_mut(number, Arc::new(*task));
                }
                None => return Ok(false),
            },
            Row::Unacknowledged(record) => {
                let id = record.operation_id.clone();
                state.operations.insert_mut(id, Arc::new(*record));
            }
            Row::Head(_)
            | Row::Agent(_)
            | Row::Confirmed { .. }
            | Row::Pending(_)
            | Row::Executor(_)
            | Row::Settled { .. }
            | Row::Transaction(_)
            | Row::Key(_)
            | Row::Quota(_)
            | Row::Weight { .. }
            | Row::Gone(_)
            | Row::GoneHeld { .. }
            | Row::Maintenance(_)
            | Row::Alarm(_)
            | Row::End { .. } => return Ok(false),
        }
        Ok(true)
    }

    fn close(&mut self, state: &mut State) -> Result<(), Corrupt> {
        let Some((number, framework)) = self.open.take() else { return Ok(()) };
        let (framework_id, reason) = (framework.id.clone(), "it is there twice".to_owned());
        let is_known = match number {
            None => state.frameworks.contains_key(&framework.id),
            Some(number) => state.completed_frameworks.contains_key(&number),
        };
        if is_known {
            return Err(Corrupt::FrameworkInconsistent { framework_id, reason });
        }
        match number {
            None => state.frameworks.insert_mut(framework.id.clone(), Arc::new(framework)),
            Some(number) => state.completed_frameworks.insert_mut(number, Arc::new(framework)),
        }
        Ok(())
    }

    /// Everything is there: the names and places that were not written follow from it.
    pub(super) fn finish(&mut self, state: &mut State) -> Result<(), Corrupt> {
        self.close(state)?;
        let executors: Vec<_> = state
            .agents()
            .flat_map(|agent| agent.executors.keys().map(|name| (agent.id.clone(), name.clone())))
            .collect();
        for (agent_id, name) in executors {
            let framework_id = name.framework_id;
            let Some(framework) = state.frameworks.get_mut(&framework_id) else {
                let reason = format!("an executor is on agent {agent_id}");
                return Err(Corrupt::FrameworkInconsistent { framework_id, reason });
            };
            Arc::make_mut(framework).arrive(&agent_id);
        }
        let named: Vec<_> = state
            .operations
            .values()
            .filter(|record| !record.is_acknowledged)
            .filter_map(|record| {
                let names = (record.own_id.clone()?, record.operation_id.clone());
                Some((record.framework_id.clone()?, names))
            })
            .collect();
        for (framework_id, (own_id, id)) in named {
            if let Some(framework) = state.frameworks.get_mut(&framework_id) {
                Arc::make_mut(framework).operations.insert_mut(own_id, id);
            }
        }
        Ok(())
    }
}

fn take_task(state: &mut State, framework: &mut Framework, task: Task) -> Result<(), Corrupt> {
    let inconsistent = |reason: String| {
        Err(Corrupt::FrameworkInconsistent { framework_id: framework.id.clone(), reason })
    };
    if task.framework_id != framework.id {
        return inconsistent(format!("task {} is another's", task.full_name()));
    }
    if framework.tasks.contains_key(&task.task_id) {
        return inconsistent(format!("task {} is there twice", task.task_id));
    }
    let Some(agent) = state.agent_mut(&task.agent_id) else {
        return inconsistent(format!("task {} is on an unknown agent", task.task_id));
    };
    agent.add_task(&task);
    framework.add_task(Arc::new(task));
    Ok(())
}

impl FrameworkRow {
    fn open(self) -> (Option<u64>, Framework) {
        let framework = Framework {
            id: self.id,
            info: self.info,
            suppressed: self.suppressed,
            constraints: self.constraints,
            epoch: self.epoch,
            connection: self.connection,
            subscribed_at: self.subscribed_at,
            resubscribed_at: self.resubscribed_at,
            disconnected_at: self.disconnected_at,
            removed_at: self.removed_at,
            tasks: PersistentMap::default(),
            completed_tasks: PersistentMap::default(),
            operations: PersistentMap::default(),
            agents: PersistentMap::default(),
        };
        (self.number, framework)
    }
}
