//! Which operation of a case calls what of the crate.

use resources::collection::Resources;
use resources::compatibility;
use resources::conversion::apply_checkpointed;
use resources::form::{Format, ResourceForm};
use resources::parse;
use resources::quantity::{Limits, Quantities};
use resources::resource::{Resource, reservation_ancestor};
use resources::role::Role;
use resources::value::Scalar;
use resources::volume_path::volume_path;
use serde_json::{Value, json};

use crate::classes::Classed;
use crate::compare::{Outcome, amounts, same, same_set, set, unordered};
use crate::decode::{
    attribute_form, attributes, flag, form, plain, reservation, resource, role, text, value_form,
};

/// Runs one case.
pub(crate) fn run(operation: &str, input: &Value, expect: &Value) -> Outcome {
    match operation {
        "add" | "subtract" | "contains" | "equal" => pair(operation, input, expect),
        "quantities_parse"
        | "quantities_from"
        | "quantities_add"
        | "quantities_subtract"
        | "quantities_contains"
        | "resources_contain_quantities"
        | "limits_parse"
        | "limits_contain_limits"
        | "limits_contain_quantities"
        | "limits_subtract_quantities" => quantities(operation, input, expect),
        "parse"
        | "value_parse"
        | "attributes_parse"
        | "attributes_equal"
        | "role_validate"
        | "role_is_strict_subrole"
        | "role_ancestors" => texts(operation, input, expect),
        "equal_resource" | "validate" | "upgrade" | "endpoint_form" | "downgrade"
        | "volume_path" => one(operation, input, expect),
        "apply" | "apply_checkpointed" | "agent_additive_compatible" => {
            agents(operation, input, expect)
        }
        _ => sets(operation, input, expect),
    }
}

fn pair(operation: &str, input: &Value, expect: &Value) -> Outcome {
    let (mut left, right) = (set(&input["left"])?, set(&input["right"])?);
    match operation {
        "add" => left.add_all(&right),
        "subtract" => left.subtract_all(&right),
        "contains" => return same(&left.contains(&right), &flag(expect)?),
        _ => return same(&(left == right), &flag(expect)?),
    }
    same_set(&left, expect)
}

fn sets(operation: &str, input: &Value, expect: &Value) -> Outcome {
    if operation == "expression" {
        return expression(&input["terms"], expect);
    }
    if operation == "repeat_add_subtract" {
        let (mut sum, delta) = (set(&input["start"])?, set(&input["delta"])?);
        let times = input["times"].as_u64().ok_or("case: times")?;
        (0..times).for_each(|_| sum.add_all(&delta));
        (0..times).for_each(|_| sum.subtract_all(&delta));
        return same_set(&sum, expect);
    }
    if operation == "reservation_ancestor" {
        return ancestor(input, expect);
    }
    let given = set(&input["resources"])?;
    let unallocated = |r: &Resource| Resource { allocation_role: None, ..r.clone() };
    match operation {
        "build" => same_set(&given, expect),
        "get_scalar" => {
            let expected = expect["value"].as_f64().and_then(Scalar::from_f64);
            same(&given.scalar(text(&input["name"])?), &expected)
        }
        "to_unreserved" => same_set(&given.map(Resource::to_unreserved), expect),
        "push_reservation" => {
            let reservation = reservation(&input["reservation"])?;
            same_set(&given.map(|r| r.clone().push_reservation(reservation.clone())), expect)
        }
        "pop_reservation" => same_set(&given.map(|r| r.clone().pop_reservation()), expect),
        "unallocate" => same_set(&given.map(unallocated), expect),
        "unallocate_objects" => {
            let objects: Vec<Resource> = given.iter().map(unallocated).collect();
            same(&json!(objects.len()), &expect["objects"])
        }
        "count" => same(&json!(given.count(&resource(&input["resource"])?)), &expect["result"]),
        "filter" => same_set(&filter(&given, input)?, expect),
        "stripped_scalars" => same_set(&given.stripped_scalars(), expect),
        "names" => same(&json!(given.kinds().keys().collect::<Vec<_>>()), &expect["names"]),
        "types" => {
            let kinds = given.kinds().into_iter().map(|(name, kind)| (name, kind.to_string()));
            same(
                &Value::Object(kinds.map(|(n, k)| (n.into(), k.into())).collect()),
                &expect["types"],
            )
        }
        "reservations" => groups(&given, expect),
        "find" => found(&given, input, expect),
        "to_string" => same(&unordered(&given.to_string()), &unordered(text(&expect["text"])?)),
        "shrink_to_quantities" => {
            let target = Quantities::from(amounts(&input["target"])?);
            same_set(&given.shrunk_to_quantities(&target), expect)
        }
        "shrink_to_limits" => {
            same_set(&given.shrunk_to_limits(&Limits(amounts(&input["target"])?)), expect)
        }
        unknown => Err(format!("unknown operation {unknown}")),
    }
}

