//! Scripts of the replicated state. Commands are those of `lines.rs`, and
//!
//! ```text
//! show AGENT · reservations AGENT · operations · transactions · alarms · keys
//! frameworks · tasks FRAMEWORK · feedback FRAMEWORK · instructions AGENT
//! completed FRAMEWORK        how many completed tasks of it are kept, and which
//! use AGENT                  what is used, by whom, and what is not confirmed
//! compare WORKDIR …          what the registration would come to, without writing it
//! help                       what the last refusal tells its reader
//! try AGENT VERB LIST | …    a dry run; of a transaction when there is more than one
//! pass SECONDS               cluster time passes
//! quotas · weights           what is on record, and what roles with quota consume
//! machines                   which are scheduled, and which of them are down
//! repeat N COMMAND           `#` counts from 1; shows the last answer
//! ```
//! After every line: the total is the fold, quantities are what the agent declares, what is
//! used is there, the snapshot thaws to the same state, and a dry run says what `apply` does.

use std::collections::BTreeSet;
use std::time::Duration;

use resources::collection::Resources;
use resources::conversion::fold;
use resources::id::{AgentId, FrameworkId, LogIndex, Seq};
use resources::quantity::Quantities;
use resources::resource::Resource;
use resources::role::Role;
use resources::time::Timestamp;

use master::state::command::{Command, CommandKind};
use master::state::dry_run::{Asked, DryRun, Together};
use master::state::reconcile::{Comparison, compare, surplus};
use master::state::{Effect, Moment, Rejection, Response, State, codec};

use super::lines::{Line, command, members, registration};
use super::schedulers::framework_id;

#[test]
fn state() {
    super::run_all("state", || {
        let mut play = Play::default();
        move |line: &str| play.line(line)
    });
}

#[derive(Default)]
pub(crate) struct Play {
    pub(crate) state: State,
    index: u64,
    clock: Timestamp,
    refused: Option<Rejection>,
}

impl Play {
    pub(crate) fn line(&mut self, text: &str) -> Vec<String> {
        let line = Line::new(text);
        match line.words[0] {
            "show" => return self.show(line.words[1]),
            "reservations" => return self.reservations(line.words[1]),
            "operations" => return self.state.operations().map(ToString::to_string).collect(),
            "transactions" => return self.state.transactions().map(ToString::to_string).collect(),
            "keys" => return vec![format!("{} keys", self.state.keys().len())],
            "alarms" => {
                let alarms = self.state.alarms();
                return alarms.map(|alarm| format!("{} {}", alarm.index, alarm.text)).collect();
            }
            "quotas" => return self.quotas(),
            "machines" => {
                let maintenance = self.state.maintenance();
                let machines = maintenance.machines().map(|(machine, when)| {
                    let is_down = maintenance.down.contains(machine);
                    let state = if is_down { "down" } else { "draining" };
                    format!("{machine} {state} from {} for {:?}", when.start_ns, when.duration_ns)
                });
                return machines.collect();
            }
            "weights" => {
                let weights = self.state.weights();
                return weights.map(|(role, weight)| format!("{role} {weight}")).collect();
            }
            "help" => return self.help(),
            "frameworks" => return self.frameworks(),
            "tasks" => return self.tasks(&framework_id(line.words[1])),
            "feedback" => {
                let id = framework_id(line.words[1]);
                let statuses = self.state.feedback(&id);
                return statuses.map(|status| status.to_string()).collect();
            }
            "instructions" => {
                let id = AgentId::parse(line.words[1]).unwrap();
                let asked = self.state.instructions(&id);
                return asked.map(|asked| asked.to_string()).collect();
            }
            "completed" => return self.completed(&framework_id(line.words[1])),
            "use" => return self.uses(&AgentId::parse(line.words[1]).unwrap()),
            "compare" => return self.compare(&line),
            "try" => return self.dry_run(text),
            "pass" => {
                self.clock = self.clock + Duration::from_secs(line.words[1].parse().unwrap());
                return Vec::new();
            }
            "repeat" => return self.repeat(text),
            _ => {}
        }
        self.clock = self.clock + Duration::from_secs(1);
        let (response, effects) = self.apply(&command(text));
        self.check();
        let effects = effects.iter().map(|effect| format!("  {effect}"));
        std::iter::once(format!("{} {response}", self.index)).chain(effects).collect()
    }

