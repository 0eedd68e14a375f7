//! Scripts of the allocator. The script plays the leader: it tells what agents have and what
//! frameworks want, and says what becomes of each offer.
//!
//! ```text
//! settings [min=ALTERNATIVES] [region=NAME] [whitelist=HOSTS] [gpus=all] [unfair=KINDS]
//! agent A LIST [host=H] [region=R] [zone=Z] [attributes=NAME:TEXT,…] [flat]
//! total A LIST [unconfirmed=LIST]      what it has now
//! use A F ROLE LIST|none               what tasks of one framework use, now
//! on A · off A · remove A              may be offered, may not, is gone
//! framework F ROLES [suppressed=ROLES] [can=CAPABILITIES] [min=ROLE=ALTERNATIVES]
//!   [want=ROLE=GROUPS]
//! come F · go F · end F                connected, disconnected, removed
//! revive F [ROLES] · suppress F [ROLES]
//! run [SECONDS]                        time passes, then a run; numbers the offers it makes
//! decline O [refuse=SECONDS]           back, with a refusal of 5 s if not said
//! release O                            back
//! refuse O LIST refuse=SECONDS         a refusal alone
//! quota ROLE [guarantee=…] [limit=…] · weight ROLE MILLIONTHS
//! recover N · free A · share ROLE
//! ```
//! A revocable resource ends with `{REV}`. GROUPS: constraints joined by `&`, groups by `|`;
//! `rack`, `!rack`, `rack:r1`, `rack!r1`, `rack~PATTERN`, `rack!~PATTERN`; `@host`, `@region`.

use std::collections::BTreeMap;
use std::time::Duration;

use resources::collection::Resources;
use resources::id::{AgentId, FrameworkId};
use resources::message::{Attribute, AttributeValue};
use resources::quantity::{Limits, Quantities};
use resources::resource::Resource;
use resources::role::Role;
use resources::time::Timestamp;

use master::allocator::calls::Given;
use master::allocator::constraints::{Constraint, Constraints, Pattern, Predicate, Selector};
use master::allocator::view::{
    AgentProfile, AgentResources, Capabilities, FrameworkView, MinAllocatable, REFUSE_DEFAULT,
    Standing,
};
use master::allocator::{Allocator, Settings};
use resources::quota::Quota;

use super::notation;

#[test]
fn allocator() {
    super::run_all("allocator", || {
        let mut play = Play::new();
        move |line: &str| play.line(line)
    });
}

struct Offer {
    framework_id: FrameworkId,
    role: Role,
    agent_id: AgentId,
    resources: Resources,
}

struct Play {
    allocator: Allocator,
    now: Timestamp,
    agents: BTreeMap<String, AgentResources>,
    offers: Vec<Offer>,
}

struct Words<'a> {
    plain: Vec<&'a str>,
    named: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    fn new(line: &'a str) -> Self {
        let (mut plain, mut named) = (Vec::new(), BTreeMap::new());
        for word in line.split_whitespace() {
            // A static reservation has an equals sign too, after an `@`.
            match word.split_once('=') {
                Some((name, value)) if name.chars().all(|c| c.is_ascii_lowercase()) => {
                    named.insert(name, value);
                }
                Some(_) | None => plain.push(word),
            }
        }
        Self { plain, named }
    }
    fn seconds(&self, name: &str) -> Option<Duration> {
        self.named.get(name).map(|text| {
            let milli: f64 = text.parse::<f64>().unwrap() * 1000.0;
            Duration::from_millis(milli.to_string().parse().unwrap())
        })
    }
}

fn list(text: &str) -> Resources {
    let one = |item: &str| match item.strip_suffix("{REV}") {
        Some(plain) => {
            let resource = notation::list(plain).pop().unwrap();
            Resource { revocable: true, ..resource }
        }
        None => notation::list(item).pop().unwrap(),
    };
    text.split(';').filter(|item| !item.is_empty()).map(one).collect()
}

fn roles<C: FromIterator<Role>>(text: &str) -> C {
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts.map(|part| Role::parse(part).unwrap()).collect()
}

fn minimum(text: &str) -> MinAllocatable {
    let parts = text.split('|').filter(|part| !part.is_empty());
    MinAllocatable(parts.map(|part| Quantities::parse(part).unwrap()).collect())
}

fn constraints(text: &str) -> Constraints {
    let group = |group: &str| group.split('&').map(constraint).collect();
    Constraints::try_new(text.split('|').map(group).collect()).unwrap()
}

