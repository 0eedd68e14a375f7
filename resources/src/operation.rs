//! Operations on an agent's resources (spec §2.2). What each consumes and makes is in
//! `conversion.rs`; whether a request is well formed in `validate.rs`.

use serde::{Deserialize, Serialize};

use crate::resource::Resource;
use crate::role::Role;
use crate::task::Launch;
use crate::value::Scalar;

/// A change of an agent's resources that needs no resource provider, or a use of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::large_enum_variant,
    reason = "the lists of the common variants are on the heap; boxes would only hide the volume"
)]
pub enum Operation {
    /// Push a dynamic reservation, or go from one stack to another when `source` is given.
    Reserve {
        /// What it becomes.
        resources: Vec<Resource>,
        /// What it was, when not simply `resources` with the top reservation popped.
        source: Vec<Resource>,
    },
    /// Pop the top reservation.
    Unreserve {
        /// Dynamically reserved resources.
        resources: Vec<Resource>,
    },
    /// Turn reserved disk into persistent volumes.
    Create {
        /// The volumes.
        volumes: Vec<Resource>,
    },
    /// Turn volumes back into reserved disk; their data is removed.
    Destroy {
        /// The volumes.
        volumes: Vec<Resource>,
    },
    /// Add reserved disk to a volume.
    Grow {
        /// The volume as it is.
        volume: Resource,
        /// Disk of the same reservation and source.
        addition: Resource,
    },
    /// Take disk out of a volume.
    Shrink {
        /// The volume as it is.
        volume: Resource,
        /// How much, less than its size.
        subtract: Scalar,
    },
    /// Run tasks on resources; a framework's only. What it launches it uses, and changes not.
    Launch(Box<Launch>),
}

impl Operation {
    /// The same with every resource allocated to `role` that says nothing of an allocation: what
    /// a framework leaves out of an ACCEPT (spec §2.1).
    #[must_use]
    pub fn allocated_to(self, role: &Role) -> Self {
        self.map(|resource| Resource {
            allocation_role: resource.allocation_role.or_else(|| Some(role.clone())),
            ..resource
        })
    }
    /// The same with no resource allocated: what an agent's total is made of.
    #[must_use]
    pub fn unallocated(self) -> Self {
        self.map(|resource| Resource { allocation_role: None, ..resource })
    }
    fn map(self, change: impl Fn(Resource) -> Resource) -> Self {
        let all = |list: Vec<Resource>| list.into_iter().map(&change).collect();
        match self {
            Self::Reserve { resources, source } => {
                Self::Reserve { resources: all(resources), source: all(source) }
            }
            Self::Unreserve { resources } => Self::Unreserve { resources: all(resources) },
            Self::Create { volumes } => Self::Create { volumes: all(volumes) },
            Self::Destroy { volumes } => Self::Destroy { volumes: all(volumes) },
            Self::Grow { volume, addition } => {
                Self::Grow { volume: change(volume), addition: change(addition) }
            }
            Self::Shrink { volume, subtract } => Self::Shrink { volume: change(volume), subtract },
            // What is launched is in unallocated form: its role stands beside it.
            Self::Launch(launch) => Self::Launch(launch),
        }
    }
}
