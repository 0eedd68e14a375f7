//! Flags of `holdfast agent` and what they mean once read. The only place where the agent's
//! flags are parsed; must not look at the machine (that is `detect.rs`). Next: `lib.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clap::Args;
use serde::Deserialize;
use thiserror::Error;

use resources::collection::Resources;
use resources::message::Attribute;
use resources::parse;
use resources::role::Role;

use crate::declared;

/// Longest time that executors may take to come back (spec §12).
const REREGISTRATION_TIMEOUT_MAX: Duration = Duration::from_secs(15);

/// Flags of the agent, as written. [`Flags::into_config`] gives them their meaning.
#[derive(Debug, Clone, Args)]
pub struct Flags {
    /// Public addresses of the masters, any order: H:P1,H:P2,H:P3
    #[arg(long, value_name = "H:P,…")]
    pub master: Option<String>,
    /// Address of the agent's HTTP server
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:5051")]
    pub listen: String,
    /// Address given to clients and masters; default: --listen
    #[arg(long, value_name = "HOST:PORT")]
    pub advertise: Option<String>,
    /// Checkpoint, volumes and sandboxes
    #[arg(long, value_name = "DIR")]
    pub work_dir: Option<String>,
    /// Resources as text, JSON, or file:///path; what is not named is detected
    #[arg(long, value_name = "TEXT|JSON|file:///PATH")]
    pub resources: Option<String>,
    /// Attributes for placement, `name:value;…`
    #[arg(long, value_name = "TEXT")]
    pub attributes: Option<String>,
    /// Name shown to users and frameworks; default: host of --listen
    #[arg(long, value_name = "NAME")]
    pub hostname: Option<String>,
    /// Role of resources that name none
    #[arg(long, value_name = "ROLE", default_value = "*")]
    pub default_role: String,
    /// JSON file with `principal` and `secret`
    #[arg(long, value_name = "FILE")]
    pub credential: Option<String>,
    /// Certificate of the agent's HTTP server
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<String>,
    /// Key of that certificate
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<String>,
    /// Certificates that the masters' must be signed by
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<String>,
    /// What may change at a restart: equal (nothing) or additive (more of everything)
    #[arg(long, value_name = "equal|additive", default_value = "equal")]
    pub reconfiguration_policy: String,
    /// Boot of the host; default: the kernel's
    #[arg(long, value_name = "ID")]
    pub boot_id: Option<String>,
    /// Age at which finished sandboxes are removed
    #[arg(long, value_name = "DURATION", default_value = "1weeks")]
    pub gc_delay: String,
    /// Time for an executor to register
    #[arg(long, value_name = "DURATION", default_value = "1mins")]
    pub executor_registration_timeout: String,
    /// Time for an executor to come back after a restart of the agent
    #[arg(long, value_name = "DURATION", default_value = "2secs")]
    pub executor_reregistration_timeout: String,
    /// Time between asking an executor to end and killing it
    #[arg(long, value_name = "DURATION", default_value = "5secs")]
    pub executor_shutdown_grace_period: String,
    /// What happens to old executors at a start: reconnect or cleanup
    #[arg(long, value_name = "reconnect|cleanup", default_value = "reconnect")]
    pub recover: String,
    /// Whether a damaged checkpoint ends the agent
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "true", default_missing_value = "true")]
    pub strict: String,
}

/// A flag, an environment value or a file named by a flag is wrong. The process ends with 2.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("--{flag}: {found}: expected {expected}")]
pub struct ConfigError {
    /// The flag without its dashes.
    pub flag: &'static str,
    /// What was found.
    pub found: String,
    /// What would be right.
    pub expected: String,
}

/// A network address as written: the host may be a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// Name or number, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl FromStr for Address {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let (host, port) = text.trim().rsplit_once(':').ok_or(())?;
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        let is_bad = |c: char| c.is_whitespace() || matches!(c, '/' | ',' | '@');
        if host.is_empty() || host.contains(is_bad) {
            return Err(());
        }
        Ok(Self { host: host.to_owned(), port: port.parse().map_err(|_| ())? })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// What may change at a restart (spec §7.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReconfigurationPolicy {
    /// Nothing.
    Equal,
    /// Resources and attributes may grow.
    Additive,
}

/// The secret that an agent shows to masters.
#[derive(Clone, Deserialize)]
pub struct Credential {
    principal: String,
    secret: String,
}

