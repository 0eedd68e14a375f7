//! GET_OPERATIONS (spec §5.3): operations on their way, and those of frameworks that ended and
//! were not acknowledged. Launches are tasks, not operations. Pure. Next: `../operator.rs`.

use proto::convert;
use proto::mesos::v1::master::response::GetOperations;
use proto::mesos::v1::{self, Operation, OperationStatus, Uuid};
use resources::form::Format;
use resources::id::OperationId;

use super::{agent_id, framework_id};
use crate::http::picture::Picture;
use crate::state::operations::{OperationRecord, OperationState};

pub(super) fn get(picture: &Picture<'_>) -> GetOperations {
    let (state, viewer) = (&picture.view.state, &picture.viewer);
    let listed = state
        .operations()
        .filter(|record| is_listed(record) && viewer.sees_operation(&record.operation));
    GetOperations { operations: listed.map(operation).collect() }
}

/// Those of operators are done with once they ended, and so are those whose frameworks gave them
/// no name; where they can still be looked up is `/api/v1/operations`.
fn is_listed(record: &OperationRecord) -> bool {
    !record.is_settled() || (record.own_id.is_some() && !record.is_acknowledged)
}

fn operation(record: &OperationRecord) -> Operation {
    let uuid = Uuid { value: record.uuid().to_vec().into() };
    let state = match record.state {
        OperationState::Pending => v1::OperationState::OperationPending,
        OperationState::Finished => v1::OperationState::OperationFinished,
        OperationState::Failed => v1::OperationState::OperationFailed,
        OperationState::GoneByOperator => v1::OperationState::OperationGoneByOperator,
    };
    let id = |id: &OperationId| v1::OperationId { value: id.to_string() };
    let made = match record.state {
        OperationState::Finished => record.operation.converted(),
        OperationState::Pending | OperationState::Failed | OperationState::GoneByOperator => {
            Vec::new()
        }
    };
    // A framework knows it by its own name or by none; operators by ours.
    let name = match &record.framework_id {
        Some(_) => record.own_id.as_ref(),
        None => Some(&record.operation_id),
    };
    let latest_status = OperationStatus {
        operation_id: name.map(id),
        state: state.into(),
        message: record.message.clone(),
        converted_resources: convert::resource::list_to_wire(made.iter(), Format::Post),
        uuid: Some(uuid.clone()),
        agent_id: Some(agent_id(&record.agent_id)),
        resource_provider_id: None,
    };
    let statuses = match record.is_settled() {
        true => vec![latest_status.clone()],
        false => Vec::new(),
    };
    Operation {
        framework_id: record.framework_id.as_ref().map(framework_id),
        agent_id: Some(agent_id(&record.agent_id)),
        info: convert::operation::to_wire(&record.operation, record.own_id.as_ref(), Format::Post),
        statuses,
        latest_status,
        uuid,
    }
}
