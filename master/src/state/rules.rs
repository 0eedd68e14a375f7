//! What operators rule for the whole cluster: quota and weights of roles, maintenance of
//! machines. Each is one command, checked early and again in `apply`. Must not know how offers
//! follow. Next: `quota.rs`, `weights.rs`, `maintenance.rs`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::command::{Effect, Response};
use super::maintenance::MaintenanceUpdate;
use super::quota::QuotaUpdate;
use super::rejection::Rejection;
use super::weights::WeightUpdate;
use super::{Moment, State};

/// A rule for the whole cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rule {
    /// Quota of roles.
    Quota(QuotaUpdate),
    /// Weights of roles.
    Weights(WeightUpdate),
    /// Maintenance of machines.
    Maintenance(MaintenanceUpdate),
}

impl Rule {
    /// The rules of form alone, which no state can change.
    ///
    /// # Errors
    /// The first one that is broken.
    pub fn check_form(&self) -> Result<(), Rejection> {
        match self {
            Self::Quota(update) => update.check_form(),
            Self::Weights(_) => Ok(()),
            Self::Maintenance(update) => update.check_form(),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quota(update) => update.fmt(f),
            Self::Weights(update) => update.fmt(f),
            Self::Maintenance(update) => update.fmt(f),
        }
    }
}

impl State {
    /// The early check of a rule; `apply` repeats it.
    ///
    /// # Errors
    /// What `apply` would answer now.
    pub fn check_rule(&self, rule: &Rule) -> Result<(), Rejection> {
        match rule {
            Rule::Quota(update) => self.check_quota(update),
            Rule::Weights(_) => Ok(()),
            Rule::Maintenance(update) => self.check_maintenance(update),
        }
    }

    pub(super) fn set_rule(
        &mut self,
        now: Moment,
        rule: &Rule,
    ) -> Result<(Response, Vec<Effect>), Rejection> {
        self.check_rule(rule)?;
        let effects = match rule {
            Rule::Quota(update) => self.set_quota(update),
            Rule::Weights(update) => self.set_weights(update),
            Rule::Maintenance(update) => self.set_maintenance(now, update),
        };
        Ok((Response::Ruled, effects))
    }
}