impl Credential {
    /// The value of an `authorization` header.
    #[must_use]
    pub fn header(&self) -> String {
        let text = format!("{}:{}", self.principal, self.secret);
        format!("Basic {}", BASE64_STANDARD.encode(text))
    }
}

/// Never shows the secret.
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({})", self.principal)
    }
}

/// The agent's settings.
#[derive(Debug, Clone)]
pub struct Config {
    /// The masters.
    pub masters: Vec<Address>,
    /// Where the HTTP server listens.
    pub listen: Address,
    /// Where others reach it.
    pub advertise: Address,
    /// The work directory.
    pub work_dir: PathBuf,
    /// Resources of the flag; those of absent names are detected.
    pub resources: Resources,
    /// Names that the flag spoke of, also with an amount of zero.
    pub resource_names: BTreeSet<String>,
    /// Role of detected resources.
    pub default_role: Role,
    /// Attributes.
    pub attributes: Vec<Attribute>,
    /// Name shown to users.
    pub hostname: String,
    /// Shown to masters, if any.
    pub credential: Option<Credential>,
    /// What may change at a restart.
    pub reconfiguration_policy: ReconfigurationPolicy,
    /// Boot of the host, when a test plays a reboot.
    pub boot_id: Option<String>,
    /// How long executors may take, and what becomes of old ones.
    pub executors: Executors,
    /// Every flag with its value, for `/state`.
    pub flags: BTreeMap<String, String>,
    /// Flags that were given but change nothing yet.
    pub not_in_force: Vec<&'static str>,
}

/// Settings about executors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Executors {
    /// Age at which finished sandboxes are removed.
    pub gc_delay: Duration,
    /// Time for an executor to register.
    pub registration_timeout: Duration,
    /// Time for an executor to come back after a restart of the agent.
    pub reregistration_timeout: Duration,
    /// Time between asking an executor to end and killing it.
    pub shutdown_grace: Duration,
    /// Whether executors of earlier runs are ended, and the agent with them.
    pub is_cleanup: bool,
}

impl Flags {
    /// Parses the values, and reads the files that they name.
    ///
    /// # Errors
    /// Names the flag, what was found and what was expected.
    pub fn into_config(self) -> Result<Config, ConfigError> {
        let flags = self.texts();
        let not_in_force = self.not_in_force();
        let executors = self.executors()?;
        let work_dir = self.work_dir.filter(|dir| !dir.is_empty());
        let work_dir = work_dir.ok_or_else(|| missing("work-dir", "a directory"))?;
        let listen: Address = address("listen", &self.listen)?;
        let advertise = match self.advertise.filter(|text| !text.is_empty()) {
            Some(text) => address("advertise", &text)?,
            None if matches!(listen.host.as_str(), "0.0.0.0" | "::") => {
                return Err(missing("advertise", "HOST:PORT, as --listen is a wildcard"));
            }
            None => listen.clone(),
        };
        let default_role = Role::parse(self.default_role.clone())
            .map_err(|error| wrong("default-role", error, "a role"))?;
        let (resources, resource_names) =
            declared::parse(self.resources.as_deref().unwrap_or_default(), &default_role)?;
        let attributes = parse::attributes(self.attributes.as_deref().unwrap_or_default())
            .map_err(|error| wrong("attributes", error, "name:value;name:value"))?;
        let hostname = self.hostname.filter(|name| !name.is_empty());
        let credential = self.credential.filter(|path| !path.is_empty());
        Ok(Config {
            masters: masters(&self.master.unwrap_or_default())?,
            hostname: hostname.unwrap_or_else(|| listen.host.clone()),
            listen,
            advertise,
            work_dir: PathBuf::from(work_dir),
            resources,
            resource_names,
            default_role,
            attributes,
            credential: credential.map(|path| read_credential(&path)).transpose()?,
            reconfiguration_policy: policy(&self.reconfiguration_policy)?,
            boot_id: self.boot_id,
            executors,
            flags,
            not_in_force,
        })
    }

