//! Tasks that really run: each under a supervisor, which is this test's own program.

use std::fs;
use std::time::{Duration, Instant};

use proto::mesos::v1;
use resources::message::MasterMessage;
use resources::resource::{Resource, VolumeMode};
use resources::task::{StatusReason, TaskState};

use super::pilot::{Pilot, Task, executor_name, launch, sandbox, wait_for};
use super::rig::{self, Kind, Rig};
use crate::driver::{Driver, State};
use crate::recovery::recover;

/// No test: `rig::program` starts this program with the name of this function.
#[test]
fn supervisor_process() {
    let name = "tests::supervised::supervisor_process";
    if std::env::args().any(|argument| argument == name) && stdin_is_socket() {
        let _ended = crate::supervise();
    }
}

fn stdin_is_socket() -> bool {
    let found = rustix::fs::fstat(std::io::stdin()).unwrap();
    rustix::fs::FileType::from_raw_mode(found.st_mode) == rustix::fs::FileType::Socket
}

#[tokio::test]
async fn a_command_runs_in_its_sandbox() {
    let rig = Rig::new(Kind::Root);
    let mut pilot = Pilot::start(&rig, &[]).await;
    let begun = Instant::now();
    let line = "echo out; echo err >&2; echo $MESOS_TASK_ID $MESOS_SANDBOX $X; pwd";
    let task = Task::shell("t1", line).change(|info| {
        let variable = v1::environment::Variable {
            name: "X".to_owned(),
            value: Some("y".to_owned()),
            ..Default::default()
        };
        let environment = v1::Environment { variables: vec![variable] };
        info.command.as_mut().unwrap().environment = Some(environment);
    });
    pilot.say(MasterMessage::Orders(vec![launch(1, &[task], None, true)])).await;
    pilot.until_state("t1", TaskState::Finished).await;
    eprintln!("launch to TASK_FINISHED: {:?}", begun.elapsed());
    let states = [TaskState::Starting, TaskState::Running, TaskState::Finished];
    assert_eq!(pilot.states("t1"), states);
    assert_eq!(pilot.message_of("t1"), "Command exited with status 0");
    let directory = sandbox(&rig, "t1");
    let path = directory.display();
    let out = fs::read_to_string(directory.join("stdout")).unwrap();
    assert_eq!(out, format!("out\nt1 {path} y\n{path}\n"));
    assert_eq!(fs::read_to_string(directory.join("stderr")).unwrap(), "err\n");
    pilot.stop().await;
}

fn mounted(volume: &Resource, mode: VolumeMode) -> Resource {
    let mut volume = volume.clone();
    volume.disk.as_mut().unwrap().volume.as_mut().unwrap().mode = mode;
    volume
}

#[tokio::test]
async fn volumes_are_at_their_place() {
    let mut rig = Rig::new(Kind::Root);
    let mut pilot = Pilot::start(&rig, &[]).await;
    let orders = vec![rig.reserve(64), rig.create(&[("v1", 64)])];
    let write = Task::shell("t1", "echo here > data/file").with(rig.volume("v1", 64));
    let orders = orders.into_iter().chain([launch(3, &[write], None, true)]).collect();
    pilot.say(MasterMessage::Orders(orders)).await;
    pilot.until_state("t1", TaskState::Finished).await;
    assert_eq!(fs::read_to_string(rig.directory("v1").join("file")).unwrap(), "here\n");
    let read_only = mounted(&rig.volume("v1", 64), VolumeMode::Ro);
    let line = "cat data/file && if touch data/new; then exit 7; fi";
    let read = Task::shell("t2", line).with(read_only);
    pilot.say(MasterMessage::Orders(vec![launch(4, &[read], None, true)])).await;
    pilot.until(|pilot| pilot.states("t2").last().is_some_and(|s| s.is_terminal())).await;
    let out = fs::read_to_string(sandbox(&rig, "t2").join("stdout")).unwrap();
    assert_eq!(out, "here\n");
    if pilot.states("t2").last() == Some(&TaskState::Failed) {
        eprintln!("skipped: this process may not mount");
        let text = fs::read_to_string(sandbox(&rig, "t2").join("stderr")).unwrap();
        assert!(text.contains("nothing keeps this task from writing to data"), "{text}");
    } else {
        assert!(!rig.directory("v1").join("new").exists());
    }
    pilot.stop().await;
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let rig = Rig::new(Kind::Root);
    let mut pilot = Pilot::start(&rig, &[]).await;
    let program = Task::shell("t1", "/nowhere/program").change(|info| {
        info.command.as_mut().unwrap().shell = Some(false);
    });
    let fetched = Task::shell("t2", "true").change(|info| {
        let uri =
            |value: &str| v1::command_info::Uri { value: value.to_owned(), ..Default::default() };
        info.command.as_mut().unwrap().uris = vec![uri("http://127.0.0.1:1/x")];
    });
    let orders = vec![launch(1, &[program], None, true), launch(2, &[fetched], None, true)];
    pilot.say(MasterMessage::Orders(orders)).await;
    pilot.until_state("t1", TaskState::Failed).await;
    assert!(pilot.message_of("t1").contains("No such file"), "{}", pilot.message_of("t1"));
    pilot.until_state("t2", TaskState::Failed).await;
    assert!(pilot.message_of("t2").contains("cannot fetch http"), "{}", pilot.message_of("t2"));
    for update in &pilot.statuses {
        if update.status.state == TaskState::Failed {
            assert_eq!(update.status.reason, Some(StatusReason::ContainerLaunchFailed));
        }
    }
    pilot.stop().await;
}

