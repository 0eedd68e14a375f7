//! The table of the drills on agents. Next: `ground.rs`.

use std::fmt;

use comfy_table::{CellAlignment, Table, presets};

/// One round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Round {
    /// Number of the round, from 1.
    pub round: usize,
    /// Whom it was about.
    pub on: String,
    /// What was done to it.
    pub what: String,
    /// Operations that were accepted.
    pub accepted: usize,
    /// Those that were done.
    pub finished: usize,
    /// Those that failed.
    pub failed: usize,
    /// Until everything was in order again, in milliseconds.
    pub healed_ms: u128,
    /// Volumes checked at the end of the round, on each place.
    pub volumes: usize,
    /// What did not hold.
    pub violations: Vec<String>,
}

impl Round {
    /// Adds what a part of the round came to.
    pub(super) fn add(&mut self, part: Self) {
        self.accepted += part.accepted;
        self.finished += part.finished;
        self.failed += part.failed;
        self.violations.extend(part.violations);
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}, in order again after {} ms, {} accepted, {} finished, {} failed, {} violations",
            self.on,
            self.what,
            self.healed_ms,
            self.accepted,
            self.finished,
            self.failed,
            self.violations.len()
        )
    }
}

/// How a drill went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Seed of the drill's choices.
    pub seed: u64,
    /// Its rounds.
    pub rounds: Vec<Round>,
    /// What did not hold beside the rounds.
    pub beside: Vec<String>,
    /// What could not be tried on this machine, and why.
    pub skipped: Vec<String>,
}

impl Report {
    /// Everything that did not hold.
    pub fn violations(&self) -> impl Iterator<Item = &String> {
        self.rounds.iter().flat_map(|round| &round.violations).chain(&self.beside)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header([
            "ROUND",
            "ON",
            "WHAT",
            "ACCEPTED",
            "FINISHED",
            "FAILED",
            "HEALED MS",
            "VOLUMES",
            "VIOLATIONS",
        ]);
        for round in &self.rounds {
            table.add_row([
                round.round.to_string(),
                round.on.clone(),
                round.what.clone(),
                round.accepted.to_string(),
                round.finished.to_string(),
                round.failed.to_string(),
                round.healed_ms.to_string(),
                round.volumes.to_string(),
                round.violations.len().to_string(),
            ]);
        }
        for (place, column) in table.column_iter_mut().enumerate() {
            if place != 1 && place != 2 {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        writeln!(f, "{}", table.trim_fmt())?;
        for violation in self.violations() {
            writeln!(f, "violation: {violation}")?;
        }
        for skipped in &self.skipped {
            writeln!(f, "skipped: {skipped}")?;
        }
        let mut times: Vec<u128> = self.rounds.iter().map(|round| round.healed_ms).collect();
        times.sort_unstable();
        if let (Some(worst), Some(median)) = (times.last(), times.get(times.len() / 2)) {
            writeln!(f, "in order again: median {median} ms, worst {worst} ms")?;
        }
        let sum = |count: fn(&Round) -> usize| self.rounds.iter().map(count).sum::<usize>();
        write!(
            f,
            "{} rounds, {} accepted, {} finished, {} failed, {} violations (seed {})",
            self.rounds.len(),
            sum(|round| round.accepted),
            sum(|round| round.finished),
            sum(|round| round.failed),
            self.violations().count(),
            self.seed
        )
    }
}
