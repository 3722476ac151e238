//! How one process and its servers stand at one moment.
//!
//! This is what `mendline status --json` prints, so its members are a promise: they may grow in number, and none changes its
//! meaning while [`VERSION`] stays. Times are spans that were true when the snapshot was taken (`forMs`, `agoMs`, `inMs`), by
//! a clock that nobody sets; only `takenAt` and `startedAt` are dates. Nothing in it is a secret: of a URL there is the host,
//! of a command the program.

use serde::{Deserialize, Serialize};

/// The version of this shape. It changes when a member goes or changes its meaning, and not when one is added.
pub const VERSION: u32 = 2;

/// One running Mendline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// The version of this shape.
    pub version: u32,
    /// When it was taken, in milliseconds since 1970.
    pub taken_at: u64,
    /// The process.
    pub process: ProcessInfo,
    /// The servers that it looks after, in the order of its configuration.
    pub servers: Vec<Server>,
}

/// What is known of the process itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessInfo {
    /// Its id.
    pub pid: u32,
    /// The version of Mendline.
    pub mendline: String,
    /// When it was started, in milliseconds since 1970.
    pub started_at: u64,
    /// The file that its server is configured in, if it is run by name.
    pub configuration: Option<String>,
    /// Who speaks to it, if it has said so.
    pub client: Option<ClientInfo>,
}

/// Somebody who has introduced himself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientInfo {
    /// By this name.
    pub name: String,
    /// In this version, or nothing.
    pub version: String,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Server {
    /// What it is called.
    pub name: String,
    /// How it is reached.
    pub transport: TransportKind,
    /// Where it is: the host of a URL, the program of a command.
    pub target: String,
    /// How it is.
    pub state: State,
    /// Whether calls are held back from it.
    pub breaker: Breaker,
    /// How fast it is called.
    pub limit: Limit,
    /// Calls that are with it now.
    pub in_flight: u64,
    /// Calls that wait for it now.
    pub waiting: u64,
    /// What became of calls so far.
    pub calls: Calls,
    /// How long answered calls took.
    pub latency: Latency,
    /// How the connection has been, apart from the calls.
    pub connection: Connection,
    /// What went wrong last, if anything has.
    pub last_error: Option<LastError>,
}

/// How a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TransportKind {
    /// As a child process.
    Child,
    /// Over Streamable HTTP.
    Http,
    /// Over the older HTTP with SSE.
    Sse,
}

/// How a server is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// In one word.
    pub kind: StateKind,
    /// For how long.
    pub for_ms: u64,
    /// Why, if it is not well.
    pub why: Option<String>,
    /// Which attempt to connect is under way or comes next, counted from the loss.
    pub attempt: Option<u32>,
    /// After how many it is parked, if that is known.
    pub attempts: Option<u32>,
    /// When the next attempt begins, if it is known.
    pub next_in_ms: Option<u64>,
}

/// How a server is, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StateKind {
    /// It is there and has answered.
    Ready,
    /// Nobody has wanted anything of it yet, or not for a while.
    Idle,
    /// It is being started, or has not answered yet.
    Starting,
    /// It was lost and is being brought back.
    Reconnecting,
    /// It is being ended.
    Stopping,
    /// A person took it out.
    Isolated,
    /// It lets nobody in without a login.
    NeedsLogin,
    /// It could not be brought back; it is tried now and then, and when it is called.
    Parked,
}

/// Whether calls are held back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Breaker {
    /// Where it stands.
    pub state: BreakerState,
    /// When a call may try the server again, if it is open.
    pub tries_in_ms: Option<u64>,
    /// What opened it.
    pub why: Option<String>,
    /// The tools that have an open breaker of their own.
    pub tools: Vec<ToolBreaker>,
}

/// The breaker of one tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolBreaker {
    /// Which tool.
    pub tool: String,
    /// Where it stands.
    pub state: BreakerState,
    /// When a call may try it again, if it is open.
    pub tries_in_ms: Option<u64>,
    /// What opened it.
    pub why: Option<String>,
}

/// Where a breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BreakerState {
    /// Calls flow.
    Closed,
    /// Calls are held back.
    Open,
    /// One call tries.
    HalfOpen,
    /// Calls are held back because a person said so.
    Isolated,
}

/// How fast a server is called.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Limit {
    /// The configured rate, if there is one.
    pub rate: Option<Rate>,
    /// For how long the server still wants to be left alone, if it has said so.
    pub paused_ms: Option<u64>,
    /// Calls so far that had to wait for their turn.
    pub slowed: u64,
}

/// A configured rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rate {
    /// So many at once.
    pub burst: u32,
    /// So many per second in the long run.
    pub per_second: f64,
}

/// The outcomes of requests so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Calls {
    /// Tool calls.
    pub tools: Outcomes,
    /// Requests with other methods.
    pub other: Outcomes,
    /// Attempts beyond the first.
    pub retried: u64,
    /// Retries that the retry budget did not allow.
    pub retries_refused: u64,
    /// Responses that were resumed after their stream broke off.
    pub resumed: u64,
    /// Requests that the client cancelled or left behind.
    pub cancelled: u64,
    /// Requests that Mendline answered from the catalogue, or provisionally.
    pub answered_early: u64,
}

/// How many requests had which outcome. Each request is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcomes {
    /// The server answered with a result.
    pub ok: u64,
    /// The server answered with a result whose `isError` is set.
    pub tool_errors: u64,
    /// The server answered with a JSON-RPC error.
    pub errors: u64,
    /// Mendline answered with a failure, and the request did not run.
    pub failed: u64,
    /// Mendline answered with a failure, and the request may have run.
    pub unknown: u64,
    /// Mendline did not accept it: a limit, a breaker, a parked server.
    pub rejected: u64,
}

impl Outcomes {
    /// Returns how many had any outcome.
    pub fn all(&self) -> u64 {
        self.ok + self.tool_errors + self.errors + self.failed + self.unknown + self.rejected
    }

    /// Returns how many did not bring what the client wanted, but for errors of the tool itself.
    pub fn unanswered(&self) -> u64 {
        self.failed + self.unknown + self.rejected
    }
}

impl std::ops::Add for Outcomes {
    type Output = Outcomes;

    fn add(self, other: Outcomes) -> Outcomes {
        Outcomes {
            ok: self.ok + other.ok,
            tool_errors: self.tool_errors + other.tool_errors,
            errors: self.errors + other.errors,
            failed: self.failed + other.failed,
            unknown: self.unknown + other.unknown,
            rejected: self.rejected + other.rejected,
        }
    }
}

/// How long answered calls took, within 5 %.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// How many were measured.
    pub count: u64,
    /// Half of them took no longer, in microseconds.
    pub p50_us: Option<u64>,
    /// 95 of 100 took no longer.
    pub p95_us: Option<u64>,
    /// 99 of 100 took no longer.
    pub p99_us: Option<u64>,
}

/// How the connection has been.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    /// Attempts to connect.
    pub dials: u64,
    /// Of those, how many never came to an answer.
    pub dials_failed: u64,
    /// How often it was ready and was lost; a connection that was ended by hand is not lost.
    pub losses: u64,
    /// How long the last successful attempt took, up to the first answer.
    pub took_ms: Option<u64>,
    /// The process id of the server, which is also the id of its process group, if it is a child.
    pub child: Option<u32>,
}

/// What went wrong last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastError {
    /// In words.
    pub what: String,
    /// How long ago.
    pub ago_ms: u64,
}
