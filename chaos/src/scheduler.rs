//! A scheduler's side of the Mesos v1 scheduler API, in JSON: the stream of events in RecordIO,
//! and the calls beside it. Follows no redirect by itself. Must not know what a framework wants.
//! Next: `history.rs`.

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::client::{Client, Outcome, authority, cause};

/// Header that names a subscription.
pub const STREAM_ID: &str = "Mesos-Stream-Id";

/// Path of the scheduler API.
const PATH: &str = "/api/v1/scheduler";

/// Longest length line of a record: a decimal number and its newline.
const LENGTH_BYTES_MAX: usize = 21;

/// An open stream of events.
#[derive(Debug)]
pub struct Subscription {
    /// Address of the master that serves it.
    pub address: String,
    /// Its name, which every call of the framework must carry.
    pub stream_id: String,
    response: reqwest::Response,
    records: Records,
}

/// What SUBSCRIBE came to.
#[derive(Debug)]
pub enum Subscribed {
    /// The stream is open.
    Open(Box<Subscription>),
    /// Not here; perhaps there.
    Elsewhere(Option<String>),
    /// Not at all, for this reason.
    Refused(String),
}

impl Client {
    /// SUBSCRIBE at one address.
    pub async fn subscribe(&self, address: &str, call: &Value) -> Subscribed {
        let request = self.endless(&format!("http://{address}{PATH}")).json(call);
        let response = match request.send().await {
            Ok(response) => response,
            Err(_) => return Subscribed::Elsewhere(None),
        };
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        match (response.status().as_u16(), header(STREAM_ID)) {
            (200, Some(stream_id)) => Subscribed::Open(Box::new(Subscription {
                address: address.to_owned(),
                stream_id,
                response,
                records: Records::default(),
            })),
            (200, None) => Subscribed::Refused(format!("no {STREAM_ID}")),
            (307, _) => Subscribed::Elsewhere(header("location").as_deref().and_then(authority)),
            (503, _) => Subscribed::Elsewhere(None),
            (status, _) => {
                let text = response.text().await.unwrap_or_default();
                Subscribed::Refused(format!("{status} {text}"))
            }
        }
    }

    /// Any other call of a scheduler, to the master of its stream.
    pub async fn schedule(&self, address: &str, stream_id: &str, call: &Value) -> Outcome {
        let url = format!("http://{address}{PATH}");
        self.post(&url, call, Some((STREAM_ID, stream_id))).await
    }
}

impl Subscription {
    /// The next event; none when the stream has ended, however that came.
    ///
    /// # Errors
    /// When what comes is no RecordIO of JSON.
    pub async fn next(&mut self) -> anyhow::Result<Option<Value>> {
        loop {
            if let Some(record) = self.records.next()? {
                let event = serde_json::from_slice(&record).context("an event that is no JSON")?;
                return Ok(Some(event));
            }
            match self.response.chunk().await {
                Ok(Some(bytes)) => self.records.push(&bytes),
                Ok(None) => return Ok(None),
                Err(error) => {
                    tracing::debug!(cause = cause(&error), "a stream broke");
                    return Ok(None);
                }
            }
        }
    }
}

/// RecordIO: a length in decimal, a newline, and as many bytes.
#[derive(Debug, Default)]
struct Records {
    bytes: Vec<u8>,
}

impl Records {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn next(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        let Some(line) = self.bytes.iter().position(|byte| *byte == b'\n') else {
            if self.bytes.len() > LENGTH_BYTES_MAX {
                bail!("a record without a length");
            }
            return Ok(None);
        };
        let length = std::str::from_utf8(&self.bytes[..line])?.parse::<usize>();
        let length = length.context("the length of a record is no number")?;
        let (begin, end) = (line + 1, line + 1 + length);
        if self.bytes.len() < end {
            return Ok(None);
        }
        let record = self.bytes[begin..end].to_vec();
        self.bytes.drain(..end);
        Ok(Some(record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_whole_however_they_are_cut() {
        let wire = b"2\n{}11\n{\"a\": \"\\n\"}0\n";
        for size in 1..wire.len() {
            let mut records = Records::default();
            let mut seen = Vec::new();
            for part in wire.chunks(size) {
                records.push(part);
                while let Some(record) = records.next().unwrap() {
                    seen.push(String::from_utf8(record).unwrap());
                }
            }
            assert_eq!(seen, ["{}", "{\"a\": \"\\n\"}", ""], "parts of {size}");
        }
    }

    #[test]
    fn what_is_no_record_is_refused() {
        for wire in [&b"x\n{}"[..], b"-1\n", b"1111111111111111111111111"] {
            let mut records = Records::default();
            records.push(wire);
            assert!(records.next().is_err());
        }
    }
}
