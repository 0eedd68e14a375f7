//! Keys, conditions, transactions and dry runs over a real node.

use resources::id::OperationId;

use super::*;
use crate::state::command::IdempotencyKey;
use crate::state::transactions::TransactionState;

fn keyed(agent_id: &AgentId, key: &str, operation: Operation) -> Call {
    Call {
        principal: Some(Principal::new("ops")),
        source: SourceAddr("test".to_owned()),
        key: Some(IdempotencyKey::parse(key).unwrap()),
        if_version: None,
        agent_id: agent_id.clone(),
        operation,
    }
}

fn together(operations: Vec<(&AgentId, Operation)>) -> Transaction {
    let operations = operations.into_iter().map(|(id, operation)| (id.clone(), operation));
    Transaction {
        principal: Some(Principal::new("ops")),
        source: SourceAddr("test".to_owned()),
        key: None,
        if_versions: BTreeMap::new(),
        operations: operations.collect(),
    }
}

/// The answer of a call may be lost with its master: whoever asks again under the same key hears
/// of the same operation, from the snapshot and the log of the next one.
#[tokio::test]
async fn r07_key_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let address = free_address();
    let master = Master::start_on(folder.path(), &address).await;
    let agent = Agent::register(&master, &[]).await;
    let call = keyed(&agent.id, "k1", reserve(2));
    let first = within(master.handle.execute(call.clone())).await.unwrap();
    let again = within(master.handle.execute(call.clone())).await.unwrap();
    assert_eq!(again, first);
    master.node.snapshot().await.unwrap();
    let refused = keyed(&agent.id, "k2", reserve(5000));
    let refusal = within(master.handle.execute(refused.clone())).await.unwrap_err();
    assert!(matches!(refusal, Refusal::Rejected(Rejection::Insufficient { .. })), "{refusal}");
    master.stop().await;

    let master = Master::start_on(folder.path(), &address).await;
    assert_eq!(within(master.handle.execute(call)).await.unwrap(), first);
    assert_eq!(within(master.handle.execute(refused)).await.unwrap_err(), refusal);
    let other = keyed(&agent.id, "k1", reserve(3));
    let reused = within(master.handle.execute(other)).await.unwrap_err();
    assert!(matches!(reused, Refusal::Rejected(Rejection::KeyReused { .. })), "{reused}");
    let view = within(master.handle.view(Consistency::Linearizable)).await.unwrap();
    let total = &view.state.agent(&agent.id).unwrap().total;
    assert!(total.contains_one(&cpus(2, &["ads"])) && !total.contains_one(&cpus(3, &["ads"])));
    assert_eq!(view.state.operations().count(), 1);
    master.stop().await;
}

/// One entry for all of it, orders in their order, and a state that says how it ended.
#[tokio::test]
async fn transaction_from_call_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let master = Master::start(folder.path()).await;
    let mut agent = Agent::register(&master, &[]).await;
    let before = master.node.status().applied.unwrap();
    let transaction = together(vec![(&agent.id, reserve(2)), (&agent.id, reserve(3))]);
    let accepted = within(master.handle.transact(transaction)).await.unwrap();
    assert_eq!(master.node.status().applied.unwrap(), before.next());
    assert_eq!(accepted.operation_ids.len(), 2);
    let orders = agent.orders().await;
    let ids: Vec<&OperationId> = orders.iter().map(|order| &order.operation_id).collect();
    assert_eq!(ids, accepted.operation_ids.iter().collect::<Vec<_>>());

    let state = |view: View| view.state.transaction(&accepted.transaction_id).unwrap().state();
    let view = within(master.handle.view(Consistency::Linearizable)).await.unwrap();
    assert_eq!(view.state.agent(&agent.id).unwrap().resource_version, {
        accepted.versions[&agent.id]
    });
    assert_eq!(state(view), TransactionState::Committed);
    let report = AgentMessage::Report { upto: Seq(2), exceptions: BTreeMap::new() };
    agent.say.send(report).unwrap();
    for id in &accepted.operation_ids {
        let end = within(master.handle.settled(id, DEADLINE)).await.unwrap();
        assert_eq!(end.state, OperationState::Finished);
    }
    let view = within(master.handle.view(Consistency::Linearizable)).await.unwrap();
    assert_eq!(state(view), TransactionState::Finished);
    master.stop().await;
}

/// Neither a refused transaction nor a dry run writes anything.
#[tokio::test]
async fn what_is_refused_or_tried_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let master = Master::start(folder.path()).await;
    let agent = Agent::register(&master, &[]).await;
    let applied = master.node.status().applied;
    let too_much = together(vec![(&agent.id, reserve(2)), (&agent.id, reserve(999))]);
    let tried = within(master.handle.dry_run(&Request::Transact(too_much.clone()))).await.unwrap();
    assert!(tried.changes.is_empty());
    assert_eq!(tried.failing[0].position, Some(1));
    match within(master.handle.transact(too_much)).await {
        Err(Refusal::Rejected(Rejection::Member { position: 1, .. })) => {}
        other => panic!("not refused: {other:?}"),
    }
    let mut call = keyed(&agent.id, "k", reserve(2));
    let tried = within(master.handle.dry_run(&Request::Operate(call.clone()))).await.unwrap();
    assert!(tried.failing.is_empty());
    assert_eq!(tried.changes[0].added, [cpus(2, &["ads"])]);
    let version = tried.changes[0].resource_version;
    call.key = None;
    call.if_version = Some(version + 1);
    match within(master.handle.execute(call.clone())).await {
        Err(Refusal::Rejected(Rejection::VersionMoved { found, .. })) => assert_eq!(found, version),
        other => panic!("not refused: {other:?}"),
    }
    assert_eq!(master.node.status().applied, applied);
    call.if_version = Some(version);
    let accepted = within(master.handle.execute(call)).await.unwrap();
    assert!(accepted.resource_version > version);
    master.stop().await;
}

/// A fault is no answer of the leader: the log finds it, and raises the alarm.
#[test]
fn broken_invariant_is_for_the_log_to_find() {
    use crate::leader::core::Core;
    use crate::leader::event::{Action, CallId, Event, Origin, Proposal};
    use crate::state::tests::{agent_id, breaking, corrupted};

    let state = corrupted();
    let mut core = Core::new(Settings {
        pings: Pings { interval: DEADLINE, missed_max: 1 },
        allocator: allocator::Settings::default(),
        offer_timeout: None,
        agent_reregister_timeout: DEADLINE,
        weights: BTreeMap::new(),
        removal: crate::leader::Removal::default(),
    });
    let (term, wall) = (Term(1), Timestamp::default());
    core.step(&state, Event::OfficeTaken { term, wall }, Timestamp::default());
    let call = Call {
        principal: None,
        source: SourceAddr("test".to_owned()),
        key: None,
        if_version: None,
        agent_id: agent_id(),
        operation: breaking(),
    };
    let request = Box::new(Request::Operate(call));
    let call_id = CallId(1);
    let arrived = Event::CallArrived { call_id, request };
    let actions = core.step(&state, arrived, Timestamp::default());
    assert!(
        matches!(&actions[..], [Action::Propose(Origin::Call(id), Proposal::Request(_))]
            if *id == call_id),
        "{actions:?}"
    );
}
