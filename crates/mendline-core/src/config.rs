//! The configuration of an engine and its upstreams. Its values are valid when they arrive here.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::defaults;
use crate::policy::effect::Effect;
use crate::policy::tool_filter::ToolFilter;
use crate::reason::Reason;

/// The configuration of one engine.
#[derive(Clone, Debug)]
pub struct Config {
    /// The servers, in the order of the configuration; [`crate::UpstreamId`] is the index.
    pub upstreams: Vec<UpstreamConfig>,
    /// The limit of all bytes that the engine holds.
    pub ledger_bytes: usize,
    /// The condition that ends the engine.
    pub lifetime: Lifetime,
}

/// The condition that ends an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// The end of its last client: a bridge.
    WithClients,
    /// A request to stop: a gateway.
    UntilStopped,
}

impl Config {
    /// A configuration with these servers and defaults for the rest.
    pub fn new(upstreams: Vec<UpstreamConfig>) -> Self {
        Config { upstreams, ledger_bytes: defaults::LEDGER, lifetime: Lifetime::WithClients }
    }
}

/// One server and its policies.
#[derive(Clone, Debug)]
pub struct UpstreamConfig {
    /// The name that people and models see.
    pub name: String,
    /// The target in words: the command of a child, the URL of a remote server.
    pub place: String,
    /// The transport.
    pub transport: Transport,
    /// The origin of its credential.
    pub credential: CredentialKind,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// Limits of queues.
    pub limits: Limits,
    /// The retry policy.
    pub retry: Retry,
    /// The breaker policy; `None`: no breaker.
    pub breaker: Option<Breaker>,
    /// The rate limit; `None`: unlimited.
    pub rate_limit: Option<RateLimit>,
    /// The reconnect policy.
    pub reconnect: Reconnect,
    /// The keep-alive policy; `None`: idle connections are not tested.
    pub keep_alive: Option<KeepAlive>,
    /// The limit of resumptions of a response since its last message.
    pub resume_attempts: u32,
    /// The limit of all resumptions of a response.
    pub resume_total: u32,
    /// Whether the server's hints about its tools are trusted.
    pub trust_hints: bool,
    /// Policies of single tools. They override the server's hints.
    pub tools: BTreeMap<String, ToolPolicy>,
    /// The policy for answers from the catalogue.
    pub catalogue: Catalogue,
    /// The form in which a failed `tools/call` is answered.
    pub failures: FailureForm,
    /// Whether the lists of clients have a tool and a resource of Mendline itself.
    pub own_tools: bool,
    /// The tools that clients see and may call.
    pub tool_filter: ToolFilter,
    /// The clients of a gateway that share a process or session; `None`: the default of the transport.
    pub sharing: Option<Sharing>,
    /// The time after which the process of a gateway ends that no client uses.
    pub idle: Duration,
    /// Headers of the clients of a gateway that are passed on to the server. By default there are none.
    pub forward_headers: Vec<ForwardedHeader>,
}

/// A header of a client of the gateway that is passed on to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardedHeader {
    /// The header of the client's request.
    pub from: String,
    /// The header of the request to the server.
    pub to: String,
    /// The value that is sent; `{}` stands for the client's.
    pub format: String,
}

/// The clients of a gateway that share a process or session of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Clients that are alike for the server: see [`crate::sharing::ShareKey`].
    Shared,
    /// None: each client has its own.
    PerClient,
}

impl UpstreamConfig {
    /// An HTTP server with default policies. `url` is only displayed and has no credentials.
    pub fn http(name: impl Into<String>, url: impl Into<String>, dialect: Dialect) -> Self {
        let mut config = UpstreamConfig::child(name, url);
        config.transport = Transport::Http(dialect);
        config.timeouts.handshake = defaults::HANDSHAKE_HTTP;
        config
    }

