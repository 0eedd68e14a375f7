//! The HTTP edge: each request goes to its endpoint in a fixed order of checks (route, identity,
//! leadership, method, form). No decision about resources is made here. Reading order:
//! `route.rs`, `form.rs`, `negotiate.rs`, `incoming.rs`, `error.rs`, `redirect.rs`, this file,
//! `options.rs`, `permit.rs`, `execute.rs`, `dry_run.rs`, `offers.rs`, `usage.rs`, `picture.rs`
//! (what a read shows), `operator.rs` with `answers.rs`, `legacy.rs`, `teardown.rs`,
//! `administer.rs`, `rules.rs`, `quota.rs`, `weights.rs`, `maintenance.rs`, `transaction.rs`,
//! `scheduler/mod.rs`, `read.rs` with `shapes.rs`, `roles.rs` and `about.rs`, `extension.rs`,
//! `inventory.rs`, `servers.rs` (the masters), `snapshot.rs`, `server.rs` (sockets).

mod about;
mod administer;
mod answers;
mod dry_run;
mod error;
mod execute;
mod extension;
mod forced;
mod form;
mod incoming;
mod inventory;
mod legacy;
mod maintenance;
mod negotiate;
mod offers;
mod operator;
mod options;
mod permit;
mod picture;
mod quota;
mod read;
mod reconcile;
mod redirect;
mod roles;
mod route;
mod rules;
mod scheduler;
mod server;
mod servers;
mod shapes;
mod snapshot;
mod teardown;
mod transaction;
mod usage;
mod weights;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use http::Method;
use http::header::AUTHORIZATION;
use proto::holdfast::agent::agent_service_server::AgentServiceServer;
use tonic::server::NamedService as _;

use crate::auth::Viewer;
use crate::config::Config;
use crate::grpc::Agents;
use crate::leader::{Consistency, Handle, ReadFailure, View};
use crate::metrics::Counters;

use error::{ErrorForm, Failure};
use incoming::Incoming;
use offers::Offers;
use picture::Picture;
use redirect::{Gate, Standing};
use route::{Reach, Route};

pub(crate) use server::{Server, bind};

/// What every request can reach.
pub(crate) struct App {
    handle: Handle,
    config: Arc<Config>,
    gate: Gate,
    counters: Counters,
    started: Instant,
}

impl App {
    pub(crate) fn new(handle: Handle, config: Arc<Config>) -> Self {
        Self {
            gate: Gate::new(handle.leadership_changes()),
            handle,
            config,
            counters: Counters::default(),
            started: Instant::now(),
        }
    }

    /// What the asker may see.
    fn viewer<'a>(&'a self, incoming: &'a Incoming) -> Viewer<'a> {
        Viewer::new(&self.config.authorizer, incoming.principal.as_ref())
    }

    /// The state to answer a read from.
    async fn view(&self, incoming: &Incoming, consistency: Consistency) -> Result<View, Failure> {
        match self.handle.view(consistency).await {
            Ok(view) => Ok(view),
            Err(ReadFailure::NotLeader) => Err(self.not_here(incoming)),
            Err(ReadFailure::NoLeader) => Err(Failure::NoLeader),
        }
    }

    /// Says where a request belongs that cannot be answered here.
    fn not_here(&self, incoming: &Incoming) -> Failure {
        match self.gate.standing() {
            Standing::Elsewhere(advertise) => {
                Failure::Redirect { location: redirect::location(&advertise, &incoming.head.uri) }
            }
            // Leading again already: the read that failed belonged to the term before.
            Standing::Here(_) | Standing::Nowhere => Failure::NoLeader,
        }
    }
}

/// Everything that is served on the public port: the agents' gRPC service by its own path, and
/// the rest by [`route`].
pub(crate) fn router(app: Arc<App>, agents: AgentServiceServer<Agents>) -> Router {
    let agents_path = format!("/{}/{{*method}}", <AgentServiceServer<Agents>>::NAME);
    Router::new()
        .route_service(&agents_path, agents)
        .fallback(move |request: Request| answer(Arc::clone(&app), request))
}