#[tokio::test]
async fn a_kill_is_patient_for_a_while() {
    let rig = Rig::new(Kind::Root);
    let mut pilot = Pilot::start(&rig, &[]).await;
    let stubborn = "trap '' TERM; echo x > ready; while true; do sleep 0.01; done";
    let polite = "trap 'exit 3' TERM; echo x > ready; while true; do sleep 0.01; done";
    let orders = vec![
        launch(1, &[Task::shell("t1", stubborn)], None, true),
        launch(2, &[Task::shell("t2", polite)], None, true),
    ];
    pilot.say(MasterMessage::Orders(orders)).await;
    for task in ["t1", "t2"] {
        pilot.until_state(task, TaskState::Running).await;
        wait_for(&sandbox(&rig, task).join("ready")).await;
        pilot.kill(task, Some(Duration::from_millis(300))).await;
    }
    pilot.until_state("t1", TaskState::Killed).await;
    pilot.until_state("t2", TaskState::Killed).await;
    assert_eq!(pilot.message_of("t1"), "Command terminated with signal Killed");
    assert_eq!(pilot.message_of("t2"), "Command exited with status 3");
    pilot.stop().await;
}

/// The agent is gone while the task ends: its end is told all the same, and truly.
#[tokio::test]
async fn tasks_outlive_the_agent() {
    let rig = Rig::new(Kind::Root);
    let mut pilot = Pilot::start(&rig, &[]).await;
    let waits = "while ! test -e go; do sleep 0.01; done; exit 4";
    let lives = "while ! test -e go; do sleep 0.01; done; exit 0";
    let orders = vec![
        launch(1, &[Task::shell("t1", waits)], None, true),
        launch(2, &[Task::shell("t2", lives)], None, true),
    ];
    pilot.say(MasterMessage::Orders(orders)).await;
    pilot.until_state("t1", TaskState::Running).await;
    pilot.until_state("t2", TaskState::Running).await;
    pilot.leave().await;
    fs::write(sandbox(&rig, "t1").join("go"), "").unwrap();
    let mut pilot = Pilot::start(&rig, &[]).await;
    pilot.until_state("t1", TaskState::Failed).await;
    assert_eq!(pilot.message_of("t1"), "Command exited with status 4");
    assert_eq!(pilot.states("t2"), []);
    fs::write(sandbox(&rig, "t2").join("go"), "").unwrap();
    pilot.until_state("t2", TaskState::Finished).await;
    pilot.stop().await;
}

/// An agent that died between its checkpoint and the start of the supervisor: the task is
/// reported, and never started.
#[tokio::test]
async fn what_was_never_started_never_is() {
    let rig = Rig::new(Kind::Root);
    let mut pilot = Pilot::start(&rig, &[]).await;
    pilot.leave().await;
    let mut agent = rig.start();
    agent.launch_without_runner(launch(1, &[Task::shell("t1", "echo x > ran")], None, true));
    drop(agent);
    pilot = Pilot::start(&rig, &[]).await;
    pilot.until_state("t1", TaskState::Lost).await;
    assert_eq!(pilot.statuses[0].status.reason, Some(StatusReason::AgentRestarted));
    assert!(!rig.work_dir().join("slaves").exists());
    pilot.until_no_task().await;
    pilot.stop().await;
}

