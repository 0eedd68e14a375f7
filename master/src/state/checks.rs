//! The checks of an operation against the agent it is for, and what a refusal says of the
//! agent. Form is `resources::validate`'s matter, arithmetic `resources::conversion`'s. `apply`,
//! the early check and the dry run all end here. Next: `transactions.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use resources::collection::Resources;
use resources::conversion::Unconvertible;
use resources::id::{AgentId, LogIndex, OperationId, Principal};
use resources::operation::Operation;
use resources::resource::Resource;
use resources::validate::{self, InvalidOperation};

use super::agents::{Agent, AgentStatus};
use super::operations::name;
use super::rejection::Rejection;
use super::tasks::TaskName;
use super::{State, limits};

impl Agent {
    /// Every check that an operation must pass here.
    ///
    /// # Errors
    /// The first rule that says no.
    pub fn check(
        &self,
        principal: Option<&Principal>,
        operation: &Operation,
    ) -> Result<(), Rejection> {
        let operation = self.prepare(principal, operation)?;
        let applies = self.applies(&operation);
        applies.map_err(|short| self.inapplicable(&operation, short, LogIndex(0)))
    }

    /// Every check but whether the resources are there. Volumes are named by role and id, and
    /// acted upon as they are stored.
    pub(super) fn prepare(
        &self,
        principal: Option<&Principal>,
        operation: &Operation,
    ) -> Result<Operation, Rejection> {
        self.accepts_operations()?;
        check_form(principal, &self.id, operation)?;
        self.has_room()?;
        self.as_stored(operation)
    }

    pub(super) fn has_room(&self) -> Result<(), Rejection> {
        match self.pending.size() {
            0..limits::PENDING_ORDERS_MAX => Ok(()),
            pending => {
                let agent_id = self.id.clone();
                Err(Rejection::Overloaded { agent_id, pending: pending as u64 })
            }
        }
    }

    /// The operation on the volumes as they are on record, if they may be acted upon.
    pub(super) fn as_stored(&self, operation: &Operation) -> Result<Operation, Rejection> {
        Ok(match operation {
            Operation::Reserve { .. } | Operation::Unreserve { .. } => operation.clone(),
            Operation::Create { volumes } => {
                volumes.iter().try_for_each(|volume| self.has_no_volume_like(volume))?;
                operation.clone()
            }
            Operation::Destroy { volumes } => {
                let volumes = self.stored(volumes)?;
                self.are_unused(&volumes)?;
                Operation::Destroy { volumes }
            }
            Operation::Grow { volume, addition } => {
                Operation::Grow { volume: self.stored_or(volume), addition: addition.clone() }
            }
            Operation::Shrink { volume, subtract } => {
                Operation::Shrink { volume: self.stored_or(volume), subtract: *subtract }
            }
            Operation::Launch(_) => operation.clone(),
        })
    }

    /// An agent that nobody waits for is unknown to whoever asks something of it.
    pub(super) fn accepts_operations(&self) -> Result<(), Rejection> {
        if !self.is_counted() {
            return Err(Rejection::UnknownAgent { agent_id: self.id.clone() });
        }
        match &self.status {
            AgentStatus::Registered => Ok(()),
            AgentStatus::Regressed { applied_seq, .. } => Err(Rejection::Regressed {
                agent_id: self.id.clone(),
                applied_seq: *applied_seq,
                confirmed_seq: self.confirmed_seq,
            }),
            AgentStatus::Diverged { .. } => Err(Rejection::Diverged { agent_id: self.id.clone() }),
        }
    }

    /// Mesos compares sets after merging, so an equal shared volume slips through there; ours
    /// compares role and id of each entry (decision A7).
    fn has_no_volume_like(&self, volume: &Resource) -> Result<(), Rejection> {
        let (Some(role), Some(volume_id)) = (volume.reservation_role(), volume.volume_id()) else {
            return Ok(());
        };
        match self.total.find_volume(role, volume_id) {
            None => Ok(()),
            Some(existing) => Err(Rejection::VolumeExists {
                agent_id: self.id.clone(),
                role: role.clone(),
                volume_id: volume_id.clone(),
                existing: Box::new(existing.clone()),
            }),
        }
    }

    fn stored(&self, volumes: &[Resource]) -> Result<Vec<Resource>, Rejection> {
        let mut found = Vec::with_capacity(volumes.len());
        let mut unknown = Vec::new();
        for volume in volumes {
            match self.stored_volume(volume) {
                Some(stored) => found.push(stored.clone()),
                None => unknown.push(volume.clone()),
            }
        }
        if unknown.is_empty() {
            return Ok(found);
        }
        let available = unknown.iter().filter_map(|volume| self.instead_of(volume)).collect();
        let agent_id = self.id.clone();
        Err(Rejection::VolumesNotFound { agent_id, volumes: unknown, available })
    }

