//! The drills. Each takes a running local cluster, breaks something, and checks every answer it
//! ever got. Reading order: [`workload`] (the calls a drill makes), [`leader_kill`],
//! [`framework_failover`].

pub mod framework_failover;
pub mod leader_kill;
pub mod workload;