async fn answer(app: Arc<App>, request: Request) -> Response {
    let form = ErrorForm::of(request.headers());
    let mut incoming = Incoming::new(request);
    let outcome = dispatch(&app, &mut incoming).await;
    incoming.discard().await;
    let response = outcome.unwrap_or_else(|failure| {
        if let Failure::Internal(reason) = &failure {
            tracing::error!(reason, "a request cannot be answered");
        }
        tracing::debug!(status = failure.status().as_u16(), ?failure, "request refused");
        failure.into_response(form)
    });
    app.counters.count(response.status());
    response
}

async fn dispatch(app: &App, incoming: &mut Incoming) -> Result<Response, Failure> {
    let path = incoming.head.uri.path();
    let Some(route) = route::resolve(path) else {
        return Err(Failure::NotFound(format!("Not found: {path}")));
    };
    if let Some(realm) = route.realm() {
        incoming.principal = app
            .config
            .authenticator
            .http(realm, incoming.header(AUTHORIZATION))
            .map_err(|_| Failure::Unauthenticated(realm))?;
    }
    match route.reach() {
        Reach::Anywhere => {
            check_method(&route, incoming)?;
            anywhere(app, &route, incoming).await
        }
        Reach::Leader => of_leader(app, &route, incoming).await,
    }
}

async fn anywhere(app: &App, route: &Route, incoming: &Incoming) -> Result<Response, Failure> {
    match route {
        Route::Health => Ok(read::health()),
        Route::Ready => read::ready(app),
        Route::Version => read::version(incoming),
        Route::Flags => read::flags(app, incoming),
        Route::Metrics => read::metrics(app, incoming).await,
        Route::MetricsSnapshot => read::metrics_snapshot(app, incoming).await,
        Route::Redirect => {
            let leader = app.gate.leader(&app.config.advertise.to_string())?;
            Err(Failure::Redirect { location: format!("//{leader}") })
        }
        Route::Server => extension::server(app, incoming),
        Route::Slaves
        | Route::State
        | Route::StateSummary
        | Route::Frameworks
        | Route::Tasks
        | Route::Roles
        | Route::Operator
        | Route::Scheduler
        | Route::Legacy(_)
        | Route::Teardown
        | Route::Servers
        | Route::Members(_)
        | Route::Snapshot
        | Route::Agents
        | Route::Agent(_)
        | Route::Operations
        | Route::Operation(_)
        | Route::Transaction
        | Route::Reconcile(_)
        | Route::TransactionOf(_)
        | Route::Reservations
        | Route::Volumes
        | Route::Quota
        | Route::Weights
        | Route::MaintenanceSchedule
        | Route::MaintenanceStatus
        | Route::Machine(_) => unreachable!("reach() sends these to the leader"),
    }
}

async fn of_leader(app: &App, route: &Route, incoming: &mut Incoming) -> Result<Response, Failure> {
    match route {
        Route::Operator => operator::call(app, incoming).await,
        Route::Scheduler => scheduler::call(app, incoming).await,
        Route::Servers => {
            admit_read(app, incoming, consistency(incoming)?)?;
            check_method(route, incoming)?;
            servers::list(app, incoming)
        }
        Route::Snapshot => {
            admit_read(app, incoming, Consistency::Linearizable)?;
            check_method(route, incoming)?;
            snapshot::save(app, incoming).await
        }
        Route::Legacy(_)
        | Route::Teardown
        | Route::Transaction
        | Route::Members(_)
        | Route::Machine(_)
        | Route::Reconcile(_) => write(app, route, incoming).await,
        Route::Quota | Route::Weights | Route::MaintenanceSchedule if !is_read(incoming) => {
            write(app, route, incoming).await
        }
        Route::Slaves
        | Route::State
        | Route::StateSummary
        | Route::Frameworks
        | Route::Tasks
        | Route::Roles
        | Route::Agents
        | Route::Agent(_)
        | Route::Operations
        | Route::Operation(_)
        | Route::TransactionOf(_)
        | Route::Reservations
        | Route::Volumes
        | Route::Quota
        | Route::Weights
        | Route::MaintenanceSchedule
        | Route::MaintenanceStatus => {
            let consistency = consistency(incoming)?;
            admit_read(app, incoming, consistency)?;
            check_method(route, incoming)?;
            let view = app.view(incoming, consistency).await?;
            let offers = match route.shows_offers() {
                true => Offers::now(app).await,
                false => Offers::default(),
            };
            let picture = Picture { view: &view, offers: &offers, viewer: app.viewer(incoming) };
            if *route == Route::MaintenanceStatus {
                let answers = app.handle.inverse_answers().await;
                return Ok(maintenance::read_status(&picture, &answers));
            }
            of_state(app, route, &picture, incoming)
        }
        Route::Health
        | Route::Ready
        | Route::Version
        | Route::Flags
        | Route::Metrics
        | Route::MetricsSnapshot
        | Route::Redirect
        | Route::Server => unreachable!("reach() answers these anywhere"),
    }
}

