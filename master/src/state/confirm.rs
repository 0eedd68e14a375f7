//! Confirmation: an agent's report moves a prefix of its orders into what it confirmed. What
//! failed is taken out and the rest folded again; nothing is ever undone by an inverse, because
//! merged amounts make inverses unsound. Next: `reconcile.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use resources::collection::Resources;
use resources::conversion::{Fold, fold};
use resources::earlier::Earlier;
use resources::id::{AgentId, OperationId, Seq};
use resources::operation::Operation;
use resources::time::Timestamp;

use super::agents::{Agent, AgentStatus};
use super::command::{Change, Effect, Response};
use super::operations::{OperationRecord, OperationState};
use super::rejection::Rejection;
use super::{Moment, State};

/// What moving a prefix brought to light.
#[derive(Debug, Default)]
pub(super) struct Moved {
    /// Operations that ended by it, with their outcome and without a time.
    pub settled: Vec<Arc<OperationRecord>>,
    /// What cannot be when both sides fold the same orders.
    pub discrepancy: Option<String>,
}

impl Agent {
    /// Moves the orders up to `upto` into what is confirmed. `upto` has been given.
    pub(super) fn confirm_upto(&mut self, upto: Seq, exceptions: &BTreeMap<Seq, String>) -> Moved {
        if upto > self.confirmed_seq {
            // It has heard of every choice before these orders.
            self.adopts = None;
        }
        let mut done = BTreeMap::new();
        while let Some((seq, record)) = self.pending.first().filter(|(seq, _)| **seq <= upto) {
            let (seq, record) = (*seq, Arc::clone(record));
            self.pending.remove_mut(&seq);
            done.insert(seq, record);
        }
        let is_clean = done
            .values()
            .all(|record| !record.is_settled() && !exceptions.contains_key(&record.seq));
        if is_clean { self.confirm_clean(done) } else { self.confirm_mixed(done, exceptions, upto) }
    }

    /// All went well: the total stays as it is, and each order costs what it is long. The total
    /// is the fold of what was confirmed and of all orders, so that it is what is confirmed once
    /// no order is left.
    fn confirm_clean(&mut self, done: BTreeMap<Seq, Arc<OperationRecord>>) -> Moved {
        let mut moved = Moved::default();
        if self.pending.is_empty() {
            debug_assert_eq!(
                fold(self.confirmed(), done.values().map(|record| &record.operation)).total,
                self.total
            );
            self.confirmed = Earlier::default();
            self.confirmed_seq = self.last_given();
            let finished = done.into_values();
            moved.settled =
                finished.map(|record| ended(record, OperationState::Finished, None)).collect();
            return moved;
        }
        for (seq, record) in done {
            if moved.discrepancy.is_none()
                && let Err(short) = self.confirmed.follow(&self.total, &record.operation)
            {
                moved.discrepancy =
                    Some(format!("order {seq} folds and does not confirm: {short}"));
            }
            if moved.discrepancy.is_some() {
                // The prefix before it is confirmed; this and what follows stay orders.
                self.pending.insert_mut(seq, record);
            } else {
                self.confirmed_seq = seq;
                moved.settled.push(ended(record, OperationState::Finished, None));
            }
        }
        moved
    }

    /// Some failed: new values are computed from copies, then swapped in.
    fn confirm_mixed(
        &mut self,
        done: BTreeMap<Seq, Arc<OperationRecord>>,
        exceptions: &BTreeMap<Seq, String>,
        upto: Seq,
    ) -> Moved {
        let mut moved = Moved::default();
        let mut failed: Vec<OperationId> = Vec::new();
        let mut confirmed = self.confirmed();
        for (seq, record) in done {
            match (exceptions.get(&seq), record.is_settled()) {
                (Some(_), true) => failed.push(record.operation_id.clone()),
                (Some(reason), false) => {
                    failed.push(record.operation_id.clone());
                    moved.settled.push(ended(record, OperationState::Failed, Some(reason.clone())));
                }
                (None, true) => {
                    let id = &record.operation_id;
                    moved.discrepancy = Some(format!("order {seq} ({id}) failed here, done there"));
                }
                (None, false) => match confirmed.apply(&record.operation) {
                    Ok(()) => moved.settled.push(ended(record, OperationState::Finished, None)),
                    Err(short) => {
                        moved.discrepancy = Some(format!("order {seq} done there: {short}"));
                        let state = OperationState::Failed;
                        moved.settled.push(ended(record, state, Some(short.to_string())));
                    }
                },
            }
        }
        self.confirmed_seq = upto;
        moved.settled.extend(self.refold(confirmed, &failed));
        moved
    }

