//! Who may do what: which permissions an operation, a registration, a subscription or a task needs,
//! and whether the access control lists grant them (spec §2.2, §9.2). Pure. Must not know HTTP or
//! the form of a request. Next: `viewer.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use resources::brief;
use resources::id::Principal;
use resources::message::Registration;
use resources::operation::Operation;
use resources::resource::{Resource, reservation_ancestor};
use resources::role::Role;
use thiserror::Error;

use super::acls::Acls;
use super::action::Action;
use crate::state::maintenance::MaintenanceUpdate;

/// Answers what a principal may do. Without lists everybody may do everything.
#[derive(Debug, Clone, Default)]
pub struct Authorizer {
    acls: Option<Arc<Acls>>,
}

/// A principal may not do something.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{} may not {action} {about}", who(principal.as_ref()))]
pub struct Forbidden {
    /// Who asked.
    pub principal: Option<Principal>,
    /// What for, as a verb.
    pub action: &'static str,
    /// To what; only what the request itself named.
    pub about: String,
}

fn who(principal: Option<&Principal>) -> String {
    principal.map_or_else(|| "nobody".to_owned(), |principal| format!("principal '{principal}'"))
}

/// One thing that must be granted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Permission {
    action: Action,
    /// None is any object at all: only rules on ANY grant it.
    object: Option<String>,
    about: String,
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = self.object.as_deref().map_or_else(|| "any".to_owned(), |o| format!("'{o}'"));
        write!(f, "{} {object}", self.action.key())
    }
}

impl Authorizer {
    /// An authorizer with these lists.
    #[must_use]
    pub fn new(acls: Acls) -> Self {
        Self { acls: Some(Arc::new(acls)) }
    }

    /// Whether the principal may do this to that object; no object is any.
    #[must_use]
    pub fn may(&self, principal: Option<&Principal>, action: Action, object: Option<&str>) -> bool {
        let subject = principal.map(Principal::as_str);
        self.acls.as_ref().is_none_or(|acls| acls.may(action, subject, object))
    }

    /// Whether everybody may do this to everything, so that nothing has to be asked.
    #[must_use]
    pub fn is_open(&self, action: Action) -> bool {
        self.may(None, action, None) && self.acls.as_ref().is_none_or(|acls| !acls.rules_on(action))
    }

    /// Whether the principal may have this operation carried out. `stored` finds the creator of
    /// the volume on record that one in the request means, if there is such a volume: a creator
    /// is who created it, not whom the request names.
    ///
    /// # Errors
    /// The first permission that is missing.
    pub fn operation<'a>(
        &self,
        principal: Option<&Principal>,
        operation: &'a Operation,
        stored: impl Fn(&'a Resource) -> Option<Option<Principal>>,
    ) -> Result<(), Forbidden> {
        if self.acls.is_none() {
            return Ok(());
        }
        self.all(principal, permissions(operation, stored))
    }

    /// Whether this authorizer has to know who created a volume before it is destroyed.
    #[must_use]
    pub fn asks_for_creators(&self, operation: &Operation) -> bool {
        match operation {
            Operation::Destroy { .. } => !self.is_open(Action::DestroyVolume),
            Operation::Reserve { .. }
            | Operation::Unreserve { .. }
            | Operation::Create { .. }
            | Operation::Grow { .. }
            | Operation::Shrink { .. }
            | Operation::Launch(_) => false,
        }
    }

    /// Whether the principal may register as an agent with these resources. Where some are
    /// reserved, each role is asked for, and `*` for those which are not (observed 2). An agent
    /// without reservations needs no permission to reserve (case rse-013).
    ///
    /// # Errors
    /// The first permission that is missing. The agent may come again: lists change.
    pub fn registration(
        &self,
        principal: Option<&Principal>,
        registration: &Registration,
    ) -> Result<(), Forbidden> {
        if self.acls.is_none() {
            return Ok(());
        }
        let register = Permission {
            action: Action::RegisterAgent,
            object: None,
            about: "as an agent".to_owned(),
        };
        let resources = &registration.info.resources;
        let reserves = resources.iter().any(Resource::is_reserved);
        let declared = resources.iter().filter(|_| reserves).map(|resource| {
            let role = resource.reservation_role().map_or("*", |role| role.as_str());
            reserve(role)
        });
        let declared: BTreeSet<Permission> = declared.collect();
        self.all(principal, [register].into_iter().chain(declared))
    }

