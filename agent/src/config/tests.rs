//! Good and bad values of the flags.

use clap::Parser;

use super::*;

const RAW_DISK: &str = r#"[{"name":"disk","type":"SCALAR","scalar":{"value":1},
    "disk":{"source":{"type":"RAW"}}}]"#;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    flags: Flags,
}

fn read(more: &[&str]) -> Result<Config, ConfigError> {
    let base = ["agent", "--master", "h1:5050,h2:5050", "--work-dir", "/w"];
    Cli::try_parse_from(base.iter().chain(more)).unwrap().flags.into_config()
}

#[test]
fn defaults() {
    let config = read(&[]).unwrap();
    assert_eq!(config.masters.len(), 2);
    assert_eq!(config.hostname, "127.0.0.1");
    assert_eq!(config.advertise.to_string(), "127.0.0.1:5051");
    assert!(config.not_in_force.is_empty());
    assert!(config.resources.is_empty());
}

#[test]
fn booleans_and_empty_values() {
    assert_eq!(read(&["--strict"]).unwrap().not_in_force, Vec::<&str>::new());
    assert_eq!(read(&["--strict=false"]).unwrap().not_in_force, ["strict"]);
    assert_eq!(read(&["--hostname", ""]).unwrap().hostname, "127.0.0.1");
}

#[test]
fn zero_counts_as_named() {
    let config = read(&["--resources", "cpus:0;mem(ads):64"]).unwrap();
    assert_eq!(config.resource_names, BTreeSet::from(["cpus".to_owned(), "mem".to_owned()]));
    let config =
        read(&["--resources", r#"[{"name":"disk","type":"SCALAR","scalar":{"value":0}}]"#]);
    assert_eq!(config.unwrap().resource_names, BTreeSet::from(["disk".to_owned()]));
}

#[test]
fn one_clear_line() {
    for (flags, flag) in [
        (&["--listen", "nowhere"][..], "listen"),
        (&["--listen", "0.0.0.0:5051"], "advertise"),
        (&["--resources", "cpus"], "resources"),
        (&["--resources", "file:///does/not/exist"], "resources"),
        (&["--resources", "[{"], "resources"),
        (&["--resources", RAW_DISK], "resources"),
        (&["--attributes", "a:{x}"], "attributes"),
        (&["--default-role", "a b"], "default-role"),
        (&["--credential", "/does/not/exist"], "credential"),
        (&["--reconfiguration-policy", "any"], "reconfiguration-policy"),
        (&["--gc-delay", "1 fortnight"], "gc-delay"),
        (&["--executor-reregistration-timeout", "16secs"], "executor-reregistration-timeout"),
        (&["--recover", "maybe"], "recover"),
        (&["--strict=perhaps"], "strict"),
    ] {
        let error = read(flags).expect_err(flag);
        assert_eq!(error.flag, flag, "{error}");
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
    }
    let no_master = Cli::try_parse_from(["agent", "--work-dir", "/w"]).unwrap();
    assert_eq!(no_master.flags.into_config().unwrap_err().flag, "master");
}

#[test]
fn addresses() {
    for (text, shown) in
        [("h:1", "h:1"), ("[::1]:5051", "[::1]:5051"), ("10.0.0.1:80", "10.0.0.1:80")]
    {
        assert_eq!(text.parse::<Address>().unwrap().to_string(), shown);
    }
    for text in ["", "h", "h:", ":1", "h:70000", "a b:1", "http://h:1"] {
        assert!(text.parse::<Address>().is_err(), "{text}");
    }
}

#[test]
fn secret_is_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("credential");
    std::fs::File::create(&path)
        .and_then(|mut f| std::io::Write::write_all(&mut f, br#"{"principal":"p","secret":"s3"}"#))
        .unwrap();
    let config = read(&["--credential", path.to_str().unwrap()]).unwrap();
    assert!(!format!("{config:?}").contains("s3"));
    assert_eq!(config.credential.unwrap().header(), "Basic cDpzMw==");
}
