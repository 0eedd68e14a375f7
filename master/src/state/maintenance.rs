//! Maintenance of machines: which are scheduled to be out of service, which are down, and what
//! becomes of their agents (spec §5.2). A machine of the schedule that is not down drains: its
//! agents' offers say when it goes. What an agent of a machine that is down has reserved and
//! created stays on record; its tasks are lost. Next: `operations.rs`.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use resources::id::AgentId;
use resources::machine::{MachineId, Unavailability, Window, check_machines, check_schedule};
use resources::message::{AgentInfo, Instruction};
use resources::task::{StatusReason, TaskState};
use serde::{Deserialize, Serialize};

use super::agents::Agent;
use super::command::{Change, Effect};
use super::presence::Presence;
use super::rejection::{MaintenanceRefusal, Rejection};
use super::tasks::once_per_agent;
use super::{Moment, State};

/// What is on record of machines.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Maintenance {
    /// The schedule.
    #[serde(default)]
    pub windows: Vec<Window>,
    /// Machines of the schedule that are down.
    #[serde(default)]
    pub down: BTreeSet<MachineId>,
}

impl Maintenance {
    /// Whether nothing is scheduled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.windows.is_empty() && self.down.is_empty()
    }
    /// Machines of the schedule, with the time of each.
    pub fn machines(&self) -> impl Iterator<Item = (&MachineId, &Unavailability)> {
        let windows = self.windows.iter();
        windows.flat_map(|w| w.machines.iter().map(move |machine| (machine, &w.unavailability)))
    }
    /// Those of them that are not down.
    pub fn draining(&self) -> impl Iterator<Item = (&MachineId, &Unavailability)> {
        self.machines().filter(|(machine, _)| !self.down.contains(machine))
    }
}

/// A change of the maintenance of machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MaintenanceUpdate {
    /// Another schedule, in place of the one that there is.
    Schedule(Vec<Window>),
    /// Machines of the schedule go down.
    Start(Vec<MachineId>),
    /// Machines that are down come up, and leave the schedule.
    Stop(Vec<MachineId>),
}

impl MaintenanceUpdate {
    pub(super) fn check_form(&self) -> Result<(), Rejection> {
        let checked = match self {
            Self::Schedule(windows) => check_schedule(windows),
            Self::Start(machines) | Self::Stop(machines) => check_machines(machines),
        };
        checked.map_err(|why| refuse(MaintenanceRefusal::Invalid { reason: why.to_string() }))
    }
}

impl fmt::Display for MaintenanceUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |machines: &[MachineId]| {
            let names: Vec<String> = machines.iter().map(ToString::to_string).collect();
            names.join(", ")
        };
        match self {
            Self::Schedule(windows) => {
                f.write_str("schedule-maintenance")?;
                windows.iter().try_for_each(|window| {
                    write!(
                        f,
                        " [{} from {}",
                        list(&window.machines),
                        window.unavailability.start_ns
                    )?;
                    match window.unavailability.duration_ns {
                        Some(duration) => write!(f, " for {duration}]"),
                        None => f.write_str("]"),
                    }
                })
            }
            Self::Start(machines) => write!(f, "start-maintenance {}", list(machines)),
            Self::Stop(machines) => write!(f, "stop-maintenance {}", list(machines)),
        }
    }
}

fn refuse(refusal: MaintenanceRefusal) -> Rejection {
    Rejection::Maintenance { refusal }
}

/// Looking up.
impl State {
    /// What is on record of machines.
    #[must_use]
    pub fn maintenance(&self) -> &Maintenance {
        &self.maintenance
    }
    /// When an agent's machine is out of service, if that is scheduled and it is not down.
    #[must_use]
    pub fn unavailability(&self, agent: &AgentInfo) -> Option<Unavailability> {
        let mut draining = self.maintenance.draining();
        let found = draining.find(|(machine, _)| machine.has(&agent.hostname, &agent.host));
        found.map(|(_, unavailability)| *unavailability)
    }
    /// The machine of an agent, if it is down.
    #[must_use]
    pub fn machine_down(&self, agent: &AgentInfo) -> Option<&MachineId> {
        let mut down = self.maintenance.down.iter();
        down.find(|machine| machine.has(&agent.hostname, &agent.host))
    }
    fn agents_of(&self, is_meant: impl Fn(&AgentInfo) -> bool) -> Vec<AgentId> {
        let meant = self.agents().filter(|agent| is_meant(&agent.info));
        meant.map(|agent| agent.id.clone()).collect()
    }
}

