//! The state against a naive model of the whole: two agents that carry out their orders late, out
//! of step with each other and with failing CREATEs, that are unreachable or leave and come back,
//! calls and transactions with and without keys, a framework whose tasks come and go. The model
//! knows amounts in a map and nothing of conversions, folds or persistent maps; after every step
//! totals, volumes, operations, transactions, tasks and what they use have to be the same.

mod naive;

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest_state_machine::{StateMachineTest, prop_state_machine};

use resources::collection::Resources;
use resources::id::{LogIndex, OperationId, Seq, TaskId};
use resources::message::{Outcome, Settled};
use resources::task::{TaskReport, TaskState};
use resources::time::Timestamp;

use master::state::command::{Command, CommandKind};
use master::state::{Moment, Rejection, Response, State, codec};

use self::naive::{
    AGENTS, AgentModel, Amounts, Answer, Ask, DECLARED, Model, Order, Step, TaskStage,
};
use super::lines::{Line, command, registration};
use super::notation::list;
use super::schedulers::framework_id;

/// The state itself.
struct System {
    state: State,
    index: u64,
}

impl System {
    fn apply(&mut self, command: &Command) -> Response {
        self.index += 1;
        let at = Timestamp::from_nanos(self.index);
        let now = Moment { index: LogIndex(self.index), clock: at, wall: at };
        self.state.apply(now, command).0
    }

    fn line(&mut self, text: &str) -> Response {
        self.apply(&command(text))
    }

    fn ask(
        &mut self,
        steps: u64,
        asks: &[(usize, Ask)],
        together: bool,
        key: Option<u8>,
    ) -> Answer {
        let key = key.map_or_else(String::new, |key| format!(" key=k{key}"));
        let members = asks.iter().map(|(agent, ask)| {
            let (verb, words) = ask.words();
            if together {
                format!("c-S{agent} {verb} {words}")
            } else {
                format!("{verb} c-S{agent} 1-{steps} {words}")
            }
        });
        let members: Vec<String> = members.collect();
        let response = if together {
            self.line(&format!("transact 1-{steps} {}{key}", members.join(" | ")))
        } else {
            self.line(&format!("{}{key}", members[0]))
        };
        match response {
            Response::Accepted { operation_id, .. } => {
                Answer::Accepted(vec![operation_id.to_string()])
            }
            Response::Transacted { operation_ids, .. } => {
                Answer::Accepted(operation_ids.iter().map(ToString::to_string).collect())
            }
            Response::Rejected(Rejection::KeyReused { .. }) => Answer::OtherBody,
            Response::Rejected(Rejection::Member { position, .. }) => {
                Answer::Rejected(usize::try_from(position).unwrap())
            }
            Response::Rejected(_) => Answer::Rejected(0),
            other => panic!("{other}"),
        }
    }

    fn launch(&mut self, steps: u64, agent: usize, ask: &Ask) -> Answer {
        let (_, list) = ask.words();
        let given = self.state.agents().nth(agent).unwrap().next_seq;
        let task = format!("1-{steps}.1");
        let line = format!("accept 1-{steps} c-0000 c-S{agent} ads {list} | launch {task} {list}");
        let response = self.line(&line);
        assert!(matches!(response, Response::Judged { .. }), "{response}");
        let is_given = self.state.agents().nth(agent).unwrap().next_seq > given;
        if is_given { Answer::Accepted(Vec::new()) } else { Answer::Rejected(0) }
    }

    /// Tasks that live here and not in the model.
    fn ended(&self, agent: usize, model: &Model) -> Vec<TaskId> {
        let live = |order: &Order| order.task == TaskStage::Live;
        let tasks = model.agents[agent].tasks().filter(|(_, order)| live(order));
        let live: Vec<TaskId> =
            tasks.map(|(_, order)| TaskId::parse(&*order.id).unwrap()).collect();
        let agent = self.state.agents().nth(agent).unwrap();
        let known =
            agent.tasks.keys().map(|name| self.state.task(&name.framework_id, &name.task_id));
        let known = known.map(Option::unwrap).filter(|task| !task.is_ended());
        let gone = known.filter(|task| !live.contains(&task.task_id));
        gone.map(|task| task.task_id.clone()).collect()
    }

