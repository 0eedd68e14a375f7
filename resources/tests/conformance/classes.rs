//! Which error of the crate is which error class of the case set.

use resources::capability::AgentCapability;
use resources::conflict::VolumeConflict;
use resources::conversion::{Incompatible, Unconvertible};
use resources::framework_rules::InvalidFramework;
use resources::parse::{InvalidAttributes, InvalidResources, InvalidValue};
use resources::quantity::InvalidQuantities;
use resources::resource::Resource;
use resources::role::InvalidRole;
use resources::task_rules::InvalidUse;
use resources::validate::{InvalidOperation, InvalidResource};

/// An error with a class.
pub(crate) trait Classed {
    fn class(&self) -> &'static str;
}

impl Classed for InvalidResource {
    fn class(&self) -> &'static str {
        match self {
            Self::MissingField { .. } | Self::UnknownEnumerator { .. } => "JSON_FORMAT",
            Self::EmptyName => "EMPTY_NAME",
            Self::UnsupportedType { .. } => "UNSUPPORTED_TYPE",
            Self::ScalarFields => "SCALAR_FIELDS",
            Self::ScalarRange { .. } | Self::ScalarNotPositive { .. } => "SCALAR_NOT_POSITIVE",
            Self::RangesFields => "RANGES_FIELDS",
            Self::RangesInverted { .. } => "RANGES_INVERTED",
            Self::RangesOverlap { .. } => "RANGES_OVERLAP",
            Self::SetFields => "SET_FIELDS",
            Self::SetDuplicate { .. } => "SET_DUPLICATE",
            Self::DiskInfoNotDisk { .. } => "DISKINFO_NOT_DISK",
            Self::DiskSourceType { .. } => "DISK_SOURCE_TYPE",
            Self::DiskSourcePathForbidden { .. } => "DISK_SOURCE_PATH_FORBIDDEN",
            Self::DiskSourceMountForbidden { .. } => "DISK_SOURCE_MOUNT_FORBIDDEN",
            Self::Role(_) => "INVALID_ROLE",
            Self::LegacyReservationType => "LEGACY_RESERVATION_TYPE",
            Self::LegacyReservationRole => "LEGACY_RESERVATION_ROLE",
            Self::StarCannotBeReserved => "STAR_CANNOT_BE_RESERVED",
            Self::ReservationTypeMissing => "RESERVATION_TYPE_MISSING",
            Self::ReservationRoleMissing => "RESERVATION_ROLE_MISSING",
            Self::RefinementStatic { .. } => "REFINEMENT_STATIC",
            Self::RefinementNotSubrole { .. } => "REFINEMENT_NOT_SUBROLE",
            Self::EndpointRoleMismatch { .. } => "ENDPOINT_ROLE_MISMATCH",
            Self::EndpointStaticWithReservation => "ENDPOINT_STATIC_WITH_RESERVATION",
            Self::EndpointRoleReservationPair => "ENDPOINT_ROLE_RESERVATION_PAIR",
            Self::EndpointPrincipalMismatch => "ENDPOINT_PRINCIPAL_MISMATCH",
            Self::EndpointLabelsMismatch => "ENDPOINT_LABELS_MISMATCH",
            Self::EndpointRoleWithRefinement => "ENDPOINT_ROLE_WITH_REFINEMENT",
            Self::EndpointReservationWithRefinement => "ENDPOINT_RESERVATION_WITH_REFINEMENT",
            Self::NotShareable { .. } => "NOT_SHAREABLE",
            Self::VolumeId(_) => "PV_ID_INVALID",
            Self::VolumeHostPath { .. } => "PV_HOST_PATH",
            Self::ProviderId(_) => "OWN_RULE",
        }
    }
}

impl Classed for InvalidValue {
    fn class(&self) -> &'static str {
        match self {
            Self::Empty => "VALUE_EMPTY",
            Self::Brackets(_) => "VALUE_BRACKETS",
            Self::BracketPosition(_) => "VALUE_BRACKET_POSITION",
            Self::Ranges(_) => "VALUE_RANGES",
            Self::RangesInverted { .. } => "RANGES_INVERTED",
            Self::Subnormal(_) => "VALUE_SUBNORMAL",
        }
    }
}

