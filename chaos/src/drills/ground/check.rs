//! Waits until the agents have done what the leader has committed, and compares slots, leader,
//! agents and disks. Next: `../agent_kill.rs`.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::Value;

use super::{DEADLINE, Ground};
use crate::cluster::Member;
use crate::disk;
use crate::drills::outcome::Round;
use crate::observe::{self, Groups};
use crate::slots::Slot;
use crate::slots::verdict::{self, Failures, Statuses};
use crate::wait;

impl Ground {
    /// Waits until everything is in order: all agents registered under their ids with nothing
    /// pending, agents and leader the same, trash empty. Then finds out what became of each step
    /// and checks every place. Gives counts, time and violations.
    pub(in crate::drills) async fn settle(&mut self, failures: Failures) -> anyhow::Result<Round> {
        let settled = self.settle_unmarked(failures).await?;
        self.mark_volumes()?;
        Ok(settled)
    }

    /// The same without a write to any disk.
    pub(in crate::drills) async fn settle_unmarked(
        &mut self,
        failures: Failures,
    ) -> anyhow::Result<Round> {
        let begin = Instant::now();
        let address = self.leader_address().await?;
        let mut groups = Vec::new();
        for agent in 0..self.workload.agents.len() {
            groups.push(self.in_step(agent, &address).await?);
        }
        let mut round = Round { healed_ms: begin.elapsed().as_millis(), ..Round::default() };
        let statuses = self.statuses(&address).await?;
        round.violations.extend(verdict::unchanged(&self.finals, &statuses));
        for slot in &mut self.slots {
            round.accepted += slot.asked.iter().filter(|a| a.operation_id.is_some()).count();
            let group = groups[slot.agent].get(&slot.label);
            let resolved = verdict::resolve(slot, &statuses, group, failures);
            round.finished += resolved.finished;
            round.failed += resolved.failed;
            self.finals.extend(resolved.finals);
            round.violations.extend(resolved.violations);
        }
        round.volumes = self.slots.iter().filter_map(Slot::volume).count();
        round.violations.extend(self.check(&address, &groups).await?);
        Ok(round)
    }

    /// Waits until the agent is registered under its id and has done all that the leader has for
    /// it; gives what both hold.
    async fn in_step(&self, agent: usize, address: &str) -> anyhow::Result<Groups> {
        let entry = &self.cluster.layout().agents[agent];
        let client = &self.workload.client;
        let what = format!("{} is in order", entry.name);
        wait::until(&what, DEADLINE, async || {
            let known = self.known_as(agent, address).await?;
            let (status, pending) = (&known["status"], &known["pending"]);
            if known["connected"] != true || status != "REGISTERED" || pending != 0 {
                let connected = &known["connected"];
                return Err(format!("{status}, connected {connected}, {pending} pending"));
            }
            if known["id"] != self.workload.agents[agent].as_str() {
                return Err(format!("it is called {} now", known["id"]));
            }
            let here = observe::master(client, &self.cluster, address, &self.run).await;
            let here = here.map_err(|error| format!("{error:#}"))?;
            let there = observe::agent(client, &entry.http, &self.run).await;
            let there = there.map_err(|error| format!("{error:#}"))?;
            if there != here[agent] {
                return Err("it holds something else than the leader has".to_owned());
            }
            let trash = disk::trash(&self.work_dir(agent)).map_err(|error| error.to_string())?;
            if let Some(waiting) = trash.first() {
                return Err(format!("{} is not removed", waiting.display()));
            }
            Ok(there)
        })
        .await
    }

    /// What `/api/v1/agents` says of the agent.
    pub(in crate::drills) async fn known_as(
        &self,
        agent: usize,
        address: &str,
    ) -> Result<Value, String> {
        let http = &self.cluster.layout().agents[agent].http;
        let agents = self.workload.client.get(address, "/api/v1/agents").await?;
        let entries = agents.as_array().into_iter().flatten();
        let found = entries.into_iter().find(|entry| entry["address"] == http.as_str());
        found.cloned().ok_or_else(|| format!("{address} does not list {http}"))
    }

