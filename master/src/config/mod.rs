//! From flags to a checked configuration: what is said twice must agree, files named by a flag
//! must be readable, and each mistake is one line with the flag, the value and what was
//! expected. Must not open sockets or data. Reading order: `address.rs`, `join.rs`, `flags.rs`,
//! `members.rs`, `dormant.rs`, `offers.rs`, this file.

mod address;
mod dormant;
mod flags;
mod join;
mod members;
mod offers;
mod removal;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use resources::id::MasterId;
use resources::role::{InvalidRole, Role};
use resources::weight::Weight;
use thiserror::Error;

use crate::auth::{Acls, Authenticator, Authorizer, Credentials, Required};
use crate::{allocator, leader};

pub use address::{Address, InvalidAddress};
pub use dormant::DormantFlags;
pub use flags::Flags;
pub use join::{InvalidJoin, Join};

/// Distance of the default peer port from the public port.
const PEER_PORT_DISTANCE: u16 = 1000;
/// Shortest heartbeat that a busy machine keeps up with.
const HEARTBEAT_MIN: Duration = Duration::from_millis(10);
/// Longest election timeout that still makes sense: agents ping every few seconds.
const ELECTION_TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// Bounds of the ping timeout, as in Mesos (spec §12).
const PING_TIMEOUT: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(15 * 60);

/// How much of a value that may be a whole file is named in an error.
const NAMED_CHARACTERS_MAX: usize = 60;

/// Peer addresses by master.
type Peers = BTreeMap<MasterId, Address>;

/// The checked configuration of a master.
#[derive(Debug, Clone)]
pub struct Config {
    /// This master's number.
    pub id: MasterId,
    /// Where HTTP and gRPC are served.
    pub listen: Address,
    /// What clients and peers are told instead of [`Config::listen`].
    pub advertise: Address,
    /// Where peers connect.
    pub peer_listen: Address,
    /// Peer addresses of the initial members, this master among them; none when it joins.
    pub peers: BTreeMap<MasterId, Address>,
    /// The cluster to be added to, when it is none of the initial members.
    pub join: Option<Join>,
    /// Data directory.
    pub work_dir: PathBuf,
    /// Who may log in, and where a login is asked for.
    pub authenticator: Authenticator,
    /// Who may do what.
    pub authorizer: Authorizer,
    /// The only roles that are allowed, `*` among them; none when every role is.
    pub whitelist: Option<BTreeSet<Role>>,
    /// Weights of roles, for a cluster that was never given any.
    pub weights: BTreeMap<Role, Weight>,
    /// Whether frameworks of the user root are admitted.
    pub admits_root: bool,
    /// Time between heartbeats of the leader.
    pub heartbeat: Duration,
    /// Shortest election timeout; the longest is twice it.
    pub election_timeout: Duration,
    /// Time between pings of an agent.
    pub agent_ping_timeout: Duration,
    /// Pings that an agent may miss.
    pub agent_pings_missed_max: u32,
    /// How resources are allocated.
    pub allocator: allocator::Settings,
    /// Age at which an unused offer is rescinded; none for never.
    pub offer_timeout: Option<Duration>,
    /// Least time that agents and frameworks get to come back to a new leader.
    pub agent_reregister_timeout: Duration,
    /// How agents are marked unreachable.
    pub removal: leader::Removal,
    /// Every flag with its value in Mesos' spelling, for `/flags` and `/state`.
    pub flags: BTreeMap<String, String>,
    /// Flags that the user gave and that change nothing yet.
    pub dormant: Vec<&'static str>,
}