impl Classed for InvalidResources {
    fn class(&self) -> &'static str {
        match self {
            Self::Colon(_) => "TEXT_COLON",
            Self::Parentheses(_) => "TEXT_PARENTHESES",
            Self::Value { reason, .. } => reason.class(),
            Self::TypeUnsupported { .. } => "VALUE_TYPE_UNSUPPORTED",
            Self::Resource { reason, .. } => reason.class(),
            Self::PersistentVolume(_) => "CMDLINE_PERSISTENT_VOLUME",
            Self::Revocable(_) => "CMDLINE_REVOCABLE",
            Self::DynamicReservation(_) => "CMDLINE_DYNAMIC_RESERVATION",
            Self::TypeConflict { .. } => "CMDLINE_TYPE_CONFLICT",
            Self::TooMuch { .. } => "CMDLINE_TOO_MUCH",
        }
    }
}

impl Classed for InvalidAttributes {
    fn class(&self) -> &'static str {
        match self {
            Self::Set { .. } => "ATTRIBUTE_SET",
            Self::Format(_) | Self::Range { .. } => "ATTRIBUTE_FORMAT",
            Self::Value { reason, .. } => reason.class(),
        }
    }
}

impl Classed for InvalidQuantities {
    fn class(&self) -> &'static str {
        match self {
            Self::Colon(_) => "TEXT_COLON",
            Self::Value { reason, .. } => reason.class(),
            Self::NotScalar { .. } => "VALUE_NOT_SCALAR",
            Self::Duplicate(_) => "LIMIT_DUPLICATE",
        }
    }
}

impl Classed for InvalidRole {
    fn class(&self) -> &'static str {
        match self {
            Self::Empty => "ROLE_EMPTY",
            Self::TooLong { .. } => "OWN_RULE",
            Self::Slash(_) => "ROLE_SLASH",
            Self::Dot(_) => "ROLE_DOT",
            Self::Star(_) => "ROLE_STAR_COMPONENT",
            Self::Dash(_) => "ROLE_DASH",
            Self::Whitespace(_) => "ROLE_WHITESPACE",
        }
    }
}

impl Classed for Unconvertible {
    fn class(&self) -> &'static str {
        match self {
            Self::Insufficient { .. } => "INSUFFICIENT_RESOURCES",
            Self::SharesRemain { .. } => "SHARED_COPIES_REMAIN",
            Self::ProviderUnsupported { .. } => "RESOURCE_PROVIDER_UNSUPPORTED",
            Self::NotConserved { .. } => "OWN_RULE",
        }
    }
}

impl Classed for Incompatible {
    fn class(&self) -> &'static str {
        match self {
            Self::NotCheckpointable { .. } => "NOT_CHECKPOINTABLE",
            Self::Missing { .. } => "INCOMPATIBLE_AGENT_RESOURCES",
        }
    }
}

/// Where a case only asks whether.
impl Classed for resources::compatibility::Incompatibility {
    fn class(&self) -> &'static str {
        "INCOMPATIBLE"
    }
}

