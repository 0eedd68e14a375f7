//! The agent's `POST /api/v1` (spec §5.6): checks of the request, and the calls that read.
//! Paths and methods are in `http.rs`.

use axum::body::Bytes;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response as Answer};
use prost::Message as _;

use proto::convert;
use proto::json;
use proto::mesos::v1;
use proto::mesos::v1::agent::call::Type;
use proto::mesos::v1::agent::{Call, Response, response};
use resources::form::Format;
use resources::id::{AgentId, OperationId};
use resources::message::Outcome;
use resources::operation::Operation;

use super::{Server, about, plain, shapes};
use crate::core::event::{Ended, Identity};
use crate::driver::View;
use crate::metrics;

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/x-protobuf";

/// How an answer is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Encoding {
    /// With the names of its fields.
    Json,
    /// By their numbers.
    Protobuf,
}

impl Encoding {
    /// Its media type.
    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Protobuf => PROTOBUF,
        }
    }
}

/// Answers one call, whose method is checked already.
pub(super) fn call(headers: &HeaderMap, body: &Bytes, view: &View, server: &Server) -> Answer {
    let call: Call = match decode(headers, body) {
        Ok(call) => call,
        Err(refusal) => return *refusal,
    };
    let Some(kind) = call.r#type else {
        return bad("Failed to validate agent::Call: Expecting 'type' to be present");
    };
    let Some(encoding) = accepted(headers) else {
        let text = format!("Expecting 'Accept' to allow '{JSON}' or '{PROTOBUF}'");
        return plain(StatusCode::NOT_ACCEPTABLE, text);
    };
    let kind = Type::try_from(kind).unwrap_or(Type::Unknown);
    match answer(kind, view, server) {
        Some(response) => encode(&response, encoding),
        None => {
            plain(StatusCode::NOT_IMPLEMENTED, format!("{} is not supported", kind.as_str_name()))
        }
    }
}

pub(super) fn bad(text: impl Into<String>) -> Answer {
    plain(StatusCode::BAD_REQUEST, text)
}

/// The message of a request.
pub(super) fn decode<M: prost::Message + prost::Name + Default>(
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<M, Box<Answer>> {
    let Some(content_type) = headers.get(CONTENT_TYPE) else {
        return Err(Box::new(bad("Expecting 'Content-Type' to be present")));
    };
    match content_type.to_str().unwrap_or_default() {
        JSON => json::decode(body)
            .map_err(|error| Box::new(bad(format!("Failed to parse body into JSON: {error}")))),
        PROTOBUF => json::decode_binary(body)
            .map_err(|error| Box::new(bad(format!("Failed to parse body into Call: {error}")))),
        _ => {
            let text = format!("Expecting 'Content-Type' of {JSON} or {PROTOBUF}");
            Err(Box::new(plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)))
        }
    }
}

/// JSON where both would do.
pub(super) fn accepted(headers: &HeaderMap) -> Option<Encoding> {
    let Some(accept) = headers.get(ACCEPT) else { return Some(Encoding::Json) };
    let accept = accept.to_str().unwrap_or_default();
    let types = accept.split(',').map(|part| part.split(';').next().unwrap_or_default().trim());
    let types: Vec<&str> = types.collect();
    let allows =
        |exact: &str| types.iter().any(|t| *t == exact || matches!(*t, "*/*" | "application/*"));
    if allows(JSON) { Some(Encoding::Json) } else { allows(PROTOBUF).then_some(Encoding::Protobuf) }
}

fn encode(response: &Response, encoding: Encoding) -> Answer {
    match encoding {
        Encoding::Json => ([(CONTENT_TYPE, JSON)], json::encode_response(response)).into_response(),
        Encoding::Protobuf => {
            ([(CONTENT_TYPE, PROTOBUF)], response.encode_to_vec()).into_response()
        }
    }
}

fn metrics_of(view: &View, server: &Server) -> response::GetMetrics {
    let metric =
        |(name, value): (String, serde_json::Value)| v1::Metric { name, value: value.as_f64() };
    let metrics = metrics::snapshot(server.uptime(), Some(view));
    response::GetMetrics { metrics: metrics.into_iter().map(metric).collect() }
}