    /// A server that is a child process, with default policies. `command` is only displayed; the shell knows the
    /// command to run.
    pub fn child(name: impl Into<String>, command: impl Into<String>) -> Self {
        UpstreamConfig {
            name: name.into(),
            place: command.into(),
            transport: Transport::Child,
            credential: CredentialKind::Fixed,
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            retry: Retry::default(),
            breaker: Some(Breaker::default()),
            rate_limit: None,
            reconnect: Reconnect::default(),
            keep_alive: Some(KeepAlive::default()),
            resume_attempts: defaults::RESUME_ATTEMPTS,
            resume_total: defaults::RESUME_TOTAL,
            trust_hints: true,
            tools: BTreeMap::new(),
            catalogue: Catalogue::default(),
            failures: FailureForm::default(),
            own_tools: false,
            tool_filter: ToolFilter::default(),
            forward_headers: Vec::new(),
            sharing: None,
            idle: defaults::IDLE,
        }
    }
}

/// The form of a failure of Mendline in the answer to `tools/call`. Other methods always get a JSON-RPC error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailureForm {
    /// A result with `isError`, which reaches the model.
    #[default]
    Result,
    /// A JSON-RPC error, which reaches the program.
    Error,
}

/// The transport of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A child process, over stdio.
    Child,
    /// Over HTTP.
    Http(Dialect),
}

/// The origin of the credential of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CredentialKind {
    /// Configured headers, or none. A refused one stays refused until the configuration changes.
    #[default]
    Fixed,
    /// A source that can be read again: a variable, a file, a command, client credentials.
    Source,
    /// A login of a person, which can be renewed until it ends.
    Login,
}

impl CredentialKind {
    /// Returns whether a refused credential can be renewed.
    pub fn is_renewable(self) -> bool {
        self != CredentialKind::Fixed
    }
}

/// The HTTP transport of MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Detected: Streamable HTTP first, HTTP+SSE if the server does not support it.
    Auto,
    /// Streamable HTTP.
    Streamable,
    /// The HTTP+SSE transport of revision 2024-11-05.
    Sse,
}

/// Timeouts.
#[derive(Clone, Debug)]
pub struct Timeouts {
    /// The timeout of a call, from its arrival or its last progress.
    pub call: Duration,
    /// The total timeout of a call.
    pub total: Duration,
    /// The longest wait for an upstream that is not up.
    pub recovery: Duration,
    /// The timeout of a handshake with a server that has not come up before.
    pub handshake: Duration,
    /// The timeout of a handshake with a server that has come up before.
    pub handshake_again: Duration,
    /// The timeout of one attempt of a call; `None`: only the deadline of the call ends it.
    pub attempt: Option<Duration>,
    /// The timeout of a ping.
    pub ping: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            call: defaults::CALL,
            total: defaults::TOTAL,
            recovery: defaults::RECOVERY,
            handshake: defaults::HANDSHAKE,
            handshake_again: defaults::HANDSHAKE_AGAIN,
            attempt: None,
            ping: defaults::KEEP_ALIVE_TIMEOUT,
        }
    }
}

/// Limits of queues.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Calls sent and not answered.
    pub in_flight: usize,
    /// Waiting calls.
    pub waiting: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { in_flight: defaults::IN_FLIGHT, waiting: defaults::WAITING }
    }
}

/// The retry policy of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Attempts per call, the first included.
    pub attempts: u32,
    /// The first backoff on a link that stayed up; it doubles, with full jitter.
    pub initial: Duration,
    /// The longest backoff.
    pub cap: Duration,
    /// Configured rules for error codes.
    pub codes: BTreeMap<i64, OnError>,
    /// Configured rules for HTTP statuses without a JSON-RPC response.
    pub statuses: BTreeMap<u16, OnError>,
}

