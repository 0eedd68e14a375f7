//! What a request would change, or every check that it fails. Asks the same code as `apply`,
//! on copies, and writes nothing. Next: `reservations.rs`.

use std::collections::{BTreeMap, BTreeSet};

use resources::collection::Resources;
use resources::id::{AgentId, LogIndex, Principal};
use resources::operation::Operation;
use resources::resource::Resource;

use super::checks::check_form;
use super::command::{Command, CommandKind, Response, SourceAddr};
use super::operations::Stamp;
use super::rejection::Rejection;
use super::transactions::{Draft, check_size, member, place};
use super::usage::part;
use super::{Moment, State};

/// A request as the state is asked about it beforehand.
#[derive(Debug, Clone)]
pub struct Asked<'a> {
    /// Who asks.
    pub principal: Option<&'a Principal>,
    /// Versions that agents must not have moved from.
    pub if_versions: BTreeMap<AgentId, u64>,
    /// What is asked, in order.
    pub operations: Vec<(&'a AgentId, &'a Operation)>,
    /// Whether the operations stand or fall together.
    pub together: Together,
}

/// Whether a request is a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Together {
    /// A single operation.
    No,
    /// A transaction, of however few operations.
    Yes,
}

/// What a request comes to, without doing it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DryRun {
    /// What would change, by agent; empty when a check fails, because then nothing would.
    pub changes: Vec<AgentChange>,
    /// Checks that fail, in the order of the request.
    pub failing: Vec<FailedCheck>,
}

/// What would change on an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentChange {
    /// The agent.
    pub agent_id: AgentId,
    /// Its version now: what `If-Match` wants.
    pub resource_version: u64,
    /// What it would no longer have.
    pub removed: Vec<Resource>,
    /// What it would have instead.
    pub added: Vec<Resource>,
}

/// A check that fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedCheck {
    /// Which operation, from 0; none when the request as a whole is refused.
    pub position: Option<usize>,
    /// Why.
    pub rejection: Rejection,
}

impl Asked<'_> {
    /// The rules of form alone, which no state can change.
    ///
    /// # Errors
    /// The first one that is broken.
    pub fn check_form(&self) -> Result<(), Rejection> {
        if self.together == Together::Yes {
            check_size(self.operations.len())?;
        }
        for (position, (agent_id, operation)) in self.operations.iter().enumerate() {
            check_form(self.principal, agent_id, operation).map_err(|rejection| {
                match self.together {
                    Together::No => rejection,
                    Together::Yes => member(position, rejection),
                }
            })?;
        }
        Ok(())
    }
}

impl State {
    /// The early check of a request; `apply` repeats it.
    ///
    /// # Errors
    /// What `apply` would answer now.
    pub fn check(&self, asked: &Asked<'_>) -> Result<(), Rejection> {
        self.check_versions(&asked.if_versions)?;
        if let (Together::No, [(agent_id, operation)]) =
            (asked.together, asked.operations.as_slice())
        {
            let checked = self.known_agent(agent_id)?.check(asked.principal, operation);
            return checked.map_err(|rejection| self.naming_tasks(rejection));
        }
        check_size(asked.operations.len())?;
        let mut draft = Draft::new(self);
        let stamp = self.trial(asked.principal);
        for (position, (agent_id, operation)) in asked.operations.iter().enumerate() {
            let operation_id = place(position);
            draft
                .run(&stamp, agent_id, (&operation_id, operation))
                .map_err(|rejection| draft.refuse(position, rejection))?;
        }
        Ok(())
    }

    /// Everything that is wrong with a request, or what it would change. An operation that
    /// fails is left out when those after it are tried.
    #[must_use]
    pub fn dry_run(&self, asked: &Asked<'_>) -> DryRun {
        let mut failing = Vec::new();
        for (agent_id, wanted) in &asked.if_versions {
            if let Err(rejection) = self.check_version(agent_id, *wanted) {
                failing.push(FailedCheck { position: None, rejection });
            }
        }
        if asked.together == Together::Yes
            && let Err(rejection) = check_size(asked.operations.len())
        {
            failing.push(FailedCheck { position: None, rejection });
            return DryRun { changes: Vec::new(), failing };
        }
        let mut draft = Draft::new(self);
        let stamp = self.trial(asked.principal);
        for (position, (agent_id, operation)) in asked.operations.iter().enumerate() {
            let operation_id = place(position);
            if let Err(rejection) = draft.run(&stamp, agent_id, (&operation_id, operation)) {
                let rejection = self.naming_tasks(rejection);
                failing.push(FailedCheck { position: Some(position), rejection });
            }
        }
        let changes = if failing.is_empty() { self.changes(asked, &draft) } else { Vec::new() };
        DryRun { changes, failing }
    }

    /// What each agent of the draft would have instead of what it has. Looks only at what the
    /// operations touch.
    fn changes(&self, asked: &Asked<'_>, draft: &Draft<'_>) -> Vec<AgentChange> {
        let changes = draft.agents().filter_map(|after| {
            let before = self.agent(&after.id)?;
            let own = asked.operations.iter().filter(|(agent_id, _)| **agent_id == after.id);
            let touched: BTreeSet<Resource> = own
                .flat_map(|(_, operation)| operation.conversions())
                .flat_map(|conversion| conversion.consumed.into_iter().chain(conversion.converted))
                .collect();
            let (had, has) = (part(&before.total, &touched), part(&after.total, &touched));
            Some(AgentChange {
                agent_id: after.id.clone(),
                resource_version: before.resource_version,
                removed: beyond(&had, &has),
                added: beyond(&has, &had),
            })
        });
        changes.collect()
    }

    /// What a command about one agent would change; nothing, where its resources stay.
    ///
    /// # Errors
    /// What `apply` would answer now.
    pub fn dry_run_command(
        &self,
        agent_id: &AgentId,
        if_versions: &BTreeMap<AgentId, u64>,
        kind: &CommandKind,
    ) -> Result<Vec<AgentChange>, Rejection> {
        let mut after = self.clone();
        let command = Command {
            principal: None,
            source: SourceAddr(String::new()),
            key: None,
            if_versions: if_versions.clone(),
            kind: kind.clone(),
        };
        let (response, _) = after.apply(self.trial(None).now, &command);
        if let Response::Rejected(rejection) = response {
            return Err(rejection);
        }
        let Some(before) = self.agent(agent_id) else { return Ok(Vec::new()) };
        let nothing = Resources::new();
        let total = after.agent(agent_id).map_or(&nothing, |agent| &agent.total);
        let (removed, added) = (beyond(&before.total, total), beyond(total, &before.total));
        let (agent_id, resource_version) = (agent_id.clone(), before.resource_version);
        let change = AgentChange { agent_id, resource_version, removed, added };
        let is_change = !(change.removed.is_empty() && change.added.is_empty());
        Ok(is_change.then_some(change).into_iter().collect())
    }

    fn trial<'a>(&self, principal: Option<&'a Principal>) -> Stamp<'a> {
        // Nothing of a trial stays, so that it needs no place in the log.
        let now = Moment { index: LogIndex(0), clock: self.clock, wall: self.clock };
        Stamp { now, principal, transaction_id: None, framework: None }
    }
}

fn beyond(these: &Resources, those: &Resources) -> Vec<Resource> {
    let mut rest = these.clone();
    rest.subtract_all(those);
    rest.iter().cloned().collect()
}