    /// Waits until `/api/v1/agents` says what is wanted of the agent; `Err` is what it misses.
    pub(in crate::drills) async fn until_known(
        &self,
        agent: usize,
        what: &str,
        deadline: Duration,
        is_so: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        wait::until(what, deadline, async || {
            let address = self.leader_address().await.map_err(|error| format!("{error:#}"))?;
            let known = self.known_as(agent, &address).await?;
            if is_so(&known) { Ok(known) } else { Err(format!("it is {}", known["status"])) }
        })
        .await
    }

    /// Every operation that the leader lists, with its state.
    async fn statuses(&self, address: &str) -> anyhow::Result<Statuses> {
        let listed = self.workload.client.get(address, "/api/v1/operations").await;
        let listed = listed.map_err(|error| anyhow::anyhow!("{error}"))?;
        let mut statuses = Statuses::new();
        for entry in listed.as_array().context("a list of operations")? {
            let id = entry["operation_id"].as_str().context("an operation without id")?;
            let state = entry["state"].as_str().context("an operation without state")?;
            statuses.entry(id.to_owned()).or_default().push(state.to_owned());
        }
        Ok(statuses)
    }

    /// Waits until all running masters have applied the same.
    pub(in crate::drills) async fn all_masters_agree(&self) -> anyhow::Result<()> {
        let masters = self.cluster.layout().masters.iter().enumerate();
        let alive = masters.filter(|(place, _)| self.cluster.is_alive(Member::Master(*place)));
        let alive: Vec<String> = alive.map(|(_, master)| master.http.clone()).collect();
        observe::digests_agree(&self.workload.client, &alive, DEADLINE).await.map(drop)
    }

    /// Every running master, every agent and every disk against the slots.
    async fn check(&self, leader: &str, groups: &[Groups]) -> anyhow::Result<Vec<String>> {
        let client = &self.workload.client;
        self.all_masters_agree().await?;
        let mut violations = Vec::new();
        let on_record = observe::master(client, &self.cluster, leader, &self.run).await?;
        for (agent, entry) in self.cluster.layout().agents.iter().enumerate() {
            let name = &entry.name;
            violations.extend(verdict::held("the leader", &self.slots, agent, &on_record[agent]));
            violations.extend(verdict::held(name, &self.slots, agent, &groups[agent]));
            violations.extend(self.check_disk(agent)?);
        }
        Ok(violations)
    }

    /// The agent's disk against the slots.
    fn check_disk(&self, agent: usize) -> anyhow::Result<Vec<String>> {
        let name = format!("the disk of {}", self.cluster.layout().agents[agent].name);
        let mut found = disk::volumes(&self.work_dir(agent), &self.run)?;
        let orphans = &self.orphans;
        let here = orphans.iter().filter(|id| found.contains_key(*id)).cloned().collect();
        let mut violations = verdict::lost(&name, &here, &found);
        found.retain(|id, _| !orphans.contains(id));
        violations.extend(verdict::on_disk(&name, &self.slots, agent, &self.marked, &found));
        Ok(violations)
    }

    /// Volumes on the agent's disk whose data was there and is not any more, whatever the
    /// records say.
    pub(in crate::drills) fn lost_data(&self, agent: usize) -> anyhow::Result<Vec<String>> {
        let name = format!("the disk of {}", self.cluster.layout().agents[agent].name);
        let found = disk::volumes(&self.work_dir(agent), &self.run)?;
        let of_agent = self.slots.iter().filter(|slot| slot.agent == agent);
        let wanted = of_agent.filter_map(Slot::volume).filter(|id| self.marked.contains(*id));
        Ok(verdict::lost(&name, &wanted.map(str::to_owned).collect(), &found))
    }

    /// Puts a marker into each volume that has none.
    fn mark_volumes(&mut self) -> anyhow::Result<()> {
        for slot in &self.slots {
            let Some(id) = slot.volume().filter(|id| !self.marked.contains(*id)) else { continue };
            disk::mark(&self.work_dir(slot.agent), id).with_context(|| format!("volume {id}"))?;
            self.marked.insert(id.to_owned());
        }
        Ok(())
    }
}
