//! The scheduler API: the checks of each call in their order, streams, and what refuses a
//! framework.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::calls::{Answer, send};
use crate::support::{Cluster, client, until_some};

const JSON: &str = "application/json";

/// A framework's stream, record by record.
pub(crate) struct Stream {
    status: u16,
    pub(crate) stream_id: Option<String>,
    content_type: Option<String>,
    response: reqwest::Response,
    unread: String,
}

impl Stream {
    /// Sends a SUBSCRIBE and takes what comes back as a stream.
    pub(crate) async fn open(address: &str, body: &Value) -> Self {
        Self::of(request(address).json(body)).await
    }

    pub(crate) async fn of(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        let header = |name: &str| {
            let value = response.headers().get(name)?;
            Some(value.to_str().unwrap().to_owned())
        };
        Self {
            status: response.status().as_u16(),
            stream_id: header("mesos-stream-id"),
            content_type: header("content-type"),
            unread: String::new(),
            response,
        }
    }

    /// The next event; none at the end of the stream.
    pub(crate) async fn event(&mut self) -> Option<Value> {
        loop {
            if let Some((length, rest)) = self.unread.split_once('\n') {
                let length: usize = length.parse().unwrap();
                if let Some(record) = rest.get(..length) {
                    let event = serde_json::from_str(record).unwrap();
                    self.unread = rest[length..].to_owned();
                    return Some(event);
                }
            }
            let bytes = self.response.chunk().await.unwrap()?;
            self.unread.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    /// The framework's id, from its first two events.
    pub(crate) async fn subscribed(&mut self) -> String {
        let subscribed = self.event().await.expect("an event");
        assert_eq!(subscribed["type"], "SUBSCRIBED", "{subscribed}");
        let event = self.event().await.expect("a second event");
        assert_eq!(event, json!({"type": "HEARTBEAT"}));
        subscribed["subscribed"]["framework_id"]["value"].as_str().unwrap().to_owned()
    }
}

pub(crate) fn request(address: &str) -> reqwest::RequestBuilder {
    client().post(format!("http://{address}/api/v1/scheduler"))
}

/// SUBSCRIBE of a framework in the role `ads`, with `more` laid over its info.
pub(crate) fn subscribe(more: &Value) -> Value {
    let mut info = json!({"user": "u", "name": "n", "roles": ["ads"],
        "capabilities": [{"type": "MULTI_ROLE"}], "failover_timeout": 3600});
    for (key, value) in more.as_object().unwrap() {
        info[key] = value.clone();
    }
    let mut call = json!({"type": "SUBSCRIBE", "subscribe": {"framework_info": info}});
    if info["id"].is_object() {
        call["framework_id"] = info["id"].clone();
    }
    call
}

/// A call of a framework on its stream.
pub(crate) async fn ask(address: &str, framework: &str, stream: &str, mut call: Value) -> Answer {
    call["framework_id"] = json!({"value": framework});
    send(request(address).header("Mesos-Stream-Id", stream).json(&call)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_checked_in_their_order() {
    let cluster = Cluster::start(1, 1, &[]).await;
    let leader = cluster.leader().await;
    let wrong = send(client().get(format!("http://{leader}/api/v1/scheduler"))).await;
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("POST")));
    let good = subscribe(&json!({})).to_string();
    let id = r#""framework_id":{"value":"nobody"}"#;
    let of_nobody = |rest: &str| format!(r#"{{{id},{rest}}}"#);
    let uuid = "AAAAAAAAAAAAAAAAAAAAAA==";
    let acknowledge = |uuid: &str| {
        of_nobody(&format!(
            r#""type":"ACKNOWLEDGE","acknowledge":{{"agent_id":{{"value":"a"}},
            "task_id":{{"value":"t"}},"uuid":"{uuid}"}}"#
        ))
    };
    let feedback = format!(
        r#""type":"ACKNOWLEDGE_OPERATION_STATUS","acknowledge_operation_status":{{
        "uuid":"{uuid}","operation_id":{{"value":"o"}}}}"#
    );
    let other_id =
        subscribe(&json!({"id": {"value": "x"}})).to_string().replacen("\"x\"", "\"y\"", 1);
    let inner_only = r#"{"type":"SUBSCRIBE","subscribe":{"framework_info":{"user":"u","name":"n",
        "id":{"value":"x"}}}}"#;
    for (kind, accept, body, status, text) in [
        (None, None, good.as_str(), 400, "Expecting 'Content-Type' to be present"),
        (Some("application/json; charset=utf-8"), None, &good, 415, ""),
        (Some("text/plain"), None, &good, 415, ""),
        (Some(JSON), None, "XX", 400, "Failed to convert JSON"),
        (Some("application/x-protobuf"), None, "XX", 400, "Failed to parse body"),
        (Some(JSON), None, r#"{"string":"valid"}"#, 400, "Expecting 'type' to be present"),
        (Some(JSON), None, r#"{"type":"NO_SUCH"}"#, 400, "Expecting 'type' to be present"),
        (Some(JSON), None, r#"{"type":"REVIVE"}"#, 400, "'framework_id' to be present"),
        (Some(JSON), None, r#"{"type":"SUBSCRIBE"}"#, 400, "'subscribe' to be present"),
        (Some(JSON), None, r#"{"type":"SUBSCRIBE","subscribe":{}}"#, 400, "framework_info"),
        (Some(JSON), None, &other_id, 400, "'framework_id' differs"),
        (Some(JSON), None, inner_only, 400, "'framework_id' differs"),
        (Some(JSON), None, &of_nobody(r#""type":"ACCEPT""#), 400, "'accept' to be present"),
        (Some(JSON), None, &of_nobody(r#""type":"KILL""#), 400, "'kill' to be present"),
        (Some(JSON), None, &acknowledge("AAAA"), 400, "3 bytes, not 16"),
        (Some(JSON), None, &of_nobody(&feedback), 400, "agent_id' to be present"),
        (Some(JSON), Some("image/png"), &good, 406, ""),
        (
            Some(JSON),
            Some("image/png"),
            &of_nobody(r#""type":"RECONCILE_OPERATIONS","reconcile_operations":{}"#),
            406,
            "",
        ),
        (Some(JSON), None, &acknowledge(uuid), 400, "Framework cannot be found"),
        (Some(JSON), None, &of_nobody(r#""type":"UNKNOWN""#), 400, "Framework cannot be found"),
        (Some(JSON), None, &of_nobody(r#""type":"TEARDOWN""#), 400, "Framework cannot be found"),
    ] {
        let mut request = request(&leader).body(body.to_owned());
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        if let Some(accept) = accept {
            request = request.header("accept", accept);
        }
        let answer = send(request).await;
        assert_eq!(answer.status, status, "{kind:?} {accept:?} {body}: {}", answer.text);
        assert!(answer.text.contains(text), "{body}: {}", answer.text);
    }
    let named = request(&leader).header("mesos-STREAM-id", "x").json(&subscribe(&json!({})));
    assert_eq!(send(named).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_and_the_calls_on_it() {
    let cluster = Cluster::start(1, 1, &[]).await;
    let leader = cluster.leader().await;
    let mut stream = Stream::open(&leader, &subscribe(&json!({}))).await;
    assert_eq!((stream.status, stream.content_type.as_deref()), (200, Some(JSON)));
    let stream_id = stream.stream_id.clone().unwrap();
    let id = stream.subscribed().await;

    let revive = || json!({"type": "REVIVE"});
    let none = send(request(&leader).json(&json!({"type": "REVIVE",
        "framework_id": {"value": id}})))
    .await;
    assert_eq!(none.status, 400, "no stream is named");
    assert_eq!(ask(&leader, &id, "another", revive()).await.status, 400);
    let taken = ask(&leader, &id, &stream_id, revive()).await;
    assert_eq!((taken.status, taken.text.as_str(), taken.header("content-type")), (202, "", None));
    assert_eq!(taken.header("mesos-stream-id"), None);
    let unknown = ask(&leader, &id, &stream_id, json!({"type": "UNKNOWN"})).await;
    assert_eq!(unknown.status, 501);
    for call in [
        json!({"type": "SUPPRESS", "suppress": {"roles": ["nothing/of/mine", "/"]}}),
        json!({"type": "REQUEST", "request": {"requests": []}}),
        json!({"type": "DECLINE", "decline": {"offer_ids": [{"value": "a/b"}]}}),
        json!({"type": "ACCEPT", "accept": {"offer_ids": [], "operations": []}}),
        json!({"type": "RECONCILE", "reconcile": {"tasks": []}}),
    ] {
        let answer = ask(&leader, &id, &stream_id, call.clone()).await;
        assert_eq!(answer.status, 202, "{call}: {}", answer.text);
    }
    let unnameable = json!({"type": "KILL", "kill": {"task_id": {"value": "a/b"}}});
    assert_eq!(ask(&leader, &id, &stream_id, unnameable).await.status, 400);

    // A second subscription takes over: the first stream hears it, and ends.
    let again = subscribe(&json!({"id": {"value": id}}));
    let mut second = Stream::open(&leader, &again).await;
    assert_eq!(second.subscribed().await, id);
    let error = stream.event().await.unwrap();
    assert_eq!(error["error"]["message"], "Framework failed over");
    assert_eq!(stream.event().await, None);
    assert_eq!(ask(&leader, &id, &stream_id, revive()).await.status, 400, "a stale stream");
    let stream_id = second.stream_id.clone().unwrap();
    assert_eq!(ask(&leader, &id, &stream_id, revive()).await.status, 202);

    // A client that goes away is missed.
    drop(second);
    until_some("the framework is away", async || {
        let answer = ask(&leader, &id, &stream_id, revive()).await;
        (answer.status == 403).then_some(())
    })
    .await;
    let mut third = Stream::open(&leader, &again).await;
    assert_eq!(third.subscribed().await, id);
    let stream_id = third.stream_id.clone().unwrap();
    let gone = ask(&leader, &id, &stream_id, json!({"type": "TEARDOWN"})).await;
    assert_eq!((gone.status, gone.text.as_str()), (202, ""));
    while third.event().await.is_some() {}
    assert_eq!(ask(&leader, &id, &stream_id, revive()).await.status, 400);
    let mut removed = Stream::open(&leader, &again).await;
    let error = removed.event().await.unwrap();
    assert_eq!(error["error"]["message"], "Framework has been removed");
    assert_eq!(removed.event().await, None);
}

/// Each record is one HTTP chunk, also for a client that wants to close: clients exist that
/// read nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn one_record_is_one_chunk() {
    let cluster = Cluster::start(1, 1, &[]).await;
    let leader = cluster.leader().await;
    let body = subscribe(&json!({"name": "nü"})).to_string();
    let mut socket = TcpStream::connect(&leader).await.unwrap();
    let head = format!(
        "POST /api/v1/scheduler HTTP/1.1\r\nHost: {leader}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    socket.write_all(chunk.as_bytes()).await.unwrap();
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains("HEARTBEAT\"}\r\n") {
        let mut bytes = [0; 4096];
        let count = socket.read(&mut bytes).await.unwrap();
        assert_ne!(count, 0, "{}", String::from_utf8_lossy(&read));
        read.extend_from_slice(&bytes[..count]);
    }
    let text = String::from_utf8(read).unwrap();
    let (head, mut body) = text.split_once("\r\n\r\n").unwrap();
    let head = head.to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(head.contains("transfer-encoding: chunked"), "{head}");
    for kind in ["SUBSCRIBED", "HEARTBEAT"] {
        let (length, rest) = body.split_once("\r\n").unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        let (record_length, record) = rest[..length].split_once('\n').unwrap();
        assert_eq!(record_length.parse(), Ok(record.len()));
        let event: Value = serde_json::from_str(record).unwrap();
        assert_eq!(event["type"], kind);
        body = rest[length..].strip_prefix("\r\n").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_refuses_a_framework() {
    let acls = r#"{"register_frameworks": [
        {"principals": {"type": "ANY"}, "roles": {"values": ["secret"]}},
        {"principals": {"type": "ANY"}, "roles": {"type": "NONE"}}]}"#;
    let acls = format!("--acls={acls}");
    let flags = ["--roles=ads,secret", "--root-submissions=false", &acls];
    let cluster = Cluster::start(1, 1, &flags).await;
    let leader = cluster.leader().await;
    let constraints = |text: &str| {
        json!({"role_constraints": {"secret": {"groups": [{
        "attribute_constraints": [{"selector": {"attribute_name": "a"},
            "predicate": {"text_matches": {"regex": text}}}]}]}}})
    };
    let info = |more: Value| {
        let mut call = subscribe(&json!({"roles": ["secret"]}));
        for (key, value) in more.as_object().unwrap() {
            call["subscribe"]["framework_info"][key] = value.clone();
        }
        if more["id"].is_object() {
            call["framework_id"] = more["id"].clone();
        }
        call
    };
    let beside = |key: &str, value: Value| {
        let mut call = subscribe(&json!({"roles": ["secret"]}));
        call["subscribe"][key] = value;
        call
    };
    for (call, text) in [
        (info(json!({"roles": ["/a"]})), "invalid role"),
        (info(json!({"role": "ads"})), "MULTI_ROLE"),
        (info(json!({"id": {"value": "foo/.."}})), "Invalid framework ID"),
        (info(json!({"failover_timeout": 1e300})), "failover_timeout"),
        (info(json!({"roles": ["web"]})), "--roles"),
        (info(json!({"user": "root"})), "root"),
        (info(json!({"roles": ["ads"]})), "may not subscribe as a framework for role 'ads'"),
        (beside("suppressed_roles", json!(["ads"])), "suppressed role 'ads'"),
        (beside("offer_constraints", constraints("(")), "pattern"),
        (
            beside("offer_constraints", json!({"role_constraints": {"ads": {}}})),
            "not one of the framework's",
        ),
    ] {
        let mut stream = Stream::open(&leader, &call).await;
        assert_eq!((stream.status, stream.stream_id.is_some()), (200, true), "{call}");
        let event = stream.event().await.unwrap();
        assert_eq!(event["type"], "ERROR", "{call}: {event}");
        let message = event["error"]["message"].as_str().unwrap();
        assert!(message.contains(text), "{call}: {message}");
        assert_eq!(stream.event().await, None);
    }
    let mut stream = Stream::open(&leader, &beside("offer_constraints", constraints("a.*"))).await;
    let id = stream.subscribed().await;
    what_refuses_an_update(&leader, &id, stream.stream_id.as_deref().unwrap()).await;
}

async fn what_refuses_an_update(leader: &str, id: &str, stream_id: &str) {
    let update = |more: &Value| {
        let mut info = json!({"user": "u", "name": "n", "roles": ["secret"],
            "id": {"value": id}, "capabilities": [{"type": "MULTI_ROLE"}]});
        for (key, value) in more.as_object().unwrap() {
            info[key] = value.clone();
        }
        json!({"type": "UPDATE_FRAMEWORK", "update_framework": {"framework_info": info}})
    };
    for (more, status) in [
        (json!({"name": "other"}), 200),
        (json!({"user": "other"}), 400),
        (json!({"roles": ["/"]}), 400),
        (json!({"roles": ["ads"]}), 403),
        (json!({"id": {"value": "other"}}), 400),
    ] {
        let answer = ask(leader, id, stream_id, update(&more)).await;
        assert_eq!(answer.status, status, "{more}: {}", answer.text);
        if status == 200 {
            assert_eq!((answer.text.as_str(), answer.header("content-type")), ("", None));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn principals_of_frameworks() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("credentials");
    let entries = ["ops", "svc"].map(|name| json!({"principal": name, "secret": name}));
    std::fs::write(&file, json!({"credentials": entries}).to_string()).unwrap();
    let flag = format!("--credentials={}", file.display());
    let cluster = Cluster::start(1, 1, &[&flag, "--authenticate-http-frameworks"]).await;
    let leader = cluster.leader().await;
    let none = send(request(&leader).json(&subscribe(&json!({})))).await;
    let realm = "Basic realm=\"mesos-master-scheduler\"";
    assert_eq!((none.status, none.header("www-authenticate")), (401, Some(realm)));
    let other = request(&leader).basic_auth("ops", Some("ops"));
    let other = send(other.json(&subscribe(&json!({"principal": "svc"})))).await;
    assert_eq!(other.status, 400, "{}", other.text);
    let own = request(&leader).basic_auth("ops", Some("ops")).json(&subscribe(&json!({})));
    let mut stream = Stream::of(own).await;
    let id = stream.subscribed().await;
    let stream_id = stream.stream_id.clone().unwrap();
    for (principal, status) in [("svc", 400), ("ops", 202)] {
        let request = request(&leader).basic_auth(principal, Some(principal));
        let call = json!({"type": "REVIVE", "framework_id": {"value": id}});
        let answer = send(request.header("Mesos-Stream-Id", &stream_id).json(&call)).await;
        assert_eq!(answer.status, status, "{principal}: {}", answer.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_in_protobuf() {
    let cluster = Cluster::start(1, 1, &[]).await;
    let leader = cluster.leader().await;
    let binary = "application/x-protobuf";
    let request = request(&leader).header("accept", binary).json(&subscribe(&json!({})));
    let mut response = request.send().await.unwrap();
    assert_eq!(response.headers()["content-type"], binary);
    let mut decoder = proto::recordio::Decoder::new(1 << 20);
    let mut records = Vec::new();
    while records.len() < 2 {
        let bytes = response.chunk().await.unwrap().expect("a stream");
        records.extend(decoder.push(&bytes).unwrap());
    }
    let read = |record: &[u8]| -> proto::mesos::v1::scheduler::Event {
        proto::json::decode_binary(record).unwrap()
    };
    let subscribed = read(&records[0]).subscribed.unwrap();
    let master = subscribed.master_info.unwrap();
    assert_eq!(master.ip, 16_777_343);
    assert!(master.id.contains("-M1"), "{}", master.id);
    assert_eq!(read(&records[1]).subscribed, None);
}
