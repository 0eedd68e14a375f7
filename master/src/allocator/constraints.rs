//! Offer constraints: which agents a framework wants to be offered in a role, as predicates over
//! attributes. Parsed once by the edge; evaluated by the cycle. Must not know of roles.
//!
//! As in Mesos: groups are alternatives, all constraints of a group must hold; the first
//! attribute of a name counts; a text predicate holds for every attribute that is no text, so
//! that the framework decides itself.

use std::fmt;

use regex::{Regex, RegexBuilder};
use resources::message::AttributeValue;

use super::view::AgentProfile;

/// Largest compiled pattern in bytes; a framework cannot make the master hold more.
pub const PATTERN_BYTES_MAX: usize = 64 << 10;

/// Alternatives of which an agent must satisfy one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraints(Vec<Group>);

/// Constraints that must all hold.
pub type Group = Vec<Constraint>;

/// One predicate over one property of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint {
    /// Of which property.
    pub selector: Selector,
    /// What must hold.
    pub predicate: Predicate,
}

/// A property of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// The first attribute of this name.
    Attribute(String),
    /// The hostname.
    Hostname,
    /// The region of its fault domain.
    Region,
    /// The zone of its fault domain.
    Zone,
}

/// What must hold for the property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Predicate {
    /// It is there.
    Exists,
    /// It is not there.
    NotExists,
    /// It is there and, when a text, this one.
    TextEquals(String),
    /// It is not there or not this text.
    TextNotEquals(String),
    /// It is there and, when a text, matched as a whole.
    TextMatches(Pattern),
    /// It is not there, no text, or not matched as a whole.
    TextNotMatches(Pattern),
}

/// A regular expression without back-references, so that matching takes linear time.
#[derive(Debug, Clone)]
pub struct Pattern {
    source: String,
    compiled: Regex,
}

/// Why constraints cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvalidConstraints {
    /// A role without a group: nothing could satisfy it.
    NoGroup,
    /// A group without a constraint.
    EmptyGroup,
    /// The pattern is malformed, or larger than [`PATTERN_BYTES_MAX`] when compiled.
    Pattern {
        /// The pattern.
        source: String,
        /// What is wrong.
        reason: String,
    },
}

impl fmt::Display for InvalidConstraints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGroup => f.write_str("offer constraints without a group"),
            Self::EmptyGroup => f.write_str("group without an attribute constraint"),
            Self::Pattern { source, reason } => write!(f, "pattern '{source}': {reason}"),
        }
    }
}

impl std::error::Error for InvalidConstraints {}

impl Constraints {
    /// Takes the groups of one role.
    ///
    /// # Errors
    /// Without a group, or with an empty one.
    pub fn try_new(groups: Vec<Group>) -> Result<Self, InvalidConstraints> {
        if groups.is_empty() {
            return Err(InvalidConstraints::NoGroup);
        }
        if groups.iter().any(Vec::is_empty) {
            return Err(InvalidConstraints::EmptyGroup);
        }
        Ok(Self(groups))
    }
    /// Whether the agent may be offered.
    #[must_use]
    pub fn admit(&self, agent: &AgentProfile) -> bool {
        self.0.iter().any(|group| group.iter().all(|constraint| constraint.holds(agent)))
    }
}

impl Constraint {
    fn holds(&self, agent: &AgentProfile) -> bool {
        let property = match &self.selector {
            Selector::Hostname => Property::Text(&agent.hostname),
            Selector::Region => agent.region.as_deref().map_or(Property::Absent, Property::Text),
            Selector::Zone => agent.zone.as_deref().map_or(Property::Absent, Property::Text),
            Selector::Attribute(name) => {
                match agent.attributes.iter().find(|own| own.name == *name).map(|own| &own.value) {
                    None => Property::Absent,
                    Some(AttributeValue::Text(text)) => Property::Text(text),
                    Some(AttributeValue::Scalar(_) | AttributeValue::Ranges(_)) => Property::Other,
                }
            }
        };
        self.predicate.holds(&property)
    }
}

enum Property<'a> {
    Absent,
    Text(&'a str),
    Other,
}

impl Predicate {
    fn holds(&self, property: &Property<'_>) -> bool {
        match (property, self) {
            (Property::Absent, Self::Exists | Self::TextEquals(_) | Self::TextMatches(_)) => false,
            (Property::Absent, _) => true,
            (Property::Text(_) | Property::Other, Self::Exists) => true,
            (Property::Text(_) | Property::Other, Self::NotExists) => false,
            (Property::Text(text), Self::TextEquals(wanted)) => text == wanted,
            (Property::Text(text), Self::TextNotEquals(unwanted)) => text != unwanted,
            (Property::Text(text), Self::TextMatches(pattern)) => pattern.matches(text),
            (Property::Text(text), Self::TextNotMatches(pattern)) => !pattern.matches(text),
            (Property::Other, _) => true,
        }
    }
}

