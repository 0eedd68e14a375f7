//! `POST /api/v1`: the order of checks of spec §5.1, then a read or an operation. Must not know
//! how the state decides. Next: `answers.rs`, `execute.rs`.

use axum::body::Body;
use axum::response::Response;
use http::Method;
use http::header::CONTENT_TYPE;
use prost::Message as _;
use proto::convert;
use proto::mesos::v1::master::call::Type;
use proto::mesos::v1::master::{self, Call};

use super::error::Failure;
use super::incoming::Incoming;
use super::maintenance::{self, Way};
use super::negotiate::{self, Media};
use super::offers::Offers;
use super::options::Options;
use super::picture::Picture;
use super::redirect::Standing;
use super::roles::Roles;
use super::{App, administer, answers, execute, quota, read, teardown, weights};
use crate::leader::Consistency;

/// What a call of this type needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    /// An operation on resources.
    Mutating,
    Teardown,
    /// A rule for the whole cluster.
    Rule,
    /// A command about a whole agent.
    Agent,
    /// A call of Mesos that this version does not serve.
    Later,
}

/// Answers a call.
pub(crate) async fn call(app: &App, incoming: &mut Incoming) -> Result<Response, Failure> {
    admit(app, incoming).await?;
    if incoming.head.method != Method::POST {
        let received = incoming.head.method.clone();
        return Err(Failure::MethodNotAllowed { allowed: &[Method::POST], received });
    }
    let (kind, call) = decode(incoming).await?;
    check(kind, &call)?;
    let answer_as = negotiate::of_response(incoming.headers())?;
    match kind_of(kind) {
        Kind::Read => answer_read(app, incoming, kind, answer_as).await,
        Kind::Mutating => {
            let options = Options::of(incoming)?;
            let asked = convert::operation::from_call(call)?
                .ok_or_else(|| invalid("Expecting an operation on resources"))?;
            execute::operation(app, incoming, options, asked).await
        }
        Kind::Teardown => match &call.teardown {
            Some(asked) => teardown::call(app, incoming, asked).await,
            None => Err(invalid("Expecting 'teardown' to be present")),
        },
        Kind::Rule => rule(app, incoming, call).await,
        Kind::Agent => administer::call(app, incoming, call).await,
        Kind::Later => Err(Failure::NotImplemented(format!(
            "The call {} is not served by this version",
            kind.as_str_name()
        ))),
    }
}

/// Executes a call that sets a rule; its member is there.
async fn rule(app: &App, incoming: &Incoming, call: Call) -> Result<Response, Failure> {
    match call {
        Call { update_quota: Some(asked), .. } => quota::update(app, incoming, &asked).await,
        Call { set_quota: Some(asked), .. } => quota::set(app, incoming, asked.quota_request).await,
        Call { remove_quota: Some(asked), .. } => quota::remove(app, incoming, &asked.role).await,
        Call { update_maintenance_schedule: Some(asked), .. } => {
            maintenance::update(app, incoming, &asked.schedule).await
        }
        Call { start_maintenance: Some(asked), .. } => {
            maintenance::machine(app, incoming, &asked.machines, Way::Down).await
        }
        Call { stop_maintenance: Some(asked), .. } => {
            maintenance::machine(app, incoming, &asked.machines, Way::Up).await
        }
        Call { update_weights: Some(asked), .. } => {
            weights::update(app, incoming, &asked.weight_infos).await
        }
        _ => Err(invalid("Expecting the member that 'type' names to be present")),
    }
}

