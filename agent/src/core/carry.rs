//! Carries out orders: one batch at a time, each order at its place. Nothing of a batch is
//! reported before one transaction holds all its effects. Must not know of sessions beyond
//! "report now". Next: `checkpoint.rs`.
//!
//! A batch without CREATE and DESTROY is one checkpoint. One with them is stored as *intents*
//! first; then each directory is made or moved before the next order is looked at; then one
//! checkpoint settles everything and clears the intents. After a crash in between the same
//! orders run again from the state before the batch, and each directory step finds out what it
//! did already. The trash is emptied only after the settling checkpoint, so that a directory
//! made later in the same batch cannot get the inode number of one moved before it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use resources::collection::Resources;
use resources::id::Seq;
use resources::message::{Order, Outcome, Settled};
use resources::opaque::Opaque;
use resources::operation::Operation;
use resources::resource::Resource;

use super::event::{
    Action, Ended, Marker, VolumeKey, VolumeRecord, VolumeStep, Write, operation_name,
    touches_directories,
};
use super::{BATCH_ORDERS_MAX, Core, PENDING_ORDERS_MAX};

/// The batch being carried out.
#[derive(Debug, Default)]
pub(super) struct Hand {
    /// Not yet looked at.
    orders: VecDeque<Order>,
    /// Waits for its directories.
    waiting: Option<Order>,
    /// Rows for the settling checkpoint.
    writes: Vec<Write>,
    /// The total before the batch. A set costs a counter to clone.
    before: Resources,
    /// What its orders consumed and made: names the entries of the total that may differ.
    touched: BTreeSet<Resource>,
    /// Number of its last order.
    upto: Seq,
    /// Why the batch runs, which says what goes around it.
    origin: Origin,
    /// Whether something was put into the trash.
    has_trash: bool,
    /// Tasks to be launched once the batch is durable.
    has_launch: bool,
}

/// Where a batch comes from.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// Orders that touch no directory.
    #[default]
    Light,
    /// Orders that are in the checkpoint as intents.
    Intents,
    /// Intents that an earlier run of the process left.
    Recovery,
}

impl Hand {
    /// Number of the batch's last order.
    pub(super) fn upto(&self) -> Seq {
        self.upto
    }
    /// Orders that are not settled.
    pub(super) fn pending(&self) -> impl Iterator<Item = &Order> {
        self.waiting.iter().chain(&self.orders)
    }

    /// The entries of the total that the batch changed.
    fn entries(&self, after: &Resources) -> Option<Write> {
        let (mut removed, mut put) = (BTreeSet::new(), BTreeMap::new());
        for resource in &self.touched {
            let entry = |set: &Resources| {
                let entry = set.counterpart(resource)?;
                Some((entry.clone(), set.count(entry)))
            };
            let (old, new) = (entry(&self.before), entry(after));
            if old == new {
                continue;
            }
            // What is made anew may be written differently, with another creator for instance.
            let stays = |old: &Resource, new: &Resource| {
                Resource { value: new.value.clone(), ..old.clone() } == *new
            };
            match (old, &new) {
                (Some((old, _)), Some((new, _))) if stays(&old, new) => {}
                (old, _) => removed.extend(old.map(|(old, _)| old)),
            }
            put.extend(new);
        }
        if removed.is_empty() && put.is_empty() {
            return None;
        }
        let (removed, put) = (removed.into_iter().collect(), put.into_iter().collect());
        Some(Write::Entries { removed, put })
    }
}

impl Core {
    /// Takes the next batch from the queue and goes as far as possible.
    pub(super) fn carry_on(&mut self, actions: &mut Vec<Action>) {
        while self.hand.is_none() && !self.queue.is_empty() && !self.ended {
            let count = self.queue.len().min(BATCH_ORDERS_MAX);
            let orders: Vec<Order> = self.queue.drain(..count).collect();
            if orders.iter().any(|order| touches_directories(&order.operation)) {
                actions.push(Action::Checkpoint(vec![Write::Intents(orders.clone())]));
                self.begin(orders, Origin::Intents, actions);
            } else {
                self.begin(orders, Origin::Light, actions);
            }
        }
    }

    /// Carries out `orders`, which follow on what is applied.
    pub(super) fn begin(&mut self, orders: Vec<Order>, origin: Origin, actions: &mut Vec<Action>) {
        let upto = orders.last().map_or(self.applied_seq, |order| order.seq);
        let before = self.total.clone();
        self.hand = Some(Hand { orders: orders.into(), upto, origin, before, ..Hand::default() });
        self.advance(actions);
    }

