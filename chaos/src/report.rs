//! The table a drill ends with. Next: `drills/`.

use std::fmt;

use comfy_table::{CellAlignment, Table, presets};

/// One round of the leader-kill drill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// Number of the round, from 1.
    pub round: usize,
    /// Number of the killed master.
    pub killed: u64,
    /// Number of the master that led afterwards.
    pub leader: u64,
    /// From the kill to the first call acknowledged by another master, in milliseconds.
    pub gap_ms: u128,
    /// Calls acknowledged in this round.
    pub acknowledged: usize,
    /// Calls of this round whose outcome stayed unknown.
    pub unknown: usize,
    /// Objects checked at the end of the round, on each place.
    pub checked: usize,
    /// What did not hold.
    pub violations: Vec<String>,
}

/// How a drill went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Seed of the drill's choices.
    pub seed: u64,
    /// Its rounds.
    pub rounds: Vec<Round>,
    /// What did not hold in the end, while everything was removed again.
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
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header([
            "ROUND",
            "KILLED",
            "NEW LEADER",
            "GAP MS",
            "ACKNOWLEDGED",
            "UNKNOWN",
            "CHECKED",
            "VIOLATIONS",
        ]);
        for round in &self.rounds {
            table.add_row([
                round.round.to_string(),
                round.killed.to_string(),
                round.leader.to_string(),
                round.gap_ms.to_string(),
                round.acknowledged.to_string(),
                round.unknown.to_string(),
                round.checked.to_string(),
                round.violations.len().to_string(),
            ]);
        }
        for column in table.column_iter_mut() {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(f, "{}", table.trim_fmt())?;
        for violation in self.violations() {
            writeln!(f, "violation: {violation}")?;
        }
        let mut gaps: Vec<u128> = self.rounds.iter().map(|round| round.gap_ms).collect();
        gaps.sort_unstable();
        let sum = |count: fn(&Round) -> usize| self.rounds.iter().map(count).sum::<usize>();
        if let (Some(worst), Some(median)) = (gaps.last(), gaps.get(gaps.len() / 2)) {
            writeln!(f, "gap: median {median} ms, worst {worst} ms")?;
        }
        write!(
            f,
            "{} rounds, {} acknowledged, {} unknown, {} violations (seed {})",
            self.rounds.len(),
            sum(|round| round.acknowledged),
            sum(|round| round.unknown),
            self.violations().count(),
            self.seed
        )
    }
}
