//! Weights of roles: how much more than its neighbours each is due (spec §8.2). A role without
//! one weighs 1. Must not know shares. Next: `maintenance.rs`.

use std::collections::BTreeMap;
use std::fmt;

use resources::role::Role;
use resources::weight::Weight;
use serde::{Deserialize, Serialize};

use super::State;
use super::command::{Change, Effect};

/// A change of weights; other roles keep theirs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightUpdate {
    /// What each role shall weigh.
    pub weights: BTreeMap<Role, Weight>,
}

impl fmt::Display for WeightUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("update-weights")?;
        self.weights.iter().try_for_each(|(role, weight)| write!(f, " {role}={weight}"))
    }
}

impl State {
    /// The weight that was given to a role, if any was.
    #[must_use]
    pub fn weight(&self, role: &Role) -> Option<&Weight> {
        self.weights.get(role)
    }
    /// All weights that were given, by role.
    pub fn weights(&self) -> impl Iterator<Item = (&Role, &Weight)> {
        self.weights.iter()
    }

    pub(super) fn set_weights(&mut self, update: &WeightUpdate) -> Vec<Effect> {
        for (role, weight) in &update.weights {
            self.weights.insert_mut(role.clone(), weight.clone());
        }
        let roles = update.weights.keys().cloned().collect();
        vec![Effect::Change(Change::WeightsUpdated(roles))]
    }
}
