//! The drills. Each takes a running local cluster, breaks something, and checks every answer it
//! ever got. Reading order: [`workload`] (the calls a drill makes), [`leader_kill`],
//! [`framework_failover`]; then `ground` (what the drills on agents share), [`outcome`],
//! [`agent_kill`].

pub mod agent_kill;
pub mod agent_partition;
pub mod agent_reboot;
pub mod disk_full;
pub mod framework_failover;
pub mod ground;
pub mod leader_kill;
pub mod masters_wiped;
pub mod outcome;
pub mod stale_checkpoint;
mod sweep;
pub mod workload;
