//! Names, and the form for Prometheus.

use std::collections::BTreeSet;
use std::time::Duration;

use http::StatusCode;
use resources::operation::Operation;

use super::*;

#[test]
fn each_family_has_one_help_and_type() {
    let counters = Counters::default();
    counters.count(StatusCode::ACCEPTED);
    counters.count(StatusCode::OK);
    let uptime = Duration::from_millis(1500);
    let facts = Facts { is_leader: true, uptime, ..Facts::default() };
    let text = prometheus(&samples(&facts, &counters));
    assert!(text.contains("# TYPE master_uptime_seconds gauge\nmaster_uptime_seconds 1.5\n"));
    assert!(text.contains("master_http_responses_total{class=\"2xx\"} 2\n"), "{text}");
    assert!(text.contains("master_elected 1\n"));
    counters.count(StatusCode::FORBIDDEN);
    counters.count(StatusCode::IM_A_TEAPOT);
    counters.accepted(&Operation::Destroy { volumes: Vec::new() });
    let later = prometheus(&samples(&facts, &counters));
    for line in [
        "master_http_refusals_total{reason=\"forbidden\"} 1\n",
        "master_http_refusals_total{reason=\"other\"} 1\n",
        "master_http_refusals_total{reason=\"conflict\"} 0\n",
        "master_operations_accepted_total{operation=\"destroy\"} 1\n",
    ] {
        assert!(later.contains(line), "{later}");
    }
    for line in text.lines().filter(|line| line.starts_with("# TYPE")) {
        assert_eq!(text.matches(line).count(), 1, "{line}");
    }
}

#[test]
fn mesos_names_are_unique() {
    let samples = samples(&Facts::default(), &Counters::default());
    let names: Vec<_> = samples.iter().filter_map(|sample| sample.mesos.clone()).collect();
    let unique: BTreeSet<_> = names.iter().collect();
    assert_eq!(unique.len(), names.len());
    assert!(names.iter().any(|name| name == "master/disk_total"));
}
