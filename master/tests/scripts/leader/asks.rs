//! Lines of schedulers in scripts of the leader. `A` is the ticket of the call, `X` the stream:
//!
//! ```text
//! subscribe A X NAME …                     as in the state scripts, behind `subscribe`
//! ended X                                  the stream ends by itself
//! teardown A F X · remove A F              by its scheduler, by an operator
//! accept A F X OFFER,… [refuse=SECONDS] | STEP | STEP …    steps as in the state scripts
//! decline A F X OFFER,… [refuse=SECONDS]
//! leave A F X OFFER,… [refuse=SECONDS] · stay A F X OFFER,… [refuse=SECONDS]   to inverse offers
//! revive A F X [ROLE,…] · suppress A F X [ROLE,…]
//! kill A F X TASK [agent=AGENT] [grace=SECONDS]
//! shutdown A F X AGENT EXECUTOR · message A F X AGENT EXECUTOR TEXT
//! acknowledge A F X AGENT TASK uuid=N · settle A F X OWNID uuid=HEX
//! reconcile A F X [TASK[@AGENT] …] · operations A F X [OWNID[@AGENT] …]
//! update A F X NAME …
//! ```
//! An offer is written as what stands behind `-O` in its id: `2-1`. `-` is no stream.

use std::collections::BTreeSet;
use std::time::Duration;

use resources::id::UpdateId;
use resources::id::{AgentId, ExecutorId, FrameworkId, OfferId, OperationId, StreamId, TaskId};
use resources::role::Role;

use master::leader::event::{AskId, Event};
use master::leader::scheduler::{Ask, SchedulerCall, Subscribing};
use master::state::accept::Step;
use master::state::command::{CommandKind, SourceAddr, Subscription};

use crate::lines::{Line, command};

/// The event of a scheduler's line.
pub(super) fn event(text: &str, line: &Line<'_>) -> Option<Event> {
    let verb = line.words[0];
    if verb == "ended" {
        return Some(Event::StreamEnded { stream_id: stream(line.words[1]).unwrap() });
    }
    // Tickets of other lines begin with other letters.
    let ask_id = AskId(line.words.get(1)?.strip_prefix('a')?.parse().ok()?);
    let source = SourceAddr("script".to_owned());
    if verb == "remove" {
        let framework_id = FrameworkId::parse(line.words[2]).unwrap();
        let principal = line.principal();
        return Some(Event::TeardownArrived { ask_id, principal, source, framework_id });
    }
    if verb == "subscribe" {
        let (framework_id, subscription) = subscription(text, line, 3);
        let subscribing = Box::new(Subscribing {
            framework_id,
            subscription,
            principal: line.principal(),
            source,
            stream_id: stream(line.words[2]).unwrap(),
        });
        return Some(Event::SubscribeArrived { ask_id, subscribing });
    }
    let call = Box::new(SchedulerCall {
        framework_id: FrameworkId::parse(line.words[2]).unwrap(),
        stream_id: stream(line.words[3]),
        principal: line.principal(),
        source,
        ask: ask(text, line),
    });
    Some(Event::AskArrived { ask_id, call })
}

fn stream(text: &str) -> Option<StreamId> {
    (text != "-").then(|| StreamId::parse(text).unwrap())
}

/// The subscription behind the first words of a line.
fn subscription(
    text: &str,
    line: &Line<'_>,
    skipped: usize,
) -> (Option<FrameworkId>, Subscription) {
    let named: Vec<&str> = text.split_whitespace().filter(|word| word.contains('=')).collect();
    let asked = format!("subscribe {} {}", line.words[skipped], named.join(" "));
    match command(&asked).kind {
        CommandKind::Subscribe { framework_id, subscription } => (framework_id, *subscription),
        other => panic!("no subscription: {other}"),
    }
}

fn ask(text: &str, line: &Line<'_>) -> Ask {
    let word = |at: usize| line.words[at];
    let agent_id = |text: &str| AgentId::parse(text).unwrap();
    let seconds =
        |name: &str| line.named.get(name).map(|text| Duration::from_secs(text.parse().unwrap()));
    let refuse = seconds("refuse").unwrap_or(Duration::from_secs(5));
    match word(0) {
        "teardown" => Ask::Teardown,
        "accept" => Ask::Accept { offer_ids: offers(word(4)), steps: steps(text), refuse },
        "decline" => Ask::Decline { offer_ids: offers(word(4)), refuse },
        "leave" | "stay" => Ask::AnswerInverse {
            offer_ids: offers(word(4)),
            is_accepted: word(0) == "leave",
            refuse,
        },
        "revive" => Ask::Revive(roles(line)),
        "suppress" => Ask::Suppress(roles(line)),
        "kill" => Ask::Kill {
            task_id: TaskId::parse(word(4)).unwrap(),
            agent_id: line.named.get("agent").map(|id| agent_id(id)),
            grace: seconds("grace"),
        },
        "shutdown" => Ask::Shutdown {
            agent_id: agent_id(word(4)),
            executor_id: ExecutorId::parse(word(5)).unwrap(),
        },
        "message" => Ask::Message {
            agent_id: agent_id(word(4)),
            executor_id: ExecutorId::parse(word(5)).unwrap(),
            data: word(6).as_bytes().to_vec().into(),
        },
        "acknowledge" => Ask::Acknowledge {
            agent_id: agent_id(word(4)),
            task_id: TaskId::parse(word(5)).unwrap(),
            uuid: uuid(line),
        },
        "settle" => Ask::AcknowledgeOperation {
            own_id: OperationId::parse(word(4)).unwrap(),
            uuid: uuid(line),
        },
        "reconcile" => {
            let asked = line.words[4..].iter().map(|word| {
                let (id, at) = placed(word);
                (TaskId::parse(id).unwrap(), at)
            });
            Ask::Reconcile(asked.collect())
        }
        "operations" => {
            let asked = line.words[4..].iter().map(|word| {
                let (id, at) = placed(word);
                (OperationId::parse(id).unwrap(), at)
            });
            Ask::ReconcileOperations(asked.collect())
        }
        "update" => Ask::Update(Box::new(subscription(text, line, 4).1)),
        other => panic!("no such call: {other}"),
    }
}

fn placed(word: &str) -> (&str, Option<AgentId>) {
    match word.split_once('@') {
        Some((id, at)) => (id, Some(AgentId::parse(at).unwrap())),
        None => (word, None),
    }
}

fn uuid(line: &Line<'_>) -> UpdateId {
    UpdateId(u128::from_str_radix(line.named["uuid"], 16).unwrap().to_be_bytes())
}

fn roles(line: &Line<'_>) -> BTreeSet<Role> {
    let text = line.words.get(4).copied().unwrap_or_default();
    let roles = text.split(',').filter(|role| !role.is_empty());
    roles.map(|role| Role::parse(role).unwrap()).collect()
}

fn offers(text: &str) -> Vec<OfferId> {
    let ids = text.split(',').filter(|id| *id != "none");
    ids.map(|id| OfferId::parse(format!("c-O{id}")).unwrap()).collect()
}

/// The steps behind the first bar, read as those of a command.
fn steps(text: &str) -> Vec<Step> {
    let Some((_, steps)) = text.split_once(" | ") else { return Vec::new() };
    match command(&format!("accept 0-0 f a r cpus:1 | {steps}")).kind {
        CommandKind::Accept { accept, .. } => accept.steps,
        other => panic!("no ACCEPT: {other}"),
    }
}
