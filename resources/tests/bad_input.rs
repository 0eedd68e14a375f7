//! Input that is wrong in itself: each is refused, with the position of the bad element, by a
//! message of sane length without control characters.

use std::collections::BTreeSet;

use resources::capability::FrameworkCapability;
use resources::form::ResourceForm;
use resources::id::{AgentId, Principal};
use resources::operation::Operation;
use resources::parse;
use resources::resource::Resource;
use resources::role::Role;
use resources::validate::{self, FrameworkCaller, InvalidOperation, ListField};
use serde_json::{Value, json};

/// No message of this crate is longer, whatever it quotes.
const MESSAGE_CHARS_MAX: usize = 1000;

fn is_sane(message: &str) -> bool {
    message.chars().count() <= MESSAGE_CHARS_MAX && !message.contains(char::is_control)
}

fn form(object: &Value) -> ResourceForm {
    serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{object}: {error}"))
}

/// An object stands at position 1 of a list, behind a good one.
#[track_caller]
fn refused(object: &Value, expected: &str) {
    let good = json!({"name": "cpus", "type": "SCALAR", "scalar": {"value": 1}});
    let list = validate::resources(ListField::Resources, [form(&good), form(object)]);
    let message = list.expect_err("refused").to_string();
    assert!(message.starts_with("resources[1]: ") && message.contains(expected), "{message}");
    assert!(is_sane(&message), "{message}");
}

fn cpus(more: &Value) -> Value {
    let mut object = json!({"name": "cpus", "type": "SCALAR", "scalar": {"value": 1}});
    let more = more.as_object().expect("an object").clone();
    object.as_object_mut().expect("an object").extend(more);
    object
}

fn volume(id: &str, path: &str) -> Value {
    json!({
        "name": "disk", "type": "SCALAR", "scalar": {"value": 8},
        "reservations": [{"type": "DYNAMIC", "role": "ads", "principal": "ops"}],
        "disk": {
            "persistence": {"id": id, "principal": "ops"},
            "volume": {"container_path": path, "mode": "RW"},
        },
    })
}

#[test]
fn amounts() {
    for (value, expected) in [
        (json!("NaN"), "scalar NaN is no amount"),
        (json!("inf"), "scalar inf is no amount"),
        (json!("-Infinity"), "scalar -inf is no amount"),
        (json!(1e300), "scalar 1e300 is no amount"),
        (json!("1e300"), "scalar 1e300 is no amount"),
        (json!(-1e300), "scalar -1e300 is no amount"),
        (json!(-1), "scalar -1 is negative"),
        (json!(-0.0001), "scalar -0.0001 is negative, or rounds to nothing"),
        (json!(0.0004), "scalar 0.0004 is negative, or rounds to nothing"),
        (json!(1e-300), "scalar 1e-300 is negative, or rounds to nothing"),
    ] {
        refused(&cpus(&json!({"scalar": {"value": value}})), expected);
    }
    refused(&json!({"name": "cpus", "type": "SCALAR"}), "needs 'scalar'");
    refused(&cpus(&json!({"set": {"item": ["a"]}})), "no 'ranges' or 'set'");
}

#[test]
fn ranges_and_sets() {
    let ports = |pairs: &[(u64, u64)]| {
        let list = pairs.iter().map(|(begin, end)| json!({"begin": begin, "end": end}));
        json!({"name": "ports", "type": "RANGES", "ranges": {"range": list.collect::<Vec<_>>()}})
    };
    refused(&ports(&[(1, 5), (3, 8)]), "ranges 1-5 and 3-8 overlap");
    refused(&ports(&[(7, 8), (1, 7)]), "ranges 1-7 and 7-8 overlap");
    refused(&ports(&[(1, 2), (1, 2)]), "overlap");
    refused(&ports(&[(0, u64::MAX), (u64::MAX, u64::MAX)]), "overlap");
    refused(&ports(&[(9, 4)]), "range 9-4 ends before it begins");
    let item = "x".repeat(300);
    refused(
        &json!({"name": "zones", "type": "SET", "set": {"item": [item, item]}}),
        "… (300 bytes)' twice",
    );
}