    /// The directories of the waiting CREATE are made, or could not be.
    pub(super) fn made(
        &mut self,
        seq: Seq,
        markers: Result<Vec<Marker>, String>,
        actions: &mut Vec<Action>,
    ) {
        let Some(order) = self.take_waiting(seq) else { return };
        match markers {
            Ok(markers) => {
                let records = markers.into_iter().map(|marker| Some((seq, marker)));
                self.record_volumes(&order, records.collect());
                self.finish_order(order);
            }
            Err(reason) => self.fail_order(order, reason),
        }
        self.advance(actions);
    }

    /// The directories of the waiting DESTROY are out of the way.
    pub(super) fn removed(&mut self, seq: Seq, actions: &mut Vec<Action>) {
        let Some(order) = self.take_waiting(seq) else { return };
        let count = volumes_of(&order.operation).len();
        self.record_volumes(&order, vec![None; count]);
        if let Some(hand) = &mut self.hand {
            hand.has_trash = true;
        }
        self.finish_order(order);
        self.advance(actions);
    }

    fn take_waiting(&mut self, seq: Seq) -> Option<Order> {
        let waiting = &mut self.hand.as_mut()?.waiting;
        waiting.take_if(|order| order.seq == seq)
    }

    fn advance(&mut self, actions: &mut Vec<Action>) {
        while let Some(order) = self.hand.as_mut().and_then(|hand| hand.orders.pop_front()) {
            if let Err(why) = self.total.check(&order.operation) {
                if !self.may_fail(&order) {
                    self.ended = true;
                    actions.push(Action::Exit(format!(
                        "order {} ({} {}) does not fit the resources of this agent: {why}",
                        order.seq,
                        operation_name(&order.operation),
                        order.operation_id,
                    )));
                    return;
                }
                self.fail_order(order, why.to_string());
                continue;
            }
            if let Some(reason) = self.obstacle(&order) {
                if matches!(order.operation, Operation::Destroy { .. }) {
                    self.failed_seq = order.seq;
                }
                self.fail_order(order, reason);
                continue;
            }
            if let Operation::Launch(launch) = &order.operation {
                let killed = self.killed_before(&launch.framework_id);
                self.tasks.launch(order.seq, launch, &killed);
                if let Some(hand) = &mut self.hand {
                    hand.has_launch = true;
                }
            }
            match self.volume_step(&order) {
                None => self.finish_order(order),
                Some(step) => {
                    if let Some(hand) = &mut self.hand {
                        hand.waiting = Some(order);
                    }
                    actions.push(Action::Volumes(step));
                    return;
                }
            }
        }
        self.settle_hand(actions);
    }

    /// What forbids an order that fits the resources: a volume that cannot be used, or is.
    fn obstacle(&self, order: &Order) -> Option<String> {
        match &order.operation {
            Operation::Launch(launch) => {
                let needed = launch.needed();
                let mut keys = needed.volumes().filter_map(VolumeKey::of);
                let broken = keys.find_map(|key| self.unavailable.get(&key));
                let broken = broken.map(|found| {
                    format!("volume {} is unavailable: {}", found.volume, found.reason)
                });
                broken.or_else(|| self.tasks.refusal(launch))
            }
            // The master refuses it before it becomes an order.
            Operation::Destroy { volumes } => {
                volumes.iter().filter_map(VolumeKey::of).find_map(|key| {
                    let user = self.tasks.user_of(&key)?;
                    Some(format!("persistent volumes in use: {key} by {user}"))
                })
            }
            Operation::Reserve { .. }
            | Operation::Unreserve { .. }
            | Operation::Create { .. }
            | Operation::Grow { .. }
            | Operation::Shrink { .. } => None,
        }
    }

    /// A CREATE may fail here, and a launch, on which nothing depends. So may an order that was
    /// committed before the master could know of a failure: at most as many orders later as may
    /// be pending.
    fn may_fail(&self, order: &Order) -> bool {
        let depends = self.failed_seq > Seq::default()
            && order.seq.0 <= self.failed_seq.0.saturating_add(PENDING_ORDERS_MAX);
        depends || matches!(order.operation, Operation::Create { .. } | Operation::Launch(_))
    }

    fn volume_step(&self, order: &Order) -> Option<VolumeStep> {
        match &order.operation {
            Operation::Create { volumes } => {
                Some(VolumeStep::Create { seq: order.seq, volumes: volumes.clone() })
            }
            Operation::Destroy { volumes } => {
                let record = |volume| Some(*self.volumes.get(&VolumeKey::of(volume)?)?);
                let volumes = volumes.iter().map(|volume| (volume.clone(), record(volume)));
                Some(VolumeStep::Destroy { seq: order.seq, volumes: volumes.collect() })
            }
            Operation::Reserve { .. }
            | Operation::Unreserve { .. }
            | Operation::Grow { .. }
            | Operation::Shrink { .. }
            | Operation::Launch(_) => None,
        }
    }

