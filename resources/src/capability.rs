//! Capabilities of agents and frameworks: what each declares it can cope with (spec §1.9.1).
//! Which operation needs which is in `validate.rs`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::brief;

/// A name that stands for no capability here.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{}' is no capability", brief::text(.0))]
pub struct UnknownCapability(pub String);

macro_rules! capabilities {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// All of them, in the order of their numbers on the wire.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
        impl FromStr for $name {
            type Err = UnknownCapability;
            fn from_str(text: &str) -> Result<Self, UnknownCapability> {
                let known = Self::ALL.iter().find(|capability| capability.as_str() == text);
                known.copied().ok_or_else(|| UnknownCapability(text.to_owned()))
            }
        }
        impl TryFrom<String> for $name {
            type Error = UnknownCapability;
            fn try_from(text: String) -> Result<Self, UnknownCapability> {
                text.parse()
            }
        }
        impl From<$name> for String {
            fn from(capability: $name) -> String {
                capability.as_str().to_owned()
            }
        }
    };
}

capabilities! {
    /// What an agent can cope with (`AgentInfo.Capability`). Ours have all of them.
    AgentCapability {
        /// Its resources are allocated to roles.
        MultiRole = "MULTI_ROLE",
        /// Roles with a `/`.
        HierarchicalRole = "HIERARCHICAL_ROLE",
        /// Stacks of two reservations or more.
        ReservationRefinement = "RESERVATION_REFINEMENT",
        /// Resources of resource providers.
        ResourceProvider = "RESOURCE_PROVIDER",
        /// GROW_VOLUME and SHRINK_VOLUME.
        ResizeVolume = "RESIZE_VOLUME",
        /// Status updates of operations with an id.
        AgentOperationFeedback = "AGENT_OPERATION_FEEDBACK",
        /// Draining.
        AgentDraining = "AGENT_DRAINING",
        /// `TaskInfo.limits`.
        TaskResourceLimits = "TASK_RESOURCE_LIMITS",
    }
}

capabilities! {
    /// What a framework can cope with (`FrameworkInfo.Capability`).
    FrameworkCapability {
        /// Offers of revocable resources.
        RevocableResources = "REVOCABLE_RESOURCES",
        /// The task state TASK_KILLING.
        TaskKillingState = "TASK_KILLING_STATE",
        /// Offers of `gpus`.
        GpuResources = "GPU_RESOURCES",
        /// Offers of shared volumes.
        SharedResources = "SHARED_RESOURCES",
        /// The task states beyond TASK_LOST.
        PartitionAware = "PARTITION_AWARE",
        /// Several roles.
        MultiRole = "MULTI_ROLE",
        /// Stacks of two reservations or more.
        ReservationRefinement = "RESERVATION_REFINEMENT",
        /// Offers of agents in other regions.
        RegionAware = "REGION_AWARE",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for capability in AgentCapability::ALL {
            assert_eq!(capability.to_string().parse(), Ok(*capability));
        }
        for capability in FrameworkCapability::ALL {
            assert_eq!(capability.to_string().parse(), Ok(*capability));
        }
        let unknown = "SHARED".parse::<FrameworkCapability>().unwrap_err();
        assert_eq!(unknown.to_string(), "'SHARED' is no capability");
    }
}
