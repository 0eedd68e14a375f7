//! Which operations are refused in themselves (`validate`), and which do not apply to a set
//! (`Resources::apply`): a table for each rule of spec §2.2 that has no conformance case in
//! this crate.

use resources::collection::Resources;
use resources::form::ResourceForm;
use resources::id::Principal;
use resources::operation::Operation;
use resources::parse;
use resources::resource::Resource;
use resources::role::Role;
use resources::validate;
use resources::value::Scalar;

/// Reads one resource: name, size, the top of the stack for `ads`, further fields.
fn resource(name: &str, size: f64, reservation: &str, more: &str) -> Resource {
    let text = format!(
        r#"{{"name": "{name}", "type": "SCALAR", "scalar": {{"value": {size}}},
        "reservations": [{reservation}] {more}}}"#
    );
    let form: ResourceForm = serde_json::from_str(&text).expect("a form");
    Resource::try_from(form).expect("a resource")
}

const OPS: &str = r#"{"type": "DYNAMIC", "role": "ads", "principal": "ops"}"#;
const STATIC: &str = r#"{"type": "STATIC", "role": "ads"}"#;

fn cpus(size: f64, reservation: &str) -> Resource {
    resource("cpus", size, reservation, "")
}

fn volume(id: &str, path: &str, more: &str) -> Resource {
    let disk = format!(
        r#", "disk": {{"persistence": {{"id": "{id}", "principal": "ops"}},
        "volume": {{"container_path": "{path}", "mode": "RW"}} {more}}}"#
    );
    resource("disk", 10.0, OPS, &disk)
}

fn reserve(resources: Vec<Resource>) -> Operation {
    Operation::Reserve { resources, source: Vec::new() }
}

#[track_caller]
fn check(operation: Operation, expected: &str) {
    let judged = validate::operation(&operation, Some(&Principal::new("ops")));
    let text = judged.map_or_else(|error| error.to_string(), |()| "ok".to_owned());
    assert!(text.contains(expected), "{text}");
}