impl Classed for InvalidOperation {
    fn class(&self) -> &'static str {
        let principal = |named: Option<_>| match named {
            Some(_) => "PRINCIPAL_MISMATCH",
            None => "PRINCIPAL_MISSING",
        };
        let reserver = |resource: &Resource| resource.reservations.last()?.principal.clone();
        let creator =
            |volume: &Resource| volume.disk.as_ref()?.persistence.as_ref()?.principal.clone();
        match self {
            Self::Element { reason, .. } => reason.class(),
            Self::Empty => "NO_RESOURCES",
            Self::LaunchByOperator => "OWN_RULE",
            // In CREATE and DESTROY there is no case: only GROW_VOLUME's addition has one.
            Self::NoSize(_) => "GROW_ADDITION_NOT_POSITIVE",
            Self::FractionalGpus(_) => "GPUS_NOT_INTEGER",
            Self::RevocableVolume(_) => "PV_REVOCABLE",
            Self::UnreservedVolume(_) => "PV_UNRESERVED",
            Self::VolumeMissing(_) => "PV_VOLUME_MISSING",
            Self::VolumeWithoutPersistence(_) => "NON_PERSISTENT_VOLUME",
            Self::RevocableReservation(_) => "DYNAMIC_REVOCABLE",
            Self::Allocated(_) => "OPERATOR_ALLOCATED_RESOURCE",
            Self::SeveralProviders => "PROVIDER_MIXED",
            Self::NotDynamicallyReserved(_) => "NOT_DYNAMICALLY_RESERVED",
            Self::ReservationPrincipal { resource, .. } => principal(reserver(resource)),
            Self::VolumePrincipal { resource, .. } => principal(creator(resource)),
            Self::DifferentReservations => "RESERVE_MIXED_RESERVATIONS",
            Self::DifferentSource => "RESERVE_QUANTITY_MISMATCH",
            Self::NotPersistentVolume(_) => "NOT_PV",
            Self::ReadOnlyVolume(_) => "PV_READ_ONLY",
            Self::ContainerPath { .. } => "PV_CONTAINER_PATH",
            Self::DuplicateVolume { .. } => "PV_ID_DUPLICATE",
            Self::ProviderVolume(_) => "RESIZE_RESOURCE_PROVIDER",
            Self::SharedResize(_) => "RESIZE_SHARED",
            Self::NotAddable { .. } => "GROW_INCOMPATIBLE",
            Self::MountShrink(_) => "SHRINK_MOUNT",
            Self::ShrinkSize { subtract, .. } if subtract.is_positive() => {
                "SHRINK_SUBTRACT_TOO_LARGE"
            }
            Self::ShrinkSize { .. } => "SHRINK_SUBTRACT_NOT_POSITIVE",
            Self::SourceUnsupported => "RESERVE_UPDATE_UNSUPPORTED",
            Self::FrameworkRole { .. } => "ROLE_NOT_IN_FRAMEWORK",
            Self::OtherAllocation { .. } => "ALLOCATION_ROLES_MIXED",
            Self::ReservationRole { .. } => "RESERVE_ROLE_NOT_ALLOCATED_ROLE",
            Self::SharedUnsupported(_) => "FRAMEWORK_LACKS_SHARED_RESOURCES",
            Self::AgentLacks { capability: AgentCapability::HierarchicalRole, .. } => {
                "AGENT_LACKS_HIERARCHICAL_ROLE"
            }
            Self::AgentLacks { capability: AgentCapability::ReservationRefinement, .. } => {
                "AGENT_LACKS_RESERVATION_REFINEMENT"
            }
            Self::AgentLacks { capability: AgentCapability::ResizeVolume, .. } => {
                "AGENT_LACKS_RESIZE_VOLUME"
            }
            // Whose class depends on the operation: `validation.rs` knows it.
            Self::PersistentVolume(_) => "PERSISTENT_VOLUME",
            Self::EmptyDisk(_)
            | Self::StaticReservation
            | Self::TooManyLabels { .. }
            | Self::LabelTooLong { .. }
            | Self::NotAllocated(_)
            | Self::AgentLacks { .. } => "OWN_RULE",
        }
    }
}

impl Classed for VolumeConflict {
    fn class(&self) -> &'static str {
        match self {
            Self::Exists { .. } => "PV_ID_DUPLICATE",
            Self::NotFound { .. } => "PV_NOT_FOUND",
            Self::InUse { .. } => "PV_IN_USE",
        }
    }
}

impl Classed for InvalidFramework {
    fn class(&self) -> &'static str {
        match self {
            Self::RolesWithoutMultiRole => "FI_ROLES_WITHOUT_MULTI_ROLE",
            Self::RoleWithMultiRole => "FI_ROLE_WITH_MULTI_ROLE",
            Self::DuplicateRole(_) => "FI_DUPLICATE_ROLES",
            Self::Role(_) => "INVALID_ROLE",
            Self::Id(_) => "FI_ID_INVALID",
            Self::SuppressedRole(_) => "FI_SUPPRESSED_ROLE_UNKNOWN",
            Self::NotWhitelisted(_) => "FI_ROLE_NOT_WHITELISTED",
            // Rules without a case.
            Self::FailoverTimeout(_)
            | Self::NothingAllocatable(_)
            | Self::Allocatable { .. }
            | Self::ConstrainedRole(_)
            | Self::Root => "OWN_RULE",
        }
    }
}

impl Classed for InvalidUse {
    fn class(&self) -> &'static str {
        match self {
            Self::Nothing => "TASK_NO_RESOURCES",
            Self::Resource(reason) => reason.class(),
            Self::DuplicateVolume { .. } => "PV_ID_DUPLICATE",
            Self::SeveralRoles { .. } => "ALLOCATION_ROLES_MIXED",
            Self::RevocableMixed(_) => "REVOCABLE_MIXED",
            Self::SharedByExecutor(_) => "EXECUTOR_SHARED_RESOURCES",
            Self::Overlap { .. } => "TASK_EXECUTOR_OVERLAP",
            // Rules without a case.
            Self::OtherRole(_)
            | Self::NotAllocated(_)
            | Self::SmallExecutor { .. }
            | Self::ExecutorWithoutDisk => "OWN_RULE",
        }
    }
}