    pub(crate) fn apply(&mut self, command: &Command) -> (Response, Vec<Effect>) {
        self.index += 1;
        let now = Moment { index: LogIndex(self.index), clock: self.clock, wall: self.clock };
        let before = self.state.freeze();
        let foreseen = match &command.kind {
            CommandKind::SetRule(rule) => Some(before.check_rule(rule)),
            _ => asked(command).map(|asked| before.check(&asked)),
        };
        let (response, effects) = self.state.apply(now, command);
        if command.key.is_none()
            && let Some(foreseen) = foreseen
        {
            let is_duplicate = matches!(
                &response,
                Response::Rejected(rejection)
                    if matches!(rejection.root(), Rejection::DuplicateOperation { .. })
            );
            let refused = matches!(response, Response::Rejected(_));
            assert!(foreseen.is_err() == refused || is_duplicate, "the early check says otherwise");
        }
        if let Response::Rejected(rejection) = &response {
            self.refused = Some(rejection.clone());
            assert!(self.state.agents().eq(before.agents()), "a rejection changed an agent");
            assert!(self.state.operations().eq(before.operations()));
            assert!(self.state.transactions().eq(before.transactions()));
            assert!(self.state.frameworks().eq(before.frameworks()));
            assert!(self.state.quotas().eq(before.quotas()));
            assert_eq!(self.state.maintenance(), before.maintenance());
        }
        (response, effects)
    }

    fn repeat(&mut self, text: &str) -> Vec<String> {
        let mut parts = text.splitn(3, ' ').skip(1);
        let (times, pattern) = (parts.next().unwrap(), parts.next().unwrap());
        let mut last = None;
        for number in 1..=times.parse::<u64>().unwrap() {
            last = Some(self.apply(&command(&pattern.replace('#', &number.to_string()))).0);
        }
        self.check();
        last.map(|response| format!("{} {response}", self.index)).into_iter().collect()
    }

    fn show(&self, id: &str) -> Vec<String> {
        let Some(agent) = self.state.agent(&AgentId::parse(id).unwrap()) else {
            let gone = self.state.gone_agent(&AgentId::parse(id).unwrap());
            let told = gone.map(|gone| format!("gone at {}, held {}", gone.at, gone.held));
            return vec![told.unwrap_or_else(|| format!("no agent {id}"))];
        };
        let mut lines = vec![agent.to_string(), format!("  total {}", agent.total)];
        let confirmed = agent.confirmed();
        if confirmed != agent.total {
            lines.push(format!("  confirmed {confirmed}"));
        }
        if !agent.used.is_empty() {
            lines.push(format!("  used {}", agent.used));
        }
        lines.extend(agent.pending.values().map(|record| format!("  {record}")));
        lines
    }

    fn reservations(&self, id: &str) -> Vec<String> {
        let agent = self.state.agent(&AgentId::parse(id).unwrap()).unwrap();
        agent.reservations().map(|(id, _, held)| format!("{id} {held}")).collect()
    }

    fn frameworks(&self) -> Vec<String> {
        let live = self.state.frameworks().map(ToString::to_string);
        let removed = self.state.completed_frameworks().map(|framework| {
            assert!(self.state.removed_framework(&framework.id));
            format!("removed {}", framework.id)
        });
        live.chain(removed).collect()
    }

    fn tasks(&self, id: &FrameworkId) -> Vec<String> {
        let mut all = self.state.frameworks().chain(self.state.completed_frameworks());
        let framework = all.find(|framework| framework.id == *id).unwrap();
        let tasks = framework.tasks.values().map(ToString::to_string);
        let completed = framework.completed_tasks.values().map(|task| format!("completed {task}"));
        tasks.chain(completed).collect()
    }

    fn completed(&self, id: &FrameworkId) -> Vec<String> {
        let kept = &self.state.framework(id).unwrap().completed_tasks;
        let (first, last) = (kept.first().unwrap().1, kept.last().unwrap().1);
        vec![format!("{} completed, {} to {}", kept.size(), first.task_id, last.task_id)]
    }

    fn uses(&self, id: &AgentId) -> Vec<String> {
        let agent = self.state.agent(id).unwrap();
        let by = agent.used_by.iter().map(|((id, role), used)| format!("{id} as {role}: {used}"));
        let executors = agent.executors.keys().map(|name| format!("executor {name}"));
        let mut lines: Vec<String> = by.chain(executors).collect();
        lines.push(format!("unconfirmed {}", agent.unconfirmed()));
        lines
    }

    fn compare(&self, line: &Line<'_>) -> Vec<String> {
        let registration = registration(line.words[1], line);
        let outcome = match compare(&self.state, &registration) {
            Comparison::Admit => "admit",
            Comparison::Unchanged { .. } => "unchanged",
            Comparison::Confirm { .. } => "confirm",
            Comparison::Change(_) => "change",
            Comparison::Refuse(_) => "refuse",
        };
        let asked = surplus(&self.state, &registration);
        let asked = asked.iter().map(|asked| format!("  instruct {asked}"));
        std::iter::once(outcome.to_owned()).chain(asked).collect()
    }

