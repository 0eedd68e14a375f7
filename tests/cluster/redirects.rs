//! Masters that do not lead: 307 to the one that does, 503 when none does.

use chaos::client::Outcome;
use chaos::cluster::Member;
use chaos::process::Signal;
use reqwest::StatusCode;
use serde_json::json;

use crate::harness::{DEADLINE, Dev};

#[tokio::test]
async fn followers_redirect_and_a_lone_master_serves_nothing() {
    let dev = Dev::start(3, 1);
    let http = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .build()
        .unwrap();
    let leader = dev.leader().await;
    let masters = dev.cluster.masters();
    let location =
        |response: &reqwest::Response| response.headers()["location"].to_str().unwrap().to_owned();
    for follower in (0..3).filter(|place| *place != leader) {
        for (path, target) in [
            ("/slaves?x=1", "/master/slaves?x=1"),
            ("/master/state", "/master/state"),
            ("/api/v1", "/master/api/v1"),
        ] {
            let url = format!("http://{}{path}", masters[follower]);
            let response = http.get(url).send().await.unwrap();
            assert_eq!(response.status(), StatusCode::TEMPORARY_REDIRECT, "{path}");
            assert_eq!(location(&response), format!("//{}{target}", masters[leader]));
        }
        for path in ["/health", "/version"] {
            let url = format!("http://{}{path}", masters[follower]);
            assert_eq!(http.get(url).send().await.unwrap().status(), StatusCode::OK, "{path}");
        }
        let stale = dev.client.get(&masters[follower], "/slaves?consistency=stale").await.unwrap();
        assert_eq!(stale["slaves"].as_array().unwrap().len(), 1);
    }
    for master in &masters {
        let response = http.get(format!("http://{master}/redirect")).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::TEMPORARY_REDIRECT);
        assert_eq!(location(&response), format!("//{}", masters[leader]));
    }

    // Without a quorum nobody leads, and whoever is left says so.
    let left = (leader + 1) % 3;
    for killed in (0..3).filter(|place| *place != left) {
        dev.cluster.signal(Member::Master(killed), Signal::KILL).unwrap();
    }
    chaos::wait::until("503", DEADLINE, async || {
        let response = http.get(format!("http://{}/slaves", masters[left])).send().await;
        let response = response.map_err(|error| error.to_string())?;
        let (status, headers) = (response.status(), response.headers().clone());
        let text = response.text().await.unwrap_or_default();
        match status == StatusCode::SERVICE_UNAVAILABLE && headers.contains_key("retry-after") {
            true if text == "No leader elected" => Ok(()),
            _ => Err(format!("{status} {text}")),
        }
    })
    .await
    .unwrap();
    let call = json!({"type": "GET_AGENTS"});
    let outcome = dev.client.call(&masters[left], &call).await;
    assert_eq!(outcome, Outcome::NotExecuted { leader: None });
}
