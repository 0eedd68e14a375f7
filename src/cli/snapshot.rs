//! `holdfast snapshot save|inspect|verify|restore`: backups. Only `save` asks the masters, and
//! `inspect --agents` the agents; the others work where nobody runs.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use master::backup::{AgentSummary, Backup, Summary};
use resources::id::MasterId;
use serde_json::{Value, json};

use super::client::Client;
use super::output::{Output, print, print_json};
use super::table;
use crate::exit::{self, Failure};

/// The commands of this noun.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Write everything the masters have agreed on to a file, and verify the file
    Save {
        /// Where to; an existing file is replaced
        file: PathBuf,
    },
    /// Show what a file holds
    Inspect {
        /// The file
        file: PathBuf,
        /// Ask the agents, too, and show which have done more than the file knows
        #[arg(long)]
        agents: bool,
    },
    /// Check every byte of a file
    Verify {
        /// The file
        file: PathBuf,
    },
    /// Make the work directory of one master out of a file; once for each, with the same --peers
    Restore(Restore),
}

/// Flags of `snapshot restore`.
#[derive(Debug, Args)]
pub(super) struct Restore {
    /// The file
    file: PathBuf,
    /// The master's number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    id: u64,
    /// Numbers and peer addresses of all masters of the restored cluster
    #[arg(long, value_name = "1=HOST:PORT,…", value_delimiter = ',', required = true)]
    #[arg(value_parser = peer)]
    peers: Vec<(MasterId, String)>,
    /// An empty or missing directory
    #[arg(long, value_name = "DIR")]
    work_dir: PathBuf,
}

fn peer(text: &str) -> Result<(MasterId, String), String> {
    let parsed = text.split_once('=').and_then(|(id, address)| {
        let id = id.parse::<u64>().ok().filter(|id| *id > 0)?;
        let address: master::config::Address = address.parse().ok()?;
        (!address.is_wildcard()).then(|| (MasterId(id), address.to_string()))
    });
    parsed.ok_or_else(|| "expected id=host:port".to_owned())
}

/// Runs one.
pub(super) async fn run(
    client: &mut Client,
    output: Output,
    command: Command,
) -> Result<(), Failure> {
    match command {
        Command::Save { file } => {
            let bytes = client.download("/api/v1/snapshot").await?;
            let summary = save(&file, &bytes)?;
            done(output, "saved to", &file, &summary)
        }
        Command::Inspect { file, agents } => {
            let summary = read(&file)?.summary();
            let found = match agents {
                true => Some(compare(client, &summary.agents).await),
                false => None,
            };
            inspect(output, &summary, found.as_deref())
        }
        Command::Verify { file } => {
            let summary = read(&file)?.summary();
            done(output, "is whole:", &file, &summary)
        }
        Command::Restore(restore) => {
            let peers: BTreeMap<MasterId, String> = restore.peers.into_iter().collect();
            let backup = read(&restore.file)?;
            let summary = backup.summary();
            let restored = backup.restore(MasterId(restore.id), peers, restore.work_dir.clone());
            restored.await.map_err(refused)?;
            done(output, "restored to", &restore.work_dir, &summary)
        }
    }
}

fn read(file: &Path) -> Result<Backup, Failure> {
    Backup::read(file).map_err(refused)
}

fn refused(error: impl std::error::Error) -> Failure {
    Failure::Refused(exit::chain(error))
}

/// Writes the file under another name, verifies it there, and gives it its own.
fn save(file: &Path, bytes: &[u8]) -> Result<Summary, Failure> {
    let failed = |error: std::io::Error| Failure::Refused(format!("{}: {error}", file.display()));
    let mut unfinished = file.as_os_str().to_owned();
    unfinished.push(".part");
    let unfinished = PathBuf::from(unfinished);
    let mut part = File::create(&unfinished).map_err(failed)?;
    part.write_all(bytes).and_then(|()| part.sync_all()).map_err(failed)?;
    let summary = read(&unfinished)?.summary();
    fs::rename(&unfinished, file).map_err(failed)?;
    let folder = file.parent().filter(|folder| *folder != Path::new(""));
    let folder = File::open(folder.unwrap_or(Path::new("."))).map_err(failed)?;
    folder.sync_all().map_err(failed)?;
    Ok(summary)
}

