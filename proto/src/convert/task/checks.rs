//! The shapes of checks, commands and containers (spec §2.2, LAUNCH 6, 7, 9, 10): which part
//! must stand beside which type. Whether an agent can do what they ask is for the agent to say.

use crate::mesos::v1;
use crate::mesos::v1::environment::variable;
use crate::mesos::v1::volume::source::{self, sandbox_path};
use crate::mesos::v1::{check_info, health_check, secret, volume};

use super::InvalidTask;

pub(super) fn check(check: &v1::CheckInfo) -> Result<(), InvalidTask> {
    let kind = check.r#type.and_then(|kind| check_info::Type::try_from(kind).ok());
    match kind {
        None => return Err(InvalidTask::Missing("check.type")),
        Some(check_info::Type::Unknown) => return Err(unknown("check.type")),
        Some(check_info::Type::Command) => {
            let wanted = check.command.as_ref().ok_or(InvalidTask::Missing("check.command"))?;
            runnable("check.command.command.value", &wanted.command)?;
        }
        Some(check_info::Type::Http) => {
            let http = check.http.as_ref().ok_or(InvalidTask::Missing("check.http"))?;
            absolute("check.http.path", http.path.as_deref())?;
        }
        Some(check_info::Type::Tcp) => {
            check.tcp.as_ref().ok_or(InvalidTask::Missing("check.tcp"))?;
        }
    }
    seconds("check.delay_seconds", check.delay_seconds())?;
    seconds("check.interval_seconds", check.interval_seconds())?;
    seconds("check.timeout_seconds", check.timeout_seconds())
}

pub(super) fn health_check(check: &v1::HealthCheck) -> Result<(), InvalidTask> {
    let kind = check.r#type.and_then(|kind| health_check::Type::try_from(kind).ok());
    match kind {
        None => return Err(InvalidTask::Missing("health_check.type")),
        Some(health_check::Type::Unknown) => return Err(unknown("health_check.type")),
        Some(health_check::Type::Command) => {
            let wanted = check.command.as_ref();
            runnable(
                "health_check.command.value",
                wanted.ok_or(InvalidTask::Missing("health_check.command"))?,
            )?;
        }
        Some(health_check::Type::Http) => {
            let http = check.http.as_ref().ok_or(InvalidTask::Missing("health_check.http"))?;
            absolute("health_check.http.path", http.path.as_deref())?;
            match http.scheme.as_deref() {
                None | Some("http" | "https") => {}
                Some(other) => {
                    let (field, value) = ("health_check.http.scheme", other.to_owned());
                    return Err(InvalidTask::Value { field, value });
                }
            }
        }
        Some(health_check::Type::Tcp) => {
            check.tcp.as_ref().ok_or(InvalidTask::Missing("health_check.tcp"))?;
        }
    }
    seconds("health_check.delay_seconds", check.delay_seconds())?;
    seconds("health_check.grace_period_seconds", check.grace_period_seconds())?;
    seconds("health_check.interval_seconds", check.interval_seconds())?;
    seconds("health_check.timeout_seconds", check.timeout_seconds())
}

pub(super) fn command(command: &v1::CommandInfo) -> Result<(), InvalidTask> {
    let mut variables = command.environment.iter().flat_map(|environment| &environment.variables);
    variables.try_for_each(variable)
}

fn variable(variable: &v1::environment::Variable) -> Result<(), InvalidTask> {
    match variable.r#type() {
        variable::Type::Unknown => Err(unknown("environment.variables.type")),
        variable::Type::Value => match (&variable.value, &variable.secret) {
            (None, _) => Err(InvalidTask::Missing("environment.variables.value")),
            (Some(_), Some(_)) => Err(InvalidTask::Forbidden {
                field: "environment.variables.secret",
                why: "beside a type of VALUE",
            }),
            (Some(value), None) => text("environment.variables.value", value),
        },
        variable::Type::Secret => match (&variable.value, &variable.secret) {
            (_, None) => Err(InvalidTask::Missing("environment.variables.secret")),
            (Some(_), Some(_)) => Err(InvalidTask::Forbidden {
                field: "environment.variables.value",
                why: "beside a type of SECRET",
            }),
            (None, Some(secret)) => self::secret(secret),
        },
    }?;
    match variable.name.as_str() {
        name if name.is_empty() || name.contains('=') => {
            let (field, value) = ("environment.variables.name", name.to_owned());
            Err(InvalidTask::Value { field, value })
        }
        name => text("environment.variables.name", name),
    }
}

