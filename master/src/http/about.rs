//! What this program says of itself: versions, the moment of its build, and the capabilities
//! that Mesos' clients look for. Must not know any state. Next: `read.rs`.

use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// The level of compatibility. Clients take it apart at the dots and need whole numbers.
pub(crate) const VERSION: &str = "1.11.0";
/// The version of this program.
pub(crate) const HOLDFAST_VERSION: &str = env!("CARGO_PKG_VERSION");
/// What each agent of this program can do.
pub(crate) const AGENT_CAPABILITIES: &[&str] = &[
    "MULTI_ROLE",
    "HIERARCHICAL_ROLE",
    "RESERVATION_REFINEMENT",
    "RESOURCE_PROVIDER",
    "RESIZE_VOLUME",
    "AGENT_OPERATION_FEEDBACK",
    "AGENT_DRAINING",
    "TASK_RESOURCE_LIMITS",
];
/// What each master of this program can do.
pub(crate) const MASTER_CAPABILITIES: &[&str] = &["AGENT_UPDATE", "AGENT_DRAINING", "QUOTA_V2"];

/// The body of `/version`.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Version {
    pub(crate) version: &'static str,
    pub(crate) holdfast_version: &'static str,
    pub(crate) build_date: String,
    pub(crate) build_time: f64,
    pub(crate) build_user: &'static str,
}

/// Read once: the program file may be replaced while it runs.
static BUILT_AT: LazyLock<u64> = LazyLock::new(|| {
    let modified = std::env::current_exe().and_then(|path| path.metadata()?.modified());
    let at = modified.unwrap_or_else(|_| SystemTime::now());
    at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
});

/// What this program is and when it was built: the time of its file, so that no build has to
/// depend on a clock.
pub(crate) fn version() -> Version {
    Version {
        version: VERSION,
        holdfast_version: HOLDFAST_VERSION,
        build_date: date(*BUILT_AT),
        build_time: std::time::Duration::from_secs(*BUILT_AT).as_secs_f64(),
        build_user: option_env!("USER").unwrap_or("unknown"),
    }
}

/// `YYYY-MM-DD HH:MM:SS` of a Unix time in UTC (days to civil date after Howard Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms").
fn date(unix: u64) -> String {
    let (days, second) = (unix / 86_400 + 719_468, unix % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let leaps = day_of_era / 1_460 + day_of_era / 146_096;
    let year_of_era = (day_of_era + day_of_era / 36_524 - leaps) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02}", second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (unix, expected) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_606_232_317, "2020-11-24 15:38:37"),
            (1_735_689_599, "2024-12-31 23:59:59"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(date(unix), expected);
        }
    }

    #[test]
    fn version_is_whole_numbers_between_dots() {
        assert!(VERSION.split('.').all(|part| part.parse::<u32>().is_ok()));
    }
}
