//! What one reader may see: roles, the resources reserved for them, operations on those,
//! frameworks, tasks, executors, and flags (spec §9.2). Every read goes through it. Pure. Must not
//! know in which form an answer goes out. Next: `../http/read.rs`.

use resources::collection::Resources;
use resources::framework::FrameworkInfo;
use resources::id::Principal;
use resources::operation::Operation;
use resources::resource::Resource;

use super::action::Action;
use super::authz::Authorizer;

/// A reader with their rights.
#[derive(Debug, Clone, Copy)]
pub struct Viewer<'a> {
    authorizer: &'a Authorizer,
    principal: Option<&'a Principal>,
    sees_every_role: bool,
}

impl<'a> Viewer<'a> {
    /// The rights of this principal.
    #[must_use]
    pub fn new(authorizer: &'a Authorizer, principal: Option<&'a Principal>) -> Self {
        Self { authorizer, principal, sees_every_role: authorizer.is_open(Action::ViewRole) }
    }

    /// Whether the role itself may be seen.
    #[must_use]
    pub fn sees_role(&self, role: &str) -> bool {
        self.sees_every_role || self.may(Action::ViewRole, Some(role))
    }

    /// Whether the quota of a role may be seen.
    #[must_use]
    pub fn sees_quota(&self, role: &str) -> bool {
        self.may(Action::GetQuota, Some(role))
    }

    /// Whether the maintenance schedule may be seen.
    #[must_use]
    pub fn sees_schedule(&self) -> bool {
        self.may(Action::GetMaintenanceSchedule, None)
    }

    /// Whether it may be seen which machines drain and are down.
    #[must_use]
    pub fn sees_maintenance(&self) -> bool {
        self.may(Action::GetMaintenanceStatus, None)
    }

    /// Whether a resource may be seen: every role of its reservations, and the one it is
    /// allocated to.
    #[must_use]
    pub fn sees(&self, resource: &Resource) -> bool {
        let reserved = resource.reservations.iter().map(|level| &level.role);
        self.sees_every_role
            || reserved.chain(&resource.allocation_role).all(|role| self.sees_role(role.as_str()))
    }

    /// What of these may be seen.
    #[must_use]
    pub fn visible(&self, resources: &Resources) -> Resources {
        match self.sees_every_role {
            true => resources.clone(),
            false => resources.filter(|resource| self.sees(resource)),
        }
    }

    /// Whether an operation may be seen: everything that it takes and everything that it makes.
    #[must_use]
    pub fn sees_operation(&self, operation: &Operation) -> bool {
        self.sees_every_role
            || operation.consumed().iter().chain(&operation.converted()).all(|r| self.sees(r))
    }

    /// Whether a framework may be seen: who runs its tasks decides.
    #[must_use]
    pub fn sees_framework(&self, framework: &FrameworkInfo) -> bool {
        self.may(Action::ViewFramework, Some(&framework.user))
    }

    /// Whether every task may be seen, so that nothing has to be known of one.
    #[must_use]
    pub fn sees_every_task(&self) -> bool {
        self.authorizer.is_open(Action::ViewTask)
    }

    /// Whether a task may be seen that runs as `user`, or as its framework when it does not say.
    #[must_use]
    pub fn sees_task(&self, framework: &FrameworkInfo, user: Option<&str>) -> bool {
        self.may(Action::ViewTask, Some(user.unwrap_or(&framework.user)))
    }

    /// Whether every executor may be seen, so that nothing has to be known of one.
    #[must_use]
    pub fn sees_every_executor(&self) -> bool {
        self.authorizer.is_open(Action::ViewExecutor)
    }

    /// Whether an executor may be seen that runs as `user`, or as its framework when it does not
    /// say.
    #[must_use]
    pub fn sees_executor(&self, framework: &FrameworkInfo, user: Option<&str>) -> bool {
        self.may(Action::ViewExecutor, Some(user.unwrap_or(&framework.user)))
    }

    /// Whether this program's flags may be seen.
    #[must_use]
    pub fn sees_flags(&self) -> bool {
        self.may(Action::ViewFlags, None)
    }

    /// Whether the endpoint of this path may be read.
    #[must_use]
    pub fn reads(&self, path: &str) -> bool {
        self.may(Action::GetEndpoint, Some(path))
    }

    fn may(&self, action: Action, object: Option<&str>) -> bool {
        self.authorizer.may(self.principal, action, object)
    }
}
