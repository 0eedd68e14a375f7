//! The flags about offers: how the allocator is set up, which agents are offered, and what roles
//! weigh. Next: `mod.rs`.

use std::collections::{BTreeMap, BTreeSet};

use resources::quantity::Quantities;
use resources::role::Role;
use resources::weight::{InvalidWeight, Weight};

use super::flags::duration_text;
use super::{ConfigError, Flags, NAMED_CHARACTERS_MAX, dormant};
use crate::allocator::Settings;
use crate::allocator::view::MinAllocatable;

impl Flags {
    /// How resources are allocated.
    ///
    /// # Errors
    /// The first flag that has no meaning, or names a file that cannot be read.
    pub(super) fn allocator(&self) -> Result<Settings, ConfigError> {
        let defaults = Settings::default();
        Ok(Settings {
            allocation_interval: self.allocation_interval,
            min_allocatable: self.min_allocatable()?,
            filter_gpu_resources: self.filter_gpu_resources,
            whitelist: self.agents_offered()?,
            recovery_timeout: self.allocator_recovery_timeout,
            recovery_percent: percent(self.allocator_agent_recovery_factor),
            ..defaults
        })
    }

    fn min_allocatable(&self) -> Result<MinAllocatable, ConfigError> {
        let parts = self.min_allocatable_resources.split('|').map(str::trim);
        let parts = parts.filter(|part| !part.is_empty()).map(|part| {
            Quantities::parse(part).map_err(|error| ConfigError::Value {
                flag: "min-allocatable-resources",
                value: part.to_owned(),
                reason: error.to_string(),
            })
        });
        Ok(MinAllocatable(parts.collect::<Result<_, _>>()?))
    }

    /// The hostnames of the whitelist; none when every agent is offered.
    fn agents_offered(&self) -> Result<Option<BTreeSet<String>>, ConfigError> {
        let Some(given) = self.whitelist.as_deref().filter(|given| *given != "*") else {
            return Ok(None);
        };
        let text = std::fs::read_to_string(dormant::path(given));
        let text = text.map_err(|error| ConfigError::File {
            flag: "whitelist",
            path: given.chars().take(NAMED_CHARACTERS_MAX).collect(),
            reason: error.to_string(),
        })?;
        let names = text.lines().map(str::trim).filter(|name| !name.is_empty());
        Ok(Some(names.map(str::to_owned).collect()))
    }

    /// Weights by role. Each role must be one that is allowed.
    ///
    /// # Errors
    /// The first entry that is none.
    pub(super) fn role_weights(
        &self,
        allowed: Option<&BTreeSet<Role>>,
    ) -> Result<BTreeMap<Role, Weight>, ConfigError> {
        let text = self.weights.as_deref().unwrap_or_default();
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let entries = entries.map(|entry| {
            let fail = |reason: String| ConfigError::Value {
                flag: "weights",
                value: entry.to_owned(),
                reason,
            };
            let (role, weight) =
                entry.split_once('=').ok_or_else(|| fail("expected role=weight".to_owned()))?;
            let role = Role::parse(role).map_err(|error| fail(error.to_string()))?;
            if allowed.is_some_and(|allowed| !allowed.contains(&role)) {
                return Err(fail("expected a role of --roles".to_owned()));
            }
            Ok((role, weight.parse().map_err(|error: InvalidWeight| fail(error.to_string()))?))
        });
        entries.collect()
    }

    /// These flags in Mesos' spelling.
    pub(super) fn offer_values(&self) -> Vec<(String, String)> {
        let mut values = vec![
            ("allocation_interval", duration_text(self.allocation_interval)),
            ("min_allocatable_resources", self.min_allocatable_resources.clone()),
            ("filter_gpu_resources", self.filter_gpu_resources.to_string()),
            ("agent_reregister_timeout", duration_text(self.agent_reregister_timeout)),
            ("allocator_recovery_timeout", duration_text(self.allocator_recovery_timeout)),
            ("allocator_agent_recovery_factor", self.allocator_agent_recovery_factor.to_string()),
        ];
        values.extend(self.offer_timeout.map(|value| ("offer_timeout", duration_text(value))));
        values.extend(self.whitelist.clone().map(|value| ("whitelist", value)));
        values.extend(self.weights.clone().map(|value| ("weights", value)));
        values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// A share of a whole in percent, rounded.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the flag takes 0 to 1 and nothing else"
)]
fn percent(share: f64) -> usize {
    (share * 100.0).round() as usize
}