fn done(output: Output, what: &str, at: &Path, summary: &Summary) -> Result<(), Failure> {
    if output == Output::Json {
        return print_json(&json!(summary));
    }
    let (index, agents) = (summary.index, summary.agents.len());
    let volumes: usize = summary.agents.iter().map(|agent| agent.volumes).sum();
    print(&format!(
        "snapshot {what} {}: entry {index}, {agents} agents, {volumes} volumes, {} frameworks\n",
        at.display(),
        summary.frameworks
    ))
}

/// What one agent says, beside what the file knows of it.
struct Compared {
    agent: AgentSummary,
    /// The last order that it has carried out, or why it does not say.
    applied: Result<u64, String>,
}

impl Compared {
    /// What a restore would find.
    fn verdict(&self) -> String {
        let known = self.agent.last_seq.0;
        match &self.applied {
            Ok(applied) if *applied > known => format!("{} orders newer", applied - known),
            Ok(applied) if *applied < known => format!("{} orders behind", known - applied),
            Ok(_) => "the same".to_owned(),
            Err(reason) => reason.clone(),
        }
    }
}

async fn compare(client: &Client, agents: &[AgentSummary]) -> Vec<Compared> {
    let mut compared = Vec::new();
    for agent in agents {
        let state = client.get_at(&agent.address, "/state").await;
        let applied = state.and_then(|state| {
            let is_it = state["id"] == agent.id.as_str();
            let applied = state["applied_seq"].as_u64().filter(|_| is_it);
            applied.ok_or_else(|| "another agent answers there".to_owned())
        });
        compared.push(Compared { agent: agent.clone(), applied });
    }
    compared
}

fn inspect(output: Output, summary: &Summary, found: Option<&[Compared]>) -> Result<(), Failure> {
    if output == Output::Json {
        let mut shown = json!(summary);
        if let Some(found) = found {
            shown["compared"] = found.iter().map(comparison).collect();
        }
        return print_json(&shown);
    }
    let id = summary.cluster_id.as_ref().map(ToString::to_string).unwrap_or_default();
    let masters = summary.masters.iter().map(|(id, at)| format!("{id}={at}"));
    let facts = [
        ["cluster", &id],
        ["incarnation", &summary.incarnation.to_string()],
        ["entry", &format!("{} of term {}", summary.index, summary.term)],
        ["bytes", &summary.bytes.to_string()],
        ["masters", &masters.collect::<Vec<_>>().join(",")],
        ["frameworks", &summary.frameworks.to_string()],
        ["tasks", &summary.tasks.to_string()],
        ["pending", &summary.pending.to_string()],
    ];
    let facts: Vec<[String; 2]> = facts.map(|fact| fact.map(str::to_owned)).into();
    print(&table::render(&["FIELD", "VALUE"], &facts))?;
    let mut headers = vec!["AGENT", "ADDRESS", "LAST", "RESERVED", "VOLUMES"];
    let mut rows: Vec<Vec<String>> = summary.agents.iter().map(cells).collect();
    if let Some(found) = found {
        headers.push("THE AGENT ITSELF");
        for (row, found) in rows.iter_mut().zip(found) {
            row.push(found.verdict());
        }
    }
    print(&format!("\n{}", table::render(&headers, &rows)))
}

fn cells(agent: &AgentSummary) -> Vec<String> {
    vec![
        agent.id.to_string(),
        agent.address.clone(),
        agent.last_seq.to_string(),
        agent.reserved.to_string(),
        agent.volumes.to_string(),
    ]
}

fn comparison(compared: &Compared) -> Value {
    let applied = compared.applied.as_ref();
    json!({
        "agent_id": compared.agent.id.as_str(),
        "last_seq": compared.agent.last_seq.0,
        "applied_seq": applied.ok(),
        "found": compared.verdict(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_of_a_restore() {
        assert_eq!(peer("2=10.0.0.2:6050"), Ok((MasterId(2), "10.0.0.2:6050".to_owned())));
        for wrong in ["", "2", "0=a:1", "x=a:1", "1=a", "1=0.0.0.0:6050"] {
            assert!(peer(wrong).is_err(), "{wrong}");
        }
    }
}