fn expression(terms: &Value, expect: &Value) -> Outcome {
    let mut sum = Resources::new();
    for term in terms.as_array().ok_or("case: terms")? {
        let operand = set(&term[1])?;
        match term[0].as_str() {
            Some("+") => sum.add_all(&operand),
            Some("-") => sum.subtract_all(&operand),
            sign => return Err(format!("case: sign {sign:?}")),
        }
    }
    same_set(&sum, expect)
}

fn ancestor(input: &Value, expect: &Value) -> Outcome {
    let (left, right) = (set(&input["left"])?, set(&input["right"])?);
    let stack = |set: &Resources| set.iter().next().map(|r| r.reservations.clone());
    let (left_stack, right_stack) =
        (stack(&left).unwrap_or_default(), stack(&right).unwrap_or_default());
    let common = reservation_ancestor(&left_stack, &right_stack);
    let down = |r: &Resource| Resource { reservations: common.to_vec(), ..r.clone() };
    same_set(&left.map(down), expect)
}

fn filter(given: &Resources, input: &Value) -> Result<Resources, String> {
    let role = || role(&input["arg"]);
    Ok(match text(&input["predicate"])? {
        "allocatable_to" => {
            let role = role()?;
            given.filter(|resource| resource.is_allocatable_to(&role))
        }
        "allocated_to_subtree" => {
            let role = role()?;
            given.filter(|resource| resource.is_allocated_below(&role))
        }
        "reserved" if input.get("arg").is_none_or(Value::is_null) => {
            given.filter(Resource::is_reserved)
        }
        "reserved" => given.reserved(&role()?),
        "unreserved" => given.unreserved(),
        "dynamically_reserved" => given.filter(Resource::is_dynamically_reserved),
        "refined" | "reservation_refined" => given.filter(Resource::is_refined),
        "need_checkpointing" => given.checkpointed(),
        "persistent_volume" | "persistent_volumes" => given.filter(Resource::is_persistent_volume),
        "revocable" => given.filter(|resource| resource.revocable),
        "non_revocable" => given.filter(|resource| !resource.revocable),
        "shared" => given.filter(|resource| resource.shared),
        "non_shared" => given.filter(|resource| !resource.shared),
        "scalar" | "scalars" => given.filter(|resource| resource.value.as_scalar().is_some()),
        "resource_provider" | "has_provider" => given.filter(|r| r.provider_id.is_some()),
        unknown => return Err(format!("unknown predicate {unknown}")),
    })
}

fn groups(given: &Resources, expect: &Value) -> Outcome {
    let groups = given.reservations();
    let expected = expect["groups"].as_object().ok_or("case: groups")?;
    same(&groups.len(), &expected.len())?;
    expected.iter().try_for_each(|(role, list)| {
        let group = groups.iter().find(|(name, _)| name.as_str() == role);
        let (_, group) = group.ok_or_else(|| format!("no group {role}"))?;
        same_set(group, &json!({ "resources": list }))
    })
}

