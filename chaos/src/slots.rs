//! Slots: what a drill on agents asks for. Each is one label on one agent, under which nothing is
//! reserved, or a pool of disk, or a pool with a volume cut from it. Calls on one slot build on
//! each other, and calls on different slots have nothing in common. Pure: no HTTP, no disk.
//! Next: `slots/verdict.rs`.

pub mod verdict;

use rand::Rng;

use crate::client::Outcome;
use crate::history::{Object, POOL_MILLI, Subject};

/// Size of a new volume, in thousandths of a MB.
const VOLUME_MILLI: i64 = 4_000;

/// By how much a volume grows or shrinks.
const STEP_MILLI: i64 = 1_500;

/// What is held under the label of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holding {
    /// Nothing.
    Nothing,
    /// A pool, all of it plain.
    Pool,
    /// A pool with a volume.
    Volume {
        /// `persistence.id`.
        id: String,
        /// Its size in thousandths of a MB.
        milli: i64,
    },
}

/// One operation on a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Reserves the pool.
    Reserve,
    /// Gives the pool back.
    Unreserve,
    /// Cuts a volume from the pool.
    Create,
    /// Removes the volume and its data.
    Destroy,
    /// Makes the volume larger.
    Grow,
    /// Makes the volume smaller.
    Shrink,
}

/// A step that was sent, or is about to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The step.
    pub step: Step,
    /// What was held before, if all that came earlier went well.
    pub before: Holding,
    /// What is held if this went well too.
    pub after: Holding,
    /// How the call ended; none while it is under way.
    pub outcome: Option<Outcome>,
    /// The id under which it can be looked up; only when it was accepted.
    pub operation_id: Option<String>,
}

/// One label on one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Place of the agent in the cluster's list.
    pub agent: usize,
    /// The label; no two slots share one.
    pub label: String,
    /// What is held, as far as it was found out.
    pub holding: Holding,
    /// Steps whose end is not found out, in their order.
    pub asked: Vec<Asked>,
    /// Volumes made so far: each has an id of its own.
    made: usize,
}

impl Slot {
    /// A slot that holds nothing.
    #[must_use]
    pub fn new(agent: usize, label: String) -> Self {
        Self { agent, label, holding: Holding::Nothing, asked: Vec::new(), made: 0 }
    }

    /// What is held if all that was asked goes well.
    #[must_use]
    pub fn ahead(&self) -> &Holding {
        self.asked.last().map_or(&self.holding, |asked| &asked.after)
    }

    /// Id of its volume, if it has one.
    #[must_use]
    pub fn volume(&self) -> Option<&str> {
        match &self.holding {
            Holding::Volume { id, .. } => Some(id),
            Holding::Nothing | Holding::Pool => None,
        }
    }

    /// Plans one more step, one of those that are possible by then.
    pub fn plan(&mut self, rng: &mut impl Rng) {
        let before = self.ahead().clone();
        let step = match &before {
            Holding::Nothing => Step::Reserve,
            Holding::Pool if rng.random_ratio(1, 4) => Step::Unreserve,
            Holding::Pool => Step::Create,
            Holding::Volume { milli, .. } => match rng.random_range(0..4) {
                0 => Step::Destroy,
                1 | 2 if milli + STEP_MILLI <= POOL_MILLI => Step::Grow,
                _ if *milli > STEP_MILLI => Step::Shrink,
                _ => Step::Destroy,
            },
        };
        self.add(step, before);
    }

    /// Plans the steps that leave nothing.
    pub fn plan_end(&mut self) {
        if matches!(self.ahead(), Holding::Volume { .. }) {
            self.add(Step::Destroy, self.ahead().clone());
        }
        if *self.ahead() == Holding::Pool {
            self.add(Step::Unreserve, Holding::Pool);
        }
    }

    /// Plans the steps to a volume, from wherever the slot is.
    pub fn plan_volume(&mut self) {
        if *self.ahead() == Holding::Nothing {
            self.add(Step::Reserve, Holding::Nothing);
        }
        if *self.ahead() == Holding::Pool {
            self.add(Step::Create, Holding::Pool);
        }
    }

    /// Plans the end of the volume, if there is one.
    pub fn plan_destroy(&mut self) {
        if matches!(self.ahead(), Holding::Volume { .. }) {
            self.add(Step::Destroy, self.ahead().clone());
        }
    }

    fn add(&mut self, step: Step, before: Holding) {
        let after = match (step, &before) {
            (Step::Reserve | Step::Destroy, _) => Holding::Pool,
            (Step::Unreserve, _) => Holding::Nothing,
            (Step::Create, _) => {
                self.made += 1;
                let id = format!("{}-v{}", self.label, self.made);
                Holding::Volume { id, milli: VOLUME_MILLI }
            }
            (Step::Grow, Holding::Volume { id, milli }) => {
                Holding::Volume { id: id.clone(), milli: milli + STEP_MILLI }
            }
            (Step::Shrink, Holding::Volume { id, milli }) => {
                Holding::Volume { id: id.clone(), milli: milli - STEP_MILLI }
            }
            (Step::Grow | Step::Shrink, Holding::Nothing | Holding::Pool) => before.clone(),
        };
        self.asked.push(Asked { step, before, after, outcome: None, operation_id: None });
    }

    /// What a step is about: the volume as it is before a change of its size or its end, and as
    /// it is made.
    #[must_use]
    pub fn subject(&self, asked: &Asked) -> Subject {
        let volume = match asked.step {
            Step::Create => &asked.after,
            Step::Reserve | Step::Unreserve | Step::Destroy | Step::Grow | Step::Shrink => {
                &asked.before
            }
        };
        let object = match volume {
            Holding::Volume { id, milli } => {
                Object::Volume { pool: self.label.clone(), id: id.clone(), milli: *milli }
            }
            Holding::Nothing | Holding::Pool => Object::Pool { label: self.label.clone() },
        };
        (self.agent, object)
    }

    /// By how much a GROW or SHRINK changes its volume.
    #[must_use]
    pub const fn step_milli() -> i64 {
        STEP_MILLI
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    use super::*;

    #[test]
    fn steps_follow_from_each_other() {
        let mut rng = StdRng::seed_from_u64(7);
        let mut slot = Slot::new(0, "s".into());
        for _ in 0..500 {
            slot.plan(&mut rng);
        }
        let mut held = Holding::Nothing;
        let mut seen = Vec::new();
        for asked in &slot.asked {
            assert_eq!(asked.before, held);
            if let Holding::Volume { milli, .. } = asked.after {
                assert!((1..=POOL_MILLI).contains(&milli), "{asked:?}");
            }
            held = asked.after.clone();
            if !seen.contains(&asked.step) {
                seen.push(asked.step);
            }
        }
        assert_eq!(seen.len(), 6, "{seen:?}");
    }

    #[test]
    fn an_end_leaves_nothing() {
        let mut slot = Slot::new(0, "s".into());
        slot.plan_end();
        assert!(slot.asked.is_empty());
        slot.plan_volume();
        slot.plan_end();
        assert_eq!(*slot.ahead(), Holding::Nothing);
        let steps: Vec<Step> = slot.asked.iter().map(|asked| asked.step).collect();
        assert_eq!(steps, [Step::Reserve, Step::Create, Step::Destroy, Step::Unreserve]);
    }
}
