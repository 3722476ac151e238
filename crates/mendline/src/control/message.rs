//! What is asked of a running process, and what it answers.
//!
//! One JSON line asks; the answer is one line, or lines without end when events are asked for. Both sides bound what they
//! read, and ignore members that they do not know: an older `status` can ask a newer bridge.

use serde::{Deserialize, Serialize};

use super::snapshot::Snapshot;

/// The longest question that is read.
pub const REQUEST_BYTES: usize = 4 * 1024;

/// The longest answer that is read.
pub const RESPONSE_BYTES: usize = 1024 * 1024;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "ask")]
pub enum Request {
    /// How does everything stand?
    Snapshot,
    /// What happens from now on?
    Events {
        /// Nothing quieter than this.
        level: Level,
    },
    /// Do something.
    Command {
        /// What to do.
        #[serde(rename = "what")]
        command: Command,
        /// To which server; to all of them if it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<String>,
    },
}

/// Something to do to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Command {
    /// Make a new connection.
    Reconnect,
    /// Take it out: nothing is sent to it until it is resumed.
    Isolate,
    /// Bring it back.
    Resume,
}

/// How loud something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// For those who follow single calls.
    Debug,
    /// For those who follow the day.
    Info,
    /// Something was lost or mended that should not have broken.
    Warn,
    /// Something needs a person.
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

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Response {
    /// How everything stands.
    Snapshot(Box<Snapshot>),
    /// Events follow, from here on.
    Following,
    /// Something happened.
    Event(EventRecord),
    /// So many events were left out, because they were not read.
    Missed(u64),
    /// The command was passed on to these servers.
    Done {
        /// By name.
        servers: Vec<String>,
    },
    /// There is no such thing to do.
    Refused(String),
}

/// One thing that happened, for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventRecord {
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// How loud it is.
    pub level: Level,
    /// About which server, if about one.
    pub server: Option<String>,
    /// Whether the server itself said it, on its stderr.
    #[serde(rename = "said")]
    pub is_stderr: bool,
    /// In words, harmless to print.
    pub text: String,
}