/// The answer to a call; none for those that are not supported.
fn answer(kind: Type, view: &View, server: &Server) -> Option<Response> {
    let of = |kind: response::Type| Response { r#type: Some(kind.into()), ..Response::default() };
    let response = match kind {
        Type::GetHealth => Response {
            get_health: Some(response::GetHealth { healthy: true }),
            ..of(response::Type::GetHealth)
        },
        Type::GetVersion => Response {
            get_version: Some(response::GetVersion { version_info: about::version_info() }),
            ..of(response::Type::GetVersion)
        },
        Type::GetMetrics => Response {
            get_metrics: Some(metrics_of(view, server)),
            ..of(response::Type::GetMetrics)
        },
        Type::GetFlags => {
            let flag = |(name, value): (&String, &String)| v1::Flag {
                name: name.clone(),
                value: Some(value.clone()),
            };
            let flags = server.flags.iter().map(flag).collect();
            Response {
                get_flags: Some(response::GetFlags { flags }),
                ..of(response::Type::GetFlags)
            }
        }
        Type::GetAgent => Response {
            get_agent: Some(response::GetAgent {
                agent_info: Some(agent_info(&view.identity, view.agent_id.as_ref())),
                ..Default::default()
            }),
            ..of(response::Type::GetAgent)
        },
        Type::GetState => Response {
            get_state: Some(response::GetState {
                get_tasks: Some(shapes::tasks(view)),
                get_executors: Some(shapes::executors(view)),
                get_frameworks: Some(shapes::frameworks(view)),
            }),
            ..of(response::Type::GetState)
        },
        Type::GetOperations => Response {
            get_operations: Some(response::GetOperations { operations: operations(view) }),
            ..of(response::Type::GetOperations)
        },
        Type::GetFrameworks => Response {
            get_frameworks: Some(shapes::frameworks(view)),
            ..of(response::Type::GetFrameworks)
        },
        Type::GetExecutors => Response {
            get_executors: Some(shapes::executors(view)),
            ..of(response::Type::GetExecutors)
        },
        Type::GetTasks => {
            Response { get_tasks: Some(shapes::tasks(view)), ..of(response::Type::GetTasks) }
        }
        Type::GetContainers => Response {
            get_containers: Some(shapes::containers(view)),
            ..of(response::Type::GetContainers)
        },
        Type::GetResourceProviders => Response {
            get_resource_providers: Some(response::GetResourceProviders::default()),
            ..of(response::Type::GetResourceProviders)
        },
        _ => return None,
    };
    Some(response)
}

/// Operations taken in and not carried out, and those whose outcome no master has acknowledged.
fn operations(view: &View) -> Vec<v1::Operation> {
    let is_shown = |operation: &Operation| !matches!(operation, Operation::Launch(_));
    let pending = view
        .pending
        .iter()
        .filter(|order| is_shown(&order.operation))
        .map(|order| operation(view, &order.operation_id, Some(&order.operation), None));
    let ended = view.ended.iter().filter(|ended| ended.operation.as_ref().is_none_or(is_shown));
    let ended = ended.map(|Ended { settled, operation: done }| {
        operation(view, &settled.operation_id, done.as_ref(), Some(&settled.outcome))
    });
    ended.chain(pending).collect()
}

fn operation(
    view: &View,
    id: &OperationId,
    operation: Option<&Operation>,
    outcome: Option<&Outcome>,
) -> v1::Operation {
    let (state, message) = match outcome {
        None => (v1::OperationState::OperationPending, None),
        Some(Outcome::Finished) => (v1::OperationState::OperationFinished, None),
        Some(Outcome::Failed { reason }) => {
            (v1::OperationState::OperationFailed, Some(reason.clone()))
        }
    };
    let uuid = v1::Uuid { value: uuid(view, id).to_vec().into() };
    let agent_id = view.agent_id.as_ref().map(|id| v1::AgentId { value: id.to_string() });
    v1::Operation {
        framework_id: None,
        agent_id: agent_id.clone(),
        info: operation
            .map(|operation| convert::operation::to_wire(operation, None, Format::Post))
            .unwrap_or_default(),
        latest_status: v1::OperationStatus {
            operation_id: Some(v1::OperationId { value: id.to_string() }),
            state: state.into(),
            message,
            uuid: Some(uuid.clone()),
            agent_id,
            ..Default::default()
        },
        statuses: Vec::new(),
        uuid,
    }
}

/// The same as on every master: FNV-1a (128 bits) of agent and operation, in the form of a UUID
/// of version 8.
fn uuid(view: &View, id: &OperationId) -> [u8; 16] {
    const OFFSET_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let agent_id = view.agent_id.as_ref().map_or("", AgentId::as_str);
    let text = [agent_id, "/", id.as_str()].concat();
    let step = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul(PRIME);
    let mut uuid = text.bytes().fold(OFFSET_BASIS, step).to_be_bytes();
    uuid[6] = (uuid[6] & 0x0f) | 0x80;
    uuid[8] = (uuid[8] & 0x3f) | 0x80;
    uuid
}

/// What the agent says of itself.
pub(crate) fn agent_info(identity: &Identity, agent_id: Option<&AgentId>) -> v1::AgentInfo {
    let info = &identity.info;
    let id = agent_id.map(|id| v1::AgentId { value: id.to_string() });
    v1::AgentInfo {
        hostname: info.hostname.clone(),
        resources: info
            .resources
            .iter()
            .map(|resource| convert::resource::to_wire(resource, Format::Post))
            .collect(),
        attributes: info.attributes.iter().map(convert::attribute::to_wire).collect(),
        id,
        port: Some(info.port.into()),
        ..Default::default()
    }
}
