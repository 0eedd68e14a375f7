//! Which permissions operations and registrations need.

use resources::form::ResourceForm;
use resources::id::{CheckpointId, Seq};
use resources::message::AgentInfo;
use resources::parse;
use resources::role::Role;
use serde_json::json;

use super::*;

fn resource(form: serde_json::Value) -> Resource {
    let form: ResourceForm = serde_json::from_value(form).unwrap();
    Resource::try_from(form).unwrap()
}

/// `cpus` with a stack of reservations, each `(role, principal)`.
fn reserved(stack: &[(&str, Option<&str>)]) -> Resource {
    let levels: Vec<_> = stack
        .iter()
        .map(|(role, principal)| json!({"type": "DYNAMIC", "role": role, "principal": principal}))
        .collect();
    resource(json!({"name": "cpus", "type": "SCALAR", "scalar": {"value": 1},
        "reservations": levels}))
}

fn volume(role: &str, id: &str, creator: Option<&str>) -> Resource {
    resource(json!({"name": "disk", "type": "SCALAR", "scalar": {"value": 9},
        "reservations": [{"type": "STATIC", "role": role}],
        "disk": {"persistence": {"id": id, "principal": creator},
            "volume": {"container_path": "d", "mode": "RW"}}}))
}

fn check(operation: &Operation, expected: &[&str]) {
    let creator = |volume: &Resource| volume.disk.as_ref()?.persistence.as_ref()?.principal.clone();
    let asked = permissions(operation, |volume| Some(creator(volume)));
    let asked: Vec<String> = asked.iter().map(ToString::to_string).collect();
    assert_eq!(asked, expected, "{operation:?}");
}

#[test]
fn reserve_needs_each_top_role_once() {
    let resources = vec![
        reserved(&[("ads", None)]),
        reserved(&[("ads", Some("x"))]),
        reserved(&[("eng", None), ("eng/web", None)]),
    ];
    let reserve = Operation::Reserve { resources, source: Vec::new() };
    check(&reserve, &["reserve_resources 'ads'", "reserve_resources 'eng/web'"]);
}

#[test]
fn a_move_needs_each_level_that_goes_and_each_that_comes() {
    let moved = |from: &[(&str, Option<&str>)], to: &[(&str, Option<&str>)]| Operation::Reserve {
        source: vec![reserved(from)],
        resources: vec![reserved(to)],
    };
    let eng = ("eng", Some("ops"));
    check(
        &moved(&[eng, ("eng/web", Some("mia")), ("eng/web/x", None)], &[eng, ("eng/db", None)]),
        &["reserve_resources 'eng/db'", "unreserve_resources any", "unreserve_resources 'mia'"],
    );
    check(&moved(&[eng], &[eng]), &[]);
    check(
        &moved(&[eng], &[("ads", None), ("ads/x", None)]),
        &["reserve_resources 'ads'", "reserve_resources 'ads/x'", "unreserve_resources 'ops'"],
    );
    let unreserved = Operation::Reserve {
        source: vec![reserved(&[])],
        resources: vec![reserved(&[eng, ("eng/a", None)])],
    };
    check(&unreserved, &["reserve_resources 'eng'", "reserve_resources 'eng/a'"]);
}

#[test]
fn unreserve_needs_the_reserver_or_any() {
    let resources = vec![
        reserved(&[("ads", None)]),
        reserved(&[("eng", Some("ops")), ("eng/web", Some("mia"))]),
        reserved(&[("ads", Some("mia"))]),
    ];
    let unreserve = Operation::Unreserve { resources };
    check(&unreserve, &["unreserve_resources any", "unreserve_resources 'mia'"]);
}

#[test]
fn volumes_need_their_role_or_their_creator() {
    let volumes = vec![volume("ads", "a", Some("mia")), volume("web", "b", None)];
    let create = Operation::Create { volumes: volumes.clone() };
    check(&create, &["create_volumes 'ads'", "create_volumes 'web'"]);
    let destroy = Operation::Destroy { volumes };
    check(&destroy, &["destroy_volumes ''", "destroy_volumes 'mia'"]);
    let addition = reserved(&[("ads", None)]);
    let grow = Operation::Grow { volume: volume("ads", "a", None), addition };
    check(&grow, &["resize_volumes 'ads'"]);
}

const DESTROY: &str = r#"{"destroy_volumes":[
    {"principals":{"values":["ops"]},"creator_principals":{"type":"ANY"}},
    {"principals":{"values":["mia"]},"creator_principals":{"values":["mia"]}},
    {"principals":{"type":"ANY"},"creator_principals":{"type":"NONE"}}]}"#;

