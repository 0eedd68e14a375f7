//! The agents' gRPC edge: authentication, and messages between a stream and its session. Must
//! not decide anything about what is said. Next: `http/mod.rs`, which serves it on the public
//! listener.

use std::pin::Pin;

use proto::convert::agent::master_to_wire;
use proto::holdfast::agent::agent_service_server::{AgentService, AgentServiceServer};
use proto::holdfast::agent::{AgentEnvelope, MasterEnvelope};
use resources::id::Principal;
use resources::message::AgentMessage;
use tokio::sync::oneshot;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::metadata::MetadataValue;
use tonic::{Extensions, Request, Response, Status, Streaming};

use crate::auth::{Authenticator, Authorizer};
use crate::leader::{Fenced, Handle, Leadership, Session};
use crate::state::command::SourceAddr;

/// Largest message of an agent: its registration holds everything that it declares.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Metadata that names the leader to an agent which asked another master.
const LEADER: &str = "holdfast-leader";

/// The service that agents open their sessions on.
#[must_use]
pub(crate) fn service(
    handle: Handle,
    authenticator: Authenticator,
    authorizer: Authorizer,
) -> AgentServiceServer<Agents> {
    AgentServiceServer::new(Agents { handle, authenticator, authorizer })
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// The implementation of `holdfast.agent.AgentService`.
pub(crate) struct Agents {
    handle: Handle,
    authenticator: Authenticator,
    authorizer: Authorizer,
}

impl Agents {
    fn authenticate(
        &self,
        request: &Request<Streaming<AgentEnvelope>>,
    ) -> Result<Option<Principal>, Status> {
        let header = match request.metadata().get("authorization") {
            None => None,
            Some(value) => Some(value.to_str().map_err(|_| unauthenticated())?),
        };
        self.authenticator.agent(header).map_err(|_| unauthenticated())
    }

    fn leads(&self) -> Result<(), Status> {
        match self.handle.leadership() {
            Leadership::Leading { .. } => Ok(()),
            Leadership::Unknown => Err(Status::unavailable("no leader elected")),
            Leadership::Following { master_id, advertise } => {
                let mut status =
                    Status::unavailable(format!("master {master_id} leads at {advertise}"));
                if let Ok(leader) = MetadataValue::try_from(advertise.as_str()) {
                    status.metadata_mut().insert(LEADER, leader);
                }
                Err(status)
            }
        }
    }
}

#[tonic::async_trait]
impl AgentService for Agents {
    type SessionStream = Pin<Box<dyn Stream<Item = Result<MasterEnvelope, Status>> + Send>>;

    async fn session(
        &self,
        request: Request<Streaming<AgentEnvelope>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let principal = self.authenticate(&request)?;
        self.leads()?;
        let address = peer(request.extensions());
        let (forbid, forbidden) = oneshot::channel();
        let door = Door { principal: principal.clone(), authorizer: self.authorizer.clone() };
        let inbound = request.into_inner();
        let outbound = self
            .handle
            .open_session(principal, address, |session| read(inbound, session, door, forbid))
            .await
            .ok_or_else(|| Status::unavailable("this master is stopping"))?;
        let envelopes = ReceiverStream::new(outbound)
            .map(|(fence, message): Fenced| Ok(master_to_wire(&fence, &message)));
        // A stream that the lists forbid ends with the reason.
        let reason = futures::stream::once(forbidden).filter_map(Result::ok).map(Err);
        Ok(Response::new(Box::pin(envelopes.chain(reason))))
    }
}

/// Whom the lists let in.
struct Door {
    principal: Option<Principal>,
    authorizer: Authorizer,
}

impl Door {
    /// Only a registration needs a permission; what follows is about the same agent.
    fn admits(&self, message: &AgentMessage) -> Result<(), Status> {
        let AgentMessage::Register(registration) = message else { return Ok(()) };
        self.authorizer
            .registration(self.principal.as_ref(), registration)
            .map_err(|forbidden| Status::permission_denied(forbidden.to_string()))
    }
}

/// Hands on what the agent says until either side ends the session.
async fn read(
    mut inbound: Streaming<AgentEnvelope>,
    session: Session,
    door: Door,
    forbid: oneshot::Sender<Status>,
) {
    loop {
        let envelope = tokio::select! {
            () = session.over() => break,
            envelope = inbound.message() => envelope,
        };
        let message = match envelope {
            Ok(Some(envelope)) => AgentMessage::try_from(envelope),
            Ok(None) => break,
            Err(status) => {
                tracing::debug!(%status, "an agent's stream broke");
                break;
            }
        };
        match message {
            Ok(message) => {
                if let Err(status) = door.admits(&message) {
                    // The receiver is gone only when the stream is.
                    drop(forbid.send(status));
                    break;
                }
                if !session.say(message).await {
                    break;
                }
            }
            // Skipping one message would hide a gap: the stream ends, and the agent starts over.
            Err(error) => {
                tracing::warn!(%error, "an agent sent what has no meaning");
                break;
            }
        }
    }
}

fn unauthenticated() -> Status {
    Status::unauthenticated("missing or wrong credential")
}

/// The accept loop puts the address of the client into a request's extensions.
fn peer(extensions: &Extensions) -> SourceAddr {
    extensions.get::<SourceAddr>().cloned().unwrap_or_else(|| SourceAddr("agent".to_owned()))
}