    fn executors(&self) -> Result<Executors, ConfigError> {
        let duration = |flag, text: &str| {
            parse::duration(text)
                .map_err(|error| wrong(flag, error, "a duration such as 5secs or 1weeks"))
        };
        let executors = Executors {
            gc_delay: duration("gc-delay", &self.gc_delay)?,
            registration_timeout: duration(
                "executor-registration-timeout",
                &self.executor_registration_timeout,
            )?,
            reregistration_timeout: duration(
                "executor-reregistration-timeout",
                &self.executor_reregistration_timeout,
            )?,
            shutdown_grace: duration(
                "executor-shutdown-grace-period",
                &self.executor_shutdown_grace_period,
            )?,
            is_cleanup: self.recover == "cleanup",
        };
        if executors.reregistration_timeout > REREGISTRATION_TIMEOUT_MAX {
            let text = &self.executor_reregistration_timeout;
            return Err(wrong("executor-reregistration-timeout", text, "at most 15secs"));
        }
        if !matches!(self.recover.as_str(), "reconnect" | "cleanup") {
            return Err(wrong("recover", &self.recover, "reconnect or cleanup"));
        }
        if !matches!(self.strict.as_str(), "true" | "false") {
            return Err(wrong("strict", &self.strict, "true or false"));
        }
        Ok(executors)
    }

    fn not_in_force(&self) -> Vec<&'static str> {
        let given = [
            ("tls-cert", self.tls_cert.is_some()),
            ("tls-key", self.tls_key.is_some()),
            ("tls-ca", self.tls_ca.is_some()),
            ("strict", self.strict != "true"),
        ];
        given.into_iter().filter_map(|(flag, is_given)| is_given.then_some(flag)).collect()
    }

    fn texts(&self) -> BTreeMap<String, String> {
        let optional = [
            ("master", &self.master),
            ("advertise", &self.advertise),
            ("work_dir", &self.work_dir),
            ("resources", &self.resources),
            ("attributes", &self.attributes),
            ("hostname", &self.hostname),
            ("credential", &self.credential),
            ("tls_cert", &self.tls_cert),
            ("tls_key", &self.tls_key),
            ("tls_ca", &self.tls_ca),
            ("boot_id", &self.boot_id),
        ];
        let always = [
            ("listen", &self.listen),
            ("default_role", &self.default_role),
            ("reconfiguration_policy", &self.reconfiguration_policy),
            ("gc_delay", &self.gc_delay),
            ("executor_registration_timeout", &self.executor_registration_timeout),
            ("executor_reregistration_timeout", &self.executor_reregistration_timeout),
            ("executor_shutdown_grace_period", &self.executor_shutdown_grace_period),
            ("recover", &self.recover),
            ("strict", &self.strict),
        ];
        let given = optional.into_iter().filter_map(|(name, text)| Some((name, text.as_ref()?)));
        given.chain(always).map(|(name, text)| (name.to_owned(), text.clone())).collect()
    }
}

pub(crate) fn wrong(flag: &'static str, found: impl fmt::Display, expected: &str) -> ConfigError {
    ConfigError { flag, found: found.to_string(), expected: expected.to_owned() }
}

fn missing(flag: &'static str, expected: &str) -> ConfigError {
    wrong(flag, "missing", expected)
}

fn address(flag: &'static str, text: &str) -> Result<Address, ConfigError> {
    text.parse().map_err(|()| wrong(flag, format!("'{text}'"), "HOST:PORT"))
}

fn masters(text: &str) -> Result<Vec<Address>, ConfigError> {
    let mut masters = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let master = address("master", part)?;
        if !masters.contains(&master) {
            masters.push(master);
        }
    }
    if masters.is_empty() {
        return Err(missing("master", "the masters' addresses, HOST:PORT,HOST:PORT,…"));
    }
    Ok(masters)
}

fn policy(text: &str) -> Result<ReconfigurationPolicy, ConfigError> {
    match text {
        "equal" => Ok(ReconfigurationPolicy::Equal),
        "additive" => Ok(ReconfigurationPolicy::Additive),
        other => Err(wrong("reconfiguration-policy", format!("'{other}'"), "equal or additive")),
    }
}

pub(crate) fn read_file(flag: &'static str, path: &str) -> Result<String, ConfigError> {
    fs::read_to_string(path)
        .map_err(|error| wrong(flag, format!("{path}: {error}"), "a readable file"))
}

fn read_credential(path: &str) -> Result<Credential, ConfigError> {
    const FORM: &str = "JSON with a non-empty 'principal' and a 'secret'";
    let path = path.strip_prefix("file://").unwrap_or(path);
    let text = read_file("credential", path)?;
    // The parser's own message could quote the secret.
    let credential: Credential = serde_json::from_str(&text)
        .map_err(|error| wrong("credential", format!("{path}: line {}", error.line()), FORM))?;
    if credential.principal.is_empty() || credential.principal.contains(':') {
        return Err(wrong("credential", format!("{path}: principal"), FORM));
    }
    Ok(credential)
}

#[cfg(test)]
mod tests;