#[test]
fn ids() {
    for (id, expected) in [
        ("", "id is empty"),
        (".", "'.' is not an id"),
        ("..", "'..' is not an id"),
        ("a/b", "invalid character '/'"),
        ("../../etc", "invalid character '/'"),
        ("a\\b", "invalid character '\\\\'"),
        ("a\0b", "id 'a\\0b' holds the invalid character '\\0'"),
        ("a\nb", "invalid character '\\n'"),
        (&"x".repeat(300), "id has 300 bytes, more than 255"),
        (&"/".repeat(255), "… (255 bytes)'"),
    ] {
        refused(&volume(id, "data"), expected);
        assert!(is_sane(&AgentId::parse(id).unwrap_err().to_string()));
    }
}

#[test]
fn roles() {
    for (role, expected) in [
        ("", "role is empty"),
        ("*", "role \"*\" cannot be reserved"),
        ("/ads", "slash at its start or end"),
        ("ads/", "slash at its start or end"),
        ("a//b", "two in a row"),
        (".", "component of dots only"),
        ("a/../b", "component of dots only"),
        ("a/*", "the component '*'"),
        ("-a", "starts with '-'"),
        ("a/-b", "starts with '-'"),
        ("a b", "white space"),
        ("a\tb", "white space"),
        ("a\u{7f}", "control character"),
        ("a\0b", "control character"),
        (&"r".repeat(201), "role has 201 bytes, more than 200"),
        (&format!("{}/", "r".repeat(199)), "… (200 bytes)'"),
    ] {
        refused(&cpus(&json!({"reservations": [{"type": "DYNAMIC", "role": role}]})), expected);
        refused(&cpus(&json!({"role": role, "reservation": {}})), expected);
    }
    refused(&cpus(&json!({"allocation_info": {"role": "a b"}})), "white space");
}

#[test]
fn formats_may_not_be_mixed() {
    let stack = |more: Value| {
        let mut object = cpus(&json!({"reservations": [{"type": "DYNAMIC", "role": "ads"}]}));
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object
    };
    refused(&stack(json!({"role": "web"})), "'role' is 'web', but 'reservations' says 'ads'");
    refused(&stack(json!({"role": "ads"})), "must both be set, or neither");
    refused(&stack(json!({"reservation": {}})), "must both be set, or neither");
    refused(
        &stack(json!({"role": "ads", "reservation": {"principal": "x"}})),
        "principals in 'reservation' and 'reservations' differ",
    );
    let two = json!([{"type": "STATIC", "role": "eng"}, {"type": "DYNAMIC", "role": "eng/db"}]);
    refused(&cpus(&json!({"reservations": two, "role": "eng/db"})), "beside refined");
    refused(&cpus(&json!({"role": "ads", "reservation": {"type": "DYNAMIC"}})), "belongs into");
    let apart = json!([{"type": "STATIC", "role": "eng"}, {"type": "DYNAMIC", "role": "web"}]);
    refused(&cpus(&json!({"reservations": apart})), "'web' of a refined reservation is not below");
}

#[track_caller]
fn invalid(operation: &Operation, place: Option<(ListField, usize)>, expected: &str) {
    let judged = validate::operation(operation, Some(&Principal::new("ops")));
    let wrong = judged.expect_err("refused");
    let message = wrong.to_string();
    assert_eq!(wrong.place(), place, "{message}");
    assert!(message.contains(expected), "{message}");
    assert!(!matches!(wrong.reason(), InvalidOperation::Element { .. }));
    assert!(is_sane(&message), "{message}");
}

fn resource(object: &Value) -> Resource {
    Resource::try_from(form(object)).expect("a resource")
}

