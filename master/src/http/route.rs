//! Which endpoint a path means: by longest prefix, with and without `/master`, as Mesos' own
//! HTTP library does it; exact extension routes win over a prefix. Pure. Must not know how an
//! endpoint answers. Next: `negotiate.rs`.

use http::Method;

use super::maintenance::Way;
use crate::auth::Realm;

/// An endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    Health,
    Ready,
    Version,
    Flags,
    Metrics,
    MetricsSnapshot,
    Redirect,
    Slaves,
    State,
    StateSummary,
    Frameworks,
    Tasks,
    Roles,
    Operator,
    Scheduler,
    Legacy(LegacyCall),
    Teardown,
    Server,
    Servers,
    Members(MemberCall),
    Snapshot,
    Agents,
    Agent(String),
    Reconcile(String),
    Operations,
    Operation(String),
    Transaction,
    TransactionOf(String),
    Reservations,
    Volumes,
    Quota,
    Weights,
    MaintenanceSchedule,
    MaintenanceStatus,
    Machine(Way),
}

/// The unversioned mutating endpoints (spec §6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LegacyCall {
    Reserve,
    Unreserve,
    CreateVolumes,
    DestroyVolumes,
}

/// Changes of the members of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemberCall {
    Add,
    Promote,
    Remove,
    Replace,
    TransferLeader,
}

/// Which masters answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Each one, of itself.
    Anywhere,
    /// The leader; others redirect to it.
    Leader,
}

/// Matched by longest prefix.
const PREFIXES: &[(&str, Route)] = &[
    ("health", Route::Health),
    ("ready", Route::Ready),
    ("version", Route::Version),
    ("flags", Route::Flags),
    ("metrics", Route::Metrics),
    ("metrics/snapshot", Route::MetricsSnapshot),
    ("slaves", Route::Slaves),
    ("state", Route::State),
    ("api/v1", Route::Operator),
    ("api/v1/scheduler", Route::Scheduler),
    ("reserve", Route::Legacy(LegacyCall::Reserve)),
    ("unreserve", Route::Legacy(LegacyCall::Unreserve)),
    ("create-volumes", Route::Legacy(LegacyCall::CreateVolumes)),
    ("destroy-volumes", Route::Legacy(LegacyCall::DestroyVolumes)),
    ("state-summary", Route::StateSummary),
    ("frameworks", Route::Frameworks),
    ("tasks", Route::Tasks),
    ("roles", Route::Roles),
    ("quota", Route::Quota),
    ("weights", Route::Weights),
    ("teardown", Route::Teardown),
    ("maintenance/schedule", Route::MaintenanceSchedule),
    ("maintenance/status", Route::MaintenanceStatus),
    ("machine/down", Route::Machine(Way::Down)),
    ("machine/up", Route::Machine(Way::Up)),
];

/// Matched as a whole, before any prefix.
const EXACT: &[(&str, Route)] = &[
    ("redirect", Route::Redirect),
    ("api/v1/server", Route::Server),
    ("api/v1/servers", Route::Servers),
    ("api/v1/servers/add", Route::Members(MemberCall::Add)),
    ("api/v1/servers/promote", Route::Members(MemberCall::Promote)),
    ("api/v1/servers/remove", Route::Members(MemberCall::Remove)),
    ("api/v1/servers/replace", Route::Members(MemberCall::Replace)),
    ("api/v1/servers/transfer-leader", Route::Members(MemberCall::TransferLeader)),
    ("api/v1/snapshot", Route::Snapshot),
    ("api/v1/agents", Route::Agents),
    ("api/v1/operations", Route::Operations),
    ("api/v1/transaction", Route::Transaction),
    ("api/v1/reservations", Route::Reservations),
    ("api/v1/volumes", Route::Volumes),
];

