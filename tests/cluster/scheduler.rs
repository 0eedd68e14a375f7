//! A framework for one test: its stream, its calls, and what it has been told so far.

use chaos::client::{Client, Outcome};
use chaos::scheduler::{Subscribed, Subscription};
use chaos::wait;
use serde_json::{Value, json};

use crate::harness::{DEADLINE, Dev};

/// A subscribed framework.
pub(crate) struct Framework {
    pub(crate) id: String,
    info: Value,
    client: Client,
    masters: Vec<String>,
    stream: Box<Subscription>,
    /// Every event since the subscription, in order.
    pub(crate) told: Vec<Value>,
}

/// A framework in `role` that can cope with everything that a test needs, and outlives its stream
/// for an hour.
pub(crate) fn info(role: &str) -> Value {
    json!({
        "user": "root",
        "name": format!("framework of {role}"),
        "roles": [role],
        "checkpoint": true,
        "failover_timeout": 3600.0,
        "capabilities": [
            {"type": "MULTI_ROLE"},
            {"type": "RESERVATION_REFINEMENT"},
            {"type": "PARTITION_AWARE"},
            {"type": "SHARED_RESOURCES"},
        ],
    })
}

impl Framework {
    /// Subscribes in a role at whoever leads.
    pub(crate) async fn subscribe(dev: &Dev, role: &str) -> Self {
        Self::subscribe_as(dev, info(role)).await
    }

    /// Subscribes with this info.
    pub(crate) async fn subscribe_as(dev: &Dev, info: Value) -> Self {
        let (client, masters) = (dev.client.clone(), dev.cluster.masters());
        let (id, stream, told) = open(&client, &masters, &info).await;
        Self { id, info, client, masters, stream, told }
    }

    /// Subscribes again under its id; the old stream is not looked at any more.
    pub(crate) async fn resubscribe(&mut self) {
        self.info["id"] = json!({"value": self.id});
        let (id, stream, told) = open(&self.client, &self.masters, &self.info).await;
        assert_eq!(id, self.id);
        (self.stream, self.told) = (stream, told);
    }

    /// Waits for the next event of which `wanted` makes something. None of what came before
    /// counts.
    pub(crate) async fn next<T>(&mut self, what: &str, wanted: impl Fn(&Value) -> Option<T>) -> T {
        let next = async {
            loop {
                let event = self.stream.next().await.unwrap();
                let event = event.unwrap_or_else(|| panic!("{what}: the stream has ended"));
                let found = wanted(&event);
                self.told.push(event);
                if let Some(found) = found {
                    return found;
                }
            }
        };
        let found = tokio::time::timeout(DEADLINE, next).await;
        found.unwrap_or_else(|_| panic!("{what}: told only {:#?}", self.told))
    }

    /// Waits for the end of the stream; gives what it said last.
    pub(crate) async fn ended(&mut self) -> Value {
        let end = async {
            while let Some(event) = self.stream.next().await.unwrap() {
                self.told.push(event);
            }
        };
        tokio::time::timeout(DEADLINE, end).await.unwrap();
        self.told.last().cloned().unwrap_or_default()
    }

    /// The offers of the next OFFERS.
    pub(crate) async fn offers(&mut self) -> Vec<Value> {
        self.next("offers", |event| match event["type"] == "OFFERS" {
            true => Some(event["offers"]["offers"].as_array().unwrap().clone()),
            false => None,
        })
        .await
    }

    /// The next status of a task.
    pub(crate) async fn status(&mut self, task_id: &str) -> Value {
        self.next(&format!("a status of {task_id}"), |event| {
            let status = &event["update"]["status"];
            (status["task_id"]["value"] == task_id).then(|| status.clone())
        })
        .await
    }

    /// The first status of a task that says `state`; those on the way are acknowledged, and so
    /// is it.
    pub(crate) async fn reaches(&mut self, task_id: &str, state: &str) -> Value {
        loop {
            let status = self.status(task_id).await;
            if status["uuid"].is_string() {
                let body = json!({
                    "agent_id": status["agent_id"],
                    "task_id": status["task_id"],
                    "uuid": status["uuid"],
                });
                self.call("ACKNOWLEDGE", "acknowledge", body).await;
            }
            if status["state"] == state {
                return status;
            }
        }
    }

    /// The next status of an operation, by the framework's own id.
    pub(crate) async fn feedback(&mut self, operation_id: &str) -> Value {
        self.next(&format!("a status of operation {operation_id}"), |event| {
            let status = &event["update_operation_status"]["status"];
            (status["operation_id"]["value"] == operation_id).then(|| status.clone())
        })
        .await
    }