    /// No task may lose its data (spec §2.2, DESTROY 6).
    fn are_unused(&self, volumes: &[Resource]) -> Result<(), Rejection> {
        let used = volumes.iter().filter(|volume| self.used.contains_one(volume));
        let volumes: Vec<Resource> = used.cloned().collect();
        if volumes.is_empty() {
            return Ok(());
        }
        let (agent_id, tasks) = (self.id.clone(), Vec::new());
        Err(Rejection::VolumesInUse { agent_id, volumes, tasks })
    }

    fn stored_or(&self, volume: &Resource) -> Resource {
        self.stored_volume(volume).unwrap_or(volume).clone()
    }

    /// The volume on record that is meant: equal but for its mount and creator (spec §1.6).
    #[must_use]
    pub fn stored_volume(&self, volume: &Resource) -> Option<&Resource> {
        let stored = self.total.find_volume(volume.reservation_role()?, volume.volume_id()?)?;
        [stored].into_iter().find(|_| self.total.contains_one(volume))
    }

    /// A volume of the same name, the whole of an indivisible disk, or what there is of the same
    /// kind.
    fn instead_of(&self, wanted: &Resource) -> Option<Resource> {
        let held = match wanted.reservation_role().zip(wanted.volume_id()) {
            Some((role, id)) => self.total.find_volume(role, id)?,
            None if wanted.is_indivisible() => self.total.iter().find(|held| {
                held.disk == wanted.disk
                    && held.name == wanted.name
                    && held.reservations == wanted.reservations
            })?,
            None => self.total.counterpart(wanted)?,
        };
        self.free(std::slice::from_ref(held)).iter().next().cloned()
    }

    /// Why an operation does not apply to what is free.
    pub(super) fn inapplicable(
        &self,
        operation: &Operation,
        short: Unconvertible,
        index: LogIndex,
    ) -> Rejection {
        let agent_id = self.id.clone();
        let first = match short {
            Unconvertible::Insufficient { wanted, available: _ } => *wanted,
            Unconvertible::SharesRemain { volume, shares } => {
                return Rejection::SharesRemain { agent_id, volume, shares };
            }
            Unconvertible::ProviderUnsupported { .. } => {
                let (operation, reason) = (name(operation).to_owned(), short.to_string());
                return Rejection::Invalid { agent_id, operation, reason };
            }
            Unconvertible::NotConserved { .. } => {
                let what = format!("{} on {agent_id}: {short}", name(operation));
                return Rejection::Fault { index, what };
            }
        };
        let wanted = self.missing(operation, first);
        Rejection::Insufficient {
            agent_id,
            available: wanted.iter().filter_map(|wanted| self.instead_of(wanted)).collect(),
            blocked_by: self.blocked_by(&wanted),
            volumes: self.volumes_on(&wanted),
            tasks: Vec::new(),
            wanted,
        }
    }

    /// Everything that the operation consumes and that is not there, not the first alone.
    fn missing(&self, operation: &Operation, first: Resource) -> Vec<Resource> {
        let consumed = operation.consumed();
        let free = self.free(&consumed);
        let consumed: Resources = consumed.into_iter().collect();
        let is_missing = |(resource, count): &(&Resource, u64)| {
            let one: Resources = vec![((*resource).clone(), *count)].into();
            !free.contains(&one)
        };
        let missing = consumed.entries().filter(is_missing);
        let missing: Vec<Resource> = missing.map(|(resource, _)| resource.clone()).collect();
        // What one step of the operation took from another is missing only in between.
        if missing.is_empty() { vec![first] } else { missing }
    }

    /// Unconfirmed operations that took something of what is wanted, and still have it.
    fn blocked_by(&self, wanted: &[Resource]) -> Vec<OperationId> {
        let holds = |operation: &Operation| {
            let took: Resources = operation.consumed().into_iter().collect();
            let overlaps = |wanted: &Resource| {
                took.counterpart(wanted)
                    .is_some_and(|took| took.value.subtract(&wanted.value) != took.value)
            };
            wanted.iter().any(overlaps)
                && operation.converted().iter().any(|made| self.total.counterpart(made).is_some())
        };
        // Those who use something are named as tasks.
        let open = self.pending.values().filter(|r| !r.is_settled() && !r.is_launch());
        let blocking = open.filter(|record| holds(&record.operation));
        let ids = blocking.map(|record| record.operation_id.clone());
        ids.take(limits::BLOCKING_OBJECTS_MAX).collect()
    }