    fn report(&mut self, agent: usize, model: &AgentModel, upto: usize) {
        let orders = model.orders.iter().zip(1..).take(upto);
        let failed = orders.filter(|(order, _)| order.outcome == Some(false));
        let exceptions = failed.map(|(_, seq)| (Seq(seq), "no".to_owned())).collect();
        let line = command(&format!("confirm c-S{agent} {upto}"));
        let CommandKind::Confirm { agent_id, upto, .. } = line.kind else { panic!("a confirm") };
        let kind = CommandKind::Confirm { agent_id, upto, exceptions };
        assert_eq!(self.apply(&Command { kind, ..line }), Response::Done);
    }

    fn leave(&mut self, agent: usize, in_order: bool) {
        let is_counted = self.state.agents().nth(agent).unwrap().is_counted();
        if in_order && is_counted {
            assert_eq!(self.line(&format!("unregister c-S{agent}")), Response::Done);
        } else if is_counted {
            self.line(&format!("depart c-S{agent}@1"));
            let agent = self.state.agents().nth(agent).unwrap();
            let (agent_id, witness) = (agent.id.clone(), agent.presence.away().unwrap());
            let kind = CommandKind::MarkUnreachable { agent_id, witness };
            self.apply(&Command { kind, ..command("form c") });
        }
    }

    fn register(&mut self, agent: usize, model: &AgentModel) {
        let line = format!("register w{agent} declares={DECLARED} boot={}", model.boots);
        let mut registration = registration(&format!("w{agent}"), &Line::new(&line));
        let done = model.orders.iter().zip(1..).take(model.carried_out());
        registration.settled = done
            .map(|(order, seq)| Settled {
                seq: Seq(seq),
                operation_id: OperationId::parse(&*order.id).unwrap(),
                outcome: match order.outcome {
                    Some(true) => Outcome::Finished,
                    _ => Outcome::Failed { reason: "no".to_owned() },
                },
            })
            .collect();
        let running = model.tasks().filter(|(_, order)| order.outcome == Some(true));
        registration.tasks = running
            .map(|(_, order)| TaskReport {
                framework_id: framework_id("c-0000"),
                task_id: TaskId::parse(&*order.id).unwrap(),
                state: match order.task {
                    TaskStage::Live => TaskState::Running,
                    TaskStage::Ended | TaskStage::Forgotten => TaskState::Finished,
                },
            })
            .collect();
        registration.applied_seq = Seq(model.carried_out() as u64);
        registration.resources_digest = resources(&model.held).digest();
        let kind = CommandKind::RegisterAgent(Box::new(registration));
        let response = self.apply(&Command { kind, ..command(&line) });
        assert_eq!(response.to_string(), format!("registered c-S{agent} IN_STEP"));
    }
}

/// The notation of an amount.
fn text((name, role, id): &(&str, &str, &str), amount: i64) -> String {
    let role = if role.is_empty() { String::new() } else { format!("@{role}") };
    let id = if id.is_empty() { String::new() } else { format!("#{id}") };
    format!("{name}:{amount}{role}{id}")
}

fn resources(amounts: &Amounts) -> Resources {
    let texts = amounts.iter().map(|(key, amount)| text(key, *amount));
    texts.flat_map(|text| list(&text)).collect()
}

impl StateMachineTest for System {
    type SystemUnderTest = Self;
    type Reference = Model;

    fn init_test(model: &Model) -> Self {
        let mut system = Self { state: State::default(), index: 0 };
        system.line("form c");
        system.line("subscribe f1 roles=ads");
        for (agent, model) in model.agents.iter().enumerate() {
            system.register(agent, model);
        }
        system
    }

