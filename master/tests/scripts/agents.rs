//! Lines of scripts about the life of agents:
//!
//! ```text
//! depart AGENT@SECONDS …      away, and unreachable at that cluster time
//! return AGENT epoch=N
//! mark-unreachable AGENT epoch=N since=SECONDS deadline=SECONDS
//! unregister AGENT · mark-gone AGENT · deactivate AGENT · reactivate AGENT
//! drain AGENT [grace=SECONDS] [then=gone] · complete-drain AGENT
//! ```

use std::time::Duration;

use resources::id::AgentId;
use resources::time::Timestamp;

use master::state::Away;
use master::state::command::CommandKind;

use super::lines::Line;

/// The command of a line about the life of agents.
pub(crate) fn kind(line: &Line<'_>) -> Option<CommandKind> {
    let agent_id = || AgentId::parse(line.words[1]).unwrap();
    let at = |name| second(line.number(name, 0));
    Some(match line.words[0] {
        "depart" => {
            let agents = line.words[1..].iter().map(|word| {
                let (id, deadline) = word.split_once('@').unwrap();
                (AgentId::parse(id).unwrap(), second(deadline.parse().unwrap()))
            });
            CommandKind::Depart { agents: agents.collect() }
        }
        "return" => CommandKind::Return { agent_id: agent_id(), epoch: line.number("epoch", 1) },
        "mark-unreachable" => {
            let (epoch, since, deadline) = (line.number("epoch", 1), at("since"), at("deadline"));
            let witness = Away { epoch, since, deadline };
            CommandKind::MarkUnreachable { agent_id: agent_id(), witness }
        }
        "unregister" => CommandKind::Unregister { agent_id: agent_id() },
        "mark-gone" => CommandKind::MarkGone { agent_id: agent_id() },
        "deactivate" => CommandKind::Deactivate { agent_id: agent_id() },
        "reactivate" => CommandKind::Reactivate { agent_id: agent_id() },
        "drain" => CommandKind::Drain {
            agent_id: agent_id(),
            max_grace: line.named.get("grace").map(|text| seconds(text.parse().unwrap())),
            mark_gone: line.text("then") == "gone",
        },
        "complete-drain" => CommandKind::CompleteDrain { agent_id: agent_id() },
        _ => return None,
    })
}

const fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

fn second(number: u64) -> Timestamp {
    Timestamp::default() + seconds(number)
}
