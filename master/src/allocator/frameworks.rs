//! What the allocator is told of frameworks. Nothing is decided here. Next: `cycle.rs`.

use resources::id::FrameworkId;
use resources::role::Role;

use super::Allocator;
use super::drf::NodeId;
use super::view::{FrameworkView, Standing, UnknownRole};

/// A framework.
#[derive(Debug)]
pub(super) struct Framework {
    view: FrameworkView,
    standing: Standing,
}

impl Framework {
    pub(super) fn is_active(&self) -> bool {
        self.standing == Standing::Active
    }
}

impl Allocator {
    /// Tells what a framework asks for; takes the place of what was told before. A new one is
    /// inactive. A role that is suppressed no more has its refusals voided (spec §4.2).
    pub fn framework_changed(&mut self, framework_id: &FrameworkId, view: FrameworkView) {
        let standing = self.frameworks.get(framework_id).map(|framework| framework.standing);
        let standing = standing.unwrap_or(Standing::Inactive);
        let framework = Framework { view, standing };
        if let Some(before) = self.frameworks.insert(framework_id.clone(), framework) {
            for role in &before.view.roles {
                if !self.frameworks[framework_id].view.roles.contains(role) {
                    self.unsubscribe(framework_id, role);
                }
            }
        }
        let view = self.frameworks[framework_id].view.clone();
        for role in &view.roles {
            self.subscribe(framework_id, role, &view);
        }
    }
    /// Tells whether a framework is connected. Its refusals end when it goes.
    pub fn framework_standing(&mut self, framework_id: &FrameworkId, standing: Standing) {
        let Some(framework) = self.frameworks.get_mut(framework_id) else { return };
        if std::mem::replace(&mut framework.standing, standing) == standing {
            return;
        }
        for role in framework.view.roles.clone() {
            if let Some(client) = self.books.tree.find_client(&role, framework_id) {
                self.filters.clear_client(client);
                self.set_in_order(client, standing);
            }
        }
    }
    /// Forgets a framework. What is held or used by it stays counted until that ends too.
    pub fn framework_removed(&mut self, framework_id: &FrameworkId) {
        let Some(framework) = self.frameworks.remove(framework_id) else { return };
        for role in &framework.view.roles {
            self.unsubscribe(framework_id, role);
        }
    }
    /// Ends the suppression and the refusals of these roles, of all when there are none.
    ///
    /// # Errors
    /// The framework lacks one of the roles: nothing happens.
    pub fn revive(
        &mut self,
        framework_id: &FrameworkId,
        roles: &[Role],
    ) -> Result<(), UnknownRole> {
        for role in self.own_roles(framework_id, roles)? {
            if let Some(framework) = self.frameworks.get_mut(framework_id) {
                framework.view.suppressed.remove(&role);
            }
            if let Some(client) = self.books.tree.find_client(&role, framework_id) {
                self.filters.clear_client(client);
                self.set_suppressed(framework_id, client, false);
                self.fresh.insert(client);
            }
        }
        Ok(())
    }
    /// Stops offers for these roles, for all when there are none. Offers that are out stay.
    ///
    /// # Errors
    /// The framework lacks one of the roles: nothing happens.
    pub fn suppress(
        &mut self,
        framework_id: &FrameworkId,
        roles: &[Role],
    ) -> Result<(), UnknownRole> {
        for role in self.own_roles(framework_id, roles)? {
            if let Some(client) = self.books.tree.find_client(&role, framework_id) {
                self.set_suppressed(framework_id, client, true);
            }
            if let Some(framework) = self.frameworks.get_mut(framework_id) {
                framework.view.suppressed.insert(role);
            }
        }
        Ok(())
    }

    fn own_roles(
        &self,
        framework_id: &FrameworkId,
        roles: &[Role],
    ) -> Result<Vec<Role>, UnknownRole> {
        let framework = self.frameworks.get(framework_id).ok_or(UnknownRole)?;
        if roles.is_empty() {
            return Ok(framework.view.roles.iter().cloned().collect());
        }
        let has_all = roles.iter().all(|role| framework.view.roles.contains(role));
        if has_all { Ok(roles.to_vec()) } else { Err(UnknownRole) }
    }
    fn subscribe(&mut self, framework_id: &FrameworkId, role: &Role, view: &FrameworkView) {
        let client = self.books.client(role, framework_id);
        let constraints = view.constraints.get(role);
        let minimum = view.min_allocatable.get(role);
        let Some(own) = self.books.clients.get_mut(client) else { return };
        let is_new = !own.is_subscribed
            || own.capabilities != view.capabilities
            || own.constraints.as_ref() != constraints
            || own.min_allocatable.as_ref() != minimum;
        own.is_subscribed = true;
        own.capabilities = view.capabilities;
        own.constraints = constraints.cloned();
        let is_suppressed = view.suppressed.contains(role);
        let is_revived = own.is_suppressed && !is_suppressed;
        self.books.clients.set_minimum(client, minimum.cloned());
        if is_revived {
            self.filters.clear_client(client);
        }
        if is_new {
            self.fresh.insert(client);
        }
        self.set_suppressed(framework_id, client, is_suppressed);
    }
    fn unsubscribe(&mut self, framework_id: &FrameworkId, role: &Role) {
        let Some(client) = self.books.tree.find_client(role, framework_id) else { return };
        self.filters.clear_client(client);
        self.books.tree.set_active(client, false);
        self.books.clients.set_minimum(client, None);
        if let Some(own) = self.books.clients.get_mut(client) {
            own.is_subscribed = false;
        }
        self.books.clients.suspect(client);
    }
    fn set_suppressed(&mut self, framework_id: &FrameworkId, client: NodeId, is_suppressed: bool) {
        if let Some(own) = self.books.clients.get_mut(client) {
            own.is_suppressed = is_suppressed;
        }
        if let Some(framework) = self.frameworks.get(framework_id) {
            self.set_in_order(client, framework.standing);
        }
    }
    fn set_in_order(&mut self, client: NodeId, standing: Standing) {
        let is_wanted = self
            .books
            .clients
            .get(client)
            .is_some_and(|own| own.is_subscribed && !own.is_suppressed);
        let is_active = is_wanted && standing == Standing::Active;
        if is_active && !self.books.tree.is_active(client) {
            self.fresh.insert(client);
        }
        self.books.tree.set_active(client, is_active);
    }
}