    /// Whether the principal may subscribe as a framework of these roles. One without roles
    /// needs a rule on any.
    ///
    /// # Errors
    /// The first role that is missing.
    pub fn framework(
        &self,
        principal: Option<&Principal>,
        roles: &BTreeSet<Role>,
    ) -> Result<(), Forbidden> {
        let of_role = |role: &Role| of_role(Action::RegisterFramework, role.as_str());
        let nowhere = Permission {
            action: Action::RegisterFramework,
            object: None,
            about: "without a role".to_owned(),
        };
        let nowhere = roles.is_empty().then_some(nowhere);
        self.all(principal, roles.iter().map(of_role).chain(nowhere))
    }

    /// Whether the principal may change the quota of these roles.
    ///
    /// # Errors
    /// The first role that is missing.
    pub fn quota<'a>(
        &self,
        principal: Option<&Principal>,
        roles: impl IntoIterator<Item = &'a Role>,
    ) -> Result<(), Forbidden> {
        let update = |role: &Role| of_role(Action::UpdateQuota, role.as_str());
        self.all(principal, roles.into_iter().map(update))
    }

    /// Whether the principal may change the weight of these roles.
    ///
    /// # Errors
    /// The first role that is missing.
    pub fn weights<'a>(
        &self,
        principal: Option<&Principal>,
        roles: impl IntoIterator<Item = &'a Role>,
    ) -> Result<(), Forbidden> {
        let update = |role: &Role| of_role(Action::UpdateWeight, role.as_str());
        self.all(principal, roles.into_iter().map(update))
    }

    /// Whether the principal may schedule machines, take them down, or bring them up.
    ///
    /// # Errors
    /// When that is missing.
    pub fn maintenance(
        &self,
        principal: Option<&Principal>,
        update: &MaintenanceUpdate,
    ) -> Result<(), Forbidden> {
        let (action, about) = match update {
            MaintenanceUpdate::Schedule(_) => (Action::UpdateMaintenanceSchedule, "of machines"),
            MaintenanceUpdate::Start(_) => (Action::StartMaintenance, "of machines"),
            MaintenanceUpdate::Stop(_) => (Action::StopMaintenance, "of machines"),
        };
        self.all(principal, [Permission { action, object: None, about: about.to_owned() }])
    }

    /// Whether the principal may run a task as this user.
    ///
    /// # Errors
    /// When that is missing.
    pub fn task(&self, principal: Option<&Principal>, user: &str) -> Result<(), Forbidden> {
        let run = Permission {
            action: Action::RunTask,
            object: Some(user.to_owned()),
            about: format!("as user '{}'", brief::text(user)),
        };
        self.all(principal, [run])
    }

    fn all(
        &self,
        principal: Option<&Principal>,
        permissions: impl IntoIterator<Item = Permission>,
    ) -> Result<(), Forbidden> {
        for permission in permissions {
            if !self.may(principal, permission.action, permission.object.as_deref()) {
                return Err(Forbidden {
                    principal: principal.cloned(),
                    action: verb(permission.action),
                    about: permission.about,
                });
            }
        }
        Ok(())
    }
}

/// Everything that an operation needs to be granted, each thing once.
fn permissions<'a>(
    operation: &'a Operation,
    stored: impl Fn(&'a Resource) -> Option<Option<Principal>>,
) -> BTreeSet<Permission> {
    match operation {
        Operation::Reserve { resources, source } if source.is_empty() => {
            resources.iter().filter_map(|resource| for_role(reserve, resource)).collect()
        }
        Operation::Reserve { resources, source } => moves(source, resources),
        Operation::Unreserve { resources } => {
            let top = |resource: &Resource| resource.reservations.last()?.principal.clone();
            resources.iter().map(|resource| unreserve(top(resource).as_ref())).collect()
        }
        Operation::Create { volumes } => {
            let create = |role: &str| of_role(Action::CreateVolume, role);
            volumes.iter().filter_map(|volume| for_role(create, volume)).collect()
        }
        Operation::Destroy { volumes } => {
            volumes.iter().filter_map(|volume| Some(destroy(volume, stored(volume)?))).collect()
        }
        Operation::Grow { volume, .. } | Operation::Shrink { volume, .. } => {
            let resize = |role: &str| of_role(Action::ResizeVolume, role);
            for_role(resize, volume).into_iter().collect()
        }
        // RUN_TASK is asked task by task, before there is a launch.
        Operation::Launch(_) => BTreeSet::new(),
    }
}

