//! Requests to a running process, and its responses.
//!
//! A request is one JSON line. The response is one line, or an endless sequence of lines for events. Both sides limit
//! what they read and ignore unknown members, so that an older `status` can query a newer process.

use serde::{Deserialize, Serialize};

use super::call_report::CallAnswer;
use super::snapshot::Snapshot;
use crate::metrics::Sample;

/// The limit of a request, in bytes.
pub(super) const REQUEST_BYTES: usize = 4 * 1024;

/// The limit of a response, in bytes.
pub(super) const RESPONSE_BYTES: usize = 16 * 1024 * 1024;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "ask")]
pub enum Request {
    /// Returns the state of the process and its servers.
    Snapshot,
    /// Returns the metrics of the process and its servers.
    Metrics,
    /// Returns the course of one call.
    Call {
        /// The number of the call; the newest one that had trouble, else the newest, if it is omitted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<u64>,
        /// The server; all servers if it is omitted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<String>,
    },
    /// Returns events from now on.
    Events {
        /// The lowest level.
        level: Level,
    },
    /// Runs a command.
    Command {
        /// The command.
        #[serde(rename = "what")]
        command: Command,
        /// The server; all servers if it is omitted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<String>,
    },
}

/// A command for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Command {
    /// Opens a new connection.
    Reconnect,
    /// Isolates the server: nothing is sent to it until it is resumed.
    Isolate,
    /// Ends the isolation.
    Resume,
}

/// The severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// Details of single calls.
    Debug,
    /// Normal operation.
    Info,
    /// A loss or a repair.
    Warn,
    /// The operator must act.
    Error,
}

impl From<mendline_core::Level> for Level {
    fn from(level: mendline_core::Level) -> Level {
        match level {
            mendline_core::Level::Debug => Level::Debug,
            mendline_core::Level::Info => Level::Info,
            mendline_core::Level::Warn => Level::Warn,
            mendline_core::Level::Error => Level::Error,
        }
    }
}

/// A response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Response {
    /// The state of the process and its servers.
    Snapshot(Box<Snapshot>),
    /// The metrics of the process and its servers.
    Metrics(Vec<Sample>),
    /// The course of one call.
    Call(CallAnswer),
    /// Events follow.
    Following,
    /// An event.
    Event(EventRecord),
    /// The number of events that were dropped, because the reader was too slow.
    Missed(u64),
    /// The command was passed to the engine.
    Done {
        /// The names of the servers.
        servers: Vec<String>,
    },
    /// The request was rejected, with the reason.
    Refused(String),
}

/// An event as text for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventRecord {
    /// The time, in milliseconds since 1970.
    pub at: u64,
    /// Its severity.
    pub level: Level,
    /// The name of the server, if it concerns one.
    pub server: Option<String>,
    /// The text is a line of the server's stderr.
    #[serde(rename = "said")]
    pub is_stderr: bool,
    /// The text, escaped for terminals.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::*;

    #[test]
    fn json_members_of_requests_and_events_are_stable() {
        let request = Request::Command { command: Command::Isolate, server: Some("notes".to_owned()) };
        assert_eq!(to_value(&request).unwrap(), json!({ "ask": "command", "what": "isolate", "server": "notes" }));
        let request = Request::Events { level: Level::Info };
        assert_eq!(to_value(&request).unwrap(), json!({ "ask": "events", "level": "info" }));
        let record = EventRecord { at: 1, level: Level::Warn, server: None, is_stderr: true, text: "x".to_owned() };
        let expected = json!({ "event": { "at": 1, "level": "warn", "server": null, "said": true, "text": "x" } });
        assert_eq!(to_value(Response::Event(record)).unwrap(), expected);
    }
}