/// The endpoint that `path` means, if any.
pub(crate) fn resolve(path: &str) -> Option<Route> {
    let mut segments: Vec<String> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(super::form::decode_path)
        .collect::<Option<_>>()?;
    if segments.first().is_some_and(|first| first == "master") {
        segments.remove(0);
    }
    let whole = segments.join("/");
    if let Some((_, route)) = EXACT.iter().find(|(exact, _)| *exact == whole) {
        return Some(route.clone());
    }
    if let [api, v1, list, id] = segments.as_slice() {
        match [api.as_str(), v1.as_str(), list.as_str()] {
            ["api", "v1", "agents"] => return Some(Route::Agent(id.clone())),
            ["api", "v1", "operations"] => return Some(Route::Operation(id.clone())),
            ["api", "v1", "transactions"] => return Some(Route::TransactionOf(id.clone())),
            _ => {}
        }
    }
    if let [api, v1, agents, id, verb] = segments.as_slice()
        && [api, v1, agents, verb] == ["api", "v1", "agents", "reconcile"]
    {
        return Some(Route::Reconcile(id.clone()));
    }
    (1..=segments.len()).rev().find_map(|length| {
        let prefix = segments[..length].join("/");
        PREFIXES.iter().find(|(known, _)| *known == prefix).map(|(_, route)| route.clone())
    })
}

impl Route {
    /// The realm whose credentials are asked for; none for open endpoints.
    pub(crate) fn realm(&self) -> Option<Realm> {
        match self {
            Self::Health | Self::Ready | Self::Version | Self::Redirect => None,
            Self::Flags
            | Self::Metrics
            | Self::MetricsSnapshot
            | Self::Slaves
            | Self::State
            | Self::StateSummary
            | Self::Frameworks
            | Self::Tasks
            | Self::Roles
            | Self::Server
            | Self::Servers
            | Self::Snapshot
            | Self::Agents
            | Self::Agent(_)
            | Self::Operations
            | Self::Operation(_)
            | Self::TransactionOf(_)
            | Self::Reservations
            | Self::Volumes
            | Self::MaintenanceStatus => Some(Realm::Readonly),
            Self::Operator
            | Self::Legacy(_)
            | Self::Teardown
            | Self::Transaction
            | Self::Members(_)
            | Self::Reconcile(_)
            | Self::Quota
            | Self::Weights
            | Self::MaintenanceSchedule
            | Self::Machine(_) => Some(Realm::Readwrite),
            Self::Scheduler => Some(Realm::Scheduler),
        }
    }

    /// Which masters answer.
    pub(crate) fn reach(&self) -> Reach {
        match self {
            Self::Health
            | Self::Ready
            | Self::Version
            | Self::Flags
            | Self::Metrics
            | Self::MetricsSnapshot
            | Self::Redirect
            | Self::Server => Reach::Anywhere,
            Self::Slaves
            | Self::State
            | Self::StateSummary
            | Self::Frameworks
            | Self::Tasks
            | Self::Roles
            | Self::Operator
            | Self::Scheduler
            | Self::Legacy(_)
            | Self::Teardown
            | Self::Servers
            | Self::Members(_)
            | Self::Snapshot
            | Self::Agents
            | Self::Agent(_)
            | Self::Operations
            | Self::Operation(_)
            | Self::Transaction
            | Self::Reconcile(_)
            | Self::TransactionOf(_)
            | Self::Reservations
            | Self::Volumes
            | Self::Quota
            | Self::Weights
            | Self::MaintenanceSchedule
            | Self::MaintenanceStatus
            | Self::Machine(_) => Reach::Leader,
        }
    }

    /// Whether what is offered is part of the answer.
    pub(crate) const fn shows_offers(&self) -> bool {
        matches!(
            self,
            Self::Slaves | Self::State | Self::StateSummary | Self::Frameworks | Self::Roles
        )
    }

