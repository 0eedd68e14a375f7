//! The drills on agents: their names, their flags, one call each into crate `chaos`.

use std::path::PathBuf;

use chaos::drills::ground::Options;
use chaos::drills::{
    agent_kill, agent_partition, agent_reboot, disk_full, masters_wiped, stale_checkpoint,
};

use crate::exit::Failure;
use crate::flags;

/// Flags of a drill on agents.
#[derive(Debug, clap::Args)]
struct Flags {
    /// Directory of a running `holdfast dev` cluster
    #[arg(long, value_name = "DIR", default_value = "./holdfast-dev")]
    dir: PathBuf,
    /// How many rounds
    #[arg(long, value_name = "N", default_value = "5")]
    rounds: u32,
    /// Seed of the drill's choices [default: drawn]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

/// A drill on agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnAgents {
    AgentKill,
    AgentReboot,
    AgentPartition,
    StaleCheckpoint,
    MastersWiped,
    DiskFull,
}

impl OnAgents {
    const ALL: [Self; 6] = [
        Self::AgentKill,
        Self::AgentReboot,
        Self::AgentPartition,
        Self::StaleCheckpoint,
        Self::MastersWiped,
        Self::DiskFull,
    ];

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|drill| drill.name() == name)
    }

    fn name(self) -> &'static str {
        &self.command()["drill ".len()..]
    }

    const fn command(self) -> &'static str {
        match self {
            Self::AgentKill => "drill agent-kill-mid-operation",
            Self::AgentReboot => "drill agent-reboot",
            Self::AgentPartition => "drill agent-partition",
            Self::StaleCheckpoint => "drill stale-checkpoint",
            Self::MastersWiped => "drill masters-wiped",
            Self::DiskFull => "drill disk-full",
        }
    }

    const fn about(self) -> &'static str {
        match self {
            Self::AgentKill => {
                "Kills an agent while orders are on their way to it, and checks that each is \
                 carried out whole or not at all"
            }
            Self::AgentReboot => {
                "Kills an agent with its tasks, starts it in another boot, and checks that it \
                 comes back under its id with all its volumes"
            }
            Self::AgentPartition => {
                "Stops an agent or cuts it off, for less and for more than its masters wait, and \
                 checks that it comes back with everything, once"
            }
            Self::StaleCheckpoint => {
                "Puts an older checkpoint under an agent, and checks that this is seen, that no \
                 data is removed, and that the remedies work"
            }
            Self::MastersWiped => {
                "Empties or sets back the directories of all masters, and checks that agents \
                 refuse and keep all data until the right ones are back"
            }
            Self::DiskFull => {
                "Fills the disk of an agent, of the leader, of a follower, and checks that \
                 nothing acknowledged is lost"
            }
        }
    }

    pub(super) async fn run(self, argv: &[String]) -> Result<(), Failure> {
        let (flags, _) = flags::parse::<Flags>(self.command(), self.about(), argv)?;
        let rounds = usize::try_from(flags.rounds).expect("a 32-bit number fits in usize");
        let options = Options { dir: flags.dir, rounds, seed: flags.seed };
        let report = match self {
            Self::AgentKill => agent_kill::run(options).await,
            Self::AgentReboot => agent_reboot::run(options).await,
            Self::AgentPartition => agent_partition::run(options).await,
            Self::StaleCheckpoint => stale_checkpoint::run(options).await,
            Self::MastersWiped => masters_wiped::run(options).await,
            Self::DiskFull => disk_full::run(options).await,
        };
        let name = self.name();
        let report =
            report.map_err(|error| Failure::Refused(format!("drill {name}: {error:#}")))?;
        super::end(name, &report, report.violations().count())
    }
}