    /// Volumes that lie on the wanted disk.
    fn volumes_on(&self, wanted: &[Resource]) -> Vec<Resource> {
        let disks: Vec<&Resource> = wanted
            .iter()
            .filter(|r| r.name == "disk" && r.is_reserved() && !r.is_persistent_volume())
            .collect();
        if disks.is_empty() {
            return Vec::new();
        }
        let lies_on = |volume: &&Resource| {
            disks.iter().any(|disk| {
                disk.reservations == volume.reservations
                    && disk.disk_source() == volume.disk_source()
                    && disk.provider_id == volume.provider_id
            })
        };
        let volumes = self.total.volumes().filter(lies_on);
        volumes.take(limits::BLOCKING_OBJECTS_MAX).cloned().collect()
    }
}

/// The rules of form, which no state can change (spec §2.2).
pub(super) fn check_form(
    principal: Option<&Principal>,
    agent_id: &AgentId,
    operation: &Operation,
) -> Result<(), Rejection> {
    let invalid = |reason: String| Rejection::Invalid {
        agent_id: agent_id.clone(),
        operation: name(operation).to_owned(),
        reason,
    };
    validate::operation(operation, principal).map_err(|why| invalid(why.to_string()))?;
    // Mesos takes an amount of nothing for a success. Whoever asks for it computed it wrongly.
    let resources = match operation {
        Operation::Reserve { resources, .. } | Operation::Unreserve { resources } => resources,
        Operation::Create { .. }
        | Operation::Destroy { .. }
        | Operation::Grow { .. }
        | Operation::Shrink { .. }
        | Operation::Launch(_) => return Ok(()),
    };
    match resources.iter().position(|resource| resource.value.is_empty()) {
        None => Ok(()),
        Some(at) => {
            let why = InvalidOperation::NoSize(Box::new(resources[at].clone()));
            Err(invalid(format!("resources[{at}]: {why}")))
        }
    }
}

impl State {
    /// Names the tasks that use what a refused operation wants. Costs a look at each task of
    /// the agent, where any of it is in use at all.
    pub(super) fn naming_tasks(&self, mut rejection: Rejection) -> Rejection {
        let (agent_id, wanted, tasks) = match &mut rejection {
            Rejection::Insufficient { agent_id, wanted, tasks, .. }
            | Rejection::VolumesInUse { agent_id, volumes: wanted, tasks } => {
                (&*agent_id, &*wanted, tasks)
            }
            Rejection::UnknownAgent { .. }
            | Rejection::Invalid { .. }
            | Rejection::VolumeExists { .. }
            | Rejection::VolumesNotFound { .. }
            | Rejection::SharesRemain { .. }
            | Rejection::Overloaded { .. }
            | Rejection::Regressed { .. }
            | Rejection::Diverged { .. }
            | Rejection::VersionMoved { .. }
            | Rejection::DuplicateOperation { .. }
            | Rejection::KeyReused { .. }
            | Rejection::KeyTableFull { .. }
            | Rejection::TooLarge { .. }
            | Rejection::TransactionSize { .. }
            | Rejection::Member { .. }
            | Rejection::ClusterFormed { .. }
            | Rejection::NeverGiven { .. }
            | Rejection::Registration(_)
            | Rejection::Framework { .. }
            | Rejection::Quota { .. }
            | Rejection::Activation { .. }
            | Rejection::Reconcile { .. }
            | Rejection::Maintenance { .. }
            | Rejection::Fault { .. } => return rejection,
        };
        let Some(agent) = self.agent(agent_id) else { return rejection };
        let is_used = wanted.iter().any(|wanted| agent.used.counterpart(wanted).is_some());
        if is_used {
            let wanted: Resources = wanted.iter().collect();
            let is_user = |name: &&TaskName| {
                let task = self.task(&name.framework_id, &name.task_id);
                task.is_some_and(|task| {
                    let uses = |resource| wanted.counterpart(resource).is_some();
                    !task.is_ended() && task.resources.iter().any(uses)
                })
            };
            let users = agent.tasks.keys().filter(is_user);
            *tasks = users.take(limits::BLOCKING_OBJECTS_MAX).cloned().collect();
        }
        rejection
    }

    /// An agent by its id, to ask something of it.
    pub(super) fn known_agent(&self, agent_id: &AgentId) -> Result<&Arc<Agent>, Rejection> {
        let unknown = || Rejection::UnknownAgent { agent_id: agent_id.clone() };
        self.agents.get(agent_id).ok_or_else(unknown)
    }

    /// Whether no agent has moved from the version that the caller saw.
    pub(super) fn check_versions(
        &self,
        if_versions: &BTreeMap<AgentId, u64>,
    ) -> Result<(), Rejection> {
        if_versions.iter().try_for_each(|(agent_id, wanted)| self.check_version(agent_id, *wanted))
    }

    pub(super) fn check_version(&self, agent_id: &AgentId, wanted: u64) -> Result<(), Rejection> {
        match self.known_agent(agent_id)?.resource_version {
            found if found == wanted => Ok(()),
            found => Err(Rejection::VersionMoved { agent_id: agent_id.clone(), wanted, found }),
        }
    }
}
