//! Plans of checks and health checks (spec §1.9.1 `CheckInfo`, `HealthCheck`). Next: `plan.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use proto::mesos::v1;
use proto::mesos::v1::{check_info, health_check};

use super::job::{CheckPlan, HealthPlan, Probe, Program};

/// Whether a task is looked at, and how. `command` makes a program of a command.
pub(super) fn plans(
    health: Option<&v1::HealthCheck>,
    check: Option<&v1::CheckInfo>,
    command: impl Fn(&v1::CommandInfo) -> Result<(Program, BTreeMap<String, String>), String>,
) -> Result<Vec<CheckPlan>, String> {
    let mut plans = Vec::new();
    if let Some(health) = health {
        let probe = match health.r#type() {
            health_check::Type::Command => {
                let info = health.command.as_ref().ok_or("the health check has no command")?;
                let (program, environment) = command(info)?;
                Probe::Command(program, environment)
            }
            health_check::Type::Tcp => Probe::Tcp(port(health.tcp.as_ref().map(|tcp| tcp.port))?),
            health_check::Type::Http => {
                let http = health.http.as_ref().ok_or("the health check has no 'http'")?;
                if http.scheme.as_deref().is_some_and(|scheme| scheme != "http") {
                    return Err("health checks by https are not supported".to_owned());
                }
                Probe::Http {
                    port: port(Some(http.port))?,
                    path: http.path.clone().unwrap_or_default(),
                    statuses: http.statuses.clone(),
                }
            }
            health_check::Type::Unknown => return Err("the health check has no type".to_owned()),
        };
        plans.push(CheckPlan {
            probe,
            delay: seconds(health.delay_seconds()),
            interval: seconds(health.interval_seconds()),
            timeout: seconds(health.timeout_seconds()),
            health: Some(HealthPlan {
                failures_max: health.consecutive_failures(),
                grace: seconds(health.grace_period_seconds()),
            }),
        });
    }
    if let Some(check) = check {
        let probe = match check.r#type() {
            check_info::Type::Command => {
                let info = check.command.as_ref().ok_or("the check has no command")?;
                let (program, environment) = command(&info.command)?;
                Probe::Command(program, environment)
            }
            check_info::Type::Tcp => Probe::Tcp(port(check.tcp.as_ref().map(|tcp| tcp.port))?),
            check_info::Type::Http => {
                let http = check.http.as_ref().ok_or("the check has no 'http'")?;
                Probe::Http {
                    port: port(Some(http.port))?,
                    path: http.path.clone().unwrap_or_default(),
                    statuses: Vec::new(),
                }
            }
            check_info::Type::Unknown => return Err("the check has no type".to_owned()),
        };
        plans.push(CheckPlan {
            probe,
            delay: seconds(check.delay_seconds()),
            interval: seconds(check.interval_seconds()),
            timeout: seconds(check.timeout_seconds()),
            health: None,
        });
    }
    Ok(plans)
}

fn port(port: Option<u32>) -> Result<u16, String> {
    let port = port.ok_or("the check has no port")?;
    u16::try_from(port).map_err(|_| format!("port {port} of the check is beyond 65535"))
}

/// What is no time counts as none.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}