fn found(given: &Resources, input: &Value, expect: &Value) -> Outcome {
    match (given.find(&set(&input["targets"])?), expect["resources"].is_null()) {
        (None, true) => Ok(()),
        (Some(found), false) => same_set(&found, expect),
        (found, _) => Err(format!("got {found:?}")),
    }
}

fn one(operation: &str, input: &Value, expect: &Value) -> Outcome {
    match operation {
        "equal_resource" => {
            same(&(resource(&input["left"])? == resource(&input["right"])?), &flag(expect)?)
        }
        "validate" => judged(Resource::try_from(form(&input["resource"])?), expect, |_| Ok(())),
        "upgrade" => judged(Resource::try_from(form(&input["resource"])?), expect, |upgraded| {
            same(&upgraded.to_form(Format::Post), &Ok(form(&expect["resource"])?))
        }),
        "endpoint_form" => {
            let shown = resource(&input["resource"])?.to_form(Format::Endpoint);
            same(&shown, &Ok(form(&expect["resource"])?))
        }
        "downgrade" => match resource(&input["resource"])?.to_form(Format::Pre) {
            Ok(shown) => same(&shown, &form(&expect["resource"])?),
            Err(_) => same(&"DOWNGRADE_REFINED", &text(&expect["error"])?),
        },
        _ => {
            let path = volume_path(text(&input["work_dir"])?, &resource(&input["volume"])?);
            same(&path.as_deref(), &expect["path"].as_str())
        }
    }
}

fn texts(operation: &str, input: &Value, expect: &Value) -> Outcome {
    match operation {
        "parse" => declared(input, expect),
        "value_parse" => judged(parse::value(text(&input["text"])?), expect, |parsed| {
            same(&plain(&value_form(&parsed)), &plain(&expect["value"]))
        }),
        "attributes_parse" => judged(parse::attributes(text(&input["text"])?), expect, |list| {
            let list: Vec<Value> = list.iter().map(attribute_form).map(|v| plain(&v)).collect();
            same(&json!(list), &plain(&expect["attributes"]))
        }),
        "attributes_equal" => {
            let [left, right] = ["left", "right"].map(|side| attributes(&input[side]));
            same(&compatibility::equal_attributes(&left?, &right?), &flag(expect)?)
        }
        "role_validate" => judged(Role::parse(text(&input["role"])?), expect, |_| Ok(())),
        "role_is_strict_subrole" => {
            let below = role(&input["role"])?.is_strict_subrole_of(&role(&input["of"])?);
            same(&below, &flag(expect)?)
        }
        _ => {
            let ancestors: Vec<String> =
                role(&input["role"])?.ancestors().map(String::from).collect();
            same(&json!(ancestors), &expect["roles"])
        }
    }
}

/// As an agent reads its flag: a JSON array first, else text.
fn declared(input: &Value, expect: &Value) -> Outcome {
    let source = text(&input["text"])?;
    let default_role = match input.get("default_role") {
        Some(name) => role(name)?,
        None => Role::star(),
    };
    let read = |set: Resources| same_set(&set, expect);
    let Ok(Value::Array(objects)) = serde_json::from_str(source) else {
        return judged(parse::resources_text(source, &default_role), expect, read);
    };
    match serde_json::from_value::<Vec<ResourceForm>>(Value::Array(objects.clone())) {
        Ok(forms) if objects.iter().all(Value::is_object) => {
            judged(parse::resources_forms(forms, &default_role), expect, read)
        }
        _ if expect["error"] == "ANY_PARSE" => Ok(()),
        _ => same(&"JSON_FORMAT", &expect["error"].as_str().unwrap_or("success")),
    }
}

