//! Schedulers over a real node: offers, an ACCEPT down to its agent, a lost stream, a restart.

use std::collections::{BTreeMap, BTreeSet};

use resources::framework::FrameworkInfo;
use resources::id::{FrameworkId, StreamId, TaskId, UpdateId};
use resources::opaque::Opaque;
use resources::task::{StatusSource, StatusUpdate, TaskInfo, TaskState, TaskStatus};

use super::*;
use crate::leader::scheduler::{
    Ask, Offer, SchedulerCall, SchedulerEvent, SchedulerRefusal, Subscribing,
};
use crate::state::accept::{LaunchedTask, Step};
use crate::state::command::{Notice, Subscription};

struct Scheduler {
    id: FrameworkId,
    stream_id: StreamId,
    events: mpsc::Receiver<SchedulerEvent>,
}

fn subscribing(id: Option<&FrameworkId>, stream: &str) -> Subscribing {
    let info = FrameworkInfo {
        name: "web".to_owned(),
        user: "root".to_owned(),
        principal: None,
        roles: BTreeSet::from([Role::parse("ads").unwrap()]),
        capabilities: BTreeSet::new(),
        failover_timeout: Duration::from_secs(60),
        checkpoint: true,
        hostname: String::new(),
        min_allocatable: BTreeMap::new(),
        wire: Opaque::default(),
    };
    Subscribing {
        framework_id: id.cloned(),
        subscription: Subscription {
            info,
            suppressed: BTreeSet::new(),
            constraints: Opaque::default(),
        },
        principal: None,
        source: SourceAddr("test".to_owned()),
        stream_id: StreamId::parse(stream).unwrap(),
    }
}

impl Scheduler {
    async fn subscribe(master: &Master, id: Option<&FrameworkId>, stream: &str) -> Self {
        let subscribing = subscribing(id, stream);
        let stream_id = subscribing.stream_id.clone();
        let mut events = within(master.handle.subscribe(subscribing)).await.unwrap();
        let Some(SchedulerEvent::Subscribed(id, _)) = within(events.recv()).await else {
            panic!("not subscribed")
        };
        assert_eq!(within(events.recv()).await, Some(SchedulerEvent::Heartbeat));
        Self { id, stream_id, events }
    }

    async fn call(&self, master: &Master, ask: Ask) -> Result<(), SchedulerRefusal> {
        let call = SchedulerCall {
            framework_id: self.id.clone(),
            stream_id: Some(self.stream_id.clone()),
            principal: None,
            source: SourceAddr("test".to_owned()),
            ask,
        };
        within(master.handle.schedule(call)).await
    }

    async fn offers(&mut self) -> Vec<Offer> {
        match within(self.events.recv()).await {
            Some(SchedulerEvent::Offers(offers)) => offers,
            other => panic!("no offers: {other:?}"),
        }
    }

    async fn status(&mut self) -> TaskStatus {
        match within(self.events.recv()).await {
            Some(SchedulerEvent::Notice(notice)) => match *notice {
                Notice::Task(status) => status,
                other => panic!("no status: {other}"),
            },
            other => panic!("no status: {other:?}"),
        }
    }
}

fn launch(task: &str) -> Step {
    let task = TaskInfo {
        task_id: TaskId::parse(task).unwrap(),
        name: task.to_owned(),
        resources: vec![cpus(1, &[])],
        wire: Opaque::default(),
    };
    Step::Launch { tasks: vec![LaunchedTask { task, executor: None, refused: None }] }
}

fn accept(offers: &[Offer], steps: Vec<Step>) -> Ask {
    let offer_ids = offers.iter().map(|offer| offer.offer_id.clone()).collect();
    Ask::Accept { offer_ids, steps, refuse: Duration::ZERO }
}