/// From one reservation stack to another: each level that goes, then each that comes. Both
/// lists carry one stack each, which was checked before.
fn moves(source: &[Resource], resources: &[Resource]) -> BTreeSet<Permission> {
    let stack = |list: &[Resource]| list.first().map(|first| first.reservations.clone());
    let (from, to) = (stack(source).unwrap_or_default(), stack(resources).unwrap_or_default());
    let common = reservation_ancestor(&from, &to).len();
    let gone = from[common..].iter().map(|level| unreserve(level.principal.as_ref()));
    let come = to[common..].iter().map(|level| reserve(level.role.as_str()));
    gone.chain(come).collect()
}

fn for_role(permission: impl Fn(&str) -> Permission, resource: &Resource) -> Option<Permission> {
    resource.reservation_role().map(|role| permission(role.as_str()))
}

fn of_role(action: Action, role: &str) -> Permission {
    Permission { action, object: Some(role.to_owned()), about: format!("for role '{role}'") }
}

fn reserve(role: &str) -> Permission {
    of_role(Action::ReserveResources, role)
}

fn unreserve(reserver: Option<&Principal>) -> Permission {
    Permission {
        action: Action::UnreserveResources,
        object: reserver.map(|reserver| reserver.as_str().to_owned()),
        about: reserver.map_or_else(
            || "that nobody reserved by name".to_owned(),
            |reserver| format!("of principal '{reserver}'"),
        ),
    }
}

/// A volume that nobody made by name counts as that of the principal "", so that only a rule on
/// ANY grants it. One that is not there needs no permission: it is refused as not found, as in
/// Mesos, and a repeat under a key gets its answer after the volume is gone.
fn destroy(volume: &Resource, creator: Option<Principal>) -> Permission {
    Permission {
        action: Action::DestroyVolume,
        object: Some(creator.map(|creator| creator.as_str().to_owned()).unwrap_or_default()),
        // Not its creator: that is not for everybody to know.
        about: volume.volume_id().map(|id| format!("'{id}'")).unwrap_or_default(),
    }
}

fn verb(action: Action) -> &'static str {
    match action {
        Action::RegisterAgent => "register",
        Action::ReserveResources => "reserve resources",
        Action::UnreserveResources => "unreserve resources",
        Action::CreateVolume => "create volumes",
        Action::DestroyVolume => "destroy volume",
        Action::ResizeVolume => "resize volumes",
        Action::RegisterFramework => "subscribe as a framework",
        Action::RunTask => "run tasks",
        Action::UpdateQuota => "update quota",
        Action::UpdateWeight => "update the weight",
        Action::UpdateMaintenanceSchedule => "schedule the maintenance",
        Action::StartMaintenance => "start the maintenance",
        Action::StopMaintenance => "stop the maintenance",
        Action::TeardownFramework
        | Action::GetQuota
        | Action::ViewRole
        | Action::GetEndpoint
        | Action::ViewFramework
        | Action::ViewTask
        | Action::ViewExecutor
        | Action::ViewFlags
        | Action::AccessSandbox
        | Action::AccessMesosLog
        | Action::SetLogLevel
        | Action::GetMaintenanceSchedule
        | Action::GetMaintenanceStatus
        | Action::MarkAgentGone
        | Action::DrainAgent
        | Action::DeactivateAgent
        | Action::ReactivateAgent
        | Action::ManageServers => action.key(),
    }
}

#[cfg(test)]
mod tests;
