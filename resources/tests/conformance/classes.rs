//! Which error of the crate is which error class of the case set.

use resources::conversion::{Incompatible, Unconvertible};
use resources::parse::{InvalidAttributes, InvalidResources, InvalidValue};
use resources::quantity::InvalidQuantities;
use resources::role::InvalidRole;
use resources::validate::InvalidResource;

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
            Self::VolumeId(_) | Self::VolumeHostPath { .. } | Self::ProviderId(_) => "OWN_RULE",
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