/// Leadership comes before the form of the call. Only where it matters is the body looked at
/// first: a stale read is answered by any master, and a mutating call may wait a moment for a
/// leader.
async fn admit(app: &App, incoming: &mut Incoming) -> Result<(), Failure> {
    let is_stale = super::consistency(incoming)? == Consistency::Stale;
    let standing = app.gate.standing();
    match standing {
        Standing::Here(_) => return Ok(()),
        Standing::Elsewhere(_) if !is_stale => return Err(app.not_here(incoming)),
        Standing::Elsewhere(_) | Standing::Nowhere => {}
    }
    match decode(incoming).await.map(|(kind, _)| kind_of(kind)) {
        Ok(Kind::Read) if is_stale => Ok(()),
        Ok(Kind::Mutating | Kind::Teardown | Kind::Rule | Kind::Agent)
            if standing == Standing::Nowhere =>
        {
            execute::admit(app, incoming).await
        }
        Ok(_) | Err(_) => Err(app.not_here(incoming)),
    }
}

async fn decode(incoming: &mut Incoming) -> Result<(Type, Call), Failure> {
    let media = negotiate::of_request(incoming.headers())?;
    let body = incoming.bytes().await?;
    let call: Call = match media {
        Media::Json => proto::json::decode(&body).map_err(|error| {
            Failure::bad_request(format!("Failed to convert JSON into Call protobuf: {error}"))
        }),
        Media::Protobuf => proto::json::decode_binary(&body).map_err(|error| {
            Failure::bad_request(format!("Failed to parse body into Call protobuf: {error}"))
        }),
    }?;
    let kind = call.r#type.and_then(|number| Type::try_from(number).ok());
    match kind {
        Some(kind) => Ok((kind, call)),
        None => Err(invalid("Expecting 'type' to be present")),
    }
}

fn invalid(reason: &str) -> Failure {
    Failure::bad_request(format!("Failed to validate master::Call: {reason}"))
}

/// Validation of the call as a whole: the member that its type names must be there.
fn check(kind: Type, call: &Call) -> Result<(), Failure> {
    let expect = |is_there: bool, member: &str| match is_there {
        true => Ok(()),
        false => Err(invalid(&format!("Expecting '{member}' to be present"))),
    };
    match kind {
        Type::ReserveResources => expect(call.reserve_resources.is_some(), "reserve_resources"),
        Type::UnreserveResources => {
            expect(call.unreserve_resources.is_some(), "unreserve_resources")
        }
        Type::CreateVolumes => expect(call.create_volumes.is_some(), "create_volumes"),
        Type::DestroyVolumes => expect(call.destroy_volumes.is_some(), "destroy_volumes"),
        Type::GrowVolume => {
            let grow = call.grow_volume.as_ref();
            expect(grow.is_some(), "grow_volume")?;
            expect(grow.is_some_and(|grow| grow.agent_id.is_some()), "grow_volume.agent_id")
        }
        Type::ShrinkVolume => {
            let shrink = call.shrink_volume.as_ref();
            expect(shrink.is_some(), "shrink_volume")?;
            expect(shrink.is_some_and(|shrink| shrink.agent_id.is_some()), "shrink_volume.agent_id")
        }
        Type::UpdateQuota => expect(call.update_quota.is_some(), "update_quota"),
        Type::SetQuota => expect(call.set_quota.is_some(), "set_quota"),
        Type::RemoveQuota => expect(call.remove_quota.is_some(), "remove_quota"),
        Type::UpdateWeights => expect(call.update_weights.is_some(), "update_weights"),
        Type::MarkAgentGone => expect(call.mark_agent_gone.is_some(), "mark_agent_gone"),
        Type::DrainAgent => expect(call.drain_agent.is_some(), "drain_agent"),
        Type::DeactivateAgent => expect(call.deactivate_agent.is_some(), "deactivate_agent"),
        Type::ReactivateAgent => expect(call.reactivate_agent.is_some(), "reactivate_agent"),
        Type::UpdateMaintenanceSchedule => {
            expect(call.update_maintenance_schedule.is_some(), "update_maintenance_schedule")
        }
        Type::StartMaintenance => expect(call.start_maintenance.is_some(), "start_maintenance"),
        Type::StopMaintenance => expect(call.stop_maintenance.is_some(), "stop_maintenance"),
        _ => Ok(()),
    }
}