    fn quotas(&self) -> Vec<String> {
        let consumption = self.state.consumption(self.state.quotas().map(|(role, _)| role));
        let quotas = self.state.quotas().map(|(role, quota)| {
            let consumed = consumption[role].iter();
            let consumed: Vec<String> =
                consumed.map(|(name, amount)| format!("{name}:{amount}")).collect();
            let consumed =
                if consumed.is_empty() { "nothing".to_owned() } else { consumed.join(";") };
            format!("{role} {quota} consumes {consumed}")
        });
        quotas.collect()
    }

    /// Consumption is what is reserved for a role or below it, and what is used there of the
    /// rest.
    fn check_consumption(&self) {
        let at = |role: &Role, top: &Role| role == top || role.is_strict_subrole_of(top);
        let tops: BTreeSet<Role> = self
            .state
            .agents()
            .flat_map(|agent| agent.total.iter().filter_map(Resource::reservation_role))
            .map(|role| role.ancestors().last().unwrap_or_else(|| role.clone()))
            .collect();
        for (top, consumed) in self.state.consumption(&tops) {
            let mut sum = Quantities::default();
            for agent in self.state.counted_agents() {
                let is_own = |r: &Resource| r.reservation_role().is_some_and(|role| at(role, &top));
                let is_scalar = |r: &Resource| r.value.as_scalar().is_some();
                let reserved = agent.total.filter(|r| is_scalar(r) && is_own(r));
                sum.add(&Quantities::from(&reserved));
                for ((_, role), used) in agent.used_by.iter() {
                    let plain = used.filter(|r| is_scalar(r) && !r.is_reserved() && !r.revocable);
                    if !at(role, &top) {
                        continue;
                    }
                    sum.add(&Quantities::from(&plain));
                }
            }
            assert_eq!(consumed, sum, "{top}");
        }
    }

    fn help(&self) -> Vec<String> {
        let refused = self.refused.as_ref().unwrap();
        vec![
            format!("{} wanted [{}]", refused.object(), refused.wanted().join("; ")),
            format!("  available [{}]", refused.available().join("; ")),
            format!("  blocked by [{}]", refused.blocked_by().join("; ")),
            format!("  hint: {}", refused.hint()),
        ]
    }

    fn dry_run(&self, text: &str) -> Vec<String> {
        let (line, members) = (Line::new(text), members(text, 1));
        let principal = line.principal();
        let asked = Asked {
            principal: principal.as_ref(),
            if_versions: line.versions(),
            operations: members.iter().map(|(id, operation)| (id, operation)).collect(),
            together: if members.len() == 1 { Together::No } else { Together::Yes },
        };
        let DryRun { changes, failing } = self.state.dry_run(&asked);
        let failing = failing.iter().map(|failed| match failed.position {
            Some(position) => format!("operations[{position}]: {}", failed.rejection),
            None => failed.rejection.to_string(),
        });
        let changes = changes.iter().flat_map(|change| {
            let head = format!("{} at version {}", change.agent_id, change.resource_version);
            let removed = change.removed.iter().map(|resource| format!("  - {resource}"));
            let added = change.added.iter().map(|resource| format!("  + {resource}"));
            std::iter::once(head).chain(removed).chain(added)
        });
        failing.chain(changes).collect()
    }

    pub(crate) fn check(&self) {
        for agent in self.state.agents() {
            let open = agent.pending.values().filter(|record| !record.is_settled());
            let fold = fold(agent.confirmed(), open.map(|record| &record.operation));
            assert_eq!((&fold.total, fold.failed.as_slice()), (&agent.total, [].as_slice()));
            assert_eq!(agent.total.quantities(), agent.base.quantities());
            let given = (agent.confirmed_seq.0 + 1..agent.next_seq.0).map(Seq);
            assert!(agent.pending.keys().copied().eq(given), "orders are dense");
            for (used, count) in agent.used.entries() {
                let count = if used.shared { 1 } else { count };
                let used: Resources = vec![(used.clone(), count)].into();
                assert!(agent.total.contains(&used), "{used} is used and not there");
            }
        }
        self.check_consumption();
        let thawed = codec::thaw(codec::chunks(&self.state.freeze())).unwrap();
        assert_eq!(thawed, self.state);
    }
}

/// What the leader would ask the state before it proposes the command.
fn asked(command: &Command) -> Option<Asked<'_>> {
    let (operations, together) = match &command.kind {
        CommandKind::Operate { agent_id, operation, .. } => {
            (vec![(agent_id, operation)], Together::No)
        }
        CommandKind::Transact { members, .. } => {
            (members.iter().map(|m| (&m.agent_id, &m.operation)).collect(), Together::Yes)
        }
        _ => return None,
    };
    let principal = command.principal.as_ref();
    Some(Asked { principal, if_versions: command.if_versions.clone(), operations, together })
}
