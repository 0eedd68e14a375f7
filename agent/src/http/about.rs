//! What this program says of itself: versions, and the moment of its build. Must not know any
//! state. Next: `state.rs`.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proto::mesos::v1::VersionInfo;
use serde_json::{Value, json};

use crate::recovery::MESOS_VERSION;

/// Read once: the program file may be replaced while it runs.
static BUILT_AT: LazyLock<u64> = LazyLock::new(|| {
    let modified = std::env::current_exe().and_then(|path| path.metadata()?.modified());
    let at = modified.unwrap_or_else(|_| SystemTime::now());
    at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
});

/// The level of Mesos that the agent speaks, the version of this program, and when it was built:
/// the time of its file, so that no build has to depend on a clock.
pub(super) fn version_info() -> VersionInfo {
    VersionInfo {
        version: MESOS_VERSION.to_owned(),
        build_date: Some(date(*BUILT_AT)),
        build_time: Some(Duration::from_secs(*BUILT_AT).as_secs_f64()),
        build_user: Some(option_env!("USER").unwrap_or("unknown").to_owned()),
        ..VersionInfo::default()
    }
}

/// The body of `/version`, which is the beginning of `/state` too.
pub(super) fn version() -> Value {
    let info = version_info();
    json!({
        "version": info.version,
        "holdfast_version": env!("CARGO_PKG_VERSION"),
        "build_date": info.build_date,
        "build_time": info.build_time,
        "build_user": info.build_user,
    })
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
    let (hour, minute) = (second / 3_600, second / 60 % 60);
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
            (1_735_689_599, "2024-12-31 23:59:59"),
        ] {
            assert_eq!(date(unix), expected);
        }
    }
}