/// Why the flags make no configuration. Exit status 2.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// An address does not parse.
    #[error("--{flag} '{value}': {reason}")]
    Address {
        /// The flag.
        flag: &'static str,
        /// Its value.
        value: String,
        /// What is wrong.
        reason: InvalidAddress,
    },
    /// `--listen` is a wildcard and `--advertise` is missing or one, too.
    #[error("--advertise: expected an address that clients can reach, because --{flag} is {value}")]
    Wildcard {
        /// The flag with the wildcard.
        flag: &'static str,
        /// Its value.
        value: Address,
    },
    /// The default of `--peer-listen` would be no port.
    #[error("--peer-listen: expected host:port, because port {listen_port} + 1000 is no port")]
    PeerPort {
        /// The port of `--listen`.
        listen_port: u16,
    },
    /// Neither `--peers` nor `--join` says who the members are.
    #[error(
        "--peers: expected 1=host:port,…; a single entry makes a one-master cluster; or --join"
    )]
    NoPeers,
    /// Both say it.
    #[error("--join: expected without --peers, which names the initial members of a new cluster")]
    PeersAndJoin,
    /// `--join` does not parse.
    #[error("--join: {0}")]
    Join(InvalidJoin),
    /// One entry of `--peers` does not parse.
    #[error("--peers '{entry}': expected id=host:port, {reason}")]
    Peer {
        /// The entry.
        entry: String,
        /// What is wrong.
        reason: String,
    },
    /// This master's id is not among the peers.
    #[error("--peers: expected an entry for --id {id}, found {found}")]
    OwnId {
        /// This master's id.
        id: MasterId,
        /// The ids that are there.
        found: String,
    },
    /// A duration does not fit another one or its limits.
    #[error("--{flag} {value:?}: expected {expected}")]
    Duration {
        /// The flag.
        flag: &'static str,
        /// Its value.
        value: Duration,
        /// What would be right.
        expected: String,
    },
    /// A file named by a flag cannot be read or has the wrong content.
    #[error("--{flag} '{path}': {reason}")]
    File {
        /// The flag.
        flag: &'static str,
        /// The path as given.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// One entry of `--roles` is no role.
    #[error("--roles '{entry}': expected a role, {reason}")]
    Role {
        /// The entry.
        entry: String,
        /// What is wrong.
        reason: InvalidRole,
    },
    /// A value that has no meaning.
    #[error("--{flag} '{value}': {reason}")]
    Value {
        /// The flag.
        flag: &'static str,
        /// Its value.
        value: String,
        /// What is wrong.
        reason: String,
    },
    /// Authentication is asked for and nobody could pass it.
    #[error("--{flag}: expected --credentials beside it")]
    NoCredentials {
        /// The flag that asks for authentication.
        flag: &'static str,
    },
}

impl Config {
    /// Where this master's peers reach it: a wildcard of `--peer-listen` is no address, so the
    /// host of `--advertise` takes its place.
    #[must_use]
    pub fn peer_address(&self) -> Address {
        match self.peer_listen.is_wildcard() {
            true => self.advertise.with_port(self.peer_listen.port()),
            false => self.peer_listen.clone(),
        }
    }
}

impl Flags {
    /// Checks the flags together and reads the files they name.
    ///
    /// # Errors
    /// The first mistake, in one line.
    pub fn into_config(self) -> Result<Config, ConfigError> {
        let listen = address("listen", &self.listen)?;
        let advertise = match &self.advertise {
            Some(text) => address("advertise", text)?,
            None => listen.clone(),
        };
        if advertise.is_wildcard() {
            let flag = if self.advertise.is_some() { "advertise" } else { "listen" };
            return Err(ConfigError::Wildcard { flag, value: advertise });
        }
        let peer_listen = match &self.peer_listen {
            Some(text) => address("peer-listen", text)?,
            None => listen.with_port(
                listen
                    .port()
                    .checked_add(PEER_PORT_DISTANCE)
                    .ok_or(ConfigError::PeerPort { listen_port: listen.port() })?,
            ),
        };
        let id = MasterId(self.id);
        let (peers, join) = self.members(id)?;
        self.check_durations()?;
        let whitelist = self.roles.as_deref().map(whitelist).transpose()?;
        let entries = self.dormant.entries();
        let dormant = entries.iter().filter(|entry| entry.given.is_some()).map(|e| e.name);
        Ok(Config {
            id,
            flags: self.values(&listen, &advertise, &peer_listen),
            dormant: dormant.collect(),
            listen,
            advertise,
            peer_listen,
            peers,
            join,
            authenticator: self.authenticator()?,
            authorizer: self.authorizer()?,
            weights: self.role_weights(whitelist.as_ref())?,
            whitelist,
            admits_root: self.root_submissions,
            allocator: self.allocator()?,
            offer_timeout: self.offer_timeout,
            agent_reregister_timeout: self.agent_reregister_timeout,
            removal: self.removal.removal(),
            work_dir: self.work_dir,
            heartbeat: self.heartbeat_interval,
            election_timeout: self.election_timeout,
            agent_ping_timeout: self.agent_ping_timeout,
            agent_pings_missed_max: self.max_agent_ping_timeouts,
        })
    }

    fn check_durations(&self) -> Result<(), ConfigError> {
        let fail = |flag, value, expected| Err(ConfigError::Duration { flag, value, expected });
        if self.heartbeat_interval < HEARTBEAT_MIN {
            let expected = format!("at least {HEARTBEAT_MIN:?}");
            return fail("heartbeat-interval", self.heartbeat_interval, expected);
        }
        // One lost heartbeat must not start an election.
        if self.election_timeout < self.heartbeat_interval * 2 {
            let expected =
                format!("at least twice --heartbeat-interval ({:?})", self.heartbeat_interval);
            return fail("election-timeout", self.election_timeout, expected);
        }
        if self.election_timeout > ELECTION_TIMEOUT_MAX {
            let expected = format!("at most {ELECTION_TIMEOUT_MAX:?}");
            return fail("election-timeout", self.election_timeout, expected);
        }
        if self.allocation_interval.is_zero() {
            return fail("allocation-interval", self.allocation_interval, "more than 0".to_owned());
        }
        if !PING_TIMEOUT.contains(&self.agent_ping_timeout) {
            let expected = "from 1secs to 15mins".to_owned();
            return fail("agent-ping-timeout", self.agent_ping_timeout, expected);
        }
        Ok(())
    }