/// No process can be given a text that holds a NUL.
fn text(field: &'static str, value: &str) -> Result<(), InvalidTask> {
    match value.contains('\0') {
        true => Err(InvalidTask::Value { field, value: value.to_owned() }),
        false => Ok(()),
    }
}

fn secret(secret: &v1::Secret) -> Result<(), InvalidTask> {
    let kind = secret.r#type.and_then(|kind| secret::Type::try_from(kind).ok());
    let (is_there, field) = match kind {
        None => (false, "secret.type"),
        Some(secret::Type::Unknown) => return Err(unknown("secret.type")),
        Some(secret::Type::Reference) => (secret.reference.is_some(), "secret.reference"),
        Some(secret::Type::Value) => (secret.value.is_some(), "secret.value"),
    };
    if is_there { Ok(()) } else { Err(InvalidTask::Missing(field)) }
}

pub(super) fn container(container: &v1::ContainerInfo) -> Result<(), InvalidTask> {
    container.volumes.iter().try_for_each(volume)
}

/// Exactly one of the places that a volume can come from.
fn volume(volume: &v1::Volume) -> Result<(), InvalidTask> {
    match (&volume.host_path, &volume.source) {
        (Some(_), Some(_)) => {
            let why = "beside 'host_path'";
            Err(InvalidTask::Forbidden { field: "container.volumes.source", why })
        }
        (None, None) => Err(InvalidTask::Missing("container.volumes.source")),
        (Some(_), None) => Ok(()),
        (None, Some(source)) => volume_source(source),
    }
}

fn volume_source(given: &volume::Source) -> Result<(), InvalidTask> {
    let kind = given.r#type.and_then(|kind| source::Type::try_from(kind).ok());
    match kind {
        None => Err(InvalidTask::Missing("container.volumes.source.type")),
        Some(source::Type::Unknown) => Err(unknown("container.volumes.source.type")),
        Some(source::Type::SandboxPath) => {
            let field = "container.volumes.source.sandbox_path";
            sandbox_path(given.sandbox_path.as_ref().ok_or(InvalidTask::Missing(field))?)
        }
        Some(source::Type::Secret) => {
            let field = "container.volumes.source.secret";
            secret(given.secret.as_ref().ok_or(InvalidTask::Missing(field))?)
        }
        // Their parts are not read by this program.
        Some(source::Type::DockerVolume | source::Type::HostPath | source::Type::CsiVolume) => {
            Ok(())
        }
    }
}

fn sandbox_path(given: &source::SandboxPath) -> Result<(), InvalidTask> {
    let kind = given.r#type.and_then(|kind| sandbox_path::Type::try_from(kind).ok());
    match kind {
        None => Err(InvalidTask::Missing("sandbox_path.type")),
        Some(sandbox_path::Type::Unknown) => Err(unknown("sandbox_path.type")),
        Some(sandbox_path::Type::Self_ | sandbox_path::Type::Parent) => {
            let leaves = given.path.starts_with('/') || given.path.split('/').any(|p| p == "..");
            match leaves {
                true => {
                    let (field, value) = ("sandbox_path.path", given.path.clone());
                    Err(InvalidTask::Value { field, value })
                }
                false => Ok(()),
            }
        }
    }
}

fn runnable(field: &'static str, wanted: &v1::CommandInfo) -> Result<(), InvalidTask> {
    if wanted.value.is_none() {
        return Err(InvalidTask::Missing(field));
    }
    command(wanted)
}

fn absolute(field: &'static str, path: Option<&str>) -> Result<(), InvalidTask> {
    match path {
        Some(path) if !path.starts_with('/') => {
            Err(InvalidTask::Value { field, value: path.to_owned() })
        }
        Some(_) | None => Ok(()),
    }
}

fn seconds(field: &'static str, value: f64) -> Result<(), InvalidTask> {
    if value >= 0.0 { Ok(()) } else { Err(InvalidTask::Negative(field)) }
}

fn unknown(field: &'static str) -> InvalidTask {
    InvalidTask::Value { field, value: "UNKNOWN".to_owned() }
}