/// Its supervisor is killed with it: nothing of the task runs on.
#[tokio::test]
async fn a_killed_supervisor_takes_its_task_along() {
    let rig = Rig::new(Kind::Root);
    let mut pilot = Pilot::start(&rig, &[]).await;
    let line = "echo $$ > pid; mv pid ready; while true; do sleep 0.01; done";
    pilot.say(MasterMessage::Orders(vec![launch(1, &[Task::shell("t1", line)], None, true)])).await;
    pilot.until_state("t1", TaskState::Running).await;
    let ready = sandbox(&rig, "t1").join("ready");
    wait_for(&ready).await;
    let task: u32 = fs::read_to_string(&ready).unwrap().trim().parse().unwrap();
    let supervisor = crate::runner::process::session(task).unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(supervisor).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    pilot.until_state("t1", TaskState::Failed).await;
    assert_eq!(pilot.statuses.last().unwrap().status.reason, {
        Some(StatusReason::CommandExecutorFailed)
    });
    let is_alive = || crate::runner::process::session(task) == Some(supervisor);
    assert!(!is_alive() || is_zombie(task));
    pilot.stop().await;
}

fn is_zombie(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
}

/// A framework that does not checkpoint does not keep its tasks over a restart of the agent.
#[tokio::test]
async fn tasks_of_frameworks_without_checkpoint_end_with_the_agent() {
    let rig = Rig::new(Kind::Root);
    let mut pilot = Pilot::start(&rig, &[]).await;
    let order = launch(1, &[Task::shell("t1", "sleep 1000")], None, false);
    pilot.say(MasterMessage::Orders(vec![order])).await;
    pilot.until_state("t1", TaskState::Running).await;
    pilot.leave().await;
    let mut pilot = Pilot::start(&rig, &[]).await;
    pilot.until_state("t1", TaskState::Lost).await;
    assert_eq!(pilot.statuses.last().unwrap().status.reason, Some(StatusReason::AgentRestarted));
    pilot.stop().await;
}

