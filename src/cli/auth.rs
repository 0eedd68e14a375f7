//! `holdfast auth can-i`: asks by a dry run whether the caller has a permission. Permissions are
//! looked at before anything else, so that no agent has to have the resources.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::call::{Key, Mutating};
use super::client::Client;
use super::output::{Output, print, print_json};
use crate::exit::Failure;

/// The commands of this noun.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Say whether the caller may do something
    #[command(name = "can-i", after_help = OTHERS)]
    CanI(CanI),
}

/// For `--help`.
const OTHERS: &str = "\
What depends on who made a thing is answered by a dry run on that thing:
holdfast volume destroy --dry-run, holdfast framework teardown --dry-run";

/// Flags of `auth can-i`.
#[derive(Debug, Args)]
pub(super) struct CanI {
    /// What
    #[arg(value_enum)]
    verb: Verb,
    /// Role that resources are reserved for; for unreserve the principal who reserved them
    object: String,
}

/// What can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Verb {
    /// Reserve resources for a role
    Reserve,
    /// Unreserve what a principal reserved
    Unreserve,
    /// Create volumes of a role
    Create,
    /// Grow and shrink volumes of a role
    Resize,
}

/// Runs it.
pub(super) async fn run(
    client: &mut Client,
    output: Output,
    principal: Option<&str>,
    command: Command,
) -> Result<(), Failure> {
    let Command::CanI(asked) = command;
    let call = Mutating {
        path: "/api/v1?dry_run=true".to_owned(),
        body: &body(&asked, principal),
        wait: Duration::ZERO,
        key: Key::None,
        if_version: None,
    };
    // 403 is the only answer that comes before the checks of a dry run and is about rights.
    let may = match client.execute(&call).await {
        Ok(_) => true,
        Err(Failure::Refused(reason)) if reason.contains("(403)") => false,
        Err(failure) => return Err(failure),
    };
    match output {
        Output::Json => print_json(&json!({"allowed": may}))?,
        Output::Table | Output::Wide | Output::Yaml => print(if may { "yes\n" } else { "no\n" })?,
    }
    match may {
        true => Ok(()),
        false => Err(Failure::Refused("not allowed".to_owned())),
    }
}

/// A call that needs the permission and nothing else.
fn body(asked: &CanI, principal: Option<&str>) -> Value {
    let reservation = |role: &str, principal: Option<&str>| {
        let level = json!({"type": "DYNAMIC", "role": role, "principal": principal});
        json!([level])
    };
    let scalar = |value: f64| json!({"value": value});
    let agent_id = json!({"value": "any"});
    let cpus = |reservations: Value| {
        json!({"name": "cpus", "type": "SCALAR", "scalar": scalar(1.0),
            "reservations": reservations})
    };
    let disk = json!({"name": "disk", "type": "SCALAR", "scalar": scalar(2.0),
        "reservations": reservation(&asked.object, principal),
        "disk": {"persistence": {"id": "any", "principal": principal},
            "volume": {"container_path": "any", "mode": "RW"}}});
    match asked.verb {
        Verb::Reserve => json!({"type": "RESERVE_RESOURCES", "reserve_resources": {
            "agent_id": agent_id,
            "resources": [cpus(reservation(&asked.object, principal))]}}),
        Verb::Unreserve => json!({"type": "UNRESERVE_RESOURCES", "unreserve_resources": {
            "agent_id": agent_id, "resources": [cpus(reservation("any", Some(&asked.object)))]}}),
        Verb::Create => json!({"type": "CREATE_VOLUMES", "create_volumes": {
            "agent_id": agent_id, "volumes": [disk]}}),
        Verb::Resize => json!({"type": "SHRINK_VOLUME", "shrink_volume": {
            "agent_id": agent_id, "volume": disk, "subtract": scalar(1.0)}}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_name_what_is_asked() {
        let body = |verb| body(&CanI { verb, object: "x".to_owned() }, Some("ops"));
        let reserve = body(Verb::Reserve);
        let reservation = &reserve["reserve_resources"]["resources"][0]["reservations"][0];
        assert_eq!((&reservation["role"], &reservation["principal"]), (&json!("x"), &json!("ops")));
        let unreserve = body(Verb::Unreserve);
        let reservation = &unreserve["unreserve_resources"]["resources"][0]["reservations"][0];
        assert_eq!(reservation["principal"], "x");
        assert_eq!(
            body(Verb::Create)["create_volumes"]["volumes"][0]["reservations"][0]["role"],
            "x"
        );
        assert_eq!(body(Verb::Resize)["type"], "SHRINK_VOLUME");
    }
}