    /// Computes the total anew, over what is confirmed now. What no longer applies has failed:
    /// it depended on `failed`.
    pub(super) fn refold(
        &mut self,
        confirmed: Resources,
        failed: &[OperationId],
    ) -> Vec<Arc<OperationRecord>> {
        let open: Vec<Arc<OperationRecord>> =
            self.pending.values().filter(|record| !record.is_settled()).cloned().collect();
        let operations = open.iter().map(|record| -> &Operation { &record.operation });
        let Fold { total, confirmed, failed: positions } = fold(confirmed, operations);
        (self.total, self.confirmed) = (total, confirmed);
        let reason = match failed {
            [] => "its resources are gone".to_owned(),
            [_, ..] => {
                let ids: Vec<&str> = failed.iter().map(OperationId::as_str).collect();
                format!("depends on {}, which failed", ids.join(" "))
            }
        };
        let mut doomed = Vec::with_capacity(positions.len());
        for position in positions {
            let record = Arc::clone(&open[position]);
            let record = ended(record, OperationState::Failed, Some(reason.clone()));
            // It keeps its number: orders are dense, and the agent finds the same.
            self.pending.insert_mut(record.seq, Arc::clone(&record));
            doomed.push(record);
        }
        doomed
    }

    /// Writes the time of their end on operations that just ended.
    pub(super) fn stamp(
        &mut self,
        settled: Vec<Arc<OperationRecord>>,
        wall: Timestamp,
    ) -> Vec<Arc<OperationRecord>> {
        let stamped = settled.into_iter().map(|mut record| {
            Arc::make_mut(&mut record).settled_at = Some(wall);
            if let Some(order) = self.pending.get_mut(&record.seq) {
                *order = Arc::clone(&record);
            }
            record
        });
        stamped.collect()
    }
}

pub(super) fn ended(
    mut record: Arc<OperationRecord>,
    state: OperationState,
    message: Option<String>,
) -> Arc<OperationRecord> {
    let ended = Arc::make_mut(&mut record);
    ended.state = state;
    ended.message = message;
    record
}

impl State {
    pub(super) fn confirm(
        &mut self,
        now: Moment,
        agent_id: &AgentId,
        upto: Seq,
        exceptions: &BTreeMap<Seq, String>,
    ) -> Result<(Response, Vec<Effect>), Rejection> {
        let agent = self
            .agent(agent_id)
            .ok_or_else(|| Rejection::UnknownAgent { agent_id: agent_id.clone() })?;
        let given = agent.last_given();
        if upto > given {
            let rejection = Rejection::NeverGiven { agent_id: agent_id.clone(), upto, given };
            self.raise_alarm(now.index, rejection.to_string());
            return Err(rejection);
        }
        agent.accepts_operations()?;
        if upto <= agent.confirmed_seq {
            let acknowledge = Effect::Acknowledge(agent_id.clone(), agent.confirmed_seq);
            return Ok((Response::Done, vec![acknowledge]));
        }
        let agent = self.agent_mut(agent_id).expect("looked up above");
        let moved = agent.confirm_upto(upto, exceptions);
        let settled = agent.stamp(moved.settled, now.wall);
        if settled.iter().any(|record| record.state == OperationState::Failed) {
            agent.moved(now.index);
        }
        let mut effects = vec![Effect::Acknowledge(agent_id.clone(), agent.confirmed_seq)];
        if moved.discrepancy.is_some() {
            agent.status = AgentStatus::diverged();
        }
        if let Some(what) = moved.discrepancy {
            effects.extend(self.raise_alarm(now.index, format!("{agent_id}: {what}")));
            effects.push(Effect::Change(Change::AgentUpdated(agent_id.clone())));
            effects.push(Effect::Resync(agent_id.clone()));
        }
        effects.extend(self.keep_settled(settled));
        Ok((Response::Done, effects))
    }
}
