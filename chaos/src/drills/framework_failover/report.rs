//! The table of the drill.

use std::fmt;

use crate::report::RoundTable;

/// One killed leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// Number of the round, from 1.
    pub round: usize,
    /// Number of the killed master.
    pub killed: u64,
    /// Number of the master that led afterwards.
    pub leader: u64,
    /// From the kill until the framework was subscribed again, in milliseconds.
    pub subscribed_ms: u128,
    /// From the kill until its first offer, in milliseconds.
    pub offered_ms: u128,
    /// Tasks that ran at the end of the round.
    pub tasks: usize,
    /// What did not hold.
    pub violations: Vec<String>,
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "master {} killed, subscribed at {} after {} ms, offer after {} ms, {} tasks run, {} \
             violations",
            self.killed,
            self.leader,
            self.subscribed_ms,
            self.offered_ms,
            self.tasks,
            self.violations.len()
        )
    }
}

/// How the drill went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Seed of the drill's choices.
    pub seed: u64,
    /// Its rounds.
    pub rounds: Vec<Round>,
    /// Operations that were told a final status.
    pub operations: usize,
    /// What did not hold beside the rounds.
    pub cleanup: Vec<String>,
}

impl Report {
    /// Everything that did not hold.
    pub fn violations(&self) -> impl Iterator<Item = &String> {
        self.rounds.iter().flat_map(|round| &round.violations).chain(&self.cleanup)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |round: &Round| {
            [
                round.round.to_string(),
                round.killed.to_string(),
                round.leader.to_string(),
                round.subscribed_ms.to_string(),
                round.offered_ms.to_string(),
                round.tasks.to_string(),
                round.violations.len().to_string(),
            ]
        };
        let times = |of: fn(&Round) -> u128| self.rounds.iter().map(of).collect();
        let rounds = RoundTable {
            header: [
                "ROUND",
                "KILLED",
                "NEW LEADER",
                "SUBSCRIBED MS",
                "OFFER MS",
                "TASKS",
                "VIOLATIONS",
            ],
            rows: self.rounds.iter().map(row).collect(),
            violations: self.violations().collect(),
            times: vec![
                ("subscribed again", times(|round| round.subscribed_ms)),
                ("first offer", times(|round| round.offered_ms)),
            ],
        };
        write!(
            f,
            "{rounds}{} rounds, {} tasks, {} operations with their one final status, {} violations \
             (seed {})",
            self.rounds.len(),
            self.rounds.last().map_or(0, |round| round.tasks),
            self.operations,
            self.violations().count(),
            self.seed
        )
    }
}
