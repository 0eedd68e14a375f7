//! Access control lists: Mesos' JSON made into typed rules, and the question whether a rule lets
//! somebody do something (spec §9.2). Pure. Must not know what an operation asks for: that is
//! `authz.rs`. Next: `authz.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;

use super::action::{Action, ENDPOINT_PATHS, ObjectKind, REPLACED, WITHOUT_CALLS};

/// The rules of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acls {
    /// The answer where no rule matches.
    permissive: bool,
    rules: BTreeMap<Action, Vec<Rule>>,
}

/// One rule: who, and what about.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    subjects: Entities,
    objects: Entities,
}

/// What one side of a rule names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entities {
    Any,
    None,
    Some(BTreeSet<String>),
    /// Every role strictly below this one.
    Below(String),
}

/// Why a text is no access control list.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the message of each variant says what it is")]
pub enum InvalidAcls {
    #[error("expected a JSON object with a list of rules per action: {0}")]
    Json(#[source] serde_json::Error),
    #[error("'permissive': expected true or false")]
    Permissive,
    #[error("'{key}' is no action; a rule that rules nothing would let everybody in")]
    UnknownAction { key: String },
    #[error("'{key}' is replaced by '{by}'{}", if *both { ", which stands there too" } else { "" })]
    Replaced { key: &'static str, by: &'static str, both: bool },
    #[error("'{key}': expected a list of rules")]
    NoList { key: String },
    #[error("'{key}', rule {index}: expected exactly 'principals' and '{object_key}'")]
    Rule { key: &'static str, index: usize, object_key: &'static str },
    #[error(
        "'{key}', rule {index}, '{side}': expected {{\"values\":[…]}}, {{\"type\":\"ANY\"}} or \
         {{\"type\":\"NONE\"}}"
    )]
    Entities { key: &'static str, index: usize, side: &'static str },
    #[error("'{key}', rule {index}: '{object_key}' can only be ANY or NONE")]
    Whole { key: &'static str, index: usize, object_key: &'static str },
    #[error(
        "'get_endpoints', rule {index}: expected one of {}, found '{path}'",
        ENDPOINT_PATHS.join(" ")
    )]
    Path { index: usize, path: String },
}

impl Acls {
    /// Reads Mesos' JSON. Stricter than Mesos in one thing: a key that names no action is an
    /// error, because Mesos ignores it and with it the rules that somebody relies on.
    ///
    /// # Errors
    /// Names the action and the rule.
    pub fn parse(text: &str) -> Result<Self, InvalidAcls> {
        let mut lists: Map<String, Value> =
            serde_json::from_str(text).map_err(InvalidAcls::Json)?;
        let permissive = match lists.remove("permissive") {
            None => true,
            Some(Value::Bool(permissive)) => permissive,
            Some(_) => return Err(InvalidAcls::Permissive),
        };
        if let Some((key, by)) = REPLACED.iter().find(|(key, _)| lists.contains_key(*key)) {
            return Err(InvalidAcls::Replaced { key, by, both: lists.contains_key(*by) });
        }
        let mut rules = BTreeMap::new();
        for (key, list) in lists {
            let Value::Array(list) = list else { return Err(InvalidAcls::NoList { key }) };
            match Action::ALL.iter().find(|action| action.key() == key) {
                Some(action) => {
                    rules.insert(*action, read(*action, &list)?);
                }
                None if WITHOUT_CALLS.contains(&key.as_str()) => {}
                None => return Err(InvalidAcls::UnknownAction { key }),
            }
        }
        Ok(Self { permissive, rules })
    }

    /// Whether `subject` may do this to `object`. No subject is nobody that is known, no object
    /// is any at all: only rules on ANY and NONE match them. The first rule that matches both
    /// sides decides.
    #[must_use]
    pub fn may(&self, action: Action, subject: Option<&str>, object: Option<&str>) -> bool {
        let rules = self.rules.get(&action).map_or(&[][..], Vec::as_slice);
        rules
            .iter()
            .find(|rule| rule.subjects.matches(subject) && rule.objects.matches(object))
            .map_or(self.permissive, |rule| rule.subjects.allows() && rule.objects.allows())
    }

