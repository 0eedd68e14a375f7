//! The naive model: amounts in a map, orders in a list, and everything folded from the beginning
//! whenever something is asked. Must not use what it is a model of.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest_state_machine::ReferenceStateMachine;

use master::state::{OperationState, TransactionState};

pub(super) const AGENTS: usize = 2;
pub(super) const DECLARED: &str = "cpus:6;disk:60";

/// What an operator asks. Roles are `ads` and `web`; amounts are small, so that they meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ask {
    Reserve {
        name: &'static str,
        role: &'static str,
        amount: i64,
    },
    Unreserve {
        name: &'static str,
        role: &'static str,
        amount: i64,
    },
    Move {
        role: &'static str,
        to: &'static str,
        amount: i64,
    },
    Create {
        role: &'static str,
        id: &'static str,
        size: i64,
    },
    Destroy {
        role: &'static str,
        id: &'static str,
        size: i64,
    },
    Grow {
        role: &'static str,
        id: &'static str,
        size: i64,
        by: i64,
    },
    Shrink {
        role: &'static str,
        id: &'static str,
        size: i64,
        by: i64,
    },
    /// A framework's: a task that uses this, alone on its order.
    Launch {
        name: &'static str,
        role: &'static str,
        id: &'static str,
        amount: i64,
    },
}

impl Ask {
    /// The line of a script, without agent and operation id.
    pub(super) fn words(&self) -> (&'static str, String) {
        match self {
            Self::Reserve { name, role, amount } => ("reserve", format!("{name}:{amount}@{role}")),
            Self::Unreserve { name, role, amount } => {
                ("unreserve", format!("{name}:{amount}@{role}"))
            }
            Self::Move { role, to, amount } => {
                ("reserve", format!("disk:{amount}@{to} from=disk:{amount}@{role}"))
            }
            Self::Create { role, id, size } => ("create", format!("disk:{size}@{role}#{id}")),
            Self::Destroy { role, id, size } => ("destroy", format!("disk:{size}@{role}#{id}")),
            Self::Grow { role, id, size, by } => {
                ("grow", format!("disk:{size}@{role}#{id} by=disk:{by}@{role}"))
            }
            Self::Shrink { role, id, size, by } => {
                ("shrink", format!("disk:{size}@{role}#{id} by={by}"))
            }
            Self::Launch { name, role, id, amount } => {
                ("launch", super::text(&(name, role, id), *amount))
            }
        }
    }
    /// Form is judged before any key is looked at.
    pub(super) fn is_malformed(&self) -> bool {
        matches!(self, Self::Shrink { size, by, .. } if by >= size)
    }
    fn may_fail(&self) -> bool {
        matches!(self, Self::Create { .. })
    }
}

