//! The agent as a pure function from events to actions: fence, sequence numbers, and the same
//! fold over orders as the master's. Knows neither sockets nor files; time and disk are the
//! shell's. Next: `core/event.rs` (what goes in and out), `core/carry.rs` (carrying out),
//! `core/asked.rs` (what is asked beside the orders), `core/looking.rs` (volumes that are not
//! where they were made), `core/parting.rs` (how it leaves),
//! `core/tasks.rs` (executors and tasks).
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

mod asked;
mod carry;
pub(crate) mod event;
mod looking;
mod parting;
mod shown;
pub(crate) mod tasks;

use std::collections::{BTreeMap, VecDeque};

use resources::collection::Resources;
use resources::id::{AgentId, Seq};
use resources::message::{AgentMessage, Fence, Instruction, MasterMessage, Order, Registration};

use self::carry::{Hand, Origin};
use self::event::{
    Action, Ended, Event, Identity, Memory, Pause, Unavailable, VolumeKey, VolumeRecord, Write,
    pause,
};
use self::parting::Parting;
use self::tasks::Tasks;
use self::tasks::event::Settings;

/// Most orders in one checkpoint.
const BATCH_ORDERS_MAX: usize = 1_024;
/// Most orders that a master keeps unconfirmed per agent (architecture §4).
const PENDING_ORDERS_MAX: u64 = 4_096;

/// State of one agent.
#[derive(Debug)]
pub(crate) struct Core {
    identity: Identity,
    agent_id: Option<AgentId>,
    fence: Option<Fence>,
    /// Everything the agent has, operations applied. Stands at `applied_seq` whenever no batch
    /// is in hand.
    total: Resources,
    applied_seq: Seq,
    failed_seq: Seq,
    settled: BTreeMap<Seq, Ended>,
    forget_upto: Option<Seq>,
    volumes: BTreeMap<VolumeKey, VolumeRecord>,
    unavailable: BTreeMap<VolumeKey, Unavailable>,
    intents: Vec<Order>,
    queue: VecDeque<Order>,
    hand: Option<Hand>,
    session: Session,
    total_is_owed: bool,
    tasks: Tasks,
    /// What a leader asked beside orders that are not carried out yet.
    asked: VecDeque<Instruction>,
    /// Nothing is carried out after an [`Action::Exit`].
    ended: bool,
    parting: Parting,
}

/// How far the open stream got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Session {
    /// There is none.
    Closed,
    /// Open; the registration waits until the batch in hand is settled.
    Opened,
    /// The registration is sent; it spoke of this order.
    Registering(Seq),
    /// The master knows this agent. A resend was asked from the number given.
    Registered(Option<Seq>),
}

impl Core {
    /// An agent that goes on where `memory` stands, with `total` at `memory.applied_seq`.
    pub(crate) fn new(
        identity: Identity,
        settings: Settings,
        memory: Memory,
        total: Resources,
        unavailable: BTreeMap<VolumeKey, Unavailable>,
    ) -> Self {
        let tasks = Tasks::new(settings, memory.agent_id.clone(), memory.tasks);
        Self {
            identity,
            agent_id: memory.agent_id,
            fence: memory.fence,
            total,
            applied_seq: memory.applied_seq,
            failed_seq: memory.failed_seq,
            settled: memory.settled,
            forget_upto: None,
            volumes: memory.volumes,
            unavailable,
            intents: memory.intents,
            queue: VecDeque::new(),
            hand: None,
            session: Session::Closed,
            total_is_owed: false,
            tasks,
            asked: VecDeque::new(),
            ended: false,
            parting: Parting::default(),
        }
    }

    /// Takes in one event and says what to do about it, in order.
    pub(crate) fn step(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.ended {
            return actions;
        }
        match event {
            Event::Started => self.start(&mut actions),
            Event::Opened => {
                self.leave_session();
                self.session = Session::Opened;
                self.pay_debts(&mut actions);
            }
            Event::Received(fence, message) => {
                let is_open = self.session != Session::Closed;
                if is_open && self.pass_fence(fence, &mut actions) {
                    self.receive(message, &mut actions);
                }
            }
            Event::Closed => self.leave_session(),
            Event::VolumesMade(seq, markers) => self.made(seq, markers, &mut actions),
            Event::VolumesRemoved(seq) => self.removed(seq, &mut actions),
            Event::Looked(looks) => self.looked(looks, &mut actions),
            Event::Leave => self.parting.is_pressed = true,
            Event::Tasks(events) => events.into_iter().for_each(|event| self.tasks.step(event)),
        }
        self.carry_on(&mut actions);
        self.answer_asked();
        self.tell_of_tasks(&mut actions);
        self.part(&mut actions);
        actions
    }