impl Pattern {
    /// Compiles a pattern that must match a whole text.
    ///
    /// # Errors
    /// The pattern is malformed or too large.
    pub fn parse(source: impl Into<String>) -> Result<Self, InvalidConstraints> {
        let source = source.into();
        let whole = format!("^(?:{source})$");
        // Parsed alone first: unbalanced brackets could otherwise escape the anchors.
        let alone = RegexBuilder::new(&source).size_limit(PATTERN_BYTES_MAX).build();
        let built = alone.and_then(|_| {
            RegexBuilder::new(&whole)
                .size_limit(PATTERN_BYTES_MAX)
                .dfa_size_limit(PATTERN_BYTES_MAX)
                .build()
        });
        match built {
            Ok(compiled) => Ok(Self { source, compiled }),
            Err(error) => Err(InvalidConstraints::Pattern { source, reason: error.to_string() }),
        }
    }
    fn matches(&self, text: &str) -> bool {
        self.compiled.is_match(text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Pattern {}

#[cfg(test)]
mod tests {
    use resources::message::Attribute;
    use resources::value::Scalar;

    use super::*;

    fn agent() -> AgentProfile {
        let attribute = |name: &str, value| Attribute { name: name.to_owned(), value };
        AgentProfile {
            hostname: "node-7".to_owned(),
            attributes: vec![
                attribute("rack", AttributeValue::Text("r1".to_owned())),
                attribute("rack", AttributeValue::Text("r2".to_owned())),
                attribute("level", AttributeValue::Scalar(Scalar::from_milli(2000))),
            ],
            region: Some("north".to_owned()),
            ..AgentProfile::default()
        }
    }

    #[track_caller]
    fn check(selector: &str, predicate: Predicate, expected: bool) {
        let selector = match selector {
            "@hostname" => Selector::Hostname,
            "@region" => Selector::Region,
            "@zone" => Selector::Zone,
            name => Selector::Attribute(name.to_owned()),
        };
        let constraint = Constraint { selector, predicate };
        let constraints = Constraints::try_new(vec![vec![constraint]]).unwrap();
        assert_eq!(constraints.admit(&agent()), expected);
    }

    #[test]
    fn predicates() {
        let text = |text: &str| text.to_owned();
        let pattern = |source: &str| Pattern::parse(source).unwrap();
        check("rack", Predicate::Exists, true);
        check("none", Predicate::Exists, false);
        check("none", Predicate::NotExists, true);
        check("rack", Predicate::NotExists, false);
        check("rack", Predicate::TextEquals(text("r1")), true);
        // The first attribute of a name counts.
        check("rack", Predicate::TextEquals(text("r2")), false);
        check("none", Predicate::TextEquals(text("r1")), false);
        check("none", Predicate::TextNotEquals(text("r1")), true);
        check("rack", Predicate::TextNotEquals(text("r1")), false);
        // What is no text passes every text predicate.
        check("level", Predicate::TextEquals(text("9")), true);
        check("level", Predicate::TextNotEquals(text("2")), true);
        check("level", Predicate::TextMatches(pattern("x")), true);
        check("level", Predicate::TextNotMatches(pattern("2")), true);
        check("@hostname", Predicate::TextMatches(pattern("node-[0-9]")), true);
        // As a whole, also with an alternative inside.
        check("@hostname", Predicate::TextMatches(pattern("node")), false);
        check("@hostname", Predicate::TextMatches(pattern("node|x")), false);
        check("@hostname", Predicate::TextNotMatches(pattern("node")), true);
        check("@region", Predicate::TextEquals(text("north")), true);
        check("@zone", Predicate::Exists, false);
        check("@zone", Predicate::TextNotMatches(pattern(".*")), true);
    }

    #[test]
    fn groups_are_alternatives() {
        let has = |name: &str| Constraint {
            selector: Selector::Attribute(name.to_owned()),
            predicate: Predicate::Exists,
        };
        let admit = |groups| Constraints::try_new(groups).unwrap().admit(&agent());
        assert!(admit(vec![vec![has("none")], vec![has("rack"), has("level")]]));
        assert!(!admit(vec![vec![has("none")], vec![has("rack"), has("none")]]));
    }

    #[test]
    fn refused_forms() {
        assert_eq!(Constraints::try_new(Vec::new()), Err(InvalidConstraints::NoGroup));
        assert_eq!(Constraints::try_new(vec![Vec::new()]), Err(InvalidConstraints::EmptyGroup));
        for bad in ["(", "a)|(b", r"(a)\1", &format!("({}){{1000}}", "a{100}")] {
            let refused = Pattern::parse(bad);
            assert!(matches!(refused, Err(InvalidConstraints::Pattern { .. })), "{bad}");
        }
    }
}