#[test]
fn the_stored_creator_counts_not_the_one_of_the_request() {
    let authorizer = Authorizer::new(Acls::parse(DESTROY).unwrap());
    let mia = Principal::new("mia");
    let may = |claimed: Option<&str>, stored: Option<Option<&str>>| {
        let destroy = Operation::Destroy { volumes: vec![volume("ads", "v", claimed)] };
        let stored = stored.map(|creator| creator.map(Principal::new));
        authorizer.operation(Some(&mia), &destroy, |_| stored.clone())
    };
    assert_eq!(may(Some("mia"), Some(Some("mia"))), Ok(()));
    assert_eq!(may(Some("ops"), Some(Some("mia"))), Ok(()));
    assert!(may(Some("mia"), Some(Some("ops"))).is_err());
    assert!(may(Some("mia"), Some(None)).is_err());
    let refused = may(Some("mia"), Some(Some("secret"))).unwrap_err().to_string();
    assert_eq!(refused, "principal 'mia' may not destroy volume 'v'");
    assert_eq!(may(Some("ops"), None), Ok(()), "what is not there is refused by the state");
}

#[test]
fn registration_asks_for_static_roles_and_for_unreserved_resources() {
    let registration = |resources: &str| {
        let declared = parse::resources_text(resources, &Role::star()).unwrap();
        Registration {
            checkpoint_id: CheckpointId::parse("k").unwrap(),
            boot_counter: 1,
            agent_id: None,
            fence: None,
            resources_digest: declared.digest(),
            info: AgentInfo {
                hostname: "h".to_owned(),
                host: "127.0.0.1".to_owned(),
                port: 1,
                version: "1.11.0".to_owned(),
                attributes: Vec::new(),
                resources: declared.iter().cloned().collect(),
            },
            applied_seq: Seq(0),
            settled: Vec::new(),
            unavailable: Vec::new(),
            tasks: Vec::new(),
            executors: Vec::new(),
        }
    };
    let acls = r#"{"register_agents":[
            {"principals":{"values":["agent","web"]},"agents":{"type":"ANY"}},
            {"principals":{"type":"ANY"},"agents":{"type":"NONE"}}],
        "reserve_resources":[
            {"principals":{"values":["agent"]},"roles":{"values":["*","ads"]}},
            {"principals":{"values":["web"]},"roles":{"values":["ads"]}},
            {"principals":{"type":"ANY"},"roles":{"type":"NONE"}}]}"#;
    let authorizer = Authorizer::new(Acls::parse(acls).unwrap());
    let may = |principal: Option<&str>, resources: &str| {
        let principal = principal.map(Principal::new);
        authorizer.registration(principal.as_ref(), &registration(resources)).is_ok()
    };
    assert!(may(Some("agent"), "cpus:1;disk(ads):5"));
    assert!(!may(Some("agent"), "cpus:1;disk(eng):5"));
    assert!(may(Some("web"), "disk(ads):5"));
    assert!(!may(Some("web"), "cpus:1;disk(ads):5"), "'*' is a role here");
    assert!(may(Some("web"), "cpus:1"), "no reservation, no permission to reserve");
    assert!(!may(Some("other"), "disk(ads):5"));
    assert!(!may(None, "disk(ads):5"));
    assert!(Authorizer::default().registration(None, &registration("cpus:1")).is_ok());
}

#[test]
fn frameworks_and_tasks_need_roles_and_users() {
    let acls = r#"{"permissive": false,
        "register_frameworks": [
            {"principals": {"values": ["ops"]}, "roles": {"values": ["a/%", "b"]}}
        ],
        "run_tasks": [{"principals": {"values": ["ops"]}, "users": {"values": ["web"]}}]}"#;
    let authorizer = Authorizer::new(Acls::parse(acls).unwrap());
    let ops = Principal::new("ops");
    let may = |roles: &[&str]| {
        let roles = roles.iter().map(|role| Role::parse(*role).unwrap()).collect();
        authorizer.framework(Some(&ops), &roles).map_err(|forbidden| forbidden.to_string())
    };
    assert_eq!(may(&["a/x", "b"]), Ok(()));
    let refused = may(&["a", "b"]).unwrap_err();
    assert_eq!(refused, "principal 'ops' may not subscribe as a framework for role 'a'");
    assert!(may(&[]).is_err());
    assert!(authorizer.framework(None, &BTreeSet::from([Role::parse("b").unwrap()])).is_err());
    assert_eq!(authorizer.task(Some(&ops), "web"), Ok(()));
    let refused = authorizer.task(Some(&ops), "root").unwrap_err();
    assert_eq!(refused.to_string(), "principal 'ops' may not run tasks as user 'root'");
    assert!(Authorizer::default().framework(None, &BTreeSet::new()).is_ok());
}
