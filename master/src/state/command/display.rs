//! Commands on one line each, as logs and golden scripts show them. Next: `../effect.rs`.

use std::fmt;

use super::super::operations::describe;
use super::super::rejection::list;
use super::super::transactions::Member;
use super::CommandKind;

impl fmt::Display for CommandKind {
    #[expect(
        clippy::too_many_lines,
        reason = "one arm for each command, and none decides anything"
    )]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FormCluster { cluster_id } => write!(f, "form-cluster {cluster_id}"),
            Self::TakeOffice { master_id, advertise, term } => {
                write!(f, "take-office master {master_id} at {advertise} term {term}")
            }
            Self::RegisterAgent(registration) => {
                write!(
                    f,
                    "register-agent {} boot {} applied {}",
                    registration.checkpoint_id, registration.boot_counter, registration.applied_seq
                )
            }
            Self::Operate { agent_id, operation_id, operation } => {
                write!(f, "operate {agent_id} {operation_id} {}", describe(operation))
            }
            Self::Transact { transaction_id, members } => {
                write!(f, "transact {transaction_id}")?;
                members.iter().try_for_each(|Member { agent_id, operation_id, operation }| {
                    write!(f, " [{agent_id} {operation_id} {}]", describe(operation))
                })
            }
            Self::Confirm { agent_id, upto, exceptions } => {
                write!(f, "confirm {agent_id} upto {upto}")?;
                exceptions.iter().try_for_each(|(seq, why)| write!(f, " {seq}=FAILED({why})"))
            }
            Self::RecordDivergence { agent_id, foreign, missing, held: _ } => {
                let (foreign, missing) = (list(foreign), list(missing));
                write!(f, "record-divergence {agent_id} foreign {foreign}, missing {missing}")
            }
            Self::Depart { agents } => {
                write!(f, "depart")?;
                agents.iter().try_for_each(|(id, deadline)| write!(f, " {id} until {deadline}"))
            }
            Self::Return { agent_id, epoch } => write!(f, "return {agent_id}@{epoch}"),
            Self::MarkUnreachable { agent_id, witness } => {
                write!(f, "mark-unreachable {agent_id}@{}", witness.epoch)
            }
            Self::Unregister { agent_id } => write!(f, "unregister {agent_id}"),
            Self::MarkGone { agent_id } => write!(f, "mark-gone {agent_id}"),
            Self::Deactivate { agent_id } => write!(f, "deactivate {agent_id}"),
            Self::Reactivate { agent_id } => write!(f, "reactivate {agent_id}"),
            Self::Drain { agent_id, max_grace, mark_gone } => {
                write!(f, "drain {agent_id}")?;
                max_grace.map_or(Ok(()), |grace| write!(f, " within {grace:?}"))?;
                if *mark_gone { f.write_str(" then gone") } else { Ok(()) }
            }
            Self::CompleteDrain { agent_id } => write!(f, "complete-drain {agent_id}"),
            Self::Reconcile { agent_id, held, choices } => {
                write!(f, "reconcile {agent_id} at {}", held.applied_seq)?;
                choices.iter().try_for_each(|choice| write!(f, " [{choice}]"))
            }
            Self::NewIncarnation { incarnation } => write!(f, "new-incarnation {incarnation}"),
            Self::SetRule(rule) => rule.fmt(f),
            Self::RaiseAlarm { agent_id: Some(agent_id), text } => {
                write!(f, "raise-alarm {agent_id}: {text}")
            }
            Self::RaiseAlarm { agent_id: None, text } => write!(f, "raise-alarm {text}"),
            Self::Subscribe { framework_id, subscription } => {
                write!(f, "subscribe '{}'", subscription.info.name)?;
                framework_id.as_ref().map_or(Ok(()), |id| write!(f, " as {id}"))
            }
            Self::UpdateFramework { framework_id, subscription: _ } => {
                write!(f, "update-framework {framework_id}")
            }
            Self::SetSuppressed { framework_id, suppressed } => {
                write!(f, "set-suppressed {framework_id}")?;
                suppressed.iter().try_for_each(|role| write!(f, " {role}"))
            }
            Self::Disconnect { frameworks, grace: _ } => {
                write!(f, "disconnect")?;
                frameworks.iter().try_for_each(|(id, epoch)| write!(f, " {id}@{epoch}"))
            }
            Self::RemoveFramework { framework_id, witness } => {
                write!(f, "remove-framework {framework_id}")?;
                witness.map_or(Ok(()), |absence| write!(f, " absent since {}", absence.epoch))
            }
            Self::Accept { name, accept } => write!(f, "{name} {accept}"),
            Self::Kill { framework_id, task_id, grace: _ } => {
                write!(f, "kill {framework_id}/{task_id}")
            }
            Self::UpdateTasks { agent_id, updates, exited } => {
                write!(f, "update-tasks {agent_id}")?;
                updates.iter().try_for_each(|update| {
                    write!(f, " [{} {}]", update.framework_id, update.status)
                })?;
                exited.iter().try_for_each(|exit| write!(f, " exited {}", exit.executor))
            }
            Self::AcknowledgeTask { framework_id, task_id, uuid } => {
                write!(f, "acknowledge-task {framework_id}/{task_id} #{uuid}")
            }
            Self::AcknowledgeOperation { framework_id, own_id, uuid } => {
                write!(f, "acknowledge-operation {framework_id} '{own_id}' #{uuid}")
            }
        }
    }
}