    fn authenticator(&self) -> Result<Authenticator, ConfigError> {
        let all = self.authenticate_http;
        let required = Required {
            readonly: all || self.authenticate_http_readonly,
            readwrite: all || self.authenticate_http_readwrite,
            frameworks: all || self.authenticate_http_frameworks,
            agents: self.authenticate_agents,
        };
        let credentials = match &self.credentials {
            Some(given) => {
                let file = |reason: String| ConfigError::File {
                    flag: "credentials",
                    path: given.clone(),
                    reason,
                };
                let text = std::fs::read_to_string(dormant::path(given))
                    .map_err(|error| file(error.to_string()))?;
                Some(Credentials::parse(&text).map_err(|error| file(error.to_string()))?)
            }
            None => None,
        };
        if credentials.is_none()
            && let Some(flag) = required.first_flag(all)
        {
            return Err(ConfigError::NoCredentials { flag });
        }
        Ok(Authenticator::new(credentials.unwrap_or_default(), required))
    }

    fn authorizer(&self) -> Result<Authorizer, ConfigError> {
        let Some(given) = &self.acls else { return Ok(Authorizer::default()) };
        let fail = |reason: String| ConfigError::File {
            flag: "acls",
            path: given.chars().take(NAMED_CHARACTERS_MAX).collect(),
            reason,
        };
        let text = dormant::content(given).map_err(|error| fail(error.to_string()))?;
        Acls::parse(&text).map(Authorizer::new).map_err(|error| fail(error.to_string()))
    }

    fn values(
        &self,
        listen: &Address,
        advertise: &Address,
        peer_listen: &Address,
    ) -> BTreeMap<String, String> {
        let all = self.authenticate_http;
        let dormant = self.dormant.entries();
        let mut values: BTreeMap<String, String> = dormant
            .iter()
            .filter_map(|entry| Some((entry.name.to_owned(), entry.given.or(entry.default)?)))
            .map(|(name, value)| (name, value.to_owned()))
            .collect();
        let switch = |on: bool| on.to_string();
        let mut put = |name: &str, value: String| {
            values.insert(name.to_owned(), value);
        };
        put("id", self.id.to_string());
        put("listen", listen.to_string());
        put("advertise", advertise.to_string());
        put("peer_listen", peer_listen.to_string());
        put("work_dir", self.work_dir.display().to_string());
        put("authenticate_http_readonly", switch(all || self.authenticate_http_readonly));
        put("authenticate_http_readwrite", switch(all || self.authenticate_http_readwrite));
        put("authenticate_http_frameworks", switch(all || self.authenticate_http_frameworks));
        put("authenticate_agents", switch(self.authenticate_agents));
        put("root_submissions", switch(self.root_submissions));
        put("heartbeat_interval", flags::duration_text(self.heartbeat_interval));
        put("election_timeout", flags::duration_text(self.election_timeout));
        put("agent_ping_timeout", flags::duration_text(self.agent_ping_timeout));
        put("max_agent_ping_timeouts", self.max_agent_ping_timeouts.to_string());
        for (name, value) in self.offer_values() {
            put(&name, value);
        }
        if let Some(join) = self.join.as_deref().and_then(|text| text.parse::<Join>().ok()) {
            // Without its secret.
            put("join", join.to_string());
        }
        for (name, value) in self.removal.values() {
            put(name, value);
        }
        for (name, value) in [
            ("peers", &self.peers),
            ("credentials", &self.credentials),
            ("acls", &self.acls),
            ("roles", &self.roles),
        ] {
            if let Some(value) = value {
                put(name, value.clone());
            }
        }
        values
    }
}

fn address(flag: &'static str, value: &str) -> Result<Address, ConfigError> {
    value.parse().map_err(|reason| ConfigError::Address { flag, value: value.to_owned(), reason })
}

/// `*` is always allowed, as in Mesos.
fn whitelist(text: &str) -> Result<BTreeSet<Role>, ConfigError> {
    let mut roles = BTreeSet::from([Role::star()]);
    for entry in text.split(',').filter(|entry| !entry.is_empty()) {
        let role = Role::parse(entry)
            .map_err(|reason| ConfigError::Role { entry: entry.to_owned(), reason })?;
        roles.insert(role);
    }
    Ok(roles)
}
