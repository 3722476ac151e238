//! The state of one process and its servers at one time.
//!
//! `mendline status --json` prints this type, so its members are a stable format. Members may be added; none changes
//! its meaning while [`VERSION`] is the same. Times are durations relative to the snapshot (`forMs`, `agoMs`, `inMs`)
//! on a monotonic clock; only `takenAt` and `startedAt` are dates. It contains no secrets: of a URL it has the host, of
//! a command the program.

use serde::{Deserialize, Serialize};

/// The version of this format. It changes when a member is removed or changes its meaning, not when one is added.
pub const VERSION: u32 = 2;

/// The state of one running process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// The version of this format.
    pub version: u32,
    /// The time of the snapshot, in milliseconds since 1970.
    pub taken_at: u64,
    /// The process.
    pub process: ProcessInfo,
    /// Its servers, in the order of its configuration.
    pub servers: Vec<Server>,
}

/// Facts about the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessInfo {
    /// Its process id.
    pub pid: u32,
    /// The version of Mendline.
    pub mendline: String,
    /// The time of its start, in milliseconds since 1970.
    pub started_at: u64,
    /// The configuration file of its server, if it is run by name.
    pub configuration: Option<String>,
    /// The client, once it has named itself in `initialize`.
    pub client: Option<ClientInfo>,
    /// The process that started it: the client, or its launcher.
    pub parent: Option<ParentInfo>,
    /// The URL of the gateway, if it is one: the path of a server follows.
    #[serde(default)]
    pub gateway: Option<String>,
}

impl ProcessInfo {
    /// Returns the name of the client: as it named itself, else that of the parent process.
    pub fn client_name(&self) -> Option<&str> {
        let client = self.client.as_ref().map(|client| client.name.as_str()).filter(|name| !name.is_empty());
        client.or(self.parent.as_ref().map(|parent| parent.name.as_str()))
    }
}

/// A parent process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentInfo {
    /// Its process id.
    pub pid: u32,
    /// The name of its program, or of the script that it runs.
    pub name: String,
}

/// The `clientInfo` of the handshake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientInfo {
    /// Its name.
    pub name: String,
    /// Its version, or an empty string.
    pub version: String,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Server {
    /// Its name.
    pub name: String,
    /// Its transport.
    pub transport: TransportKind,
    /// Its target: the host of a URL, the program of a command.
    pub target: String,
    /// Its state.
    pub state: State,
    /// Its circuit breaker.
    pub breaker: Breaker,
    /// Its rate limit.
    pub limit: Limit,
    /// Calls that were sent and are not answered.
    pub in_flight: u64,
    /// Calls that wait to be sent.
    pub waiting: u64,
    /// Calls in flight that have had no byte for 30 s, or twice as long as their tool ever took.
    #[serde(default)]
    pub silent_calls: u64,
    /// The time for which the oldest of them has had no byte.
    #[serde(default)]
    pub silent_for_ms: Option<u64>,
    /// The tool that the oldest of them calls, else its method.
    #[serde(default)]
    pub silent_call: Option<String>,
    /// The outcomes of calls so far.
    pub calls: Calls,
    /// The changes of its lists.
    #[serde(default)]
    pub lists: Lists,
    /// The latency of answered calls.
    pub latency: Latency,
    /// Statistics of its connections.
    pub connection: Connection,
    /// The last error, if there was one.
    pub last_error: Option<LastError>,
    /// Its credential, if that can be renewed.
    #[serde(default)]
    pub credential: Option<Credential>,
    /// The number of its processes or sessions besides the first, of other clients of a gateway.
    #[serde(default)]
    pub sessions: u64,
    /// What is known about it, each fact apart.
    #[serde(default)]
    pub facts: Facts,
}

/// Five facts about a server: each may be fine while another is not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// The process or the connection: `running`, `connected`, `starting`, `idle` or `lost`.
    pub process: String,
    /// The session: `ready` if the server has answered, else `none`.
    pub session: String,
    /// The time since the server last answered with a list.
    pub list_age_ms: Option<u64>,
    /// The last tool call.
    pub last_call: Option<LastCall>,
    /// The credential: `current`, `renewing`, `refused` or `needs login`.
    pub credential: String,
}

/// The last call of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastCall {
    /// The server answered it.
    pub ok: bool,
    /// The time since its end.
    pub ago_ms: u64,
}

/// The credential of a server, without the credential itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Credential {
    /// Its origin.
    pub kind: CredentialKind,
    /// Its state: `current`, `renewing` or `refused`.
    pub state: String,
    /// The number of credentials that replaced another one.
    pub renewals: u64,
    /// The number of failed renewals.
    pub failures: u64,
    /// The last trouble, until there is another credential.
    pub why: Option<String>,
}