fn agents(operation: &str, input: &Value, expect: &Value) -> Outcome {
    match operation {
        "apply" => {
            let before = set(&input["total"])?;
            let mut total = before.clone();
            let single = [input["operation"].clone()];
            let sequence = input["operation"]["sequence"].as_array();
            let mut outcome = Ok(());
            for wire in sequence.map_or(&single[..], Vec::as_slice) {
                let unchanged = total.clone();
                let Some(operation) = crate::decode::operation(wire)? else { continue };
                outcome = total.apply(&operation);
                if outcome.is_err() {
                    same(&total, &unchanged)?;
                    break;
                }
            }
            judged(outcome, expect, |()| same_set(&total, expect))
        }
        "apply_checkpointed" => {
            let (declared, checkpointed) =
                (set(&input["resources"])?, set(&input["checkpointed"])?);
            let total = apply_checkpointed(&declared, &checkpointed);
            judged(total, expect, |total| same_set(&total, expect))
        }
        _ => {
            let (old, new) = (&input["old"], &input["new"]);
            let kept = compatibility::additive_resources(
                &set(&old["resources"])?,
                &set(&new["resources"])?,
            );
            let [old, new] = [old, new].map(|side| attributes(&side["attributes_text"]));
            let kept = kept.and(compatibility::additive_attributes(&old?, &new?));
            same(&json!(kept.is_ok()), &expect["ok"])
        }
    }
}

fn quantities(operation: &str, input: &Value, expect: &Value) -> Outcome {
    let amounts_of = |key: &str| amounts(&input[key]);
    let quantities_of = |key: &str| amounts(&input[key]).map(Quantities::from);
    let expected = |key: &str| amounts(&expect[key]);
    match operation {
        "quantities_parse" => judged(Quantities::parse(text(&input["text"])?), expect, |parsed| {
            same(&parsed.into(), &expected("quantities")?)
        }),
        "limits_parse" => judged(Limits::parse(text(&input["text"])?), expect, |parsed| {
            same(&parsed.0, &expected("limits")?)
        }),
        "quantities_from" => {
            let sums = Quantities::from(&set(&input["resources"])?);
            same(&sums.into(), &expected("quantities")?)
        }
        "quantities_add" | "quantities_subtract" => {
            let (mut left, right) = (quantities_of("left")?, quantities_of("right")?);
            if operation == "quantities_add" {
                left.add(&right)
            } else {
                left.subtract(&right)
            }
            same(&left.into(), &expected("quantities")?)
        }
        "quantities_contains" => {
            same(&quantities_of("left")?.contains(&quantities_of("right")?), &flag(expect)?)
        }
        "resources_contain_quantities" => {
            let sums = Quantities::from(&set(&input["resources"])?);
            same(&sums.contains(&quantities_of("quantities")?), &flag(expect)?)
        }
        "limits_contain_limits" => {
            let (left, right) = (Limits(amounts_of("left")?), Limits(amounts_of("right")?));
            same(&left.contains(&right), &flag(expect)?)
        }
        "limits_contain_quantities" => {
            let limits = Limits(amounts_of("limits")?);
            same(&limits.contains_quantities(&quantities_of("quantities")?), &flag(expect)?)
        }
        _ => {
            let mut limits = Limits(amounts_of("limits")?);
            limits.subtract(&quantities_of("quantities")?);
            same(&limits.0, &expected("limits")?)
        }
    }
}

/// Compares success with success, and an error by its class.
fn judged<T, E: Classed + std::fmt::Debug>(
    result: Result<T, E>,
    expect: &Value,
    success: impl FnOnce(T) -> Outcome,
) -> Outcome {
    let expected_error = expect.get("error").and_then(Value::as_str);
    match (result, expected_error) {
        (Ok(value), None) if expect["ok"] != json!(false) => success(value),
        (Ok(_), expected) => Err(format!("succeeded, expected {expected:?}")),
        (Err(_), Some("ANY_PARSE")) => Ok(()),
        (Err(error), Some(expected)) if error.class() == expected => Ok(()),
        (Err(error), expected) => {
            Err(format!("failed with {} ({error:?}), expected {expected:?}", error.class()))
        }
    }
}
