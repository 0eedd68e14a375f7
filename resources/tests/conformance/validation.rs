//! Runs the operation groups of `validation.json`, each as an operator's call and as an
//! operation of an ACCEPT, through the checks of this crate in the order of the case set's head:
//! form, rules, capabilities of the agent, volumes, amounts. Who may is not decided here: a case
//! that is refused for that alone is named. Tasks and frameworks are in `frameworks.rs`; the
//! groups `acl`, `accept` and `http-request` are run against the whole program.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use resources::capability::{AgentCapability, FrameworkCapability};
use resources::collection::Resources;
use resources::form::ResourceForm;
use resources::id::Principal;
use resources::operation::Operation;
use resources::resource::Resource;
use resources::role::Role;
use resources::validate::{self, FrameworkCaller, ListField};
use resources::value::Scalar;
use serde::Deserialize;
use serde_json::Value;

use crate::classes::Classed;
use crate::{frameworks, publish, read_suite};

#[derive(Deserialize)]
struct Suite {
    cases: Vec<Value>,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    group: String,
    agent: Agent,
    operation: Value,
    operator: Option<Block>,
    scheduler: Option<Block>,
}

#[derive(Deserialize)]
struct Agent {
    capabilities: BTreeSet<AgentCapability>,
    total: Vec<ResourceForm>,
    #[serde(default)]
    used: Vec<Used>,
}

#[derive(Deserialize)]
struct Used {
    resources: Vec<ResourceForm>,
}

#[derive(Deserialize)]
struct Block {
    principal: Option<Principal>,
    authorized: bool,
    #[serde(default)]
    roles: BTreeSet<Role>,
    #[serde(default)]
    capabilities: BTreeSet<FrameworkCapability>,
    allocation_role: Option<Role>,
    #[serde(default)]
    offer: Vec<ResourceForm>,
    expect: Expect,
}

#[derive(Deserialize)]
struct Expect {
    http_status: Option<u16>,
    operation_state: Option<String>,
    error: Option<String>,
}

/// Groups of operations; the others are counted by name.
const GROUPS: [&str; 7] =
    ["reserve", "reserve-update", "unreserve", "create", "destroy", "grow", "shrink"];