#[test]
fn reserve_and_unreserve() {
    let ten = (0..65).map(|key| format!(r#"{{"key": "{key}"}}"#)).collect::<Vec<_>>().join(",");
    let labels = |list: &str| {
        let stack = OPS.trim_end_matches('}');
        format!(r#"{stack}, "labels": {{"labels": [{list}]}}}}"#)
    };
    check(reserve(vec![cpus(1.0, OPS)]), "ok");
    check(reserve(Vec::new()), "no resources");
    check(reserve(vec![cpus(1.0, STATIC)]), "is not dynamically reserved");
    check(reserve(vec![cpus(1.0, "")]), "is not dynamically reserved");
    check(reserve(vec![cpus(1.0, &OPS.replace("ops", "svc"))]), "principal 'ops' of the caller");
    check(reserve(vec![volume("v", "data", "")]), "persistent volume");
    check(reserve(vec![resource("gpus", 1.5, OPS, "")]), "whole number, not 1.5");
    check(reserve(vec![resource("cpus", 1.0, OPS, r#", "revocable": {}"#)]), "cannot be revocable");
    let allocated = r#", "allocation_info": {"role": "ads"}"#;
    check(reserve(vec![resource("cpus", 1.0, OPS, allocated)]), "'allocation_info'");
    check(reserve(vec![cpus(1.0, &labels(&ten))]), "65 labels");
    let long = format!(r#"{{"key": "{}"}}"#, "x".repeat(4097));
    check(reserve(vec![cpus(1.0, &labels(&long))]), "4097 bytes");
    check(Operation::Unreserve { resources: vec![cpus(1.0, OPS)] }, "ok");
    check(Operation::Unreserve { resources: vec![volume("v", "data", "")] }, "destroy it first");
    check(Operation::Unreserve { resources: vec![cpus(1.0, STATIC)] }, "not dynamically");
}

#[test]
fn re_reserve() {
    let with =
        |source: Vec<Resource>| Operation::Reserve { resources: vec![cpus(2.0, OPS)], source };
    check(with(vec![cpus(2.0, "")]), "ok");
    check(with(vec![cpus(1.0, ""), cpus(1.0, "")]), "ok");
    check(with(vec![cpus(1.0, "")]), "differ in more than");
    check(with(vec![cpus(1.0, ""), cpus(1.0, STATIC)]), "different reservations");
    check(with(vec![cpus(2.0, &OPS.replace("ads", "web"))]), "ok");
    // An agent could not restart with these: its command line declares something else.
    check(with(vec![cpus(2.0, STATIC)]), "STATIC reservation can only be");
    let eng = STATIC.replace("ads", "eng");
    let refined = |role: &str| cpus(2.0, &format!("{eng}, {}", OPS.replace("ads", role)));
    let reserve = |source: Vec<Resource>, target: Resource| Operation::Reserve {
        resources: vec![target],
        source,
    };
    check(reserve(vec![cpus(2.0, "")], refined("eng/a")), "STATIC reservation can only be");
    check(reserve(vec![refined("eng/b")], refined("eng/a")), "ok");
}

#[test]
fn create_and_destroy() {
    let create = |volumes: Vec<Resource>| Operation::Create { volumes };
    check(create(vec![volume("v1", "data", ""), volume("v2", "data", "")]), "ok");
    check(create(vec![volume("v1", "a", ""), volume("v1", "b", "")]), "used twice");
    for path in ["", "/data", "a/b", "..", "."] {
        check(create(vec![volume("v", path, "")]), "no single relative name");
    }
    check(create(vec![resource("disk", 1.0, OPS, "")]), "not a persistent volume");
    let unreserved = Resource { reservations: Vec::new(), ..volume("v", "data", "") };
    check(create(vec![unreserved]), "unreserved");
    let empty =
        Resource { value: resources::value::Value::Scalar(Scalar::ZERO), ..volume("v", "a", "") };
    check(create(vec![empty.clone()]), "more than nothing");
    check(Operation::Destroy { volumes: vec![empty] }, "more than nothing");
    check(Operation::Destroy { volumes: vec![volume("v", "/else/where", "")] }, "ok");
    check(Operation::Destroy { volumes: Vec::new() }, "no resources");
}

#[test]
fn resize() {
    let mount = r#", "source": {"type": "MOUNT", "mount": {"root": "/m"}}"#;
    let shrink =
        |volume: Resource, milli| Operation::Shrink { volume, subtract: Scalar::from_milli(milli) };
    check(shrink(volume("v", "data", ""), 9_999), "ok");
    check(shrink(volume("v", "data", ""), 10_000), "less than its size");
    check(shrink(volume("v", "data", ""), 0), "more than 0");
    check(shrink(volume("v", "data", mount), 1), "MOUNT");
    let grow = |addition| Operation::Grow { volume: volume("v", "data", ""), addition };
    check(grow(resource("disk", 1.0, OPS, "")), "ok");
    check(grow(resource("disk", 1.0, STATIC, "")), "cannot be merged");
    check(grow(resource("disk", 0.0, OPS, "")), "more than nothing");
}

#[test]
fn what_fails_in_part_changes_nothing() {
    let role = Role::star();
    let mut total = parse::resources_text("cpus:4;disk(ads):100", &role).unwrap();
    total.apply(&reserve(vec![cpus(3.0, OPS)])).unwrap();
    let before = total.clone();
    let third = cpus(2.0, OPS);
    let resources = vec![cpus(1.0, OPS), cpus(1.0, OPS), third];
    let refused = total.apply(&Operation::Unreserve { resources }).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "insufficient resources: wanted cpus(reservations: [(DYNAMIC,ads,ops)]):2, available \
         cpus(reservations: [(DYNAMIC,ads,ops)]):3"
    );
    assert_eq!(total, before);
}

#[test]
fn a_resized_volume_keeps_its_mount_and_creator() {
    let mut total: Resources =
        [volume("v", "data", ""), resource("disk", 5.0, OPS, "")].into_iter().collect();
    let asked = volume("v", "elsewhere", "");
    total
        .apply(&Operation::Grow { volume: asked, addition: resource("disk", 5.0, OPS, "") })
        .unwrap();
    let expected = Resource {
        value: resources::value::Value::Scalar(Scalar::from_milli(15_000)),
        ..volume("v", "data", "")
    };
    assert_eq!(total.iter().collect::<Vec<_>>(), [&expected]);
}

#[test]
fn two_equal_mount_disks_are_not_one() {
    let mount = r#", "disk": {"source": {"type": "MOUNT", "mount": {"root": "/m"}}}"#;
    let mut total: Resources = [resource("disk", 10.0, "", mount)].into_iter().collect();
    let before = total.clone();
    let reserved = resource("disk", 10.0, OPS, mount);
    assert!(total.apply(&reserve(vec![reserved.clone(), reserved.clone()])).is_err());
    assert_eq!(total, before);
    total.apply(&reserve(vec![reserved])).unwrap();
    assert!(total.unreserved().is_empty());
}