    /// Whether any rule speaks about this action; otherwise everybody may or nobody.
    #[must_use]
    pub fn rules_on(&self, action: Action) -> bool {
        self.rules.get(&action).is_some_and(|rules| !rules.is_empty())
    }
}

impl Entities {
    fn matches(&self, asked: Option<&str>) -> bool {
        match self {
            // NONE matches everything, so that it can refuse it.
            Self::Any | Self::None => true,
            Self::Some(values) => asked.is_some_and(|asked| values.contains(asked)),
            Self::Below(role) => asked
                .and_then(|asked| asked.strip_prefix(role.as_str()))
                .is_some_and(|rest| rest.starts_with('/')),
        }
    }

    /// What it says to whoever it matches.
    const fn allows(&self) -> bool {
        match self {
            Self::Any | Self::Some(_) | Self::Below(_) => true,
            Self::None => false,
        }
    }
}

fn read(action: Action, list: &[Value]) -> Result<Vec<Rule>, InvalidAcls> {
    let (key, object_key) = (action.key(), action.object_key());
    let mut rules = Vec::new();
    for (index, rule) in list.iter().enumerate() {
        let broken = || InvalidAcls::Rule { key, index, object_key };
        let sides = rule.as_object().filter(|sides| sides.len() == 2).ok_or_else(broken)?;
        let side = |side: &'static str| {
            let entities = entities(sides.get(side).ok_or_else(broken)?);
            entities.ok_or(InvalidAcls::Entities { key, index, side })
        };
        let (subjects, objects) = (side("principals")?, side(object_key)?);
        check(action, index, &objects)?;
        match objects {
            Entities::Some(values) if action.object_kind() == ObjectKind::Roles => {
                rules.extend(by_subtree(&subjects, values));
            }
            objects @ (Entities::Any | Entities::None | Entities::Some(_) | Entities::Below(_)) => {
                rules.push(Rule { subjects, objects })
            }
        }
    }
    Ok(rules)
}

/// A rule on several roles, with each subtree a rule of its own before the single roles.
fn by_subtree(subjects: &Entities, roles: BTreeSet<String>) -> Vec<Rule> {
    let (subtrees, single): (Vec<String>, Vec<String>) =
        roles.into_iter().partition(|role| role.ends_with("/%"));
    let subtrees = subtrees
        .into_iter()
        .map(|subtree| Entities::Below(subtree.trim_end_matches("/%").to_owned()));
    let single = Entities::Some(single.into_iter().collect());
    let rule = |objects| Rule { subjects: subjects.clone(), objects };
    subtrees.chain([single]).map(rule).collect()
}

fn check(action: Action, index: usize, objects: &Entities) -> Result<(), InvalidAcls> {
    let (key, object_key) = (action.key(), action.object_key());
    let Entities::Some(values) = objects else { return Ok(()) };
    match action.object_kind() {
        ObjectKind::Roles | ObjectKind::Names => Ok(()),
        ObjectKind::Whole => Err(InvalidAcls::Whole { key, index, object_key }),
        ObjectKind::Paths => {
            match values.iter().find(|path| !ENDPOINT_PATHS.contains(&path.as_str())) {
                None => Ok(()),
                Some(path) => Err(InvalidAcls::Path { index, path: path.clone() }),
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntitiesForm {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    values: Option<Vec<String>>,
}

/// Values beside ANY or NONE mean nothing, as in Mesos.
fn entities(value: &Value) -> Option<Entities> {
    let form = EntitiesForm::deserialize(value).ok()?;
    match (form.kind.as_deref(), form.values) {
        (Some("ANY"), _) => Some(Entities::Any),
        (Some("NONE"), _) => Some(Entities::None),
        (None | Some("SOME"), Some(values)) => Some(Entities::Some(values.into_iter().collect())),
        (None | Some(_), _) => None,
    }
}

#[cfg(test)]
mod tests;
