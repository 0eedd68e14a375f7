//! What agents reported of their orders, on its way into the log. Next: `registering.rs`.

use std::collections::BTreeMap;

use resources::id::{AgentId, Seq};

use super::super::event::{Action, Origin, Proposal};
use super::Sessions;
use crate::state::State;
use crate::state::command::Response;

/// What an agent reported and the state does not hold yet. Kept until it does: a proposal may
/// get lost, and a silent agent reports nothing twice.
#[derive(Debug, Default)]
pub(super) struct Report {
    upto: Seq,
    exceptions: BTreeMap<Seq, String>,
    stage: ReportStage,
}

/// How far a report has come.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ReportStage {
    /// To be proposed with the next batch.
    #[default]
    Waiting,
    /// Proposed, and not decided.
    Proposed,
    /// Not decided: to be proposed again after the next tick.
    Lost,
}

impl Sessions {
    /// Whether something that an agent reported is not in the log yet.
    pub(in crate::leader) fn is_reporting(&self, agent_id: &AgentId) -> bool {
        self.reports.contains_key(agent_id)
    }

    pub(super) fn report(
        &mut self,
        agent_id: AgentId,
        upto: Seq,
        exceptions: BTreeMap<Seq, String>,
    ) {
        let report = self.reports.entry(agent_id).or_default();
        report.upto = report.upto.max(upto);
        report.exceptions.extend(exceptions);
        report.stage = ReportStage::Waiting;
    }

    /// One command for each agent that reported since the last batch.
    pub(in crate::leader) fn flush_reports(&mut self) -> Vec<Action> {
        let waiting = self.reports.iter_mut().filter(|(_, r)| r.stage == ReportStage::Waiting);
        let proposals = waiting.map(|(agent_id, report)| {
            report.stage = ReportStage::Proposed;
            let (agent_id, exceptions) = (agent_id.clone(), report.exceptions.clone());
            let origin = Origin::Report(agent_id.clone());
            Action::Propose(origin, Proposal::Confirm { agent_id, upto: report.upto, exceptions })
        });
        proposals.collect()
    }

    /// A report was decided by the log. What came in since stays; what the state holds, or can
    /// never take, goes.
    pub(in crate::leader) fn report_decided(
        &mut self,
        state: &State,
        agent_id: &AgentId,
        response: &Response,
    ) {
        let Some(report) = self.reports.get_mut(agent_id) else { return };
        let confirmed = state.agent(agent_id).map(|agent| agent.confirmed_seq);
        let is_refused = matches!(response, Response::Rejected(_));
        match confirmed.filter(|confirmed| report.upto > *confirmed && !is_refused) {
            Some(confirmed) => report.exceptions.retain(|seq, _| *seq > confirmed),
            None if report.stage == ReportStage::Waiting && is_refused => {}
            None => {
                self.reports.remove(agent_id);
            }
        }
    }

    /// A report's proposal was lost. Nobody else knows of it.
    pub(in crate::leader) fn report_undecided(&mut self, agent_id: &AgentId) {
        if let Some(report) = self.reports.get_mut(agent_id)
            && report.stage == ReportStage::Proposed
        {
            report.stage = ReportStage::Lost;
        }
    }

    /// Time has passed: lost reports are proposed again.
    pub(in crate::leader) fn retry_reports(&mut self) {
        let lost = self.reports.values_mut().filter(|r| r.stage == ReportStage::Lost);
        lost.for_each(|report| report.stage = ReportStage::Waiting);
    }
}
