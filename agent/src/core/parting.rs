//! How an agent leaves: in order, when its tasks have ended and the cluster knows that it goes; or
//! because it was given up, when its tasks have ended. Also how it takes over what an operator
//! chose after its disk was restored. What it holds stays on its disk in each case. Next:
//! `core/tasks.rs`.

use resources::id::Seq;
use resources::message::AgentMessage;

use super::event::{Action, Pause, Write};
use super::{Core, Session};

/// How far the agent is with leaving.
#[derive(Debug, Default)]
pub(super) struct Parting {
    /// It waits no longer for acknowledgements of what its tasks came to.
    pub(super) is_pressed: bool,
    /// It said so on the open stream.
    pub(super) is_said: bool,
    /// It was given up: it ends with this once its tasks have.
    pub(super) doom: Option<String>,
}

impl Core {
    /// Takes the next step of leaving, if the agent leaves and its tasks have ended.
    pub(super) fn part(&mut self, actions: &mut Vec<Action>) {
        if !self.tasks.is_retired() {
            return;
        }
        if let Some(reason) = self.parting.doom.take() {
            self.exit(reason, actions);
            return;
        }
        let is_registered = matches!(self.session, Session::Registered(_));
        let is_due = self.parting.is_pressed || self.tasks.is_empty();
        if is_registered && is_due && self.hand.is_none() && !self.parting.is_said {
            self.parting.is_said = true;
            // With what each task came to by now, also where an earlier word waits.
            self.tasks.say_everything();
            let statuses = self.tasks.outgoing();
            if !statuses.is_empty() {
                actions.push(Action::Send(AgentMessage::Statuses(statuses)));
            }
            actions.push(Action::Send(AgentMessage::Unregister));
        }
    }

    /// An operator gave the agent up: nothing of its tasks may go on. Whatever it has on disk is
    /// left to whoever looks for it.
    pub(super) fn given_up(&mut self, reason: &str, actions: &mut Vec<Action>) {
        let reason = format!(
            "the master refused this agent: {reason}; its tasks are ended, nothing was removed \
             from its disk; another --work-dir starts a new agent"
        );
        self.parting.doom = Some(reason.clone());
        self.tasks.retire();
        actions.push(Action::Doomed(reason.clone()));
        self.close(reason, Pause::Long, actions);
    }

    /// The cluster knows that the agent goes.
    pub(super) fn unregistered(&mut self, actions: &mut Vec<Action>) {
        if self.parting.is_said {
            self.ended = true;
            actions.push(Action::Left);
        }
    }

    /// An operator made the books those of this agent: it counts on from `applied_seq`. What it
    /// holds must be what the operator saw. What it did since under later orders stays done.
    pub(super) fn adopt(&mut self, applied_seq: Seq, digest: u128, actions: &mut Vec<Action>) {
        if self.hand.is_some() || !self.queue.is_empty() {
            let reason = "an adoption came while orders are carried out".to_owned();
            self.close(reason, Pause::Short, actions);
            return;
        }
        if self.applied_seq > applied_seq {
            return;
        }
        if self.total.digest() != digest {
            let reason = "an operator accepted other resources than this agent holds".to_owned();
            self.close(reason, Pause::Long, actions);
            return;
        }
        if self.applied_seq < applied_seq || self.failed_seq < applied_seq {
            self.applied_seq = applied_seq;
            // Orders that were given before the choice may not fit any more.
            self.failed_seq = applied_seq;
            self.settled.clear();
            self.forget_upto = None;
            actions.push(Action::Checkpoint(vec![
                Write::Forget(applied_seq),
                Write::Applied { seq: applied_seq, failed: applied_seq },
            ]));
        }
        self.report(actions);
    }
}