fn constraint(text: &str) -> Constraint {
    let pattern = |text: &str| Pattern::parse(text).unwrap();
    let (name, predicate) = if let Some((name, text)) = text.split_once("!~") {
        (name, Predicate::TextNotMatches(pattern(text)))
    } else if let Some((name, text)) = text.split_once('~') {
        (name, Predicate::TextMatches(pattern(text)))
    } else if let Some(name) = text.strip_prefix('!') {
        (name, Predicate::NotExists)
    } else if let Some((name, text)) = text.split_once('!') {
        (name, Predicate::TextNotEquals(text.to_owned()))
    } else if let Some((name, text)) = text.split_once(':') {
        (name, Predicate::TextEquals(text.to_owned()))
    } else {
        (text, Predicate::Exists)
    };
    let selector = match name {
        "@host" => Selector::Hostname,
        "@region" => Selector::Region,
        name => Selector::Attribute(name.to_owned()),
    };
    Constraint { selector, predicate }
}

fn per_role<T>(words: &Words<'_>, name: &str, parse: impl Fn(&str) -> T) -> BTreeMap<Role, T> {
    let given = words.named.get(name).map(|text| text.split_once('=').unwrap());
    given.map(|(role, text)| (Role::parse(role).unwrap(), parse(text))).into_iter().collect()
}

impl Play {
    fn new() -> Self {
        Self {
            allocator: Allocator::new(Settings::default()),
            now: Timestamp::default(),
            agents: BTreeMap::new(),
            offers: Vec::new(),
        }
    }

    fn line(&mut self, text: &str) -> Vec<String> {
        let words = Words::new(text);
        match words.plain[0] {
            "settings" => self.settings(&words),
            "agent" | "total" | "use" | "on" | "off" | "remove" => self.agent(&words),
            "framework" | "come" | "go" | "end" => self.framework(&words),
            "revive" | "suppress" => return self.interest(&words),
            "run" => return self.run(&words),
            "decline" | "release" | "refuse" => self.settle(&words),
            "quota" => {
                let text = |name| words.named.get(name).copied().unwrap_or("");
                let quota = Quota {
                    guarantees: Quantities::parse(text("guarantee")).unwrap(),
                    limits: Limits::parse(text("limit")).unwrap(),
                };
                self.allocator.set_quota(&Role::parse(words.plain[1]).unwrap(), &quota);
            }
            "weight" => {
                let weight = words.plain[2].parse().unwrap();
                self.allocator.set_weight(&Role::parse(words.plain[1]).unwrap(), Some(weight));
            }
            "recover" => self.allocator.recover(words.plain[1].parse().unwrap(), self.now),
            "free" => {
                let agent_id = AgentId::parse(words.plain[1]).unwrap();
                return vec![format!("free {}", self.allocator.free(&agent_id))];
            }
            "share" => {
                let role = Role::parse(words.plain[1]).unwrap();
                let (part, whole) = self.allocator.dominant_share(&role).unwrap();
                return vec![format!("share {part}/{whole}")];
            }
            other => panic!("no such line: {other}"),
        }
        Vec::new()
    }

    fn settings(&mut self, words: &Words<'_>) {
        let names = |text: &&str| text.split(',').map(str::to_owned).collect();
        let defaults = Settings::default();
        self.allocator = Allocator::new(Settings {
            min_allocatable: words
                .named
                .get("min")
                .map_or(defaults.min_allocatable.clone(), |m| minimum(m)),
            filter_gpu_resources: words.named.get("gpus") != Some(&"all"),
            region: words.named.get("region").map(|name| (*name).to_owned()),
            whitelist: words.named.get("whitelist").map(names),
            excluded_from_fairness: words.named.get("unfair").map(names).unwrap_or_default(),
            ..defaults
        });
    }

