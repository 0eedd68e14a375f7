//! How many agents may be marked unreachable: a leader that would lose a large share of them at
//! once has more likely lost its network than they their power. Then it marks none, says so
//! once, and goes on when enough of them are back or given up. Next: `../agents.rs`.

use std::collections::VecDeque;
use std::time::Duration;

use resources::time::Timestamp;

/// A share of agents, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share(pub u32);

impl Share {
    /// Everything.
    pub const ALL: Self = Self(1_000_000);

    /// Whether so many of so many are more.
    const fn is_exceeded(self, part: usize, whole: usize) -> bool {
        (part as u128) * (Self::ALL.0 as u128) > (whole as u128) * (self.0 as u128)
    }
}

/// So many in any span of this length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// How many, at least one.
    pub count: usize,
    /// In which time.
    pub per: Duration,
}

/// How agents are marked unreachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removal {
    /// `--recovery-agent-removal-limit`: with more than this at once, none is.
    pub limit: Share,
    /// `--agent-removal-rate-limit`.
    pub rate: Option<Rate>,
}

impl Default for Removal {
    fn default() -> Self {
        Self { limit: Share::ALL, rate: None }
    }
}

#[derive(Debug)]
pub(super) struct Guard {
    removal: Removal,
    /// Losses within this time are at once.
    span: Duration,
    /// When agents were marked lately, oldest first.
    marked: VecDeque<Timestamp>,
    is_holding: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// So many may be marked now.
    Mark { at_most: usize },
    /// None may; the alarm when that is news.
    Hold { alarm: Option<String> },
}

impl Guard {
    pub(super) const fn new(removal: Removal, span: Duration) -> Self {
        Self { removal, span, marked: VecDeque::new(), is_holding: false }
    }
    pub(super) const fn removal(&self) -> Removal {
        self.removal
    }

    /// Whether it ever holds: only then has it to be told how many agents there are.
    pub(super) fn is_limited(&self) -> bool {
        self.removal.limit != Share::ALL
    }

    /// With so many losses within the next span, of so many agents that are counted.
    pub(super) fn judge(&mut self, now: Timestamp, losses: usize, counted: usize) -> Verdict {
        let Removal { limit, rate } = self.removal;
        let kept = rate.map_or(self.span, |rate| rate.per.max(self.span));
        while self.marked.front().is_some_and(|at| now.since(*at) >= kept) {
            self.marked.pop_front();
        }
        let within = |span: Duration| {
            let recent = self.marked.iter().rev().take_while(|at| now.since(**at) < span);
            recent.count()
        };
        let lost = losses + within(self.span);
        let all = counted + within(self.span);
        if losses > 0 && self.is_limited() && limit.is_exceeded(lost, all) {
            let is_news = !std::mem::replace(&mut self.is_holding, true);
            let alarm = is_news.then(|| {
                format!(
                    "{lost} of {all} agents would become unreachable at once: none is marked until \
                     enough of them are back or are given up with `holdfast agent gone`"
                )
            });
            return Verdict::Hold { alarm };
        }
        self.is_holding = false;
        let at_most = rate.map_or(usize::MAX, |rate| rate.count.saturating_sub(within(rate.per)));
        Verdict::Mark { at_most }
    }

    /// The last one is not, after all.
    pub(super) fn unmarked(&mut self) {
        self.marked.pop_back();
    }

    /// One is marked.
    pub(super) fn marked(&mut self, now: Timestamp) {
        self.marked.push_back(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::default() + Duration::from_secs(seconds)
    }

    fn guard(limit: u32, rate: Option<(usize, u64)>) -> Guard {
        let rate = rate.map(|(count, per)| Rate { count, per: Duration::from_secs(per) });
        Guard::new(Removal { limit: Share(limit * 10_000), rate }, Duration::from_secs(15))
    }

    #[test]
    fn the_whole_cluster_may_go_by_default() {
        let mut guard = guard(100, None);
        assert_eq!(guard.judge(at(0), 7, 7), Verdict::Mark { at_most: usize::MAX });
    }

    #[test]
    fn a_large_loss_is_held_and_said_once() {
        let mut guard = guard(50, None);
        let first = guard.judge(at(0), 6, 10);
        assert!(
            matches!(first, Verdict::Hold { alarm: Some(text) } if text.starts_with("6 of 10"))
        );
        assert_eq!(guard.judge(at(1), 6, 10), Verdict::Hold { alarm: None });
        // One is back, or given up.
        assert_eq!(guard.judge(at(2), 5, 10), Verdict::Mark { at_most: usize::MAX });
    }

    #[test]
    fn what_was_marked_lately_is_part_of_the_loss() {
        let mut guard = guard(50, None);
        for _ in 0..3 {
            guard.marked(at(0));
        }
        // Seven of ten are left.
        assert!(matches!(guard.judge(at(1), 3, 7), Verdict::Hold { .. }));
        assert!(matches!(guard.judge(at(15), 3, 7), Verdict::Mark { .. }));
    }

    #[test]
    fn the_rate_bounds_any_span() {
        let mut guard = guard(100, Some((2, 60)));
        assert_eq!(guard.judge(at(0), 5, 9), Verdict::Mark { at_most: 2 });
        guard.marked(at(0));
        guard.marked(at(30));
        assert_eq!(guard.judge(at(59), 3, 7), Verdict::Mark { at_most: 0 });
        assert_eq!(guard.judge(at(60), 3, 7), Verdict::Mark { at_most: 1 });
    }
}
