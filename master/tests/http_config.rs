//! Flags of `holdfast master`: what parses, what a master makes of it, and the one line that a
//! mistake gives.

use clap::Parser;
use master::config::{Config, Flags};

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    flags: Flags,
}

const LEAST: &[&str] = &["--id", "1", "--work-dir", "d", "--peers", "1=127.0.0.1:6050"];

fn config(more: &[&str]) -> Result<Config, String> {
    let line = LEAST.iter().chain(more);
    let flags = Line::try_parse_from(line).map_err(|error| error.to_string())?.flags;
    flags.into_config().map_err(|error| error.to_string())
}

fn check_refused(more: &[&str], expected: &str) {
    let error = config(more).err().unwrap_or_else(|| panic!("{more:?} is accepted"));
    assert!(error.contains(expected), "{more:?}: {error}");
}

#[test]
fn defaults_are_those_of_the_contract() {
    let config = config(&[]).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:5050");
    assert_eq!(config.advertise.to_string(), "127.0.0.1:5050");
    assert_eq!(config.peer_listen.to_string(), "127.0.0.1:6050");
    assert_eq!(config.heartbeat.as_millis(), 100);
    assert_eq!(config.election_timeout.as_millis(), 300);
    assert_eq!(config.agent_ping_timeout.as_secs(), 15);
    assert_eq!(config.agent_pings_missed_max, 5);
    assert!(config.dormant.is_empty());
    for (name, value) in [
        ("allocation_interval", "1secs"),
        ("agent_reregister_timeout", "10mins"),
        ("min_allocatable_resources", "cpus:0.01|mem:32"),
        ("authenticate_http_readwrite", "false"),
        ("root_submissions", "true"),
        ("agent_ping_timeout", "15secs"),
    ] {
        assert_eq!(config.flags.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert_eq!(config.flags.get("offer_timeout"), None);
}

#[test]
fn every_flag_of_the_contract_parses() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f");
    std::fs::write(&file, "{}").unwrap();
    let file = file.to_str().unwrap();
    let config = config(&[
        "--listen=0.0.0.0:5050",
        "--advertise=h:1",
        "--peer-listen=[::]:2",
        "--zk-listen=127.0.0.1:2181",
        "--authenticate-http=false",
        "--authenticate-http-readonly=false",
        "--authenticate-agents=false",
        "--acls",
        file,
        "--roles=a,b/c",
        "--tls-cert",
        file,
        "--tls-key",
        file,
        "--tls-ca",
        file,
        "--peer-tls-cert",
        file,
        "--peer-tls-key",
        file,
        "--peer-tls-ca",
        file,
        "--heartbeat-interval=50ms",
        "--election-timeout=0.5s",
        "--allocation-interval=1s",
        "--offer-timeout=3secs",
        "--min-allocatable-resources=cpus:0.01|mem:32|disk:1",
        "--agent-ping-timeout=1s",
        "--max-agent-ping-timeouts=2",
        "--agent-reregister-timeout=1s",
        "--agent-removal-rate-limit=1/10mins",
        "--recovery-agent-removal-limit=80%",
        "--registry-gc-interval=15mins",
        "--registry-max-agent-age=2weeks",
        "--registry-max-agent-count=5",
        "--max-completed-frameworks=1",
        "--root-submissions=false",
        "--publish-per-framework-metrics",
        "--cluster",
        "",
    ])
    .unwrap();
    assert_eq!(config.advertise.to_string(), "h:1");
    assert_eq!(config.election_timeout.as_millis(), 500);
    for name in ["tls_key", "registry_gc_interval", "cluster"] {
        assert!(config.dormant.contains(&name), "{name}");
    }
    assert_eq!(config.flags["cluster"], "");
    assert_eq!(config.flags["root_submissions"], "false");
}

#[test]
fn mistakes_say_what_where_and_what_was_expected() {
    check_refused(&["--listen=5050"], "--listen '5050': expected host:port");
    check_refused(&["--listen=h:0"], "expected a port from 1 to 65535");
    check_refused(&["--listen="], "--listen '': expected host:port");
    check_refused(&["--listen=0.0.0.0:5050"], "--advertise: expected an address");
    check_refused(&["--listen=0.0.0.0:5050", "--advertise=[::]:1"], "--advertise is [::]:1");
    check_refused(&["--listen=h:65000"], "--peer-listen: expected host:port");
    check_refused(&["--election-timeout=150ms"], "at least twice --heartbeat-interval");
    check_refused(&["--heartbeat-interval=1ms"], "--heartbeat-interval 1ms: expected at least");
    check_refused(&["--agent-ping-timeout=1ms"], "--agent-ping-timeout 1ms: expected from 1secs");
    check_refused(&["--max-agent-ping-timeouts=0"], "max-agent-ping-timeouts");
    check_refused(&["--heartbeat-interval=5"], "heartbeat-interval");
    check_refused(&["--authenticate-http"], "--authenticate-http: expected --credentials");
    check_refused(&["--authenticate-agents"], "--authenticate-agents: expected --credentials");
    check_refused(&["--authenticate-http=yes"], "yes");
    check_refused(&["--credentials=/nonexistent/file"], "--credentials '/nonexistent/file'");
    check_refused(&["--acls=/nonexistent/file"], "--acls '/nonexistent/file': ");
    check_refused(&["--acls={nope"], "--acls '{nope': expected a JSON object");
    check_refused(&["--acls={\"view_role\":[]}"], "'view_role' is no action");
    check_refused(&["--roles=a,*/b"], "--roles '*/b': expected a role, ");
    check_refused(&["--recovery-agent-removal-limit=80"], "expected a percentage");
    check_refused(&["--registry-max-agent-count=-1"], "registry-max-agent-count");
    check_refused(&["--no-such-flag"], "no-such-flag");
}

#[test]
fn peers_contain_this_master_once() {
    let peers = |text: &str| {
        let line = ["--id=2", "--work-dir=d", "--peers", text];
        let flags = Line::try_parse_from(line).unwrap_or_else(|error| panic!("{error}")).flags;
        flags.into_config().map(|config| config.peers.len()).map_err(|error| error.to_string())
    };
    assert_eq!(peers("1=h:1,2=h:2,3=h:3"), Ok(3));
    assert_eq!(peers("2=h:2"), Ok(1));
    for (text, expected) in [
        ("", "--peers: expected"),
        ("1=h:1", "--peers: expected an entry for --id 2, found 1"),
        ("2=h:1,2=h:2", "the id 2 stands there twice"),
        ("h:1", "found no '='"),
        ("x=h:1", "the id is a whole number from 1"),
        ("0=h:1", "the id is a whole number from 1"),
        ("2=h", "--peers '2=h': expected id=host:port, expected host:port"),
        ("2=0.0.0.0:1", "the peers can reach"),
    ] {
        let error = peers(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let line = Line::try_parse_from(["--id=1", "--work-dir=d"]).unwrap_or_else(|e| panic!("{e}"));
    assert!(line.flags.into_config().unwrap_err().to_string().starts_with("--peers: expected"));
}

#[test]
fn credentials_are_read_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("credentials.json");
    let flag = format!("--credentials=file://{}", file.display());
    std::fs::write(&file, r#"{"credentials":[{"principal":"ops","secret":"s"}]}"#).unwrap();
    assert!(config(&[&flag, "--authenticate-http"]).is_ok());
    std::fs::write(&file, "ops s").unwrap();
    check_refused(&[&flag], "--credentials");
}

#[test]
fn access_control_lists_come_inline_or_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("acls.json");
    let rules = r#"{"permissive":false,"register_agents":
        [{"principals":{"values":["a"]},"agents":{"type":"ANY"}}]}"#;
    std::fs::write(&file, rules).unwrap();
    for value in
        [rules.to_owned(), file.display().to_string(), format!("file://{}", file.display())]
    {
        let config = config(&[&format!("--acls={value}")]).unwrap();
        let may = |name: &str| {
            let principal = resources::id::Principal::new(name);
            config.authorizer.may(Some(&principal), master::auth::Action::RegisterAgent, None)
        };
        assert!(may("a") && !may("b"), "{value}");
        assert_eq!(config.flags["acls"], value);
        assert!(config.dormant.is_empty());
    }
}

/// Lists are read once: a file that is broken or gone later changes nothing, and one that is
/// broken at the start lets nobody in.
#[test]
fn z02_a_broken_list_stops_the_start_and_nothing_later() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("acls.json");
    let none = r#"{"register_agents":[{"principals":{"type":"ANY"},"agents":{"type":"NONE"}}]}"#;
    std::fs::write(&file, none).unwrap();
    let started = config(&["--acls", file.to_str().unwrap()]).unwrap();
    std::fs::write(&file, "{broken").unwrap();
    let register = master::auth::Action::RegisterAgent;
    assert!(!started.authorizer.may(None, register, None), "the lists of the start hold");
    check_refused(&["--acls", file.to_str().unwrap()], "expected a JSON object");
    std::fs::write(
        &file,
        r#"{"view_flags":[{"principals":{"type":"ANY"},
        "flags":{"values":["x"]}}]}"#,
    )
    .unwrap();
    check_refused(&["--acls", file.to_str().unwrap()], "can only be ANY or NONE");
}

#[test]
fn a_whitelist_holds_its_roles_and_star() {
    let roles = |value: &str| config(&[&format!("--roles={value}")]).unwrap().whitelist.unwrap();
    let names = |value: &str| roles(value).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names("b/c,a"), ["*", "a", "b/c"]);
    assert_eq!(names(""), ["*"]);
    assert!(config(&[]).unwrap().whitelist.is_none());
}
