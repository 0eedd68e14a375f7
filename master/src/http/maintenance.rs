//! Maintenance of machines: `/maintenance/schedule`, `/maintenance/status`, `/machine/down`,
//! `/machine/up`, and the calls that read and change the same (spec §5.2, §6.1). Must not decide
//! what becomes of agents. Next: `transaction.rs`.

use axum::body::Body;
use axum::response::Response;
use http::header::CONTENT_TYPE;
use prost::Name;
use proto::convert::maintenance as convert;
use proto::mesos::v1;
use proto::mesos::v1::allocator::{InverseOfferStatus, inverse_offer_status::Status};
use proto::mesos::v1::maintenance::cluster_status::DrainingMachine;
use proto::mesos::v1::maintenance::{ClusterStatus, Schedule};
use resources::machine::{InvalidSchedule, MachineId};

use super::error::Failure;
use super::incoming::Incoming;
use super::negotiate::Media;
use super::picture::Picture;
use super::{App, rules};
use crate::leader::scheduler::InverseAnswer;
use crate::state::Rule;
use crate::state::maintenance::MaintenanceUpdate;

/// The schedule that the reader may see.
pub(super) fn schedule(picture: &Picture<'_>) -> Schedule {
    if !picture.viewer.sees_schedule() {
        return Schedule::default();
    }
    let windows = picture.view.state.maintenance().windows.iter();
    let windows = windows.filter_map(|window| {
        convert::window_to_wire(window.machines.iter(), &window.unavailability)
    });
    Schedule { windows: windows.collect() }
}

/// Machines that drain, with what frameworks said about them, and machines that are down.
pub(super) fn status(picture: &Picture<'_>, answers: &[InverseAnswer]) -> ClusterStatus {
    if !picture.viewer.sees_maintenance() {
        return ClusterStatus::default();
    }
    let maintenance = picture.view.state.maintenance();
    let draining = maintenance.draining().map(|(machine, _)| DrainingMachine {
        id: convert::machine_to_wire(machine),
        statuses: answers
            .iter()
            .filter(|answer| is_about(picture, answer, machine))
            .map(said)
            .collect(),
    });
    ClusterStatus {
        draining_machines: draining.collect(),
        down_machines: maintenance.down.iter().map(convert::machine_to_wire).collect(),
    }
}

fn is_about(picture: &Picture<'_>, answer: &InverseAnswer, machine: &MachineId) -> bool {
    let agent = picture.view.state.agent(&answer.agent_id);
    agent.is_some_and(|agent| machine.has(&agent.info.hostname, &agent.info.host))
}

fn said(answer: &InverseAnswer) -> InverseOfferStatus {
    let status = if answer.is_accepted { Status::Accept } else { Status::Decline };
    InverseOfferStatus {
        status: status.into(),
        framework_id: v1::FrameworkId { value: answer.framework_id.to_string() },
        timestamp: v1::TimeInfo {
            nanoseconds: i64::try_from(answer.at.as_nanos()).unwrap_or(i64::MAX),
        },
    }
}

/// GET /maintenance/schedule.
pub(super) fn read_schedule(picture: &Picture<'_>) -> Response {
    as_json(&schedule(picture))
}

/// GET /maintenance/status.
pub(super) fn read_status(picture: &Picture<'_>, answers: &[InverseAnswer]) -> Response {
    as_json(&status(picture, answers))
}

fn as_json<M: prost::Message + Name>(message: &M) -> Response {
    let mut response = Response::new(Body::from(proto::json::encode(message)));
    response.headers_mut().insert(CONTENT_TYPE, Media::Json.header());
    response
}

/// POST /maintenance/schedule.
pub(super) async fn write_schedule(
    app: &App,
    incoming: &mut Incoming,
) -> Result<Response, Failure> {
    let body = incoming.bytes().await?;
    let schedule: Schedule = proto::json::decode(&body).map_err(|error| {
        Failure::bad_request(format!("Failed to convert JSON into Schedule protobuf: {error}"))
    })?;
    update(app, incoming, &schedule).await
}

/// Which way machines go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Down,
    Up,
}

/// POST /machine/down and /machine/up.
pub(super) async fn write_machines(
    app: &App,
    incoming: &mut Incoming,
    way: Way,
) -> Result<Response, Failure> {
    let body = incoming.bytes().await?;
    let malformed =
        |reason: String| format!("Failed to convert JSON into a list of MachineID: {reason}");
    let elements: Vec<serde_json::Value> = serde_json::from_slice(&body)
        .map_err(|error| Failure::bad_request(malformed(error.to_string())))?;
    let decode = |(index, element): (usize, &serde_json::Value)| {
        proto::json::decode::<v1::MachineId>(element.to_string().as_bytes()).map_err(|error| {
            Failure::bad_element(malformed(format!("element {index}: {error}")), index)
        })
    };
    let machines = elements.iter().enumerate().map(decode).collect::<Result<Vec<_>, _>>()?;
    machine(app, incoming, &machines, way).await
}

/// UPDATE_MAINTENANCE_SCHEDULE.
pub(super) async fn update(
    app: &App,
    incoming: &Incoming,
    schedule: &Schedule,
) -> Result<Response, Failure> {
    let windows = convert::schedule_from_wire(schedule).map_err(|error| invalid(&error))?;
    set(app, incoming, MaintenanceUpdate::Schedule(windows)).await
}

/// START_MAINTENANCE and STOP_MAINTENANCE.
pub(super) async fn machine(
    app: &App,
    incoming: &Incoming,
    machines: &[v1::MachineId],
    way: Way,
) -> Result<Response, Failure> {
    let machines = convert::machines_from_wire(machines).map_err(|error| invalid(&error))?;
    let update = match way {
        Way::Down => MaintenanceUpdate::Start(machines),
        Way::Up => MaintenanceUpdate::Stop(machines),
    };
    set(app, incoming, update).await
}

async fn set(
    app: &App,
    incoming: &Incoming,
    update: MaintenanceUpdate,
) -> Result<Response, Failure> {
    let permitted = app.config.authorizer.maintenance(incoming.principal.as_ref(), &update);
    rules::set(app, incoming, Rule::Maintenance(update), permitted).await
}

fn invalid(error: &InvalidSchedule) -> Failure {
    Failure::bad_request(super::error::sentence(&error.to_string()))
}
