//! Tables of Mesos' matching rules and of what is no access control list.

use super::*;

const ROLES: &str = r#"{"reserve_resources":[
    {"principals":{"values":["ops","svc"]},"roles":{"type":"ANY"}},
    {"principals":{"values":["mia"]},"roles":{"values":["ads"]}},
    {"principals":{"values":["queen"]},"roles":{"values":["king/%","king"]}},
    {"principals":{"values":["heir"]},"roles":{"values":["king/%"]}},
    {"principals":{"values":["priest"]},"roles":{"values":["king"]}},
    {"principals":{"type":"ANY"},"roles":{"type":"NONE"}}]}"#;

fn check(acls: &str, action: Action, cases: &[(Option<&str>, Option<&str>, bool)]) {
    let acls = Acls::parse(acls).unwrap_or_else(|error| panic!("{acls}: {error}"));
    for (subject, object, expected) in cases {
        assert_eq!(acls.may(action, *subject, *object), *expected, "{subject:?} {object:?}");
    }
}

#[test]
fn the_first_rule_that_matches_both_sides_decides() {
    let cases = [
        (Some("ops"), Some("x"), true),
        (Some("svc"), Some("anything"), true),
        (Some("mia"), Some("ads"), true),
        (Some("mia"), Some("web"), false),
        (Some("queen"), Some("king"), true),
        (Some("queen"), Some("king/a/b"), true),
        (Some("queen"), Some("kingdom"), false),
        (Some("heir"), Some("king"), false),
        (Some("heir"), Some("king/a"), true),
        (Some("priest"), Some("king"), true),
        (Some("priest"), Some("king/a"), false),
        (Some("nobody"), Some("x"), false),
        (None, Some("ads"), false),
        (Some("ops"), None, true),
        (Some("mia"), None, false),
    ];
    check(ROLES, Action::ReserveResources, &cases);
}

#[test]
fn nobody_and_no_object_match_only_any_and_none() {
    let acls = r#"{"unreserve_resources":[
        {"principals":{"values":["mia"]},"reserver_principals":{"values":["mia",""]}},
        {"principals":{"type":"ANY"},"reserver_principals":{"values":["open"]}},
        {"principals":{"values":["root"]},"reserver_principals":{"type":"ANY"}}],
        "permissive":false}"#;
    let cases = [
        (Some("mia"), Some("mia"), true),
        (Some("mia"), Some(""), true),
        (Some("mia"), None, false),
        (None, Some("open"), true),
        (None, Some("mia"), false),
        (None, None, false),
        (Some("root"), None, true),
        (Some("root"), Some("who"), true),
    ];
    check(acls, Action::UnreserveResources, &cases);
}

#[test]
fn without_a_rule_the_default_holds() {
    for (acls, expected) in
        [("{}", true), (r#"{"permissive":true}"#, true), (r#"{"permissive":false}"#, false)]
    {
        check(
            acls,
            Action::CreateVolume,
            &[(Some("a"), Some("r"), expected), (None, None, expected)],
        );
    }
    let elsewhere =
        r#"{"create_volumes":[{"principals":{"values":["a"]},"roles":{"type":"NONE"}}]}"#;
    let cases = [(Some("a"), Some("r"), false), (Some("b"), Some("r"), true), (None, None, true)];
    check(elsewhere, Action::CreateVolume, &cases);
    check(elsewhere, Action::DestroyVolume, &[(Some("a"), Some("a"), true)]);
}

#[test]
fn none_as_a_subject_refuses_everybody() {
    let acls = r#"{"register_agents":[{"principals":{"type":"NONE"},"agents":{"type":"ANY"}}]}"#;
    check(acls, Action::RegisterAgent, &[(Some("a"), None, false), (None, None, false)]);
}

#[test]
fn subtrees_come_before_the_single_roles_of_their_rule() {
    let acls = r#"{"view_roles":[
        {"principals":{"values":["a"]},"roles":{"values":["x","x/%","x/y"]}},
        {"principals":{"values":["a"]},"roles":{"values":["%","z%"]}}],"permissive":false}"#;
    let cases = [
        (Some("a"), Some("x"), true),
        (Some("a"), Some("x/y"), true),
        (Some("a"), Some("x/y/z"), true),
        (Some("a"), Some("%"), true),
        (Some("a"), Some("z%"), true),
        (Some("a"), Some("zz"), false),
        (Some("a"), Some("w"), false),
    ];
    check(acls, Action::ViewRole, &cases);
    // The objects of other actions know no subtree.
    let names = r#"{"run_tasks":[{"principals":{"type":"ANY"},"users":{"values":["a/%"]}}],
        "permissive":false}"#;
    check(names, Action::RunTask, &[(Some("p"), Some("a/b"), false), (None, Some("a/%"), true)]);
}

#[test]
fn what_is_no_list_is_refused_with_its_place() {
    for (text, expected) in [
        ("", "expected a JSON object"),
        ("[]", "expected a JSON object"),
        (r#"{"permissive":"no"}"#, "'permissive'"),
        (r#"{"reserve_resource":[]}"#, "'reserve_resource' is no action"),
        (r#"{"resize_volume":[]}"#, "'resize_volume' is replaced by 'resize_volumes'"),
        (r#"{"set_quotas":[]}"#, "replaced by 'update_quotas'"),
        (r#"{"set_quotas":[],"update_quotas":[]}"#, "which stands there too"),
        (r#"{"view_roles":{}}"#, "'view_roles': expected a list"),
        (r#"{"view_roles":[{"principals":{"type":"ANY"}}]}"#, "'view_roles', rule 0"),
        (r#"{"view_roles":[{"principals":{"type":"ANY"},"users":{"type":"ANY"}}]}"#, "and 'roles'"),
        (
            r#"{"view_roles":[{"principals":{"type":"admin"},"roles":{"type":"ANY"}}]}"#,
            "rule 0, 'principals'",
        ),
        (r#"{"view_roles":[{"principals":{},"roles":{"type":"ANY"}}]}"#, "rule 0, 'principals'"),
        (
            r#"{"view_roles":[{"principals":{"values":[1]},"roles":{"type":"ANY"}}]}"#,
            "rule 0, 'principals'",
        ),
        (
            r#"{"view_flags":[{"principals":{"type":"ANY"},"flags":{"values":["x"]}}]}"#,
            "'flags' can only be ANY or NONE",
        ),
        (
            r#"{"register_agents":[{"principals":{"type":"ANY"},"agents":{"values":["x"]}}]}"#,
            "'agents' can only be ANY or NONE",
        ),
        (
            r#"{"get_endpoints":[{"principals":{"type":"ANY"},"paths":{"values":["/slaves"]}}]}"#,
            "found '/slaves'",
        ),
        (
            r#"{"get_endpoints":[{"principals":{"type":"ANY"},
                "paths":{"values":["/slave(1)/monitor/statistics"]}}]}"#,
            "rule 0: expected one of /containers",
        ),
    ] {
        let error = Acls::parse(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn every_action_of_mesos_is_known() {
    for action in Action::ALL {
        let text = format!(
            r#"{{"{}":[{{"principals":{{"type":"ANY","values":["x"]}},"{}":{{"type":"NONE"}}}}]}}"#,
            action.key(),
            action.object_key()
        );
        check(&text, *action, &[(Some("x"), Some("y"), false)]);
    }
    assert!(Acls::parse(r#"{"prune_images":[1],"view_containers":[]}"#).is_ok());
}
