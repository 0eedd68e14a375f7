//! The flags of `holdfast master` as text and numbers, before they are checked together. Must
//! not open a file or judge a combination: that is `mod.rs`. Next: `dormant.rs`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::DormantFlags;
use super::removal::RemovalFlags;

/// The default of `--listen`.
const LISTEN_DEFAULT: &str = "127.0.0.1:5050";

/// Flags of `holdfast master`. Booleans take no value or `=true|false`; durations are a number
/// with a unit, such as `300ms`, `15secs` or `10mins`.
#[derive(Debug, Clone, Args)]
pub struct Flags {
    /// This master's number, unique for ever in the cluster
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub id: u64,
    /// Public address: HTTP APIs, and gRPC for agents
    #[arg(long, value_name = "HOST:PORT", default_value = LISTEN_DEFAULT)]
    pub listen: String,
    /// Address given to clients and peers [default: --listen]
    #[arg(long, value_name = "HOST:PORT")]
    pub advertise: Option<String>,
    /// Raft between masters [default: the port of --listen + 1000]
    #[arg(long, value_name = "HOST:PORT")]
    pub peer_listen: Option<String>,
    /// Peer addresses of the initial members; one entry makes a one-master cluster
    #[arg(long, value_name = "1=HOST:PORT,…")]
    pub peers: Option<String>,
    /// Ask this cluster to be added as a learner, instead of --peers
    #[arg(long, value_name = "[PRINCIPAL:SECRET@]HOST:PORT")]
    pub join: Option<String>,
    /// Data directory
    #[arg(long, value_name = "DIR")]
    pub work_dir: PathBuf,
    /// Credentials in Mesos' JSON form, as `path` or `file://path`
    #[arg(long, value_name = "FILE")]
    pub credentials: Option<String>,
    /// Ask for credentials on every HTTP endpoint but /health, /ready, /version and /redirect
    #[arg(long, num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true")]
    pub authenticate_http: bool,
    /// Ask for credentials on read-only HTTP endpoints
    #[arg(long, num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true")]
    pub authenticate_http_readonly: bool,
    /// Ask for credentials on mutating HTTP endpoints and on /api/v1
    #[arg(long, num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true")]
    pub authenticate_http_readwrite: bool,
    /// Ask frameworks for credentials
    #[arg(long, num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true")]
    pub authenticate_http_frameworks: bool,
    /// Refuse agents that present no credential
    #[arg(long, num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true")]
    pub authenticate_agents: bool,
    /// Access control lists as in Mesos: JSON, or a file of it as `path` or `file://path`
    #[arg(long, value_name = "JSON|FILE")]
    pub acls: Option<String>,
    /// Roles that frameworks may have and quota and weights may be set for, beside `*`
    #[arg(long, value_name = "ROLE,…")]
    pub roles: Option<String>,
    /// Whether frameworks may run tasks as root
    #[arg(long, num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set)]
    #[arg(default_value = "true", default_missing_value = "true")]
    pub root_submissions: bool,
    /// Time between heartbeats of the leader
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = duration)]
    pub heartbeat_interval: Duration,
    /// Shortest silence after which a master stands for election; the longest is twice it
    #[arg(long, value_name = "DURATION", default_value = "300ms", value_parser = duration)]
    pub election_timeout: Duration,
    /// Time between pings of an agent
    #[arg(long, value_name = "DURATION", default_value = "15secs", value_parser = duration)]
    pub agent_ping_timeout: Duration,
    /// Pings that an agent may miss
    #[arg(long, value_name = "N", default_value = "5")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub max_agent_ping_timeouts: u32,
    /// Time between runs of the allocator
    #[arg(long, value_name = "DURATION", default_value = "1secs", value_parser = duration)]
    pub allocation_interval: Duration,
    /// Time after which an unused offer is rescinded [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub offer_timeout: Option<Duration>,
    /// What an offer must hold at least, one of several; empty for no minimum
    #[arg(long, value_name = "NAME:AMOUNT;…|…", default_value = "cpus:0.01|mem:32")]
    pub min_allocatable_resources: String,
    /// Whether only frameworks with GPU_RESOURCES are offered agents with GPUs
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "true", default_missing_value = "true")]
    #[arg(action = clap::ArgAction::Set)]
    pub filter_gpu_resources: bool,
    /// File of the hostnames of agents that are offered, one a line; `*` for all
    #[arg(long, value_name = "FILE")]
    pub whitelist: Option<String>,
    /// Time that agents, and frameworks at least, get to come back after a change of leader
    #[arg(long, value_name = "DURATION", default_value = "10mins", value_parser = duration)]
    pub agent_reregister_timeout: Duration,
    /// Time after an election at which allocation starts in any case, where there is quota
    #[arg(long, value_name = "DURATION", default_value = "10mins", value_parser = duration)]
    pub allocator_recovery_timeout: Duration,
    /// Share of the known agents after whose return it starts before that
    #[arg(long, value_name = "0…1", default_value = "0.8", value_parser = share)]
    pub allocator_agent_recovery_factor: f64,
    /// Weights of roles for a cluster that was never given any, deprecated in Mesos
    #[arg(long, value_name = "ROLE=WEIGHT,…")]
    pub weights: Option<String>,
    /// How agents are marked unreachable
    #[command(flatten)]
    pub removal: RemovalFlags,
    /// Flags that parse and change nothing yet
    #[command(flatten)]
    pub dormant: DormantFlags,
}

/// Parses a duration of the command line.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    resources::parse::duration(text).map_err(|error| error.to_string())
}

/// Parses a share of a whole.
fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        Ok(_) | Err(_) => Err("expected a number from 0 to 1".to_owned()),
    }
}

/// A duration as Mesos prints one: the largest unit that gives a whole number.
pub(super) fn duration_text(duration: Duration) -> String {
    const UNITS: [(u128, &str); 8] = [
        (604_800_000_000_000, "weeks"),
        (86_400_000_000_000, "days"),
        (3_600_000_000_000, "hrs"),
        (60_000_000_000, "mins"),
        (1_000_000_000, "secs"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    let nanos = duration.as_nanos();
    UNITS
        .iter()
        .find(|(unit, _)| nanos > 0 && nanos.is_multiple_of(*unit))
        .map_or_else(|| "0ns".to_owned(), |(unit, name)| format!("{}{name}", nanos / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_print_as_in_mesos() {
        for (millis, text) in
            [(0, "0ns"), (100, "100ms"), (15_000, "15secs"), (600_000, "10mins"), (1_500, "1500ms")]
        {
            assert_eq!(duration_text(Duration::from_millis(millis)), text);
        }
        assert_eq!(duration_text(Duration::from_secs(14 * 24 * 3600)), "2weeks");
    }
}