/// Amounts by name, role and volume.
pub(super) type Amounts = BTreeMap<(&'static str, &'static str, &'static str), i64>;

/// Does what is asked, or says that it cannot be done.
fn run(amounts: &mut Amounts, ask: &Ask) -> bool {
    let get = |amounts: &Amounts, key| amounts.get(&key).copied().unwrap_or_default();
    let shift = |amounts: &mut Amounts, from, to, amount| {
        if get(amounts, from) < amount {
            return false;
        }
        *amounts.entry(from).or_default() -= amount;
        *amounts.entry(to).or_default() += amount;
        amounts.retain(|_, amount| *amount > 0);
        true
    };
    match *ask {
        Ask::Reserve { name, role, amount } => {
            shift(amounts, (name, "", ""), (name, role, ""), amount)
        }
        Ask::Unreserve { name, role, amount } => {
            shift(amounts, (name, role, ""), (name, "", ""), amount)
        }
        Ask::Move { role, to, amount } => {
            shift(amounts, ("disk", role, ""), ("disk", to, ""), amount)
        }
        Ask::Create { role, id, size } => {
            get(amounts, ("disk", role, id)) == 0
                && shift(amounts, ("disk", role, ""), ("disk", role, id), size)
        }
        Ask::Destroy { role, id, size } => {
            get(amounts, ("disk", role, id)) == size
                && shift(amounts, ("disk", role, id), ("disk", role, ""), size)
        }
        Ask::Grow { role, id, size, by } => {
            get(amounts, ("disk", role, id)) == size
                && shift(amounts, ("disk", role, ""), ("disk", role, id), by)
        }
        Ask::Shrink { role, id, size, by } => {
            get(amounts, ("disk", role, id)) == size
                && by < size
                && shift(amounts, ("disk", role, id), ("disk", role, ""), by)
        }
        // What it uses has to be there, a volume as a whole, and stays.
        Ask::Launch { name, role, id, amount } => {
            let there = get(amounts, (name, role, id));
            if id.is_empty() { there >= amount } else { there == amount }
        }
    }
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    /// A call; with several operations a transaction. The key is one of few, so that they meet.
    Ask { asks: Vec<(usize, Ask)>, together: bool, key: Option<u8> },
    /// A framework launches a task on what it was offered.
    Launch { agent: usize, ask: Ask },
    /// One of its tasks ends, and that is acknowledged at once or not.
    Finish { agent: usize, task: usize, acknowledged: bool },
    /// An agent carries out its next order; a CREATE fails if so.
    CarryOut { agent: usize, fails: bool },
    /// It reports, or repeats a report of `ago` orders before.
    Report { agent: usize, ago: u64 },
    /// It is silent until it is unreachable, and goes on all the same; or it leaves in order.
    Leave { agent: usize, in_order: bool },
    /// It comes back on a new stream, perhaps after a restart.
    Return { agent: usize, restarts: bool, loses_tasks: bool },
    /// The state goes through a snapshot.
    Snapshot,
}

#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) id: String,
    pub(super) ask: Ask,
    pub(super) transaction: Option<String>,
    /// On the agent.
    pub(super) outcome: Option<bool>,
    /// On record.
    pub(super) state: OperationState,
    /// Of a launch: where its task stands.
    pub(super) task: TaskStage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskStage {
    Live,
    /// Ended, and that is not acknowledged.
    Ended,
    Forgotten,
}

#[derive(Debug, Clone)]
pub(super) struct AgentModel {
    pub(super) orders: Vec<Order>,
    pub(super) confirmed: usize,
    pub(super) boots: u64,
    /// Whether it is there for those who ask something of it.
    pub(super) is_counted: bool,
    /// What the agent has.
    pub(super) held: Amounts,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Accepted(Vec<String>),
    /// Of which operation.
    Rejected(usize),
    OtherBody,
}

#[derive(Debug, Clone)]
pub(super) struct Model {
    pub(super) steps: u64,
    pub(super) agents: Vec<AgentModel>,
    pub(super) keys: BTreeMap<u8, (String, Answer)>,
    /// What the last step has to be answered.
    pub(super) answer: Option<Answer>,
}

impl AgentModel {
    fn new() -> Self {
        let held = Amounts::from([(("cpus", "", ""), 6), (("disk", "", ""), 60)]);
        Self { orders: Vec::new(), confirmed: 0, boots: 1, is_counted: true, held }
    }

    pub(super) fn carried_out(&self) -> usize {
        self.orders.iter().take_while(|order| order.outcome.is_some()).count()
    }

    /// Everything that has not failed, from the beginning.
    pub(super) fn total(&self) -> Amounts {
        self.folded(self.orders.len())
    }

    /// What tasks use.
    pub(super) fn used(&self) -> Amounts {
        let mut used = Amounts::new();
        for (_, order) in self.tasks().filter(|(_, order)| order.task == TaskStage::Live) {
            if let Ask::Launch { name, role, id, amount } = order.ask {
                *used.entry((name, role, id)).or_default() += amount;
            }
        }
        used
    }

    /// What nobody uses.
    fn free(&self) -> Amounts {
        let mut free = self.total();
        for (key, amount) in self.used() {
            *free.entry(key).or_default() -= amount;
        }
        assert!(free.values().all(|amount| *amount >= 0), "what is used is there");
        free.retain(|_, amount| *amount > 0);
        free
    }

    /// Launches whose tasks are not forgotten, and their numbers.
    pub(super) fn tasks(&self) -> impl Iterator<Item = (u64, &Order)> {
        let numbered = (1..).zip(&self.orders);
        numbered.filter(|(_, order)| {
            matches!(order.ask, Ask::Launch { .. }) && order.task != TaskStage::Forgotten
        })
    }

    /// Tasks that run there, by the place of their orders.
    pub(super) fn running(&self) -> Vec<usize> {
        let running = self.orders.iter().enumerate().filter(|(_, order)| {
            matches!(order.ask, Ask::Launch { .. })
                && order.outcome == Some(true)
                && order.task == TaskStage::Live
        });
        running.map(|(at, _)| at).collect()
    }

    fn folded(&self, upto: usize) -> Amounts {
        let mut total = Self::new().held;
        for order in self.orders[..upto].iter().filter(|o| o.state != OperationState::Failed) {
            assert!(run(&mut total, &order.ask), "has not failed and does not fit: {order:?}");
        }
        total
    }

    pub(super) fn carry_out(&mut self, fails: bool) {
        let at = self.carried_out();
        let Some(order) = self.orders.get_mut(at) else { return };
        let done = !(fails && order.ask.may_fail()) && run(&mut self.held, &order.ask);
        order.outcome = Some(done);
    }

    /// Tasks of an agent that left in order are over, those of another are kept for its return.
    fn leave(&mut self, in_order: bool) {
        if in_order && self.is_counted {
            self.orders.iter_mut().for_each(|order| order.task = TaskStage::Forgotten);
        }
        self.is_counted = false;
    }

    pub(super) fn report(&mut self, upto: usize) {
        for order in self.orders.iter_mut().take(upto).skip(self.confirmed) {
            let is_done = order.outcome == Some(true);
            order.state = if is_done { OperationState::Finished } else { OperationState::Failed };
        }
        self.confirmed = self.confirmed.max(upto);
        // Whatever needed something that failed fails too.
        for at in self.confirmed..self.orders.len() {
            let mut before = self.folded(at);
            if self.orders[at].state == OperationState::Pending
                && !run(&mut before, &self.orders[at].ask)
            {
                self.orders[at].state = OperationState::Failed;
            }
        }
        for order in self.orders.iter_mut().filter(|o| o.state == OperationState::Failed) {
            order.task = TaskStage::Forgotten;
        }
    }
}

fn asks() -> impl Strategy<Value = Ask> {
    let role = || prop_oneof![3 => Just("ads"), 1 => Just("web")];
    let name = prop_oneof![1 => Just("cpus"), 3 => Just("disk")];
    let id = || prop_oneof![Just("v1"), Just("v2"), Just("v3")];
    let amount = || prop_oneof![1i64..4, Just(10), Just(20)];
    let sized = move || (role(), id(), prop_oneof![Just(10i64), Just(11), Just(9), Just(20)]);
    prop_oneof![
        4 => (name.clone(), role(), amount())
            .prop_map(|(name, role, amount)| Ask::Reserve { name, role, amount }),
        2 => (name, role(), amount())
            .prop_map(|(name, role, amount)| Ask::Unreserve { name, role, amount }),
        1 => amount().prop_map(|amount| Ask::Move { role: "ads", to: "web", amount }),
        4 => sized().prop_map(|(role, id, size)| Ask::Create { role, id, size }),
        2 => sized().prop_map(|(role, id, size)| Ask::Destroy { role, id, size }),
        2 => (sized(), 1i64..3).prop_map(|((role, id, size), by)| Ask::Grow { role, id, size, by }),
        2 => (sized(), 1i64..12)
            .prop_map(|((role, id, size), by)| Ask::Shrink { role, id, size, by }),
    ]
}

impl ReferenceStateMachine for Model {
    type State = Self;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Self> {
        let agents = vec![AgentModel::new(); AGENTS];
        Just(Self { steps: 0, agents, keys: BTreeMap::new(), answer: None }).boxed()
    }

    fn transitions(model: &Self) -> BoxedStrategy<Step> {
        let agent = || 0..AGENTS;
        let key = || prop::option::weighted(0.15, 0u8..6);
        let fitting = || prop::sample::select(model.fitting());
        // Mostly what fits by itself; now and then anything.
        let ask = || prop_oneof![5 => fitting(), 1 => (agent(), asks())];
        prop_oneof![
            6 => (ask(), key())
                .prop_map(|(ask, key)| Step::Ask { asks: vec![ask], together: false, key }),
            1 => (agent(), asks(), key()).prop_map(|(agent, ask, key)| {
                Step::Ask { asks: vec![(agent, ask)], together: false, key }
            }),
            4 => (prop::collection::vec(fitting(), 1..4), key())
                .prop_map(|(asks, key)| Step::Ask { asks, together: true, key }),
            1 => (prop::collection::vec(ask(), 1..5), key())
                .prop_map(|(asks, key)| Step::Ask { asks, together: true, key }),
            6 => (agent(), prop::bool::weighted(0.4))
                .prop_map(|(agent, fails)| Step::CarryOut { agent, fails }),
            2 => (agent(), 0u64..3).prop_map(|(agent, ago)| Step::Report { agent, ago }),
            1 => (agent(), any::<bool>())
                .prop_map(|(agent, in_order)| Step::Leave { agent, in_order }),
            2 => (agent(), any::<bool>(), prop::bool::weighted(0.3)).prop_map(
                |(agent, restarts, loses_tasks)| Step::Return { agent, restarts, loses_tasks }
            ),
            3 => prop::sample::select(model.launches())
                .prop_map(|(agent, ask)| Step::Launch { agent, ask }),
            2 => (agent(), 0usize..8, any::<bool>()).prop_map(|(agent, task, acknowledged)| {
                Step::Finish { agent, task, acknowledged }
            }),
            1 => Just(Step::Snapshot),
        ]
        .boxed()
    }

    fn apply(mut model: Self, step: &Step) -> Self {
        model.steps += 1;
        model.answer = None;
        match step {
            Step::Ask { asks, together, key } => {
                model.answer = Some(model.keyed(asks, *together, *key));
            }
            Step::Launch { agent, ask } => {
                let known = &model.agents[*agent];
                let fits = known.is_counted && run(&mut known.free(), ask);
                if fits {
                    let id = format!("1-{}.1", model.steps);
                    model.agents[*agent].orders.push(Order::new(id, ask.clone(), None));
                }
                model.answer =
                    Some(if fits { Answer::Accepted(Vec::new()) } else { Answer::Rejected(0) });
            }
            Step::Finish { agent, task, acknowledged } => {
                let known = &model.agents[*agent];
                let running = if known.is_counted { known.running() } else { Vec::new() };
                if let Some(at) = running.get(*task % running.len().max(1)) {
                    model.agents[*agent].orders[*at].task =
                        if *acknowledged { TaskStage::Forgotten } else { TaskStage::Ended };
                }
            }
            Step::CarryOut { agent, fails } => model.agents[*agent].carry_out(*fails),
            Step::Report { agent, ago: _ } if !model.agents[*agent].is_counted => {}
            Step::Report { agent, ago } => {
                let agent = &mut model.agents[*agent];
                let upto = agent.carried_out().saturating_sub(usize::try_from(*ago).unwrap());
                agent.report(upto);
            }
            Step::Return { agent, restarts, loses_tasks } => {
                let agent = &mut model.agents[*agent];
                agent.boots += u64::from(*restarts);
                agent.is_counted = true;
                agent.report(agent.carried_out());
                if *loses_tasks {
                    let confirmed = agent.confirmed;
                    for order in &mut agent.orders[..confirmed] {
                        order.task = TaskStage::Forgotten;
                    }
                }
            }
            Step::Leave { agent, in_order } => model.agents[*agent].leave(*in_order),
            Step::Snapshot => {}
        }
        model
    }
}

impl Order {
    fn new(id: String, ask: Ask, transaction: Option<String>) -> Self {
        let (outcome, state, task) = (None, OperationState::Pending, TaskStage::Live);
        Self { id, ask, transaction, outcome, state, task }
    }
}

impl Model {
    /// What can be launched; sometimes more than is free.
    fn launches(&self) -> Vec<(usize, Ask)> {
        let mut launches = vec![(0, Ask::Launch { name: "cpus", role: "", id: "", amount: 5 })];
        for (number, agent) in self.agents.iter().enumerate() {
            for ((name, role, id), there) in agent.free() {
                let amount = if id.is_empty() { there.min(2) } else { there };
                launches.push((number, Ask::Launch { name, role, id, amount }));
            }
        }
        launches
    }

    /// What can be done on an agent as it is now.
    fn fitting(&self) -> Vec<(usize, Ask)> {
        let ask = Ask::Reserve { name: "cpus", role: "web", amount: 1 };
        let mut fitting = vec![(0, ask)];
        for (number, agent) in self.agents.iter().enumerate().filter(|(_, a)| a.is_counted) {
            let (total, free) = (agent.total(), agent.free());
            let mut asks = vec![
                Ask::Reserve { name: "disk", role: "ads", amount: 20 },
                Ask::Reserve { name: "disk", role: "web", amount: 10 },
                Ask::Reserve { name: "cpus", role: "ads", amount: 1 },
                Ask::Unreserve { name: "disk", role: "ads", amount: 5 },
                Ask::Unreserve { name: "cpus", role: "ads", amount: 1 },
                Ask::Move { role: "ads", to: "web", amount: 3 },
            ];
            for (role, id) in [("ads", "v1"), ("ads", "v2"), ("web", "v1"), ("web", "v3")] {
                let size = total.get(&("disk", role, id)).copied().unwrap_or_default();
                asks.extend([
                    Ask::Create { role, id, size: 10 },
                    Ask::Create { role, id, size: 10 },
                    Ask::Destroy { role, id, size },
                    Ask::Grow { role, id, size, by: 2 },
                    Ask::Shrink { role, id, size, by: 1 },
                ]);
            }
            asks.retain(|ask| {
                let is_empty =
                    matches!(ask, Ask::Destroy { size: 0, .. } | Ask::Grow { size: 0, .. });
                // A volume in use is not free, and its name is taken all the same.
                let fits = run(&mut total.clone(), ask) && run(&mut free.clone(), ask);
                !is_empty && !ask.is_malformed() && fits
            });
            fitting.extend(asks.into_iter().map(|ask| (number, ask)));
        }
        fitting
    }

    fn keyed(&mut self, asks: &[(usize, Ask)], together: bool, key: Option<u8>) -> Answer {
        let body = format!("{together} {asks:?}");
        if let Some((known, answer)) = key.and_then(|key| self.keys.get(&key)) {
            return if *known == body { answer.clone() } else { Answer::OtherBody };
        }
        let answer = self.decide(asks, together);
        // Of an agent that is not there nothing is looked at.
        let is_form = |at: usize| asks[at].1.is_malformed() && self.agents[asks[at].0].is_counted;
        let is_kept = !matches!(answer, Answer::Rejected(at) if is_form(at));
        if let Some(key) = key.filter(|_| is_kept) {
            self.keys.insert(key, (body, answer.clone()));
        }
        answer
    }

    fn decide(&mut self, asks: &[(usize, Ask)], together: bool) -> Answer {
        let both = |agent: &AgentModel| (agent.total(), agent.free());
        let mut amounts: Vec<(Amounts, Amounts)> = self.agents.iter().map(both).collect();
        let mut ids = Vec::new();
        for (at, (agent, ask)) in asks.iter().enumerate() {
            let (total, free) = &mut amounts[*agent];
            if !self.agents[*agent].is_counted {
                return Answer::Rejected(at);
            }
            if ask.is_malformed() || !(run(total, ask) && run(free, ask)) {
                return Answer::Rejected(at);
            }
            ids.push(if together {
                format!("1-{}.{}", self.steps, at + 1)
            } else {
                format!("1-{}", self.steps)
            });
        }
        for ((agent, ask), id) in asks.iter().zip(&ids) {
            let transaction = together.then(|| format!("1-{}", self.steps));
            let order = Order::new(id.clone(), ask.clone(), transaction);
            self.agents[*agent].orders.push(order);
        }
        Answer::Accepted(ids)
    }

    pub(super) fn transactions(&self) -> BTreeMap<&str, TransactionState> {
        let mut members: BTreeMap<&str, Vec<OperationState>> = BTreeMap::new();
        for order in self.agents.iter().flat_map(|agent| &agent.orders) {
            if let Some(id) = &order.transaction {
                members.entry(id).or_default().push(order.state);
            }
        }
        let state = |states: Vec<OperationState>| {
            let count = |wanted| states.iter().filter(|state| **state == wanted).count();
            match (count(OperationState::Failed), count(OperationState::Pending)) {
                (0, 0) => TransactionState::Finished,
                (0, _) => TransactionState::Committed,
                (failed, _) if failed == states.len() => TransactionState::Failed,
                _ => TransactionState::Partial,
            }
        };
        members.into_iter().map(|(id, states)| (id, state(states))).collect()
    }
}