fn running(framework_id: &FrameworkId, task: &str) -> AgentMessage {
    let status = TaskStatus {
        task_id: TaskId::parse(task).unwrap(),
        state: TaskState::Running,
        agent_id: None,
        executor_id: None,
        source: StatusSource::Executor,
        reason: None,
        message: None,
        uuid: Some(UpdateId([1; 16])),
        at: Timestamp::default(),
        unreachable_at: None,
        healthy: None,
        data: Opaque::default(),
        wire: Opaque::default(),
    };
    let framework_id = framework_id.clone();
    AgentMessage::Statuses(vec![StatusUpdate { framework_id, status, latest: TaskState::Running }])
}

#[tokio::test]
async fn from_offer_to_status_and_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let address = free_address();
    let master = Master::start_on(folder.path(), &address).await;
    let mut scheduler = Scheduler::subscribe(&master, None, "x1").await;
    let registered = tokio::time::Instant::now();
    let mut agent = Agent::register(&master, &[]).await;
    let offers = scheduler.offers().await;
    assert!(registered.elapsed() < Duration::from_secs(1), "more than an allocation interval");
    let ids: Vec<_> = offers.iter().map(|offer| offer.offer_id.clone()).collect();
    let found = within(master.handle.offers(ids)).await;
    assert_eq!(found, offers.iter().cloned().map(Some).collect::<Vec<_>>());
    assert_eq!(within(master.handle.outstanding_offers()).await, offers);

    scheduler.call(&master, accept(&offers, vec![launch("t1")])).await.unwrap();
    assert_eq!(agent.orders().await.len(), 1);
    agent.say.send(running(&scheduler.id, "t1")).unwrap();
    // What is left may be offered before or after.
    let status = loop {
        match within(scheduler.events.recv()).await {
            Some(SchedulerEvent::Offers(_)) => {}
            Some(SchedulerEvent::Notice(notice)) => break *notice,
            other => panic!("no status: {other:?}"),
        }
    };
    assert!(matches!(&status, Notice::Task(status) if status.state == TaskState::Running));
    within(until(&master, || master.handle.counts().offers.accepted == 1)).await;

    // The stream ends cleanly with the master; the next one knows framework and task at once.
    master.stop().await;
    while within(scheduler.events.recv()).await.is_some() {}
    let master = Master::start_on(folder.path(), &address).await;
    let refusal = scheduler.call(&master, Ask::Reconcile(Vec::new())).await.unwrap_err();
    assert_eq!(refusal, SchedulerRefusal::NotSubscribed);
    let mut back = Scheduler::subscribe(&master, Some(&scheduler.id), "x2").await;
    assert_eq!(back.id, scheduler.id);
    back.call(&master, Ask::Reconcile(Vec::new())).await.unwrap();
    assert_eq!(back.status().await.state, TaskState::Running);

    // The old offer is void, and the task is known by the id that a repeat has.
    back.call(&master, accept(&offers, vec![launch("t1"), launch("t2")])).await.unwrap();
    assert_eq!(back.status().await.state, TaskState::Running);
    assert_eq!(back.status().await.state, TaskState::Lost);
    master.stop().await;
}

/// A scheduler that goes away is away for the log too, and its offers are nobody's.
#[tokio::test]
async fn dropped_stream_is_a_departure() {
    let folder = tempfile::tempdir().unwrap();
    let master = Master::start(folder.path()).await;
    let _agent = Agent::register(&master, &[]).await;
    let mut scheduler = Scheduler::subscribe(&master, None, "x1").await;
    assert_eq!(scheduler.offers().await.len(), 1);
    let mut second = Scheduler::subscribe(&master, None, "x2").await;
    let Scheduler { id, events, .. } = scheduler;
    drop(events);
    assert_eq!(second.offers().await.len(), 1);
    let is_absent = || {
        let subscribed = |replica: &Replica| {
            let framework = replica.state().framework(&id).map(|f| f.is_subscribed());
            framework == Some(false)
        };
        master.node.read(subscribed)
    };
    within(until(&master, is_absent)).await;
    master.stop().await;
}

/// Looks again after each tick.
async fn until(master: &Master, holds: impl Fn() -> bool) {
    let mut leadership = master.handle.leadership_changes();
    while !holds() {
        drop(tokio::time::timeout(TICK, leadership.changed()).await);
    }
}