    /// Notes for each volume of the order which directory it is now, or that it has none.
    fn record_volumes(&mut self, order: &Order, records: Vec<Option<(Seq, Marker)>>) {
        let Some(hand) = &mut self.hand else { return };
        let keys = volumes_of(&order.operation).iter().map(VolumeKey::of);
        for (key, record) in keys.zip(records) {
            let Some(key) = key else { continue };
            self.unavailable.remove(&key);
            if let Some((create_seq, marker)) = record {
                let record = VolumeRecord { create_seq, marker };
                self.volumes.insert(key.clone(), record);
                hand.writes.push(Write::Volume(key, record));
            } else {
                self.volumes.remove(&key);
                hand.writes.push(Write::RemoveVolume(key));
            }
        }
    }

    fn finish_order(&mut self, order: Order) {
        self.total.apply(&order.operation).expect("checked before, and nothing changed since");
        if let Some(hand) = &mut self.hand {
            hand.touched.extend(order.operation.consumed());
            hand.touched.extend(order.operation.converted());
        }
        self.settle(order, Outcome::Finished);
    }

    fn fail_order(&mut self, order: Order, reason: String) {
        // What only depends on a failed CREATE must not let yet later orders fail.
        if matches!(order.operation, Operation::Create { .. }) {
            self.failed_seq = order.seq;
        }
        self.settle(order, Outcome::Failed { reason });
    }

    fn settle(&mut self, order: Order, outcome: Outcome) {
        let Order { seq, operation_id, operation } = order;
        let settled = Settled { seq, operation_id, outcome };
        let ended = Ended { settled, operation: Some(brief(operation)) };
        self.settled.insert(seq, ended.clone());
        if let Some(hand) = &mut self.hand {
            hand.writes.push(Write::Settle(Box::new(ended)));
        }
    }

    /// Every order of the batch is settled: one checkpoint, then the report.
    fn settle_hand(&mut self, actions: &mut Vec<Action>) {
        let Some(mut hand) = self.hand.take() else { return };
        self.applied_seq = hand.upto;
        if hand.origin != Origin::Light {
            hand.writes.push(Write::Intents(Vec::new()));
        }
        let entries = hand.entries(&self.total);
        hand.writes.extend(entries);
        hand.writes.extend(self.forget_upto.take().map(Write::Forget));
        hand.writes.push(Write::Applied { seq: self.applied_seq, failed: self.failed_seq });
        let mut runs = Vec::new();
        if hand.has_launch {
            let (rows, begun) = self.tasks.release();
            hand.writes.extend(rows.into_iter().map(Write::Tasks));
            runs = begun;
        }
        actions.push(Action::Checkpoint(hand.writes));
        actions.extend(runs.into_iter().map(Action::Run));
        self.report(actions);
        let is_recovery = hand.origin == Origin::Recovery;
        if hand.has_trash || is_recovery {
            actions.push(Action::EmptyTrash(self.applied_seq));
        }
        if is_recovery {
            actions.push(Action::Recovered);
        }
        self.pay_debts(actions);
    }

    /// Failed orders that the master has not acknowledged.
    pub(super) fn exceptions(&self) -> BTreeMap<Seq, String> {
        let failed = |Ended { settled, .. }: &Ended| match &settled.outcome {
            Outcome::Finished => None,
            Outcome::Failed { reason } => Some((settled.seq, reason.clone())),
        };
        self.settled.values().filter_map(failed).collect()
    }
}

/// A launch stands in the rows of its tasks: their names are enough here.
fn brief(operation: Operation) -> Operation {
    match operation {
        Operation::Launch(mut launch) => {
            launch.framework = Opaque::default();
            launch.executor = None;
            for task in &mut launch.tasks {
                task.resources.clear();
                task.wire = Opaque::default();
            }
            Operation::Launch(launch)
        }
        Operation::Reserve { .. }
        | Operation::Unreserve { .. }
        | Operation::Create { .. }
        | Operation::Destroy { .. }
        | Operation::Grow { .. }
        | Operation::Shrink { .. } => operation,
    }
}

fn volumes_of(operation: &Operation) -> &[Resource] {
    match operation {
        Operation::Create { volumes } | Operation::Destroy { volumes } => volumes,
        Operation::Reserve { .. }
        | Operation::Unreserve { .. }
        | Operation::Grow { .. }
        | Operation::Shrink { .. }
        | Operation::Launch(_) => &[],
    }
}
