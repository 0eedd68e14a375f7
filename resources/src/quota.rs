//! Quota of roles as values: what is kept for a role and what it never exceeds (spec §5.5). Must
//! not know what anybody consumes. Next: `weight.rs`.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::brief;
use crate::quantity::{Limits, Quantities};
use crate::role::Role;
use crate::value::Scalar;

/// The most memory or disk that a quota may name: an exabyte, in megabytes.
const MEGABYTES_MAX: Scalar = Scalar::from_milli(1024 * 1024 * 1024 * 1024 * 1000);
/// The most of anything else.
const AMOUNT_MAX: Scalar = Scalar::from_milli(1_000_000_000_000 * 1000);

/// The quota of one role. An empty one is none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Quota {
    /// What is kept for it.
    #[serde(default, skip_serializing_if = "Quantities::is_empty")]
    pub guarantees: Quantities,
    /// What it never exceeds; a kind without a limit is unlimited.
    #[serde(default)]
    pub limits: Limits,
}

/// A role with the quota that it shall have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaConfig {
    /// Whose.
    pub role: Role,
    /// How much.
    #[serde(default)]
    pub quota: Quota,
}

/// Why a role cannot have a quota, whatever there is in the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidQuota {
    /// Only roles at the top can have one.
    #[error("quota of a role below another is not supported")]
    Nested,
    /// `*` cannot have one.
    #[error("the default role '*' cannot have quota")]
    Star,
    /// An amount of a kind without a name.
    #[error("an amount has no name")]
    Nameless,
    /// Less than nothing.
    #[error("{}:{amount} is negative", brief::text(name))]
    Negative {
        /// Of what.
        name: String,
        /// How much.
        amount: Scalar,
    },
    /// More than a quota may name.
    #[error("{}:{amount} is more than {max}", brief::text(name))]
    TooLarge {
        /// Of what.
        name: String,
        /// How much.
        amount: Scalar,
        /// How much at most.
        max: Scalar,
    },
    /// More is guaranteed than allowed.
    #[error("the guarantee {}:{guarantee} exceeds the limit {limit}", brief::text(name))]
    AboveLimit {
        /// Of what.
        name: String,
        /// What is guaranteed.
        guarantee: Scalar,
        /// What is allowed.
        limit: Scalar,
    },
}

impl Quota {
    /// Whether nothing is guaranteed and nothing limited.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.guarantees.is_empty() && self.limits.0.is_empty()
    }
}

impl QuotaConfig {
    /// The rules that no state can change, in Mesos' order.
    ///
    /// # Errors
    /// The first one that is broken.
    pub fn check(&self) -> Result<(), InvalidQuota> {
        if self.role.is_hierarchical() {
            return Err(InvalidQuota::Nested);
        }
        if self.role.is_star() {
            return Err(InvalidQuota::Star);
        }
        let Quota { guarantees, limits } = &self.quota;
        let limits = limits.0.iter().map(|(name, amount)| (name.as_str(), *amount));
        for (name, amount) in guarantees.iter().chain(limits) {
            check_amount(name, amount)?;
        }
        for (name, guarantee) in guarantees.iter() {
            if let Some(limit) = self.quota.limits.0.get(name).filter(|limit| guarantee > **limit) {
                let (name, limit) = (name.to_owned(), *limit);
                return Err(InvalidQuota::AboveLimit { name, guarantee, limit });
            }
        }
        Ok(())
    }
}

fn check_amount(name: &str, amount: Scalar) -> Result<(), InvalidQuota> {
    let max = if matches!(name, "mem" | "disk") { MEGABYTES_MAX } else { AMOUNT_MAX };
    if name.is_empty() {
        return Err(InvalidQuota::Nameless);
    }
    if amount < Scalar::ZERO {
        return Err(InvalidQuota::Negative { name: name.to_owned(), amount });
    }
    if amount > max {
        return Err(InvalidQuota::TooLarge { name: name.to_owned(), amount, max });
    }
    Ok(())
}

/// `guarantees cpus:1 limits cpus:2;mem:0`, or `none`.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let text = |amounts: Vec<(&str, Scalar)>| {
            let amounts = amounts.iter().map(|(name, amount)| format!("{name}:{amount}"));
            amounts.collect::<Vec<_>>().join(";")
        };
        let limits = self.limits.0.iter().map(|(name, amount)| (name.as_str(), *amount));
        let parts =
            [("guarantees", self.guarantees.iter().collect()), ("limits", limits.collect())];
        let mut separator = "";
        for (word, amounts) in parts {
            let amounts: Vec<(&str, Scalar)> = amounts;
            if !amounts.is_empty() {
                write!(f, "{separator}{word} {}", text(amounts))?;
                separator = " ";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_form() {
        #[track_caller]
        fn check(role: &str, guarantees: &str, limits: &str, expected: Option<&str>) {
            let quota = Quota {
                guarantees: Quantities::parse(guarantees).unwrap(),
                limits: Limits::parse(limits).unwrap(),
            };
            let config = QuotaConfig { role: Role::parse(role).unwrap(), quota };
            let found = config.check().map_err(|why| why.to_string());
            assert_eq!(found.err().as_deref(), expected);
        }
        check("ads", "cpus:1;mem:512", "cpus:2;mem:1024", None);
        check("ads", "cpus:1", "mem:0", None);
        check("ads", "mem:1099511627776", "", None);
        check(
            "ads",
            "",
            "mem:1099511627776.001",
            Some(
                "mem:1099511627776.001 is more than \
            1099511627776",
            ),
        );
        check(
            "ads",
            "cpus:1000000000000.001",
            "",
            Some(
                "cpus:1000000000000.001 is more than \
            1000000000000",
            ),
        );
        check("ads", "cpus:3", "cpus:2", Some("the guarantee cpus:3 exceeds the limit 2"));
        check("ads/eu", "", "", Some("quota of a role below another is not supported"));
        check("*", "", "", Some("the default role '*' cannot have quota"));
    }

    #[test]
    fn as_text() {
        let quota = |guarantees, limits| Quota {
            guarantees: Quantities::parse(guarantees).unwrap(),
            limits: Limits::parse(limits).unwrap(),
        };
        assert_eq!(quota("", "").to_string(), "none");
        assert_eq!(quota("cpus:1", "").to_string(), "guarantees cpus:1");
        assert_eq!(quota("cpus:1", "mem:0").to_string(), "guarantees cpus:1 limits mem:0");
    }
}