impl Retry {
    /// Returns whether the configuration has a rule for the HTTP status of this reason.
    pub(crate) fn has_status_rule(&self, why: &Reason) -> bool {
        why.status().is_some_and(|status| self.statuses.contains_key(&status))
    }
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            attempts: defaults::ATTEMPTS,
            initial: defaults::RETRY_INITIAL,
            cap: defaults::RETRY_CAP,
            codes: BTreeMap::new(),
            statuses: BTreeMap::new(),
        }
    }
}

/// The calls that are retried after a JSON-RPC error or an HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// None.
    Never,
    /// Reads only; after an HTTP status also idempotent calls.
    Reads,
    /// All calls: the operator knows that the server did nothing.
    Always,
}

/// The breaker policy of a server or a tool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Breaker {
    /// The number of failures in a row that opens the breaker.
    pub failures: u32,
    /// The success rate below which the breaker opens …
    pub success_rate: f64,
    /// … over this window …
    pub window: Duration,
    /// … with at least this many calls in it.
    pub window_calls: u32,
    /// The time that the breaker stays open.
    pub open_for: OpenFor,
    /// The number of answered trials that closes the breaker.
    pub successes: u32,
    /// Whether a result with `isError` counts as a failure of its tool.
    pub count_tool_errors: bool,
}

impl Default for Breaker {
    fn default() -> Self {
        Breaker {
            failures: defaults::BREAKER_FAILURES,
            success_rate: defaults::BREAKER_SUCCESS_RATE,
            window: defaults::BREAKER_WINDOW,
            window_calls: defaults::BREAKER_WINDOW_CALLS,
            open_for: OpenFor::Growing { first: defaults::BREAKER_OPEN, cap: defaults::BREAKER_OPEN_CAP },
            successes: defaults::BREAKER_SUCCESSES,
            count_tool_errors: false,
        }
    }
}

/// The time that a breaker stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenFor {
    /// Doubles with each failed trial, with jitter.
    Growing {
        /// The first time.
        first: Duration,
        /// The longest.
        cap: Duration,
    },
    /// A fixed time.
    Exactly(Duration),
}

/// A limit of calls per time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// The number of calls that pass at once after a pause.
    pub burst: u32,
    /// The sustained rate of calls per second; it may be below one.
    pub per_second: f64,
}

/// The policy of one tool. Unset fields follow the server's policies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ToolPolicy {
    /// The effect of the tool.
    pub effect: Option<Effect>,
    /// The timeout of its calls, from their arrival or their last progress.
    pub timeout: Option<Duration>,
    /// The limit of its calls in flight.
    pub in_flight: Option<usize>,
    /// The limit of its waiting calls.
    pub waiting: Option<usize>,
    /// The limit of its calls per time.
    pub rate_limit: Option<RateLimit>,
    /// The policy of its breaker; `Some(None)`: no breaker.
    pub breaker: Option<Option<Breaker>>,
}

/// The policy for answers from the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Catalogue {
    /// Whether lists are cached, and answered from the cache while the server is away.
    pub cache: bool,
    /// The moment at which a handshake is answered.
    pub startup: Startup,
}

impl Default for Catalogue {
    fn default() -> Self {
        Catalogue { cache: true, startup: Startup::Immediate }
    }
}

/// The moment at which a client's handshake is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Startup {
    /// At once, while the server starts.
    Immediate,
    /// When the server has answered.
    Wait,
}

/// The keep-alive policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// A connection that is silent for this long is tested.
    pub interval: Duration,
    /// The time that the server has to answer.
    pub timeout: Duration,
}

impl Default for KeepAlive {
    fn default() -> Self {
        KeepAlive { interval: defaults::KEEP_ALIVE, timeout: defaults::KEEP_ALIVE_TIMEOUT }
    }
}