    /// The methods it takes; empty means all.
    pub(crate) fn methods(&self) -> &'static [Method] {
        const READ: &[Method] = &[Method::GET, Method::HEAD];
        match self {
            Self::Health
            | Self::Ready
            | Self::Version
            | Self::Flags
            | Self::Metrics
            | Self::MetricsSnapshot
            | Self::Slaves
            | Self::State
            | Self::StateSummary
            | Self::Frameworks
            | Self::Tasks
            | Self::Roles
            | Self::Server
            | Self::Servers
            | Self::Snapshot
            | Self::Agents
            | Self::Agent(_)
            | Self::Operations
            | Self::Operation(_)
            | Self::TransactionOf(_)
            | Self::Reservations
            | Self::Volumes
            | Self::MaintenanceStatus => READ,
            Self::Operator
            | Self::Scheduler
            | Self::Legacy(_)
            | Self::Teardown
            | Self::Transaction
            | Self::Reconcile(_)
            | Self::Machine(_)
            | Self::Members(_) => &[Method::POST],
            Self::MaintenanceSchedule => &[Method::GET, Method::HEAD, Method::POST],
            Self::Quota => &[Method::GET, Method::HEAD, Method::POST, Method::DELETE],
            Self::Weights => &[Method::GET, Method::HEAD, Method::PUT],
            Self::Redirect => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: Option<Route>) {
        assert_eq!(resolve(path), expected, "{path}");
    }

    #[test]
    fn longest_prefix_with_and_without_master() {
        for prefix in ["", "/master"] {
            let at = |path: &str| format!("{prefix}{path}");
            check(&at("/api/v1"), Some(Route::Operator));
            check(&at("/api/v1/"), Some(Route::Operator));
            check(&at("/api/v1/operator"), Some(Route::Operator));
            check(&at("/api/v1/agents"), Some(Route::Agents));
            check(&at("/api/v1/agents/"), Some(Route::Agents));
            check(&at("/api/v1/agents/x"), Some(Route::Agent("x".into())));
            check(&at("/api/v1/agents/x/reconcile"), Some(Route::Reconcile("x".into())));
            check(&at("/api/v1/agents/x/y"), Some(Route::Operator));
            check(&at("/api/v1/server"), Some(Route::Server));
            check(&at("/api/v1/servers"), Some(Route::Servers));
            check(&at("/api/v1/servers/add"), Some(Route::Members(MemberCall::Add)));
            check(&at("/api/v1/operations"), Some(Route::Operations));
            check(&at("/api/v1/operations/3-7"), Some(Route::Operation("3-7".into())));
            check(&at("/api/v1/operations/a%20b"), Some(Route::Operation("a b".into())));
            check(&at("/api/v1/transaction"), Some(Route::Transaction));
            check(&at("/api/v1/transactions/3-7"), Some(Route::TransactionOf("3-7".into())));
            check(&at("/api/v1/scheduler"), Some(Route::Scheduler));
            check(&at("/slaves"), Some(Route::Slaves));
            check(&at("//slaves/"), Some(Route::Slaves));
            check(&at("/slaves/x"), Some(Route::Slaves));
            check(&at("/state"), Some(Route::State));
            check(&at("/state-summary"), Some(Route::StateSummary));
            check(&at("/frameworks/"), Some(Route::Frameworks));
            check(&at("/teardown"), Some(Route::Teardown));
            check(&at("/metrics"), Some(Route::Metrics));
            check(&at("/metrics/snapshot"), Some(Route::MetricsSnapshot));
            check(&at("/create-volumes"), Some(Route::Legacy(LegacyCall::CreateVolumes)));
            check(&at("/redirect"), Some(Route::Redirect));
            check(&at("/redirect/x"), None);
            check(&at("/api"), None);
            check(&at("/api/v2"), None);
            check(&at("/slavesx"), None);
            check(&at("/slaves%2"), None);
        }
        check("/", None);
        check("/master", None);
        check("/master/master/slaves", None);
        check("/masterx/slaves", None);
    }

    #[test]
    fn open_endpoints_need_no_credentials() {
        for path in ["/health", "/ready", "/version", "/redirect", "/master/redirect"] {
            assert_eq!(resolve(path).unwrap().realm(), None, "{path}");
        }
        assert_eq!(resolve("/slaves").unwrap().realm(), Some(Realm::Readonly));
        assert_eq!(resolve("/api/v1").unwrap().realm(), Some(Realm::Readwrite));
    }
}