/// The origin of a credential that can be renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CredentialKind {
    /// A variable, a file, a command, or client credentials.
    Source,
    /// A login of a person.
    Login,
}

/// The changes of the lists of tools, prompts and resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lists {
    /// Changes of which the client was notified.
    pub changed: u64,
    /// Apparent changes of which it was not notified: nothing was different, entries were missing for a short time, or
    /// only the order was different.
    pub changes_hidden: u64,
}

/// The transport of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TransportKind {
    /// A child process over stdio.
    Child,
    /// Streamable HTTP.
    Http,
    /// HTTP with SSE, the transport of 2024-11-05.
    Sse,
}

/// The state of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// The kind of state.
    pub kind: StateKind,
    /// The time since it entered this state.
    pub for_ms: u64,
    /// The reason, if it is not healthy.
    pub why: Option<String>,
    /// The stable name of that reason: `command_not_found`, `connection_refused`.
    #[serde(default)]
    pub reason: Option<String>,
    /// The number of the current or next attempt to connect, counted from the loss.
    pub attempt: Option<u32>,
    /// The number of attempts after which it is parked, if there is a limit.
    pub attempts: Option<u32>,
    /// The time until the next attempt, if one is planned.
    pub next_in_ms: Option<u64>,
}

/// The kind of a server's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StateKind {
    /// The server is connected and has responded.
    Ready,
    /// The server is not connected: it has not been used yet, or not for some time.
    Idle,
    /// The server is starting, or has not responded yet.
    Starting,
    /// The connection was lost and is being restored.
    Reconnecting,
    /// The server is shutting down.
    Stopping,
    /// The operator isolated the server.
    Isolated,
    /// The server requires a login.
    NeedsLogin,
    /// Reconnecting was given up for now; it is tried rarely, and when the server is called.
    Parked,
}

/// The circuit breaker of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Breaker {
    /// Its state.
    pub state: BreakerState,
    /// The time until a call may probe the server, if it is open.
    pub tries_in_ms: Option<u64>,
    /// The reason why it is open.
    pub why: Option<String>,
    /// Tools with an open breaker.
    pub tools: Vec<ToolBreaker>,
}

/// The breaker of one tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolBreaker {
    /// The name of the tool.
    pub tool: String,
    /// Its state.
    pub state: BreakerState,
    /// The time until a call may probe the tool, if it is open.
    pub tries_in_ms: Option<u64>,
    /// The reason why it is open.
    pub why: Option<String>,
}

/// The state of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BreakerState {
    /// Calls are sent.
    Closed,
    /// Calls are rejected.
    Open,
    /// One call probes the server.
    HalfOpen,
    /// Calls are rejected, because the operator isolated the server.
    Isolated,
}

/// The rate limit of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Limit {
    /// The configured rate, if there is one.
    pub rate: Option<Rate>,
    /// The rest of a pause that the server asked for.
    pub paused_ms: Option<u64>,
    /// Calls so far that the rate limit delayed.
    pub slowed: u64,
}

/// A configured rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rate {
    /// The number of calls at once.
    pub burst: u32,
    /// The number of calls per second over time.
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
    /// Requests that the client cancelled or abandoned.
    pub cancelled: u64,
    /// Requests that Mendline answered from the catalogue, or provisionally.
    pub answered_early: u64,
}

/// The number of requests per outcome. Each request is counted once.
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

impl Calls {
    /// Returns the outcomes of all requests.
    pub fn all(&self) -> Outcomes {
        self.tools + self.other
    }
}

impl Outcomes {
    /// Returns the number of requests that the server answered.
    pub fn answered(&self) -> u64 {
        self.ok + self.tool_errors + self.errors
    }

    /// Returns the number of requests that the server answered with an error of its own.
    pub fn answered_with_error(&self) -> u64 {
        self.tool_errors + self.errors
    }

    /// Returns the number of requests that did not run: Mendline failed or rejected them.
    pub fn not_run(&self) -> u64 {
        self.failed + self.rejected
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

/// The latency of answered calls, within 5 %.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// The number of calls.
    pub count: u64,
    /// The median, in microseconds.
    pub p50_us: Option<u64>,
    /// The 95th percentile, in microseconds.
    pub p95_us: Option<u64>,
    /// The 99th percentile, in microseconds.
    pub p99_us: Option<u64>,
}

/// Statistics of a server's connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    /// Attempts to connect.
    pub dials: u64,
    /// Attempts that failed before the first response.
    pub dials_failed: u64,
    /// Losses of a ready connection. Connections that the operator closed do not count.
    pub losses: u64,
    /// The duration of the last successful attempt, up to the first response.
    pub took_ms: Option<u64>,
    /// The process id of a child, which is also the id of its process group.
    pub child: Option<u32>,
}

/// The last error of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastError {
    /// The error as text.
    pub what: String,
    /// The time since then.
    pub ago_ms: u64,
}