/// Changing.
impl State {
    pub(super) fn check_maintenance(&self, update: &MaintenanceUpdate) -> Result<(), Rejection> {
        update.check_form()?;
        let Maintenance { down, .. } = self.maintenance();
        match update {
            MaintenanceUpdate::Schedule(windows) => {
                let named: BTreeSet<&MachineId> =
                    windows.iter().flat_map(|window| &window.machines).collect();
                match down.iter().find(|machine| !named.contains(machine)) {
                    Some(machine) => {
                        let machine = machine.clone();
                        Err(refuse(MaintenanceRefusal::Dropped { machine }))
                    }
                    None => Ok(()),
                }
            }
            MaintenanceUpdate::Start(machines) => {
                let draining: BTreeSet<&MachineId> =
                    self.maintenance.draining().map(|(machine, _)| machine).collect();
                match machines.iter().find(|machine| !draining.contains(machine)) {
                    Some(machine) => {
                        let machine = machine.clone();
                        Err(refuse(MaintenanceRefusal::NotDraining { machine }))
                    }
                    None => Ok(()),
                }
            }
            MaintenanceUpdate::Stop(machines) => {
                match machines.iter().find(|machine| !down.contains(machine)) {
                    Some(machine) => {
                        let machine = machine.clone();
                        Err(refuse(MaintenanceRefusal::NotDown { machine }))
                    }
                    None => Ok(()),
                }
            }
        }
    }

    pub(super) fn set_maintenance(
        &mut self,
        now: Moment,
        update: &MaintenanceUpdate,
    ) -> Vec<Effect> {
        match update {
            MaintenanceUpdate::Schedule(windows) => {
                let before = Arc::clone(&self.maintenance);
                Arc::make_mut(&mut self.maintenance).windows.clone_from(windows);
                let is_on = |list: &Maintenance, info: &AgentInfo| {
                    let mut machines = list.machines();
                    machines.any(|(machine, _)| machine.has(&info.hostname, &info.host))
                };
                let moved =
                    self.agents_of(|info| is_on(&before, info) || is_on(&self.maintenance, info));
                vec![Effect::Change(Change::MaintenanceScheduled(moved))]
            }
            MaintenanceUpdate::Start(machines) => {
                let maintenance = Arc::make_mut(&mut self.maintenance);
                maintenance.down.extend(machines.iter().cloned());
                let gone = self.agents_of(|info| {
                    machines.iter().any(|machine| machine.has(&info.hostname, &info.host))
                });
                self.shut_down_agents(now, &gone)
            }
            MaintenanceUpdate::Stop(machines) => {
                let maintenance = Arc::make_mut(&mut self.maintenance);
                for machine in machines {
                    maintenance.down.remove(machine);
                    for window in &mut maintenance.windows {
                        window.machines.retain(|other| other != machine);
                    }
                }
                maintenance.windows.retain(|window| !window.machines.is_empty());
                vec![Effect::Change(Change::MachinesUp(machines.clone()))]
            }
        }
    }

    /// Agents whose machines go down: their tasks are lost, whatever their frameworks can cope
    /// with, and asked to end while they can hear it. Every framework hears of the agents.
    fn shut_down_agents(&mut self, now: Moment, agents: &[AgentId]) -> Vec<Effect> {
        let mut effects = Vec::new();
        for agent_id in agents {
            let Some(agent) = self.agent(agent_id).cloned() else { continue };
            effects.extend(endings(&agent));
            for name in agent.tasks.keys() {
                let why = "its machine is down for maintenance".to_owned();
                let why = (StatusReason::AgentRemoved, why);
                effects.extend(self.end_task(name, TaskState::Lost, why, now.wall));
            }
            for name in agent.executors.keys() {
                self.remove_executor(agent_id, name);
            }
            if let Some(agent) = self.agent_mut(agent_id).filter(|agent| agent.is_counted()) {
                agent.presence = Presence::Unregistered { at: now.wall };
                effects.push(Effect::Change(Change::AgentUnregistered(agent_id.clone())));
            }
            effects.push(Effect::CapacityChanged(agent_id.clone()));
            effects.extend(self.agent_lost(agent_id));
            effects.push(Effect::Change(Change::AgentShutDown(agent_id.clone())));
        }
        once_per_agent(effects)
    }
}

/// What an agent is asked, so that nothing goes on there.
fn endings(agent: &Agent) -> impl Iterator<Item = Effect> + '_ {
    let tasks = agent.tasks.keys().map(|name| Instruction::Kill {
        framework_id: name.framework_id.clone(),
        task_id: name.task_id.clone(),
        grace: None,
    });
    let executors = agent.executors.keys().cloned().map(Instruction::ShutDownExecutor);
    let asked = tasks.chain(executors);
    asked.map(|asked| Effect::Instruct(agent.id.clone(), Box::new(asked)))
}
