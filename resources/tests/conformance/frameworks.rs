//! The groups `task` and `framework-info` of `validation.json`: what a task may use of an offer,
//! and whether a framework is admitted. Who may do so, and what the events say, is seen from
//! outside the process only.

use std::collections::{BTreeMap, BTreeSet};

use resources::collection::Resources;
use resources::form::ResourceForm;
use resources::framework_rules::{self, InvalidFramework};
use resources::resource::Resource;
use resources::role::Role;
use resources::task_rules;
use serde::Deserialize;
use serde_json::Value;

use crate::classes::Classed;

#[derive(Deserialize)]
struct TaskCase {
    allocation_role: Role,
    offer: Vec<ResourceForm>,
    task_resources: Vec<ResourceForm>,
    executor_resources: Option<Vec<ResourceForm>>,
    expect: TaskExpect,
}

#[derive(Deserialize)]
struct TaskExpect {
    error: Option<String>,
}

#[derive(Deserialize)]
struct FrameworkCase {
    framework_info: FrameworkForm,
    #[serde(default)]
    suppressed_roles: Vec<String>,
    roles_whitelist: Option<BTreeSet<Role>>,
    expect: FrameworkExpect,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct FrameworkForm {
    id: Option<BTreeMap<String, String>>,
    role: Option<String>,
    roles: Vec<String>,
    capabilities: Vec<BTreeMap<String, String>>,
    failover_timeout: f64,
}

#[derive(Deserialize)]
struct FrameworkExpect {
    error: Option<String>,
}

/// Judges a case of a group of this file; none for the other groups.
pub(crate) fn judge(group: &str, case: &Value) -> Option<Result<(), String>> {
    match group {
        "task" => Some(task(serde_json::from_value(case.clone()).expect("a case of a task"))),
        "framework-info" => {
            Some(framework(serde_json::from_value(case.clone()).expect("a case of a framework")))
        }
        _ => None,
    }
}

fn compare(found: Option<&str>, expected: Option<String>) -> Result<(), String> {
    match found == expected.as_deref() {
        true => Ok(()),
        false => Err(format!("got {found:?}, expected {expected:?}")),
    }
}

fn task(case: TaskCase) -> Result<(), String> {
    let found = task_error(&case);
    compare(found, case.expect.error)
}

fn allocated(forms: &[ResourceForm], role: &Role) -> Result<Vec<Resource>, &'static str> {
    let read = |form: &ResourceForm| {
        let resource = Resource::try_from(form.clone()).map_err(|error| error.class())?;
        let allocation_role = resource.allocation_role.or_else(|| Some(role.clone()));
        Ok(Resource { allocation_role, ..resource })
    };
    forms.iter().map(read).collect()
}

/// In the order of spec §2.2: the task, its executor, both together, the offer.
fn task_error(case: &TaskCase) -> Option<&'static str> {
    let role = &case.allocation_role;
    let judged = || {
        let own = allocated(&case.task_resources, role)?;
        task_rules::task(&own, role).map_err(|error| error.class())?;
        let executor = allocated(case.executor_resources.as_deref().unwrap_or_default(), role)?;
        task_rules::executor(&executor, role).map_err(|error| error.class())?;
        let all = own.iter().chain(&executor);
        task_rules::together(all.clone()).map_err(|error| error.class())?;
        let offer: Resources = allocated(&case.offer, role)?.into_iter().collect();
        let needed: Resources = all.cloned().collect();
        if offer.contains(&needed) { Ok(()) } else { Err("INSUFFICIENT_RESOURCES") }
    };
    judged().err()
}

fn framework(case: FrameworkCase) -> Result<(), String> {
    let found = framework_error(&case).err();
    compare(found.as_ref().map(Classed::class), case.expect.error)
}

fn framework_error(case: &FrameworkCase) -> Result<(), InvalidFramework> {
    let info = &case.framework_info;
    let has =
        |name: &str| info.capabilities.iter().any(|c| c.get("type").is_some_and(|t| t == name));
    let roles = framework_rules::roles(info.role.as_deref(), &info.roles, has("MULTI_ROLE"))?;
    let id = info.id.as_ref().and_then(|id| id.get("value"));
    framework_rules::id(id.map(String::as_str))?;
    framework_rules::failover_timeout(info.failover_timeout)?;
    framework_rules::suppressed(&case.suppressed_roles, &roles)?;
    framework_rules::whitelisted(&roles, case.roles_whitelist.as_ref())
}