/// What the crate says: the class of the error, if any, and whether it is one of amounts.
enum Answer {
    Accepted,
    Invalid(&'static str),
    Unavailable(&'static str),
}

type Refused = &'static str;

fn class<E: Classed>(error: E) -> Refused {
    error.class()
}

fn list(name: ListField, value: &Value) -> Result<Vec<Resource>, Refused> {
    let forms: Vec<ResourceForm> = match value {
        Value::Null => Vec::new(),
        list => serde_json::from_value(list.clone()).map_err(|_| "JSON_FORMAT")?,
    };
    validate::resources(name, forms).map_err(|element| element.reason.class())
}

fn one(value: &Value) -> Result<Resource, Refused> {
    let form: ResourceForm = serde_json::from_value(value.clone()).map_err(|_| "JSON_FORMAT")?;
    Resource::try_from(form).map_err(class)
}

fn operation(wire: &Value) -> Result<Operation, Refused> {
    let volumes = |key: &str| list(ListField::Volumes, &wire[key]["volumes"]);
    let resources = |key: &str| list(ListField::Resources, &wire[key]["resources"]);
    Ok(match wire["type"].as_str().unwrap_or_default() {
        "RESERVE" => Operation::Reserve {
            resources: resources("reserve")?,
            source: list(ListField::Source, &wire["reserve"]["source"])?,
        },
        "UNRESERVE" => Operation::Unreserve { resources: resources("unreserve")? },
        "CREATE" => Operation::Create { volumes: volumes("create")? },
        "DESTROY" => Operation::Destroy { volumes: volumes("destroy")? },
        "GROW_VOLUME" => Operation::Grow {
            volume: one(&wire["grow_volume"]["volume"])?,
            addition: one(&wire["grow_volume"]["addition"])?,
        },
        "SHRINK_VOLUME" => Operation::Shrink {
            volume: one(&wire["shrink_volume"]["volume"])?,
            subtract: wire["shrink_volume"]["subtract"]["value"]
                .as_f64()
                .and_then(Scalar::from_f64)
                .ok_or("JSON_FORMAT")?,
        },
        unknown => panic!("unknown operation type {unknown}"),
    })
}

fn set(forms: &[ResourceForm], allocation: Option<&Role>) -> Resources {
    let read = |form: &ResourceForm| {
        let resource = Resource::try_from(form.clone()).expect("the case's own resources");
        Resource { allocation_role: allocation.cloned(), ..resource }
    };
    forms.iter().map(read).collect()
}

impl Case {
    /// What holds for both paths: the capabilities of the agent, and its volumes.
    fn of_the_agent(&self, operation: &Operation) -> Result<(), Refused> {
        validate::agent_capabilities(operation, &self.agent.capabilities).map_err(class)?;
        let total = set(&self.agent.total, None);
        operation.clone().unallocated().volume_conflict(&total, &self.used()).map_err(class)
    }
    fn used(&self) -> Resources {
        let mut used = Resources::new();
        for task in &self.agent.used {
            used.add_all(&set(&task.resources, None));
        }
        used
    }
    fn operator(&self, block: &Block) -> Answer {
        let valid = operation(&self.operation).and_then(|operation| {
            validate::operation(&operation, block.principal.as_ref()).map_err(class)?;
            self.of_the_agent(&operation)?;
            Ok(operation)
        });
        let total = set(&self.agent.total, None);
        finish(valid, &mut total.available(&self.used()))
    }
    fn scheduler(&self, block: &Block) -> Answer {
        let offered = block.allocation_role.as_ref().expect("a scheduler's allocation role");
        let caller = FrameworkCaller {
            principal: block.principal.as_ref(),
            roles: &block.roles,
            allocation_role: offered,
            capabilities: &block.capabilities,
        };
        let valid = operation(&self.operation).and_then(|operation| {
            let operation = operation.allocated_to(offered);
            validate::framework_operation(&operation, &caller).map_err(class)?;
            self.of_the_agent(&operation)?;
            Ok(operation)
        });
        finish(valid, &mut set(&block.offer, Some(offered)))
    }
    /// The class that the case set gives to what this crate has one error for.
    fn named(&self, class: &'static str) -> &'static str {
        match (class, self.operation["type"].as_str()) {
            ("PERSISTENT_VOLUME", Some("UNRESERVE")) => "UNRESERVE_PERSISTENT_VOLUME",
            ("PERSISTENT_VOLUME", _) => "PV_RESERVE",
            _ => class,
        }
    }
}

fn finish(valid: Result<Operation, Refused>, available: &mut Resources) -> Answer {
    let operation = match valid {
        Ok(operation) => operation,
        Err(class) => return Answer::Invalid(class),
    };
    match available.apply(&operation) {
        Ok(()) => Answer::Accepted,
        Err(short) => Answer::Unavailable(short.class()),
    }
}

/// `None` when who may is all that is left to decide.
fn judge(case: &Case, path: &str, block: &Block) -> Option<Result<(), String>> {
    let is_operator = path == "operator";
    let answer = if is_operator { case.operator(block) } else { case.scheduler(block) };
    let (status, state, class) = match answer {
        Answer::Accepted => (202, "OPERATION_FINISHED", None),
        Answer::Invalid(class) => (400, "OPERATION_ERROR", Some(case.named(class))),
        Answer::Unavailable(class) => (409, "OPERATION_ERROR", Some(class)),
    };
    // Authorization comes after the rules and before the amounts.
    if !block.authorized && status != 400 {
        return None;
    }
    let expect = &block.expect;
    let is_status = if is_operator {
        expect.http_status == Some(status)
    } else {
        expect.operation_state.as_deref() == Some(state)
    };
    if is_status && class == expect.error.as_deref() {
        return Some(Ok(()));
    }
    let wanted = (expect.http_status, &expect.operation_state, &expect.error);
    Some(Err(format!("got {status} {state} {class:?}, expected {wanted:?}")))
}

fn count(
    (passed, failed): &mut (usize, usize),
    report: &mut String,
    id: &Value,
    judged: Result<(), String>,
) {
    match judged {
        Ok(()) => *passed += 1,
        Err(reason) => {
            *failed += 1;
            report.push_str(&format!("FAILED {id}: {reason}\n"));
        }
    }
}

#[test]
fn validation() {
    let suite: Suite = read_suite("validation.json");
    let mut report = String::new();
    let mut tallies: BTreeMap<(String, &str), (usize, usize)> = BTreeMap::new();
    let mut elsewhere: BTreeMap<String, usize> = BTreeMap::new();
    let mut undecided = Vec::new();
    for wire in suite.cases {
        let group = wire["group"].as_str().expect("a group").to_owned();
        if !GROUPS.contains(&group.as_str()) {
            match frameworks::judge(&group, &wire) {
                Some(judged) => {
                    let tally = tallies.entry((group, "alone")).or_default();
                    count(tally, &mut report, &wire["id"], judged);
                }
                None => *elsewhere.entry(group).or_default() += 1,
            }
            continue;
        }
        let case: Case = serde_json::from_value(wire).expect("a case of an operation group");
        for (path, block) in [("operator", &case.operator), ("scheduler", &case.scheduler)] {
            let Some(block) = block else { continue };
            let tally = tallies.entry((case.group.clone(), path)).or_default();
            match judge(&case, path, block) {
                Some(Ok(())) => tally.0 += 1,
                Some(Err(reason)) => {
                    tally.1 += 1;
                    writeln!(report, "FAILED {}/{path}: {reason}", case.id).unwrap();
                }
                None => undecided.push(format!("{}/{path}: needs authorization", case.id)),
            }
        }
    }
    for ((group, path), (passed, failed)) in &tallies {
        writeln!(report, "{group} {path}: {passed}/{failed}").unwrap();
    }
    for case in &undecided {
        writeln!(report, "not decided here: {case}").unwrap();
    }
    for (group, count) in &elsewhere {
        writeln!(report, "{group}: run against the whole program ({count} cases)").unwrap();
    }
    let passed: usize = tallies.values().map(|tally| tally.0).sum();
    let failed: usize = tallies.values().map(|tally| tally.1).sum();
    let undecided = undecided.len();
    writeln!(report, "validation: passed/failed: {passed}/{failed}, not decided here: {undecided}")
        .unwrap();
    publish(&report);
    assert!(passed > 0, "no case was read");
    assert_eq!(failed, 0, "cases failed");
}