    /// Everything the agent has, operations applied.
    pub(crate) fn total(&self) -> &Resources {
        &self.total
    }
    /// Last order carried out.
    pub(crate) fn applied_seq(&self) -> Seq {
        self.applied_seq
    }
    /// The agent's name, once it has one.
    pub(crate) fn agent_id(&self) -> Option<&AgentId> {
        self.agent_id.as_ref()
    }
    /// Who the agent is.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }
    /// Volumes whose directory is missing or not the one that was made.
    pub(crate) fn unavailable(&self) -> impl Iterator<Item = &Unavailable> {
        self.unavailable.values()
    }
    /// Orders whose outcome the master has not acknowledged.
    pub(crate) fn ended(&self) -> impl Iterator<Item = &Ended> {
        self.settled.values()
    }
    /// Orders that are taken in and not settled, in their order.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &Order> {
        self.hand.iter().flat_map(Hand::pending).chain(&self.queue)
    }

    fn start(&mut self, actions: &mut Vec<Action>) {
        self.tasks.start();
        let intents = std::mem::take(&mut self.intents);
        if intents.is_empty() {
            actions.push(Action::EmptyTrash(self.applied_seq));
            actions.push(Action::Recovered);
        } else {
            self.begin(intents, Origin::Recovery, actions);
        }
    }

    /// A new or ended session discards what came in on the old one and was not begun.
    fn leave_session(&mut self) {
        self.session = Session::Closed;
        self.queue.clear();
        self.asked.clear();
        let upto = self.hand.as_ref().map_or(self.applied_seq, Hand::upto);
        self.tasks.forget_described(upto);
        self.tasks.hush();
        self.total_is_owed = false;
        self.parting.is_said = false;
    }

    /// Refuses another cluster and a lower fence; a higher one is durable before the message it
    /// came with is looked at.
    fn pass_fence(&mut self, fence: Fence, actions: &mut Vec<Action>) -> bool {
        match &self.fence {
            Some(own) if own.cluster_id != fence.cluster_id => {
                let (own, other) = (&own.cluster_id, &fence.cluster_id);
                let reason = format!(
                    "this work directory belongs to cluster {own}, the master speaks for cluster \
                     {other}"
                );
                self.exit(reason, actions);
                return false;
            }
            Some(own) if fence < *own => {
                let reason = format!("the master's fence {fence} is lower than {own}");
                self.close(reason, Pause::Short, actions);
                return false;
            }
            Some(own) if fence == *own => return true,
            Some(_) | None => {}
        }
        actions.push(Action::Checkpoint(vec![Write::Fence(fence.clone())]));
        self.fence = Some(fence);
        true
    }

    fn exit(&mut self, reason: String, actions: &mut Vec<Action>) {
        self.ended = true;
        actions.push(Action::Exit(reason));
    }

    fn close(&mut self, reason: String, pause: Pause, actions: &mut Vec<Action>) {
        self.leave_session();
        actions.push(Action::Close { reason, pause });
    }

    fn receive(&mut self, message: MasterMessage, actions: &mut Vec<Action>) {
        match message {
            MasterMessage::Welcome { agent_id, ping_interval, pings_missed_max } => {
                let Session::Registering(reported_seq) = self.session else { return };
                if self.agent_id.as_ref() != Some(&agent_id) {
                    self.agent_id = Some(agent_id.clone());
                    self.tasks.set_agent_id(agent_id.clone());
                    actions.push(Action::Checkpoint(vec![Write::AgentId(agent_id.clone())]));
                }
                self.session = Session::Registered(None);
                actions.push(Action::Registered { agent_id, ping_interval, pings_missed_max });
                if self.applied_seq > reported_seq {
                    self.report(actions);
                }
                self.tasks.say_everything();
            }
            MasterMessage::Refused { reason, retry, end_tasks, retry_after } => {
                match pause(retry, retry_after) {
                    Some(pause) => self.close(format!("refused: {reason}"), pause, actions),
                    None if end_tasks => self.given_up(&reason, actions),
                    None => self.exit(format!("the master refused this agent: {reason}"), actions),
                }
            }
            MasterMessage::Orders(orders) => self.take_orders(orders, actions),
            MasterMessage::Acknowledge { upto } => self.acknowledge(upto),
            MasterMessage::SendTotal => {
                self.total_is_owed = true;
                self.pay_debts(actions);
            }
            MasterMessage::Instruct(instruction) => self.asked.push_back(instruction),
            MasterMessage::Ping => actions.push(Action::Send(AgentMessage::Pong)),
            MasterMessage::Unregistered => self.unregistered(actions),
            MasterMessage::Adopt { applied_seq, digest } => {
                self.adopt(applied_seq, digest, actions);
            }
        }
    }

    fn take_orders(&mut self, orders: Vec<Order>, actions: &mut Vec<Action>) {
        let Session::Registered(asked) = self.session else {
            let reason = "orders came before the registration was answered".to_owned();
            self.close(reason, Pause::Short, actions);
            return;
        };
        let mut is_repeated = false;
        for order in orders {
            let expected = self.expected_seq();
            if order.seq < expected {
                is_repeated |= order.seq <= self.applied_seq;
                if self.is_discrepant(&order, actions) {
                    return;
                }
            } else if order.seq > expected {
                if asked != Some(expected) {
                    self.session = Session::Registered(Some(expected));
                    actions.push(Action::Send(AgentMessage::Resend { from: expected }));
                }
                break;
            } else {
                self.session = Session::Registered(None);
                self.queue.push_back(order);
            }
        }
        // A repeated order means that its report may be lost. With orders at hand the next
        // report comes anyway.
        if is_repeated && self.queue.is_empty() && self.hand.is_none() {
            self.report(actions);
        }
    }

    /// Number of the next order that is neither applied nor already taken in.
    fn expected_seq(&self) -> Seq {
        let queued = self.queue.back().map(|order| order.seq);
        let in_hand = self.hand.as_ref().map(Hand::upto);
        queued.or(in_hand).unwrap_or(self.applied_seq).next()
    }

    /// Whether this number stands for another operation here. Then nothing may be confirmed by
    /// number: the next registration tells the master each outcome with its operation.
    fn is_discrepant(&mut self, order: &Order, actions: &mut Vec<Action>) -> bool {
        let Some(Ended { settled, .. }) = self.settled.get(&order.seq) else { return false };
        if settled.operation_id == order.operation_id {
            return false;
        }
        let (seq, here) = (order.seq, settled.operation_id.clone());
        actions.push(Action::Discrepancy { seq, here, there: order.operation_id.clone() });
        self.close("orders differ from those carried out".to_owned(), Pause::Long, actions);
        true
    }

    /// Outcomes that are replicated need not be told again. The rows go with the next
    /// checkpoint: until then a restart would tell them once more, which is harmless.
    fn acknowledge(&mut self, upto: Seq) {
        let upto = upto.min(self.applied_seq);
        self.settled = self.settled.split_off(&upto.next());
        self.forget_upto = self.forget_upto.max(Some(upto));
    }

    /// Tells the master how far the agent is, when there is one that knows it.
    fn report(&self, actions: &mut Vec<Action>) {
        if matches!(self.session, Session::Registered(_)) {
            let exceptions = self.exceptions();
            let report = AgentMessage::Report { upto: self.applied_seq, exceptions };
            actions.push(Action::Send(report));
        }
    }

    /// Sends what had to wait for the end of a batch, because it speaks of the total.
    fn pay_debts(&mut self, actions: &mut Vec<Action>) {
        if self.hand.is_some() {
            return;
        }
        if self.session == Session::Opened {
            self.session = Session::Registering(self.applied_seq);
            let registration = Box::new(self.registration());
            actions.push(Action::Send(AgentMessage::Register(registration)));
        }
        if std::mem::take(&mut self.total_is_owed) {
            let resources = self.total.iter_with_shares().cloned().collect();
            let total = AgentMessage::Total { applied_seq: self.applied_seq, resources };
            actions.push(Action::Send(total));
        }
    }

    fn registration(&self) -> Registration {
        Registration {
            checkpoint_id: self.identity.checkpoint_id.clone(),
            boot_counter: self.identity.boot_counter,
            agent_id: self.agent_id.clone(),
            fence: self.fence.clone(),
            info: self.identity.info.clone(),
            applied_seq: self.applied_seq,
            resources_digest: self.total.digest(),
            settled: self.settled.values().map(|ended| ended.settled.clone()).collect(),
            unavailable: self.unavailable.values().map(|found| found.volume.clone()).collect(),
            tasks: self.tasks.report(),
            executors: self.tasks.named_executors(),
        }
    }
}