    fn agent(&mut self, words: &Words<'_>) {
        let name = words.plain[1];
        let agent_id = AgentId::parse(name).unwrap();
        let own = self.agents.entry(name.to_owned()).or_default();
        match words.plain[0] {
            "agent" => {
                let text = |key| words.named.get(key).map(|text| (*text).to_owned());
                let attribute = |pair: &str| {
                    let (name, text) = pair.split_once(':').unwrap();
                    let value = AttributeValue::Text(text.to_owned());
                    Attribute { name: name.to_owned(), value }
                };
                let attributes = words.named.get("attributes");
                let profile = AgentProfile {
                    hostname: text("host").unwrap_or_else(|| name.to_owned()),
                    attributes: attributes
                        .map(|text| text.split(',').map(attribute).collect())
                        .unwrap_or_default(),
                    region: text("region"),
                    zone: text("zone"),
                    lacks_hierarchical_role: words.plain.contains(&"flat"),
                };
                own.total = list(words.plain[2]);
                self.allocator.agent_changed(&agent_id, profile);
                self.allocator.agent_standing(&agent_id, Standing::Active);
            }
            "total" => {
                own.total = list(words.plain[2]);
                own.unconfirmed = list(words.named.get("unconfirmed").unwrap_or(&""));
            }
            "use" => {
                let framework_id = FrameworkId::parse(words.plain[2]).unwrap();
                let key = (framework_id, Role::parse(words.plain[3]).unwrap());
                match words.plain[4] {
                    "none" => own.used.remove(&key),
                    text => own.used.insert(key, list(text)),
                };
            }
            "on" => return self.allocator.agent_standing(&agent_id, Standing::Active),
            "off" => return self.allocator.agent_standing(&agent_id, Standing::Inactive),
            "remove" => return self.allocator.agent_removed(&agent_id),
            other => panic!("no such line: {other}"),
        }
        self.allocator.agent_resources(&agent_id, own.clone());
    }

    fn framework(&mut self, words: &Words<'_>) {
        let framework_id = FrameworkId::parse(words.plain[1]).unwrap();
        match words.plain[0] {
            "framework" => {
                let can = |name| {
                    words.named.get("can").is_some_and(|all| all.split(',').any(|one| one == name))
                };
                let view = FrameworkView {
                    roles: roles(words.plain[2]),
                    suppressed: roles(words.named.get("suppressed").unwrap_or(&"")),
                    capabilities: Capabilities {
                        revocable_resources: can("revocable"),
                        gpu_resources: can("gpus"),
                        shared_resources: can("shared"),
                        reservation_refinement: can("refinement"),
                        region_aware: can("regions"),
                    },
                    min_allocatable: per_role(words, "min", minimum),
                    constraints: per_role(words, "want", constraints),
                };
                self.allocator.framework_changed(&framework_id, view);
                self.allocator.framework_standing(&framework_id, Standing::Active);
            }
            "come" => self.allocator.framework_standing(&framework_id, Standing::Active),
            "go" => self.allocator.framework_standing(&framework_id, Standing::Inactive),
            "end" => self.allocator.framework_removed(&framework_id),
            other => panic!("no such line: {other}"),
        }
    }

    fn interest(&mut self, words: &Words<'_>) -> Vec<String> {
        let framework_id = FrameworkId::parse(words.plain[1]).unwrap();
        let roles: Vec<Role> = roles(words.plain.get(2).unwrap_or(&""));
        let done = match words.plain[0] {
            "revive" => self.allocator.revive(&framework_id, &roles),
            _ => self.allocator.suppress(&framework_id, &roles),
        };
        done.err().map(|refusal| format!("{refusal:?}")).into_iter().collect()
    }

    fn run(&mut self, words: &Words<'_>) -> Vec<String> {
        let seconds = words.plain.get(1).map_or(1, |text| text.parse().unwrap());
        self.now = self.now + Duration::from_secs(seconds);
        let mut lines = Vec::new();
        for allocation in self.allocator.allocate(self.now) {
            for part in allocation.parts {
                let offer = Offer {
                    framework_id: allocation.framework_id.clone(),
                    role: allocation.role.clone(),
                    agent_id: part.agent_id,
                    resources: part.resources,
                };
                self.offers.push(offer);
                let offer = self.offers.last().unwrap();
                lines.push(format!(
                    "o{} {} in {} of {}: {}",
                    self.offers.len(),
                    offer.framework_id,
                    offer.role,
                    offer.agent_id,
                    offer.resources
                ));
            }
        }
        if lines.is_empty() {
            lines.push("no offer".to_owned());
        }
        lines
    }

    fn settle(&mut self, words: &Words<'_>) {
        let number: usize = words.plain[1].strip_prefix('o').unwrap().parse().unwrap();
        let offer = &self.offers[number - 1];
        let refuse = words.seconds("refuse").unwrap_or(REFUSE_DEFAULT);
        let mut given = Given {
            framework_id: &offer.framework_id,
            role: &offer.role,
            agent_id: &offer.agent_id,
            resources: &offer.resources,
        };
        match words.plain[0] {
            "decline" => self.allocator.decline(given, refuse, self.now),
            "release" => self.allocator.give_back(given),
            _ => {
                let part = list(words.plain[2]);
                given.resources = &part;
                self.allocator.refuse(given, refuse, self.now);
            }
        }
    }
}