/// What changes something, by other ways than the two APIs of Mesos.
async fn write(app: &App, route: &Route, incoming: &mut Incoming) -> Result<Response, Failure> {
    execute::admit(app, incoming).await?;
    check_method(route, incoming)?;
    match route {
        Route::Legacy(call) => legacy::call(app, incoming, *call).await,
        Route::Teardown => teardown::legacy(app, incoming).await,
        Route::Transaction => transaction::call(app, incoming).await,
        Route::Members(call) => servers::change(app, incoming, *call).await,
        Route::Machine(way) => maintenance::write_machines(app, incoming, *way).await,
        Route::Reconcile(id) => reconcile::call(app, incoming, id).await,
        Route::Quota => quota::write(app, incoming).await,
        Route::Weights => weights::write(app, incoming).await,
        Route::MaintenanceSchedule => maintenance::write_schedule(app, incoming).await,
        _ => unreachable!("of_leader() hands over no other"),
    }
}

fn of_state(
    app: &App,
    route: &Route,
    picture: &Picture<'_>,
    incoming: &Incoming,
) -> Result<Response, Failure> {
    let view = picture.view;
    match route {
        Route::Slaves => read::slaves(picture, incoming),
        Route::State => read::state(app, picture, incoming),
        Route::StateSummary => read::overview(app, picture, incoming),
        Route::Frameworks => read::frameworks(picture, incoming),
        Route::Tasks => read::tasks(picture, incoming),
        Route::Roles => read::roles(app, picture, incoming),
        Route::Agents => extension::agents(app, view, incoming),
        Route::Agent(id) => extension::agent(app, view, incoming, id),
        Route::Operations => extension::operations(app, view, incoming),
        Route::Operation(id) => extension::operation(app, view, incoming, id),
        Route::TransactionOf(id) => transaction::entry(app, view, incoming, id),
        Route::Reservations => inventory::reservations(app, view, incoming),
        Route::Volumes => inventory::volumes(app, view, incoming),
        Route::Quota => Ok(quota::read(picture)),
        Route::Weights => weights::read(picture, incoming),
        Route::MaintenanceSchedule => Ok(maintenance::read_schedule(picture)),
        _ => unreachable!("of_leader() reads the state for no other"),
    }
}

/// How fresh an answer the client wants.
fn consistency(incoming: &Incoming) -> Result<Consistency, Failure> {
    match incoming.query()?.get("consistency").map(String::as_str) {
        None | Some("linearizable") => Ok(Consistency::Linearizable),
        Some("stale") => Ok(Consistency::Stale),
        Some(other) => Err(Failure::bad_request(format!(
            "Expecting 'consistency' to be 'linearizable' or 'stale', found '{other}'"
        ))),
    }
}

/// Lets a read through here, sends it to the leader, or says that there is none. Never waits.
fn admit_read(app: &App, incoming: &Incoming, wanted: Consistency) -> Result<(), Failure> {
    match (wanted, app.gate.standing()) {
        (Consistency::Stale, _) | (Consistency::Linearizable, Standing::Here(_)) => Ok(()),
        (Consistency::Linearizable, Standing::Elsewhere(_) | Standing::Nowhere) => {
            Err(app.not_here(incoming))
        }
    }
}

/// Whether an endpoint that is read and written is only read.
fn is_read(incoming: &Incoming) -> bool {
    matches!(incoming.head.method, Method::GET | Method::HEAD)
}

fn check_method(route: &Route, incoming: &Incoming) -> Result<(), Failure> {
    let allowed = route.methods();
    if allowed.is_empty() || allowed.contains(&incoming.head.method) {
        return Ok(());
    }
    Err(Failure::MethodNotAllowed { allowed, received: incoming.head.method.clone() })
}
