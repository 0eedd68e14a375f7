//! Which processes a new local cluster has: ports, directories, arguments. Starts nothing.
//! Next: `ready.rs`.

use std::path::Path;

use chaos::cluster::{AgentEntry, Layout, MasterEntry};

use super::Flags;
use crate::exit::Failure;
use crate::flags;

/// What each agent offers: named, so that a drill runs the same everywhere.
pub(super) const RESOURCES_DEFAULT: &str = "cpus:4;mem:4096;disk:20480;ports:[31000-32000]";

const HOST: &str = "127.0.0.1";
const MASTERS_DEFAULT: u16 = 3;
const AGENTS_DEFAULT: u16 = 2;
const PORT_DEFAULT: u16 = 5050;
const PEER_OFFSET: u16 = 1000;
const AGENT_OFFSET: u16 = 11;

/// The path of this program.
pub(super) fn program() -> Result<String, Failure> {
    let path = std::env::current_exe().map_err(|error| super::refused(&error))?;
    let path = path.into_os_string().into_string();
    path.map_err(|path| Failure::Refused(format!("dev: {} is not UTF-8", path.display())))
}

/// Lays a new cluster out in `dir`. Flags for the processes are checked here already, so that a
/// wrong one is seen before anything starts.
pub(super) fn layout(dir: &Path, flags: &Flags) -> Result<Layout, Failure> {
    let program = program()?;
    let port = flags.port.unwrap_or(PORT_DEFAULT);
    let masters = 1..=flags.masters.unwrap_or(MASTERS_DEFAULT);
    let agents = 1..=flags.agents.unwrap_or(AGENTS_DEFAULT);
    let http = |id: u16| format!("{HOST}:{}", port + id - 1);
    let peer = |id: u16| format!("{HOST}:{}", port + PEER_OFFSET + id - 1);
    let path = |name: &str| {
        let path = dir.join(name).into_os_string().into_string();
        path.map_err(|path| Failure::Usage(format!("dev: --dir {} is not UTF-8", path.display())))
    };
    let peers: Vec<String> = masters.clone().map(|id| format!("{id}={}", peer(id))).collect();
    let every_master: Vec<String> = masters.clone().map(http).collect();
    let mut layout = Layout::default();
    for id in masters {
        let work_dir = path(&format!("master{id}"))?;
        let own = [
            ("id", id.to_string()),
            ("listen", http(id)),
            ("peer-listen", peer(id)),
            ("peers", peers.join(",")),
            ("work-dir", work_dir.clone()),
        ];
        let arguments = arguments(&own, &flags.master_flag);
        flags::parse::<master::config::Flags>("master", "", &arguments)?;
        layout.masters.push(MasterEntry {
            id: id.into(),
            http: http(id),
            peer: peer(id),
            pid: 0,
            work_dir,
            log: path(&format!("master{id}.log"))?,
            argv: argv(&program, "master", arguments),
        });
    }
    for number in agents {
        let name = format!("agent{number}");
        let http = format!("{HOST}:{}", port + AGENT_OFFSET + number - 1);
        let work_dir = path(&name)?;
        let own = [
            ("master", every_master.join(",")),
            ("listen", http.clone()),
            ("work-dir", work_dir.clone()),
            ("resources", flags.agent_resources.clone()),
        ];
        let arguments = arguments(&own, &flags.agent_flag);
        flags::parse::<agent::config::Flags>("agent", "", &arguments)?;
        let log = path(&format!("{name}.log"))?;
        layout.agents.push(AgentEntry {
            name,
            http,
            pid: 0,
            work_dir,
            log,
            argv: argv(&program, "agent", arguments),
        });
    }
    Ok(layout)
}

/// Own flags first; a further flag of the same name replaces the own one.
fn arguments(own: &[(&str, String)], further: &[String]) -> Vec<String> {
    let further: Vec<String> = further
        .iter()
        .map(|flag| {
            let flag = flag.trim_start_matches("--");
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (flag, None),
            };
            let name = name.replace('_', "-");
            value.map_or_else(|| format!("--{name}"), |value| format!("--{name}={value}"))
        })
        .collect();
    let is_replaced = |name: &str| {
        further.iter().any(|flag| flag[2..].split('=').next().is_some_and(|given| given == name))
    };
    own.iter()
        .filter(|(name, _)| !is_replaced(name))
        .map(|(name, value)| format!("--{name}={value}"))
        .chain(further.iter().cloned())
        .collect()
}

fn argv(program: &str, process: &str, arguments: Vec<String>) -> Vec<String> {
    [program.to_owned(), process.to_owned()].into_iter().chain(arguments).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_flags_replace_and_extend() {
        let own = [("listen", "a:1".to_owned()), ("work-dir", "d".to_owned())];
        let further = ["strict".to_owned(), "--listen=b:2".to_owned(), "a_b=c d".to_owned()];
        assert_eq!(
            arguments(&own, &further),
            ["--work-dir=d", "--strict", "--listen=b:2", "--a-b=c d"]
        );
    }
}