#[test]
fn the_bad_element_of_an_operation_is_named() {
    let good = || resource(&volume("v0", "data"));
    let nested = format!("{}/{}", "x".repeat(300), "y".repeat(300));
    for path in ["", "/abs", "a/b", "..", ".", "a\0b", &"x".repeat(300), &nested] {
        let volumes = vec![good(), resource(&volume("v1", path))];
        let expected = "volumes[1]: container path '";
        invalid(&Operation::Create { volumes }, Some((ListField::Volumes, 1)), expected);
    }
    let volumes = vec![good(), resource(&volume("v1", "data")), resource(&volume("v0", "else"))];
    let expected = "volumes[2]: persistence ID 'v0' is not unique";
    invalid(&Operation::Create { volumes }, Some((ListField::Volumes, 2)), expected);
    invalid(&Operation::Destroy { volumes: Vec::new() }, None, "no resources are given");

    let reserved = |principal: &str| {
        let stack = json!([{"type": "DYNAMIC", "role": "ads", "principal": principal}]);
        resource(&cpus(&json!({"reservations": stack})))
    };
    let at = Some((ListField::Resources, 1));
    let resources = vec![reserved("ops"), reserved(&"p".repeat(5000))];
    let reserve = Operation::Reserve { resources, source: Vec::new() };
    invalid(&reserve, at, "resources[1]: reservation of cpus");
    let resources = vec![reserved("ops"), resource(&cpus(&json!({})))];
    invalid(&Operation::Unreserve { resources }, at, "resources[1]: resource cpus:1 is not dyn");
    let source = vec![resource(&cpus(&json!({"allocation_info": {"role": "ads"}})))];
    let reserve = Operation::Reserve { resources: vec![reserved("ops")], source };
    invalid(&reserve, None, "differ in more than their reservations");
}

#[test]
fn frameworks_are_told_where_too() {
    let ads = Role::parse("ads").unwrap();
    let (roles, capabilities) = (BTreeSet::from([ads.clone()]), BTreeSet::new());
    let caller = FrameworkCaller {
        principal: Some(&Principal::new("ops")),
        roles: &roles,
        allocation_role: &ads,
        capabilities: &capabilities,
    };
    let check = |operation: Operation, caller: &FrameworkCaller<'_>, expected: &str| {
        let judged = validate::framework_operation(&operation, caller);
        let message = judged.map_or_else(|wrong| wrong.to_string(), |()| "ok".to_owned());
        assert!(message.contains(expected) && is_sane(&message), "{message}");
    };
    let reserved = |role: &str| {
        let stack = json!([{"type": "DYNAMIC", "role": role, "principal": "ops"}]);
        resource(&cpus(&json!({"reservations": stack})))
    };
    let reserve = |role: &str| Operation::Reserve {
        resources: vec![reserved("ads"), reserved(role)],
        source: Vec::new(),
    };
    check(reserve("ads"), &caller, "resources[0]: resource cpus");
    check(reserve("ads"), &caller, "is not allocated to a role of the framework");
    check(reserve("ads").allocated_to(&ads), &caller, "ok");
    check(reserve("web").allocated_to(&ads), &caller, "resources[1]: ");
    check(reserve("web").allocated_to(&ads), &caller, "'ads' but reserved for another");
    let web = Role::parse("web").unwrap();
    check(reserve("web").allocated_to(&web), &caller, "'web', which the framework does not have");
    let both = BTreeSet::from([ads.clone(), web.clone()]);
    let other = FrameworkCaller { roles: &both, ..caller };
    check(reserve("web").allocated_to(&web), &other, "'web', not to 'ads' of the offer");
    let (resources, source) = (vec![reserved("ads")], vec![reserved("ads").pop_reservation()]);
    let re_reserve = Operation::Reserve { resources, source }.allocated_to(&ads);
    check(re_reserve, &caller, "'source' of RESERVE is not implemented");

    let shared = Resource { shared: true, ..resource(&volume("v1", "data")) };
    let create = Operation::Create { volumes: vec![shared] }.allocated_to(&ads);
    check(create.clone(), &caller, "needs the framework capability SHARED_RESOURCES");
    let sharing = BTreeSet::from([FrameworkCapability::SharedResources]);
    check(create, &FrameworkCaller { capabilities: &sharing, ..caller }, "ok");
}

#[test]
fn flags_of_an_agent_are_quoted_briefly() {
    let long = "x".repeat(9_999);
    let digits = "9".repeat(400);
    for text in
        [&long, &format!("{long}:{long}"), &format!("cpus:{digits}"), "cpus:1e300", "a(b:\u{1}"]
    {
        let message = parse::resources_text(text, &Role::star()).unwrap_err().to_string();
        assert!(is_sane(&message), "{message}");
    }
    let message = parse::attributes(&format!("a:{digits}e-100")).unwrap_err().to_string();
    assert!(is_sane(&message), "{message}");
    assert!(is_sane(&parse::duration(&long).unwrap_err().to_string()));
}
