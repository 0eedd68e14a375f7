//! V17: a volume whose directory is gone is unavailable on both APIs, with its reason, until it is
//! back; it is destroyed only on insistence. Without a restart of anything.

use std::fs;

use chaos::wait;
use serde_json::Value;

use crate::harness::{DEADLINE, Dev, ROLE, assert_success, errors, holdfast, operator_call};
use crate::harness::{reserved, volume};

impl Dev {
    /// Whether the masters say of the only volume what the agent says of it.
    async fn is_unavailable(&self, expected: bool) -> Value {
        let http = self.cluster.layout().agents[0].http.clone();
        wait::until("both sides", DEADLINE, async || {
            let master = self.read("/api/v1/volumes").await[0]["unavailable"].clone();
            let agent = self.client.get(&http, "/state").await?["unavailable"].clone();
            let is_there = agent.as_array().is_some_and(|list| !list.is_empty());
            let is_so = master == expected && is_there == expected;
            if is_so { Ok(agent) } else { Err(format!("{master}, {agent}")) }
        })
        .await
        .unwrap()
    }
}

#[tokio::test]
async fn v17_unavailable_on_both_apis_until_it_is_back_or_given_up() {
    let dev = Dev::start(1, 1);
    dev.call(0, "RESERVE_RESOURCES", &[reserved("disk", 512.0)]).await.expect("disk", 202, "");
    dev.call(0, "CREATE_VOLUMES", &[volume("v1", 64.0)]).await.expect("v1", 202, "");
    let directory = dev.work_dir(0).join("volumes/roles").join(ROLE).join("v1");
    let elsewhere = dev.dir().join("elsewhere");
    fs::write(directory.join("precious"), "x").unwrap();
    dev.is_unavailable(false).await;

    fs::rename(&directory, &elsewhere).unwrap();
    let why = dev.is_unavailable(true).await;
    assert!(why.to_string().contains("missing"), "{why}");
    let id = dev.agent_id(0).await;
    let destroy = operator_call(&id, "DESTROY_VOLUMES", &[volume("v1", 64.0)]);
    dev.post("/api/v1", &[], &destroy).await.expect("not forced", 400, "force=true");
    dev.post("/api/v1?force=maybe", &[], &destroy).await.expect("neither", 400, "'force'");

    fs::rename(&elsewhere, &directory).unwrap();
    dev.is_unavailable(false).await;
    assert!(directory.join("precious").exists(), "nobody touched it");

    fs::rename(&directory, &elsewhere).unwrap();
    dev.is_unavailable(true).await;
    let masters = dev.cluster.masters().join(",");
    let destroy = |more: &[&str]| {
        let own = [
            "volume", "destroy", "--id", "v1", "--role", ROLE, "--agent", "S0", "--yes",
            "--master", &masters,
        ];
        holdfast(&[&own[..], more].concat())
    };
    let refused = destroy(&[]);
    assert!(!refused.status.success() && errors(&refused).contains("unavailable"), "{refused:?}");
    assert_success(&destroy(&["--force"]));
    assert!(elsewhere.join("precious").exists(), "nobody looks for it");
}