    fn apply(mut system: Self, model: &Model, step: Step) -> Self {
        match step {
            Step::Ask { asks, together, key } => {
                let answer = system.ask(model.steps, &asks, together, key);
                assert_eq!(Some(&answer), model.answer.as_ref());
            }
            Step::Launch { agent, ask } => {
                let answer = system.launch(model.steps, agent, &ask);
                assert_eq!(Some(&answer), model.answer.as_ref());
            }
            Step::Finish { agent, acknowledged, .. } => {
                // The model has moved on: whatever ended there ends here.
                let (framework_id, ended) = (framework_id("c-0000"), system.ended(agent, model));
                for task in ended {
                    system.line(&format!("status c-S{agent} c-0000 {task} TASK_FINISHED uuid=1"));
                    assert!(system.state.task(&framework_id, &task).unwrap().is_ended());
                    if acknowledged {
                        system.line(&format!("acknowledge c-0000 {task} uuid=1"));
                    }
                }
            }
            Step::CarryOut { .. } => {}
            Step::Leave { agent, in_order } => system.leave(agent, in_order),
            Step::Report { agent, ago: _ } if !model.agents[agent].is_counted => {}
            Step::Report { agent, ago } => {
                let known = &model.agents[agent];
                let ago = usize::try_from(ago).unwrap();
                system.report(agent, known, known.carried_out().saturating_sub(ago));
            }
            Step::Return { agent, .. } => system.register(agent, &model.agents[agent]),
            Step::Snapshot => {
                let thawed = codec::thaw(codec::chunks(&system.state.freeze())).unwrap();
                assert_eq!(thawed, system.state);
                system.state = thawed;
            }
        }
        system
    }

    fn check_invariants(system: &Self, model: &Model) {
        for (number, known) in model.agents.iter().enumerate() {
            let agent = system.state.agents().nth(number).unwrap();
            let expected = resources(&known.total());
            assert_eq!(agent.total, expected);
            assert!(agent.total.volumes().eq(expected.volumes()));
            assert_eq!(agent.total.quantities(), agent.base.quantities());
            assert_eq!(agent.is_counted(), known.is_counted);
            assert_eq!(agent.confirmed_seq, Seq(known.confirmed as u64));
            assert_eq!(agent.pending.size(), known.orders.len() - known.confirmed);
            assert_eq!(agent.used, resources(&known.used()));
            let tasks = agent.tasks.iter().map(|(name, launch)| (launch.0, name.task_id.as_str()));
            let tasks: BTreeMap<u64, &str> = tasks.collect();
            let expected = known.tasks().map(|(seq, order)| (seq, order.id.as_str()));
            assert_eq!(tasks, expected.collect());
            let mut version = 0;
            for order in known.orders.iter().filter(|o| !matches!(o.ask, Ask::Launch { .. })) {
                let id = OperationId::parse(&*order.id).unwrap();
                let record = system.state.operation(&id).unwrap();
                assert_eq!(record.state, order.state, "{}", order.id);
                assert_eq!(record.transaction_id.as_ref().map(|id| id.as_str()), {
                    order.transaction.as_deref()
                });
                version = version.max(record.index.0);
            }
            assert!(agent.resource_version >= version);
        }
        let transactions = system.state.transactions();
        let found = transactions.map(|record| (record.transaction_id.as_str(), record.state()));
        assert_eq!(found.collect::<BTreeMap<_, _>>(), model.transactions());
        assert_eq!(system.state.keys().len(), model.keys.len() as u64);
        assert_eq!(system.state.alarms().count(), 0);
    }

    /// Once every agent has done and reported everything, both sides are alike.
    fn teardown(mut system: Self, mut model: Model) {
        for number in 0..AGENTS {
            let agent = &mut model.agents[number];
            for _ in 0..agent.orders.len() {
                agent.carry_out(false);
            }
            agent.report(agent.orders.len());
            agent.is_counted = true;
            system.register(number, &model.agents[number]);
            system.report(number, &model.agents[number], model.agents[number].orders.len());
            let held = resources(&model.agents[number].held);
            let agent = system.state.agents().nth(number).unwrap();
            assert_eq!((&agent.total, &agent.confirmed()), (&held, &held));
        }
        Self::check_invariants(&system, &model);
    }
}

prop_state_machine! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn state_is_what_a_naive_model_says(sequential 1..90 => System);
}
