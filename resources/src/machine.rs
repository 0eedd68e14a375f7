//! Machines, and the times at which they are out of service (spec §5.2, maintenance). Must not
//! know agents. Next: `message.rs`.

use core::net::Ipv4Addr;
use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::brief;

/// A machine by its host name, its address, or both.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MachineId {
    /// In small letters: host names compare without case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hostname: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ip: Option<Ipv4Addr>,
}

/// When machines are out of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unavailability {
    /// From when on: wall time in nanoseconds since 1970.
    pub start_ns: i64,
    /// How long, in nanoseconds; none for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ns: Option<i64>,
}

/// Machines that are out of service together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Which.
    pub machines: Vec<MachineId>,
    /// When.
    pub unavailability: Unavailability,
}

/// Why a schedule, or a list of machines, means nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidSchedule {
    /// Neither a host name nor an address.
    #[error("a machine has neither 'hostname' nor 'ip'")]
    Nameless,
    /// No IPv4 address.
    #[error("'{}' is no IPv4 address of a machine", brief::text(.0))]
    Ip(String),
    /// A host name with a character that none has.
    #[error("'{}' is no host name of a machine", brief::text(.0))]
    Hostname(String),
    /// No machine at all.
    #[error("a list of machines is empty")]
    Empty,
    /// One machine in two places.
    #[error("machine {0} stands there twice")]
    Twice(MachineId),
    /// It ends before it begins.
    #[error("a duration of {0} ns is negative")]
    Negative(i64),
}

impl MachineId {
    /// A machine as it is written; empty texts are none.
    ///
    /// # Errors
    /// When it has neither name nor address, or one of a wrong form.
    pub fn parse(hostname: Option<&str>, ip: Option<&str>) -> Result<Self, InvalidSchedule> {
        let hostname = hostname.filter(|name| !name.is_empty());
        let ip = ip.filter(|ip| !ip.is_empty());
        if let Some(name) = hostname.filter(|name| name.len() > 255 || name.contains(is_foreign)) {
            return Err(InvalidSchedule::Hostname(name.to_owned()));
        }
        let parsed = ip.map(|ip| ip.parse().map_err(|_| InvalidSchedule::Ip(ip.to_owned())));
        let (hostname, ip) = (hostname.map(str::to_lowercase), parsed.transpose()?);
        if hostname.is_none() && ip.is_none() {
            return Err(InvalidSchedule::Nameless);
        }
        Ok(Self { hostname, ip })
    }
    /// Its host name.
    #[must_use]
    pub fn hostname(&self) -> Option<&str> {
        self.hostname.as_deref()
    }
    /// Its address.
    #[must_use]
    pub const fn ip(&self) -> Option<Ipv4Addr> {
        self.ip
    }
    /// Whether an agent of this name at this host is on it: whatever is said of the machine must
    /// be so.
    #[must_use]
    pub fn has(&self, hostname: &str, host: &str) -> bool {
        let is_named = |name: &String| *name == hostname.to_lowercase();
        let is_there = |ip: Ipv4Addr| host.parse().is_ok_and(|host: Ipv4Addr| host == ip);
        self.hostname.as_ref().is_none_or(is_named) && self.ip.is_none_or(is_there)
    }
}

fn is_foreign(letter: char) -> bool {
    letter.is_control() || letter.is_whitespace()
}

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.hostname, self.ip) {
            (Some(hostname), Some(ip)) => write!(f, "{} ({ip})", brief::text(hostname)),
            (Some(hostname), None) => write!(f, "{}", brief::text(hostname)),
            (None, Some(ip)) => write!(f, "{ip}"),
            (None, None) => f.write_str("?"),
        }
    }
}

/// Whether a list names each machine once, and at least one.
///
/// # Errors
/// What is wrong first.
pub fn check_machines(machines: &[MachineId]) -> Result<(), InvalidSchedule> {
    let mut seen = BTreeSet::new();
    if machines.is_empty() {
        return Err(InvalidSchedule::Empty);
    }
    match machines.iter().find(|machine| !seen.insert(*machine)) {
        Some(machine) => Err(InvalidSchedule::Twice(machine.clone())),
        None => Ok(()),
    }
}

/// The rules that a schedule keeps by itself: no empty window, no machine twice, no negative
/// duration.
///
/// # Errors
/// The first rule that is broken.
pub fn check_schedule(windows: &[Window]) -> Result<(), InvalidSchedule> {
    let mut seen = BTreeSet::new();
    for window in windows {
        if window.machines.is_empty() {
            return Err(InvalidSchedule::Empty);
        }
        if let Some(machine) = window.machines.iter().find(|machine| !seen.insert(*machine)) {
            return Err(InvalidSchedule::Twice(machine.clone()));
        }
        if let Some(duration) = window.unavailability.duration_ns.filter(|duration| *duration < 0) {
            return Err(InvalidSchedule::Negative(duration));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_and_agents() {
        let machine = |hostname, ip| MachineId::parse(hostname, ip).unwrap();
        assert!(machine(Some("Web1"), None).has("wEB1", "10.0.0.1"));
        assert!(machine(None, Some("10.0.0.1")).has("x", "10.0.0.1"));
        assert!(!machine(Some("web1"), Some("10.0.0.2")).has("web1", "10.0.0.1"));
        assert_eq!(machine(Some("Web1"), Some("10.0.0.2")).to_string(), "web1 (10.0.0.2)");
        for (hostname, ip) in
            [(None, None), (Some(""), Some("")), (None, Some("::1")), (Some("a b"), None)]
        {
            assert!(MachineId::parse(hostname, ip).is_err(), "{hostname:?} {ip:?}");
        }
    }

    #[test]
    fn schedules() {
        let machine = |name: &str| MachineId::parse(Some(name), None).unwrap();
        let window = |names: &[&str], duration_ns| Window {
            machines: names.iter().map(|name| machine(name)).collect(),
            unavailability: Unavailability { start_ns: 1, duration_ns },
        };
        assert_eq!(check_schedule(&[]), Ok(()));
        assert_eq!(check_schedule(&[window(&["a", "b"], Some(0)), window(&["c"], None)]), Ok(()));
        assert_eq!(check_schedule(&[window(&[], None)]), Err(InvalidSchedule::Empty));
        let twice = check_schedule(&[window(&["a"], None), window(&["A"], None)]);
        assert_eq!(twice, Err(InvalidSchedule::Twice(machine("a"))));
        let negative = check_schedule(&[window(&["a"], Some(-1))]);
        assert_eq!(negative, Err(InvalidSchedule::Negative(-1)));
        assert_eq!(check_machines(&[]), Err(InvalidSchedule::Empty));
    }
}