fn kind_of(kind: Type) -> Kind {
    match kind {
        Type::GetHealth
        | Type::GetFlags
        | Type::GetVersion
        | Type::GetMetrics
        | Type::GetState
        | Type::GetAgents
        | Type::GetOperations
        | Type::GetFrameworks
        | Type::GetExecutors
        | Type::GetTasks
        | Type::GetRoles
        | Type::GetQuota
        | Type::GetWeights
        | Type::GetMaintenanceSchedule
        | Type::GetMaintenanceStatus
        | Type::GetMaster => Kind::Read,
        Type::Teardown => Kind::Teardown,
        Type::UpdateQuota
        | Type::SetQuota
        | Type::RemoveQuota
        | Type::UpdateWeights
        | Type::UpdateMaintenanceSchedule
        | Type::StartMaintenance
        | Type::StopMaintenance => Kind::Rule,
        Type::MarkAgentGone | Type::DrainAgent | Type::DeactivateAgent | Type::ReactivateAgent => {
            Kind::Agent
        }
        Type::ReserveResources
        | Type::UnreserveResources
        | Type::CreateVolumes
        | Type::DestroyVolumes
        | Type::GrowVolume
        | Type::ShrinkVolume => Kind::Mutating,
        Type::Unknown
        | Type::GetLoggingLevel
        | Type::SetLoggingLevel
        | Type::ListFiles
        | Type::ReadFile
        | Type::Subscribe => Kind::Later,
    }
}

async fn answer_read(
    app: &App,
    incoming: &Incoming,
    kind: Type,
    answer_as: Media,
) -> Result<Response, Failure> {
    let (consistency, viewer) = (super::consistency(incoming)?, app.viewer(incoming));
    let answer = match kind {
        Type::GetHealth => answers::health(),
        Type::GetVersion => answers::version(),
        Type::GetFlags if viewer.sees_flags() => answers::flags(&app.config),
        Type::GetFlags => {
            return Err(Failure::Forbidden("the flags are not for everybody to see".to_owned()));
        }
        Type::GetMetrics => answers::metrics(&read::samples(app).await),
        _ => {
            let view = app.view(incoming, consistency).await?;
            let offers = match kind {
                Type::GetTasks
                | Type::GetExecutors
                | Type::GetOperations
                | Type::GetQuota
                | Type::GetWeights
                | Type::GetMaintenanceSchedule
                | Type::GetMaintenanceStatus
                | Type::GetMaster => Offers::default(),
                _ => Offers::now(app).await,
            };
            let picture = Picture { view: &view, offers: &offers, viewer };
            if kind == Type::GetMaintenanceStatus {
                let answers = app.handle.inverse_answers().await;
                answers::maintenance_status(&picture, &answers)
            } else {
                of_picture(app, kind, &picture)
            }
        }
    };
    let body = match answer_as {
        Media::Json => proto::json::encode_response(&answer),
        Media::Protobuf => answer.encode_to_vec(),
    };
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(CONTENT_TYPE, answer_as.header());
    Ok(response)
}

/// Answers that need the state.
fn of_picture(app: &App, kind: Type, picture: &Picture<'_>) -> master::Response {
    match kind {
        Type::GetState => answers::state(picture),
        Type::GetAgents => answers::agents(picture),
        Type::GetFrameworks => answers::frameworks(picture),
        Type::GetExecutors => answers::executors(picture),
        Type::GetTasks => answers::tasks(picture),
        Type::GetOperations => answers::operations(picture),
        Type::GetRoles => answers::roles(&Roles::of(picture, app.config.whitelist.as_ref())),
        Type::GetQuota => answers::quota(picture),
        Type::GetWeights => answers::weights(picture),
        Type::GetMaintenanceSchedule => answers::maintenance_schedule(picture),
        Type::GetMaster => answers::master(picture.view, &app.config),
        other => unreachable!("kind_of() names no further reads: {other:?}"),
    }
}
