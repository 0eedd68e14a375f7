//! The table a drill ends with, and the shape of all such tables. Next: `drills/`.

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
        let row = |round: &Round| {
            [
                round.round.to_string(),
                round.killed.to_string(),
                round.leader.to_string(),
                round.gap_ms.to_string(),
                round.acknowledged.to_string(),
                round.unknown.to_string(),
                round.checked.to_string(),
                round.violations.len().to_string(),
            ]
        };
        let rounds = RoundTable {
            header: [
                "ROUND",
                "KILLED",
                "NEW LEADER",
                "GAP MS",
                "ACKNOWLEDGED",
                "UNKNOWN",
                "CHECKED",
                "VIOLATIONS",
            ],
            rows: self.rounds.iter().map(row).collect(),
            violations: self.violations().collect(),
            times: vec![("gap", self.rounds.iter().map(|round| round.gap_ms).collect())],
        };
        let sum = |count: fn(&Round) -> usize| self.rounds.iter().map(count).sum::<usize>();
        write!(
            f,
            "{rounds}{} rounds, {} acknowledged, {} unknown, {} violations (seed {})",
            self.rounds.len(),
            sum(|round| round.acknowledged),
            sum(|round| round.unknown),
            self.violations().count(),
            self.seed
        )
    }
}

/// What every drill prints of its rounds: a line for each, what did not hold, and the median and
/// the worst of the times.
pub(crate) struct RoundTable<'a, const N: usize> {
    pub(crate) header: [&'static str; N],
    pub(crate) rows: Vec<[String; N]>,
    pub(crate) violations: Vec<&'a String>,
    /// Milliseconds of each round, by what they are of.
    pub(crate) times: Vec<(&'static str, Vec<u128>)>,
}

impl<const N: usize> fmt::Display for RoundTable<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(self.header).add_rows(&self.rows);
        for column in table.column_iter_mut() {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(f, "{}", table.trim_fmt())?;
        for violation in &self.violations {
            writeln!(f, "violation: {violation}")?;
        }
        for (of, times) in &self.times {
            let mut times = times.clone();
            times.sort_unstable();
            if let (Some(worst), Some(median)) = (times.last(), times.get(times.len() / 2)) {
                writeln!(f, "{of}: median {median} ms, worst {worst} ms")?;
            }
        }
        Ok(())
    }
}
