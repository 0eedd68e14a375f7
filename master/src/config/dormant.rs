//! Flags of the contract that parse and are checked, and whose feature does not exist yet: each
//! one that is set logs one line at start. A flag leaves this table when its feature comes. Must
//! not know what the values will mean. Next: `mod.rs`.

use super::flags::duration;

/// A dormant flag with what the user gave and what holds otherwise.
pub(super) struct Entry<'a> {
    pub(super) name: &'static str,
    pub(super) given: Option<&'a str>,
    pub(super) default: Option<&'static str>,
}

macro_rules! dormant {
    (
        options { $($(#[doc = $option_doc:literal])+ $option:ident: $parser:ident
            $(= $option_default:literal)?;)* }
        switches { $($(#[doc = $switch_doc:literal])+ $switch:ident = $switch_default:literal;)* }
    ) => {
        /// Flags that parse and change nothing yet. None means that the user gave nothing.
        #[derive(Debug, Clone, Default, clap::Args)]
        pub struct DormantFlags {
            $($(#[doc = $option_doc])+
            #[arg(long, value_name = "VALUE", value_parser = $parser)]
            pub $option: Option<String>,)*
            $($(#[doc = $switch_doc])+
            #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
            #[arg(default_missing_value = "true", value_parser = switch)]
            pub $switch: Option<String>,)*
        }

        impl DormantFlags {
            pub(super) fn entries(&self) -> Vec<Entry<'_>> {
                vec![
                    $(Entry {
                        name: stringify!($option),
                        given: self.$option.as_deref(),
                        default: dormant!(@default $($option_default)?),
                    },)*
                    $(Entry {
                        name: stringify!($switch),
                        given: self.$switch.as_deref(),
                        default: Some($switch_default),
                    },)*
                ]
            }
        }
    };
    (@default) => { None };
    (@default $default:literal) => { Some($default) };
}

dormant! {
    options {
        /// Answer leader detection of zk://…/mesos clients here
        zk_listen: text;
        /// Certificate of the public listener
        tls_cert: file;
        /// Key of the public listener
        tls_key: file;
        /// Authority of the clients' certificates
        tls_ca: file;
        /// Certificate of the peer listener
        peer_tls_cert: file;
        /// Key of the peer listener
        peer_tls_key: file;
        /// Authority of the peers' certificates
        peer_tls_ca: file;
        /// Time between sweeps of unreachable and gone agents
        registry_gc_interval: duration_value = "15mins";
        /// Age at which an unreachable agent is forgotten
        registry_max_agent_age: duration_value = "2weeks";
        /// Most unreachable agents that are kept
        registry_max_agent_count: number = "102400";
        /// Accepted for Mesos' sake; the log takes the place of the registry
        registry_fetch_timeout: duration_value = "1mins";
        /// Accepted for Mesos' sake; the log takes the place of the registry
        registry_store_timeout: duration_value = "20secs";
        /// Most completed frameworks that are kept
        max_completed_frameworks: number = "50";
        /// Most completed tasks that are kept per framework
        max_completed_tasks_per_framework: number = "1000";
        /// Most unreachable tasks that are kept per framework
        max_unreachable_tasks_per_framework: number = "1000";
        /// Most subscribers of the operator event stream
        max_operator_event_stream_subscribers: number = "1000";
        /// Limits of the rate of frameworks' messages
        rate_limits: json_or_file;
        /// Region and zone of this master
        domain: json_or_file;
        /// Name of the cluster, for display
        cluster: text;
        /// Accepted for Mesos' sake; see --advertise
        hostname: text;
        /// Accepted for Mesos' sake; see --listen
        ip: text;
        /// Accepted for Mesos' sake; see --advertise
        advertise_ip: text;
        /// Accepted for Mesos' sake; see --advertise
        advertise_port: number;
        /// How much is logged
        logging_level: text = "INFO";
    }
    switches {
        /// Whether there are metrics per framework
        publish_per_framework_metrics = "true";
        /// Ask frameworks of the old driver for credentials
        authenticate_frameworks = "false";
    }
}

#[expect(clippy::unnecessary_wraps, reason = "clap's value parsers return a result")]
fn text(value: &str) -> Result<String, String> {
    Ok(value.to_owned())
}

fn switch(value: &str) -> Result<String, String> {
    match value {
        "true" | "false" => Ok(value.to_owned()),
        _ => Err("expected true or false".to_owned()),
    }
}

fn duration_value(value: &str) -> Result<String, String> {
    duration(value).map(|_| value.to_owned())
}

fn number(value: &str) -> Result<String, String> {
    match value.parse::<u64>() {
        Ok(_) => Ok(value.to_owned()),
        Err(_) => Err("expected a whole number".to_owned()),
    }
}

fn file(value: &str) -> Result<String, String> {
    std::fs::metadata(path(value)).map_err(|error| error.to_string())?;
    Ok(value.to_owned())
}

fn json_or_file(value: &str) -> Result<String, String> {
    let text = content(value).map_err(|error| error.to_string())?;
    serde_json::from_str::<serde_json::Value>(&text)
        .map_err(|error| format!("expected JSON: {error}"))?;
    Ok(value.to_owned())
}

/// The JSON that a flag holds, or that of the file which it names.
pub(super) fn content(value: &str) -> std::io::Result<String> {
    match value.trim_start().starts_with(['{', '[']) {
        true => Ok(value.to_owned()),
        false => std::fs::read_to_string(path(value)),
    }
}

/// Takes off the `file://` that Mesos allows before a path.
pub(super) fn path(value: &str) -> &str {
    value.strip_prefix("file://").unwrap_or(value)
}
