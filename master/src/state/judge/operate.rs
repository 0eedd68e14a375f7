//! An operation of an ACCEPT: it takes from what is left of the offers, and what it makes is
//! there for the steps after it. Next: `launch.rs`.

use std::sync::Arc;

use resources::collection::Resources;
use resources::id::OperationId;
use resources::operation::Operation;
use resources::resource::Resource;

use super::super::agents::Agent;
use super::super::command::{Effect, FeedbackState, Notice, OperationStatus};
use super::super::limits;
use super::super::operations::{OperationRecord, describe};
use super::super::rejection::Rejection;
use super::{Judge, Stamp};

impl Judge<'_> {
    /// Does it or drops it; only a fault ends the whole.
    pub(super) fn operate(
        &mut self,
        own_id: Option<&OperationId>,
        asked: &Result<Operation, String>,
    ) -> Result<(), Rejection> {
        let asked = match asked {
            Ok(operation) => operation.clone().unallocated(),
            Err(reason) => {
                self.refuse(own_id, reason.clone());
                return Ok(());
            }
        };
        if let Some(known) = own_id.and_then(|own_id| self.known_operation(own_id)) {
            if is_same(&known.operation, &asked) {
                self.tell_operation(known.status());
            } else {
                let text = format!("another operation has the id '{}'", known_name(&known));
                self.refuse(own_id, text);
            }
            return Ok(());
        }
        match self.try_operation(own_id, &asked) {
            Ok(operation) => self.give(own_id, operation),
            Err(reason) => {
                self.refuse(own_id, reason);
                Ok(())
            }
        }
    }

    fn known_operation(&self, own_id: &OperationId) -> Option<Arc<OperationRecord>> {
        let id = self.framework.operations.get(own_id)?;
        let mut own = self.records.iter();
        own.find(|record| record.operation_id == *id)
            .or_else(|| self.state.operations.get(id))
            .cloned()
    }

    /// Every check, and the step on what is left of the offers.
    fn try_operation(
        &mut self,
        own_id: Option<&OperationId>,
        asked: &Operation,
    ) -> Result<Operation, String> {
        if own_id.is_some() && self.framework.operations.size() >= limits::NAMED_OPERATIONS_MAX {
            let most = limits::NAMED_OPERATIONS_MAX;
            return Err(format!("{most} operations with an id are not acknowledged yet"));
        }
        let possible = self.agent.has_room().and_then(|()| self.agent.as_stored(asked));
        let operation = possible.map_err(|rejection| rejection.to_string())?;
        self.remaining.apply(&operation).map_err(|short| short.to_string())?;
        let resized: Vec<Resource> = match &operation {
            Operation::Grow { .. } | Operation::Shrink { .. } => {
                let made = operation.converted();
                // The volume's mount and creator are those on record.
                made.into_iter().map(|made| self.as_held(made)).collect()
            }
            Operation::Reserve { .. }
            | Operation::Unreserve { .. }
            | Operation::Create { .. }
            | Operation::Destroy { .. }
            | Operation::Launch(_) => Vec::new(),
        };
        for made in &resized {
            self.remaining.subtract(made);
            self.set_aside.add(made);
        }
        Ok(operation)
    }

    fn as_held(&self, made: Resource) -> Resource {
        let disk = self.remaining.counterpart(&made).map(|held| held.disk.clone());
        Resource { disk: disk.unwrap_or_else(|| made.disk.clone()), ..made }
    }

    fn give(
        &mut self,
        own_id: Option<&OperationId>,
        operation: Operation,
    ) -> Result<(), Rejection> {
        let name = self.next_name();
        let record = self.order(&name, own_id, operation)?;
        if let Some(own_id) = own_id {
            let framework = Arc::make_mut(&mut self.framework);
            framework.operations.insert_mut(own_id.clone(), name);
        }
        self.records.push(record);
        Ok(())
    }

    /// Gives the agent its next order. What was offered holds what it takes, so that the total
    /// does too; otherwise the books are wrong.
    pub(super) fn order(
        &mut self,
        name: &OperationId,
        own_id: Option<&OperationId>,
        operation: Operation,
    ) -> Result<Arc<OperationRecord>, Rejection> {
        let framework = Arc::clone(&self.framework);
        let stamp = Stamp {
            now: self.now,
            principal: framework.info.principal.as_ref(),
            transaction_id: None,
            framework: Some((&framework.id, own_id)),
        };
        let agent: &mut Agent = Arc::make_mut(&mut self.agent);
        let record = agent.give(&stamp, name, operation).map_err(|failed| {
            let (short, operation) = *failed;
            let what = format!("{} on {}: {short}", describe(&operation), agent.id);
            Rejection::Fault { index: stamp.now.index, what }
        })?;
        let order = Effect::Order(agent.id.clone(), Box::new(record.order()));
        self.effects.push(order);
        Ok(record)
    }

    /// A framework hears of a refusal only when it gave the operation a name (spec §2.4).
    fn refuse(&mut self, own_id: Option<&OperationId>, message: String) {
        let Some(own_id) = own_id else { return };
        self.tell_operation(Some(OperationStatus {
            own_id: own_id.clone(),
            state: FeedbackState::Error,
            message: Some(message),
            converted: Vec::new(),
            agent_id: Some(self.agent.id.clone()),
            uuid: None,
        }));
    }

    fn tell_operation(&mut self, status: Option<OperationStatus>) {
        let notices = status.into_iter().map(Notice::Operation);
        let id = &self.accept.framework_id;
        self.effects.extend(notices.map(|notice| Effect::Tell(id.clone(), Box::new(notice))));
    }
}

fn known_name(known: &OperationRecord) -> &str {
    known.own_id.as_ref().map_or("", |own_id| own_id.as_str())
}

/// Whether two operations ask for the same. On record volumes are as they are stored: how one
/// is mounted and who made it does not tell them apart (spec §1.6).
fn is_same(left: &Operation, right: &Operation) -> bool {
    let sets = |operation: &Operation| {
        let set = |list: &[Resource]| list.iter().collect::<Resources>();
        match operation {
            Operation::Reserve { resources, source } => (set(resources), set(source)),
            Operation::Unreserve { resources } => (set(resources), Resources::new()),
            Operation::Create { volumes } | Operation::Destroy { volumes } => {
                (set(volumes), Resources::new())
            }
            Operation::Grow { volume, addition } => {
                (set(std::slice::from_ref(volume)), set(std::slice::from_ref(addition)))
            }
            Operation::Shrink { volume, subtract: _ } => {
                (set(std::slice::from_ref(volume)), Resources::new())
            }
            Operation::Launch(_) => (Resources::new(), Resources::new()),
        }
    };
    let amount = |operation: &Operation| match operation {
        Operation::Shrink { subtract, .. } => Some(*subtract),
        Operation::Reserve { .. }
        | Operation::Unreserve { .. }
        | Operation::Create { .. }
        | Operation::Destroy { .. }
        | Operation::Grow { .. }
        | Operation::Launch(_) => None,
    };
    std::mem::discriminant(left) == std::mem::discriminant(right)
        && sets(left) == sets(right)
        && amount(left) == amount(right)
}