/// The reconnect policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Reconnect {
    /// The first redial comes within this time; `None`: it uses the backoff.
    pub first: Option<Duration>,
    /// The wait before the second redial.
    pub initial: Duration,
    /// The factor by which each further wait grows.
    pub multiplier: f64,
    /// The longest wait while no call waits.
    pub cap_idle: Duration,
    /// The longest wait while a call waits.
    pub cap_called: Duration,
    /// The number of redials in one incident before the upstream is parked. Zero: it is dialed only for a call or by
    /// the operator.
    pub attempts: u32,
    /// The shortest age of an incident at which the upstream may be parked.
    pub patience: Duration,
    /// Whether clients are not notified about reconnects.
    pub silent: bool,
}

impl Default for Reconnect {
    fn default() -> Self {
        Reconnect {
            first: Some(defaults::RECONNECT_FIRST),
            initial: defaults::RECONNECT_INITIAL,
            multiplier: defaults::RECONNECT_MULTIPLIER,
            cap_idle: defaults::RECONNECT_CAP_IDLE,
            cap_called: defaults::RECONNECT_CAP_CALLED,
            attempts: defaults::RECONNECT_ATTEMPTS,
            patience: defaults::RECONNECT_PATIENCE,
            silent: true,
        }
    }
}

impl Reconnect {
    /// Returns whether the upstream is ever redialed automatically.
    pub fn is_by_itself(&self) -> bool {
        self.attempts > 0
    }
}

/// The `autoReconnect` block of the configuration. Unset fields keep their defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AutoReconnect {
    /// False: no automatic redial; the next call dials once.
    pub enabled: Option<bool>,
    /// Redials of one incident; `Some(None)`: unlimited.
    pub max_retries: Option<Option<u32>>,
    /// The wait before the first redial.
    pub initial_retry_delay: Option<Duration>,
    /// The longest wait.
    pub max_retry_delay: Option<Duration>,
    /// The factor by which each wait grows.
    pub backoff_multiplier: Option<f64>,
    /// False: clients are notified.
    pub silent: Option<bool>,
}

impl AutoReconnect {
    /// Returns the policy with the set fields of this block.
    pub fn over(self, mut policy: Reconnect) -> Reconnect {
        if let Some(initial) = self.initial_retry_delay {
            // A configured first delay replaces the quick first redial.
            policy.first = None;
            policy.initial = initial;
        }
        if let Some(longest) = self.max_retry_delay {
            policy.cap_idle = longest;
            policy.cap_called = defaults::RECONNECT_CAP_CALLED.min(longest);
        }
        policy.multiplier = self.backoff_multiplier.unwrap_or(policy.multiplier);
        if let Some(retries) = self.max_retries {
            policy.attempts = retries.unwrap_or(u32::MAX);
            // A configured number is exact, at the pace of the configured delays: a waiting call quickens the redials,
            // which must not use the number up early.
            policy.patience = self.shortest_time_of(policy.attempts);
        }
        if self.enabled == Some(false) {
            policy.attempts = 0;
        }
        policy.silent = self.silent.unwrap_or(policy.silent);
        policy
    }
}

impl AutoReconnect {
    /// The shortest time in which the configured delays make this many redials. Half of each delay is jitter.
    fn shortest_time_of(&self, redials: u32) -> Duration {
        let initial = self.initial_retry_delay.unwrap_or(defaults::MAX_RETRIES_DELAY);
        let multiplier = self.backoff_multiplier.unwrap_or(defaults::MAX_RETRIES_MULTIPLIER).max(1.0);
        let longest = self.max_retry_delay.unwrap_or(defaults::RECONNECT_CAP_IDLE);
        let mut time = Duration::ZERO;
        let mut delay = initial;
        // Beyond this number the redials take longer than any incident.
        for _ in 0..redials.min(10_000) {
            time += delay.min(longest) / 2;
            delay = Duration::try_from_secs_f64(delay.as_secs_f64() * multiplier).unwrap_or(longest).min(longest);
        }
        time
    }
}

impl From<AutoReconnect> for Reconnect {
    fn from(options: AutoReconnect) -> Reconnect {
        options.over(Reconnect::default())
    }
}

#[cfg(test)]
mod tests;