fn default_executor(id: &str) -> v1::ExecutorInfo {
    v1::ExecutorInfo {
        executor_id: v1::ExecutorId { value: id.to_owned() },
        r#type: Some(v1::executor_info::Type::Default.into()),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_group_lives_and_dies_together() {
    let rig = Rig::new(Kind::Root);
    let mut pilot = Pilot::start(&rig, &[]).await;
    let group = [Task::shell("t1", "while ! test -e go; do sleep 0.01; done; exit 5"), {
        Task::shell("t2", "sleep 1000")
    }];
    let order = launch(1, &group, Some((default_executor("e"), true)), true);
    pilot.say(MasterMessage::Orders(vec![order])).await;
    pilot.until_state("t2", TaskState::Running).await;
    // One more group for the same executor.
    let order = launch(2, &[Task::shell("t3", "pwd")], Some((default_executor("e"), false)), true);
    pilot.say(MasterMessage::Orders(vec![order])).await;
    pilot.until_state("t3", TaskState::Finished).await;
    let directory = sandbox(&rig, "e").join("tasks");
    let out = fs::read_to_string(directory.join("t3/stdout")).unwrap();
    assert_eq!(out, format!("{}\n", directory.join("t3").display()));
    assert!(!pilot.states("t2").contains(&TaskState::Killed));
    fs::write(directory.join("t1/go"), "").unwrap();
    pilot.until_state("t1", TaskState::Failed).await;
    pilot.until_state("t2", TaskState::Killed).await;
    pilot.until(|pilot| pilot.exits.len() == 1).await;
    assert_eq!(pilot.exits[0].executor, executor_name("e"));
    pilot.stop().await;
}

#[tokio::test]
async fn the_orderly_end_kills_every_task() {
    let rig = Rig::new(Kind::Root);
    let mut pilot = Pilot::start(&rig, &[]).await;
    pilot
        .say(MasterMessage::Orders(vec![launch(1, &[Task::shell("t1", "sleep 1000")], None, true)]))
        .await;
    pilot.until_state("t1", TaskState::Running).await;
    pilot.handle.retire().await;
    pilot.until_state("t1", TaskState::Killed).await;
    let mut state = pilot.handle.state();
    state.wait_for(|state| *state == State::Retired).await.unwrap();
    pilot.stop().await;
}

/// A supervisor outlives the agent, and would keep open what that was started with: a pipe, a
/// lock.
#[tokio::test]
async fn supervisors_inherit_no_files() {
    let rig = Rig::new(Kind::Root);
    let mut pilot = Pilot::start(&rig, &[]).await;
    let marker = rig.work_dir().join("inherited");
    fs::write(&marker, "x").unwrap();
    // Without the flag that closes it in what is started.
    let flags = rustix::fs::OFlags::RDONLY;
    let _kept = rustix::fs::open(&marker, flags, rustix::fs::Mode::empty()).unwrap();
    let task = Task::shell("t1", "ls -l /proc/$PPID/fd /proc/$$/fd > files");
    pilot.say(MasterMessage::Orders(vec![launch(1, &[task], None, true)])).await;
    pilot.until_state("t1", TaskState::Finished).await;
    let files = fs::read_to_string(sandbox(&rig, "t1").join("files")).unwrap();
    assert!(files.contains("stdout") && !files.contains("inherited"), "{files}");
    pilot.stop().await;
}

/// `--recover=cleanup` ends what earlier runs left, and asks no master.
#[tokio::test]
async fn a_start_for_cleaning_up_ends_what_is_left() {
    let rig = Rig::new(Kind::Root);
    let mut pilot = Pilot::start(&rig, &[]).await;
    let task = Task::shell("t1", "echo $$ > pid; exec sleep 1000");
    pilot.say(MasterMessage::Orders(vec![launch(1, &[task], None, true)])).await;
    pilot.until_state("t1", TaskState::Running).await;
    let file = sandbox(&rig, "t1").join("pid");
    wait_for(&file).await;
    let pid: u32 = fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    pilot.leave().await;
    assert!(crate::runner::process::is_alive(pid), "it outlives its agent");
    let recovered = recover(&rig.config(&["--recover", "cleanup"])).unwrap();
    let driver = Driver::start(recovered, rig::program()).unwrap();
    let mut state = driver.handle().state();
    state.wait_for(|state| *state == State::Retired).await.unwrap();
    assert!(!crate::runner::process::is_alive(pid));
    driver.stop().await;
    // Its end is told at the next start.
    let pilot = Pilot::start(&rig, &[]).await;
    let view = pilot.handle.view().await.unwrap();
    assert!(view.tasks.iter().all(|task| task.status.state.is_terminal()));
    pilot.stop().await;
}

#[tokio::test]
async fn a_sick_task_is_ended() {
    let rig = Rig::new(Kind::Root);
    let mut pilot = Pilot::start(&rig, &[]).await;
    let task = Task::shell("t1", "touch well; sleep 1000").change(|info| {
        let command =
            v1::CommandInfo { value: Some("test -e well".to_owned()), ..Default::default() };
        info.health_check = Some(v1::HealthCheck {
            r#type: Some(v1::health_check::Type::Command.into()),
            command: Some(command),
            delay_seconds: Some(0.0),
            interval_seconds: Some(0.01),
            grace_period_seconds: Some(0.0),
            consecutive_failures: Some(2),
            ..Default::default()
        });
    });
    pilot.say(MasterMessage::Orders(vec![launch(1, &[task], None, true)])).await;
    pilot.until(|pilot| pilot.statuses.iter().any(|u| u.status.healthy == Some(true))).await;
    fs::remove_file(sandbox(&rig, "t1").join("well")).unwrap();
    pilot.until_state("t1", TaskState::Killed).await;
    assert_eq!(pilot.statuses.last().unwrap().status.healthy, Some(false));
    pilot.stop().await;
}

#[tokio::test]
async fn time_is_up() {
    let rig = Rig::new(Kind::Root);
    let mut pilot = Pilot::start(&rig, &[]).await;
    let task = Task::shell("t1", "sleep 1000").change(|info| {
        info.max_completion_time = Some(v1::DurationInfo { nanoseconds: 50_000_000 });
    });
    pilot.say(MasterMessage::Orders(vec![launch(1, &[task], None, true)])).await;
    pilot.until_state("t1", TaskState::Failed).await;
    let reason = pilot.statuses.last().unwrap().status.reason;
    assert_eq!(reason, Some(StatusReason::MaxCompletionTimeReached));
    pilot.stop().await;
}

/// V05: the clean-up of old sandboxes leaves volumes alone.
#[tokio::test]
async fn v05_old_sandboxes_go_and_volumes_stay() {
    let mut rig = Rig::new(Kind::Root);
    let mut pilot = Pilot::start(&rig, &["--gc-delay", "1ms"]).await;
    let orders = vec![rig.reserve(64), rig.create(&[("v1", 64)])];
    let task = Task::shell("t1", "echo x > data/precious").with(rig.volume("v1", 64));
    let orders = orders.into_iter().chain([launch(3, &[task], None, true)]).collect();
    pilot.say(MasterMessage::Orders(orders)).await;
    pilot.until_state("t1", TaskState::Finished).await;
    let deadline = Instant::now() + Duration::from_secs(20);
    while rig.work_dir().join("slaves/S0/frameworks/f").exists() {
        assert!(Instant::now() < deadline, "the sandbox stays");
        tokio::task::yield_now().await;
    }
    assert_eq!(fs::read_to_string(rig.directory("v1").join("precious")).unwrap(), "x\n");
    pilot.stop().await;
}
