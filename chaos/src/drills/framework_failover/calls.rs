//! The JSON of the framework's calls. Must not know what became of any. Next: `framework.rs`.

use serde_json::{Value, json};

use crate::drills::workload::ROLE;
use crate::observe::LABEL_KEY;

/// Disk of a job's volume, in MB.
const VOLUME_MB: u32 = 1;

/// Where a task finds its volume, below its sandbox.
const MOUNT: &str = "data";

/// File in the volume to which each start of the task adds its process id.
pub(in crate::drills) const STARTS: &str = "starts";

/// What one job takes of an offer: cpus in hundredths, memory and disk in MB.
pub(in crate::drills) const JOB: (f64, f64, f64) = (0.01, 1.0, 1.0);

/// Who the framework is.
#[derive(Debug, Clone)]
pub(in crate::drills) struct Identity {
    pub(in crate::drills) framework_id: Option<String>,
    pub(in crate::drills) principal: Option<String>,
    pub(in crate::drills) name: String,
}

impl Identity {
    fn call(&self, kind: &str, key: &str, body: Value) -> Value {
        let mut call = json!({"type": kind, "framework_id": {"value": self.framework_id}});
        call[key] = body;
        call
    }

    pub(in crate::drills) fn subscribe(&self) -> Value {
        let mut info = json!({
            "user": "root",
            "name": self.name,
            "roles": [ROLE],
            "checkpoint": true,
            "failover_timeout": 3600.0,
            "capabilities": [
                {"type": "MULTI_ROLE"},
                {"type": "RESERVATION_REFINEMENT"},
                {"type": "PARTITION_AWARE"},
            ],
        });
        if let Some(principal) = &self.principal {
            info["principal"] = json!(principal);
        }
        let mut call = json!({"type": "SUBSCRIBE"});
        if let Some(id) = &self.framework_id {
            info["id"] = json!({"value": id});
            call["framework_id"] = json!({"value": id});
        }
        call["subscribe"] = json!({"framework_info": info});
        call
    }

    pub(in crate::drills) fn accept(&self, offer_id: &str, operations: &[Value]) -> Value {
        let body = json!({
            "offer_ids": [{"value": offer_id}],
            "operations": operations,
            "filters": {"refuse_seconds": 0.0},
        });
        self.call("ACCEPT", "accept", body)
    }

    pub(in crate::drills) fn decline(&self, offer_ids: &[String]) -> Value {
        let ids: Vec<Value> = offer_ids.iter().map(|id| json!({"value": id})).collect();
        let body = json!({"offer_ids": ids, "filters": {"refuse_seconds": 3600.0}});
        self.call("DECLINE", "decline", body)
    }

    pub(in crate::drills) fn revive(&self) -> Value {
        self.call("REVIVE", "revive", json!({}))
    }

    pub(in crate::drills) fn teardown(&self) -> Value {
        json!({"type": "TEARDOWN", "framework_id": {"value": self.framework_id}})
    }

    pub(in crate::drills) fn kill(&self, task_id: &str) -> Value {
        self.call("KILL", "kill", json!({"task_id": {"value": task_id}}))
    }

    pub(in crate::drills) fn acknowledge(&self, status: &Value) -> Value {
        let body = json!({
            "agent_id": status["agent_id"],
            "task_id": status["task_id"],
            "uuid": status["uuid"],
        });
        self.call("ACKNOWLEDGE", "acknowledge", body)
    }

    pub(in crate::drills) fn acknowledge_operation(&self, status: &Value) -> Value {
        let body = json!({
            "agent_id": status["agent_id"],
            "operation_id": status["operation_id"],
            "uuid": status["uuid"]["value"],
        });
        self.call("ACKNOWLEDGE_OPERATION_STATUS", "acknowledge_operation_status", body)
    }

    /// Asks where tasks stand; none means all that the master knows.
    pub(in crate::drills) fn reconcile(&self, tasks: &[(&str, Option<&str>)]) -> Value {
        let task = |(id, agent): &(&str, Option<&str>)| {
            let mut task = json!({"task_id": {"value": id}});
            if let Some(agent) = agent {
                task["agent_id"] = json!({"value": agent});
            }
            task
        };
        let tasks: Vec<Value> = tasks.iter().map(task).collect();
        self.call("RECONCILE", "reconcile", json!({"tasks": tasks}))
    }

    /// RESERVE, CREATE and LAUNCH of one job. Operations are named after the attempt.
    pub(in crate::drills) fn job(&self, task_id: &str, attempt: u32, agent_id: &str) -> Vec<Value> {
        let mut reservation = json!({
            "type": "DYNAMIC",
            "role": ROLE,
            "labels": {"labels": [{"key": LABEL_KEY, "value": task_id}]},
        });
        let mut persistence = json!({"id": task_id});
        if let Some(principal) = &self.principal {
            reservation["principal"] = json!(principal);
            persistence["principal"] = json!(principal);
        }
        let mut disk = scalar("disk", f64::from(VOLUME_MB));
        disk["reservations"] = json!([reservation]);
        let mut volume = disk.clone();
        volume["disk"] = json!({
            "persistence": persistence,
            "volume": {"container_path": MOUNT, "mode": "RW"},
        });
        let (cpus, mem, _) = JOB;
        let task = json!({
            "name": task_id,
            "task_id": {"value": task_id},
            "agent_id": {"value": agent_id},
            "resources": [scalar("cpus", cpus), scalar("mem", mem), volume],
            "command": {"value": format!("echo $$ >> {MOUNT}/{STARTS}; exec sleep 86400")},
        });
        let id = |step: &str| json!({"value": operation_id(task_id, attempt, step)});
        vec![
            json!({"type": "RESERVE", "id": id("reserve"), "reserve": {"resources": [disk]}}),
            json!({"type": "CREATE", "id": id("create"), "create": {"volumes": [volume]}}),
            json!({"type": "LAUNCH", "launch": {"task_infos": [task]}}),
        ]
    }
}

/// The framework's name of an operation.
pub(in crate::drills) fn operation_id(task_id: &str, attempt: u32, step: &str) -> String {
    format!("{task_id}.{attempt}.{step}")
}

fn scalar(name: &str, value: f64) -> Value {
    json!({"name": name, "type": "SCALAR", "scalar": {"value": value}})
}
