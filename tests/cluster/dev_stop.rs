//! `holdfast dev stop` leaves nothing that runs, also of an agent that is dead already.

use std::fs;
use std::path::Path;

use chaos::cluster::Member;
use chaos::process::Signal;

use crate::harness::{DEADLINE, Dev, assert_success, holdfast};
use crate::scheduler::{Framework, launch, plain};

#[tokio::test]
async fn tasks_of_a_dead_agent_end_with_the_cluster() {
    let dev = Dev::start_with(1, 1, &["--master-flag", "allocation-interval=50ms"]);
    let mut framework = Framework::subscribe(&dev, "a").await;
    let offer = framework.offers().await.remove(0);
    let file = dev.dir().join("pid");
    let command = format!("echo $$ > {}; exec sleep 1000", file.display());
    let resources = [plain("cpus", 0.1), plain("mem", 32.0)];
    framework.accept(&[&offer], &[launch("t1", &offer, &resources, &command)]).await;
    framework.reaches("t1", "TASK_RUNNING").await;
    let pid = chaos::wait::until("the task's pid", DEADLINE, async || {
        let text = fs::read_to_string(&file).map_err(|error| error.to_string())?;
        text.trim().parse::<u32>().map_err(|error| error.to_string())
    })
    .await
    .unwrap();
    dev.cluster.signal(Member::Agent(0), Signal::KILL).unwrap();
    dev.cluster.ended(&[Member::Agent(0)], DEADLINE).await.unwrap();
    let process = format!("/proc/{pid}");
    assert!(Path::new(&process).exists(), "a task outlives its agent");
    assert_success(&holdfast(&["dev", "stop", "--dir", dev.dir().to_str().unwrap()]));
    assert!(!Path::new(&process).exists(), "and not its cluster");
}