    /// A call on the open stream, which must be taken.
    pub(crate) async fn call(&self, kind: &str, key: &str, body: Value) {
        assert_eq!(self.try_call(kind, key, body).await, Outcome::Accepted, "{kind}");
    }

    /// A call on the open stream.
    pub(crate) async fn try_call(&self, kind: &str, key: &str, body: Value) -> Outcome {
        let mut call = json!({"type": kind, "framework_id": {"value": self.id}});
        call[key] = body;
        self.client.schedule(&self.stream.address, &self.stream.stream_id, &call).await
    }

    /// ACCEPT of offers; what is left is wanted again at once.
    pub(crate) async fn accept(&self, offers: &[&Value], operations: &[Value]) {
        self.accept_refusing(0.0, offers, operations).await;
    }

    /// ACCEPT of offers; what is left is not wanted for so many seconds.
    pub(crate) async fn accept_refusing(
        &self,
        refuse_seconds: f64,
        offers: &[&Value],
        operations: &[Value],
    ) {
        let ids: Vec<&Value> = offers.iter().map(|offer| &offer["id"]).collect();
        let body = json!({
            "offer_ids": ids,
            "operations": operations,
            "filters": {"refuse_seconds": refuse_seconds},
        });
        self.call("ACCEPT", "accept", body).await;
    }

    /// DECLINE of offers for so many seconds.
    pub(crate) async fn decline(&self, refuse_seconds: f64, offers: &[Value]) {
        let ids: Vec<&Value> = offers.iter().map(|offer| &offer["id"]).collect();
        let body = json!({"offer_ids": ids, "filters": {"refuse_seconds": refuse_seconds}});
        self.call("DECLINE", "decline", body).await;
    }
}

async fn open(
    client: &Client,
    masters: &[String],
    info: &Value,
) -> (String, Box<Subscription>, Vec<Value>) {
    let mut call = json!({"type": "SUBSCRIBE", "subscribe": {"framework_info": info}});
    if info["id"].is_object() {
        call["framework_id"] = info["id"].clone();
    }
    let mut stream = wait::until("a subscription", DEADLINE, async || {
        let mut last = String::new();
        for address in masters {
            match client.subscribe(address, &call).await {
                Subscribed::Open(stream) => return Ok(stream),
                Subscribed::Elsewhere(leader) => last = format!("leader is {leader:?}"),
                Subscribed::Refused(reason) => panic!("SUBSCRIBE: {reason}"),
            }
        }
        Err(last)
    })
    .await
    .unwrap();
    let first = stream.next().await.unwrap().expect("a first event");
    assert_eq!(first["type"], "SUBSCRIBED", "{first}");
    let id = first["subscribed"]["framework_id"]["value"].as_str().unwrap().to_owned();
    (id, stream, vec![first])
}

/// The amount of a scalar in a list of resources, whatever it is reserved for.
pub(crate) fn amount(resources: &Value, name: &str) -> f64 {
    let of_name = resources.as_array().unwrap().iter().filter(|resource| resource["name"] == name);
    of_name.filter_map(|resource| resource["scalar"]["value"].as_f64()).sum()
}

/// An unreserved scalar.
pub(crate) fn plain(name: &str, amount: f64) -> Value {
    json!({"name": name, "type": "SCALAR", "scalar": {"value": amount}})
}

/// A scalar that is dynamically reserved for a role by nobody in particular.
pub(crate) fn reserved_for(role: &str, name: &str, amount: f64) -> Value {
    let mut resource = plain(name, amount);
    resource["reservations"] = json!([{"type": "DYNAMIC", "role": role}]);
    resource
}

/// A volume on disk that is reserved for a role.
pub(crate) fn volume_for(role: &str, id: &str, amount: f64) -> Value {
    let mut volume = reserved_for(role, "disk", amount);
    volume["disk"] = json!({
        "persistence": {"id": id},
        "volume": {"container_path": "data", "mode": "RW"},
    });
    volume
}

/// RESERVE with the framework's own id.
pub(crate) fn reserve(id: &str, resources: &[Value]) -> Value {
    json!({"type": "RESERVE", "id": {"value": id}, "reserve": {"resources": resources}})
}

/// CREATE with the framework's own id.
pub(crate) fn create(id: &str, volumes: &[Value]) -> Value {
    json!({"type": "CREATE", "id": {"value": id}, "create": {"volumes": volumes}})
}

/// LAUNCH of one command.
pub(crate) fn launch(task_id: &str, offer: &Value, resources: &[Value], command: &str) -> Value {
    let task = json!({
        "name": task_id,
        "task_id": {"value": task_id},
        "agent_id": offer["agent_id"],
        "resources": resources,
        "command": {"value": command},
    });
    json!({"type": "LAUNCH", "launch": {"task_infos": [task]}})
}
