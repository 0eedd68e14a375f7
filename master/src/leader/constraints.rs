//! Offer constraints as a framework gave them, as the allocator evaluates them. Edge and leader
//! both read them here: the one to refuse what has no meaning, the other to obey. Pure, but it
//! names the wire, which the allocator must not. Next: `../allocator/constraints.rs`.

use std::collections::BTreeMap;

use prost::Message as _;
use proto::mesos::v1::scheduler::OfferConstraints;
use proto::mesos::v1::scheduler::attribute_constraint::predicate::Predicate as WirePredicate;
use proto::mesos::v1::scheduler::attribute_constraint::selector::{
    PseudoattributeType, Selector as WireSelector,
};
use proto::mesos::v1::scheduler::{AttributeConstraint, attribute_constraint};
use resources::opaque::Opaque;
use resources::role::Role;

use crate::allocator::constraints::{Constraint, Constraints, Pattern, Predicate, Selector};

/// The constraints per role. A role without an entry is not constrained.
///
/// # Errors
/// The first part without meaning: bytes that are no message, a role that is none, a pattern
/// that does not parse or is too large, a constraint that says nothing.
pub fn offer_constraints(given: &Opaque) -> Result<BTreeMap<Role, Constraints>, String> {
    let wire = OfferConstraints::decode(given.as_bytes()).map_err(|error| error.to_string())?;
    let mut constraints = BTreeMap::new();
    for (role, groups) in wire.role_constraints {
        let of_role = |reason: String| format!("offer constraints of role '{role}': {reason}");
        let name = Role::parse(role.clone()).map_err(|error| of_role(error.to_string()))?;
        let mut alternatives = Vec::new();
        for group in groups.groups {
            let parts = group.attribute_constraints.into_iter().map(constraint);
            alternatives.push(parts.collect::<Result<Vec<_>, _>>().map_err(of_role)?);
        }
        let own = Constraints::try_new(alternatives).map_err(|error| of_role(error.to_string()))?;
        constraints.insert(name, own);
    }
    Ok(constraints)
}

fn constraint(wire: AttributeConstraint) -> Result<Constraint, String> {
    let AttributeConstraint { selector, predicate } = wire;
    let selector = selector.selector.ok_or("a selector selects nothing")?;
    let predicate = predicate.predicate.ok_or("a predicate says nothing")?;
    Ok(Constraint { selector: self::selector(selector)?, predicate: self::predicate(predicate)? })
}

fn selector(wire: WireSelector) -> Result<Selector, String> {
    match wire {
        WireSelector::AttributeName(name) => Ok(Selector::Attribute(name)),
        WireSelector::PseudoattributeType(kind) => match PseudoattributeType::try_from(kind) {
            Ok(PseudoattributeType::Hostname) => Ok(Selector::Hostname),
            Ok(PseudoattributeType::Region) => Ok(Selector::Region),
            Ok(PseudoattributeType::Zone) => Ok(Selector::Zone),
            Ok(PseudoattributeType::Unknown) | Err(_) => {
                Err(format!("there is no pseudoattribute of type {kind}"))
            }
        },
    }
}

fn predicate(wire: WirePredicate) -> Result<Predicate, String> {
    use attribute_constraint::predicate as wire_predicate;
    let pattern = |text: &str| Pattern::parse(text).map_err(|error| error.to_string());
    Ok(match wire {
        WirePredicate::Exists(wire_predicate::Exists {}) => Predicate::Exists,
        WirePredicate::NotExists(wire_predicate::NotExists {}) => Predicate::NotExists,
        WirePredicate::TextEquals(text) => Predicate::TextEquals(text.value),
        WirePredicate::TextNotEquals(text) => Predicate::TextNotEquals(text.value),
        WirePredicate::TextMatches(text) => Predicate::TextMatches(pattern(&text.regex)?),
        WirePredicate::TextNotMatches(text) => Predicate::TextNotMatches(pattern(&text.regex)?),
    })
}
