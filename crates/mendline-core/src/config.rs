//! What the engine is told about its upstreams: typed values that are right by the time they are here.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::defaults;
use crate::policy::effect::Effect;

/// Everything that one engine needs to know before it starts.
#[derive(Clone, Debug)]
pub struct Config {
    /// The servers, in the order of the configuration; [`crate::UpstreamId`] is the place in here.
    pub upstreams: Vec<UpstreamConfig>,
    /// All bytes that may be held for others, together.
    pub ledger_bytes: usize,
    /// When the engine's work is done.
    pub lifetime: Lifetime,
}

/// When an engine's work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// With its last client: a bridge.
    WithClients,
    /// When it is told to stop: a gateway.
    UntilStopped,
}

impl Config {
    /// A configuration of these servers and otherwise defaults.
    pub fn new(upstreams: Vec<UpstreamConfig>) -> Self {
        Config { upstreams, ledger_bytes: defaults::LEDGER, lifetime: Lifetime::WithClients }
    }
}

/// One server and the policies that hold for it.
#[derive(Clone, Debug)]
pub struct UpstreamConfig {
    /// What people and models read it as.
    pub name: String,
    /// How it is called in words: the command of a child, the URL of a remote server.
    pub place: String,
    /// How it is reached.
    pub transport: Transport,
    /// Limits in time.
    pub timeouts: Timeouts,
    /// Limits in number.
    pub limits: Limits,
    /// When a call is sent again.
    pub retry: Retry,
    /// When calls are held back from a server that is sick; `None`: never.
    pub breaker: Option<Breaker>,
    /// How many calls it is sent in what time; `None`: as many as there are.
    pub rate_limit: Option<RateLimit>,
    /// When to dial again.
    pub reconnect: Reconnect,
    /// How often an idle line is tested; `None`: never.
    pub keep_alive: Option<KeepAlive>,
    /// How often a response that broke off is asked for again since its last message.
    pub resume_attempts: u32,
    /// Whether the server's own hints about its tools are believed.
    pub trust_hints: bool,
    /// What holds for single tools, whatever their server says.
    pub tools: BTreeMap<String, ToolPolicy>,
    /// What is answered before the server is there.
    pub catalogue: Catalogue,
}

impl UpstreamConfig {
    /// A server that is reached over HTTP, with every policy at its default. `url` is for words only, without credentials.
    pub fn http(name: impl Into<String>, url: impl Into<String>, dialect: Dialect) -> Self {
        let mut config = UpstreamConfig::child(name, url);
        config.transport = Transport::Http(dialect);
        config.timeouts.handshake = defaults::HANDSHAKE_HTTP;
        config
    }

    /// A server that is a child process, with every policy at its default. `command` is for words only; the shell knows
    /// what to run.
    pub fn child(name: impl Into<String>, command: impl Into<String>) -> Self {
        UpstreamConfig {
            name: name.into(),
            place: command.into(),
            transport: Transport::Child,
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            retry: Retry::default(),
            breaker: Some(Breaker::default()),
            rate_limit: None,
            reconnect: Reconnect::default(),
            keep_alive: Some(KeepAlive::default()),
            resume_attempts: defaults::RESUME_ATTEMPTS,
            trust_hints: true,
            tools: BTreeMap::new(),
            catalogue: Catalogue::default(),
        }
    }
}

/// How a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// As a child process, over its pipes.
    Child,
    /// Over HTTP.
    Http(Dialect),
}

/// Which of the two ways to speak MCP over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Found out: Streamable HTTP first, legacy SSE if the server does not know it.
    Auto,
    /// Streamable HTTP.
    Streamable,
    /// The HTTP+SSE of 2024-11-05.
    Sse,
}

/// Limits in time.
#[derive(Clone, Debug)]
pub struct Timeouts {
    /// Of a call, from its arrival or its last progress.
    pub call: Duration,
    /// Of a call in all.
    pub total: Duration,
    /// Of waiting for an upstream that is not up.
    pub recovery: Duration,
    /// Of a handshake that we replay.
    pub handshake: Duration,
    /// Of a ping.
    pub ping: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            call: defaults::CALL,
            total: defaults::TOTAL,
            recovery: defaults::RECOVERY,
            handshake: defaults::HANDSHAKE,
            ping: defaults::KEEP_ALIVE_TIMEOUT,
        }
    }
}

/// Limits in number.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Calls sent and not answered.
    pub in_flight: usize,
    /// Calls that wait.
    pub waiting: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { in_flight: defaults::IN_FLIGHT, waiting: defaults::WAITING }
    }
}

/// When a call is sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Attempts per call, the first included.
    pub attempts: u32,
    /// The first wait on a link that stayed up; doubles, with full jitter.
    pub initial: Duration,
    /// The longest such wait.
    pub cap: Duration,
    /// What a person says about single error codes.
    pub codes: BTreeMap<i64, OnError>,
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            attempts: defaults::ATTEMPTS,
            initial: defaults::RETRY_INITIAL,
            cap: defaults::RETRY_CAP,
            codes: BTreeMap::new(),
        }
    }
}

/// Which calls are sent again when they are answered by an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// None.
    Never,
    /// Those that do nothing to the world.
    Reads,
    /// All of them: who says so knows that the server did nothing.
    Always,
}

/// When calls are held back from a server, or a tool, that is sick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Breaker {
    /// So many failures in a row open it.
    pub failures: u32,
    /// Or fewer successes than this share …
    pub success_rate: f64,
    /// … over this time …
    pub window: Duration,
    /// … with at least so many calls in it.
    pub window_calls: u32,
    /// How long it stays open.
    pub open_for: OpenFor,
    /// So many answered calls close it again.
    pub successes: u32,
    /// Whether a result that says `isError` is a failure of its tool.
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

/// How long a breaker stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenFor {
    /// Twice as long each time that a trial fails, a little more or less by chance.
    Growing {
        /// The first time.
        first: Duration,
        /// The longest.
        cap: Duration,
    },
    /// As long as somebody said.
    Exactly(Duration),
}

/// How many calls a server is sent in what time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// So many at once after a pause.
    pub burst: u32,
    /// So many per second in the long run; a fraction is one in several seconds.
    pub per_second: f64,
}

/// What holds for one tool, whatever its server says of it. What is not said follows the server's own policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolPolicy {
    /// What it does to the world.
    pub effect: Option<Effect>,
    /// How long its calls may take, from their arrival or their last progress.
    pub timeout: Option<Duration>,
}

/// What is answered before the server is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Catalogue {
    /// Whether its lists are kept, and answered from there while it is away.
    pub cache: bool,
    /// What a handshake waits for.
    pub startup: Startup,
}

impl Default for Catalogue {
    fn default() -> Self {
        Catalogue { cache: true, startup: Startup::AtOnce }
    }
}

/// What a client's handshake waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Startup {
    /// Nothing: it is answered while the server starts.
    AtOnce,
    /// The server's own answer.
    Wait,
}

/// How an idle line is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// A line that has been silent for this long is tested.
    pub interval: Duration,
    /// How long the server has to answer.
    pub timeout: Duration,
}

impl Default for KeepAlive {
    fn default() -> Self {
        KeepAlive { interval: defaults::KEEP_ALIVE, timeout: defaults::KEEP_ALIVE_TIMEOUT }
    }
}

/// When to dial again after a link was lost.
#[derive(Clone, Debug, PartialEq)]
pub struct Reconnect {
    /// The first redial comes within this time; `None`: it waits like the others.
    pub first: Option<Duration>,
    /// The next waits about this long.
    pub initial: Duration,
    /// Each further one waits this many times longer.
    pub multiplier: f64,
    /// The longest wait while nobody calls.
    pub cap_idle: Duration,
    /// The longest wait while a call waits.
    pub cap_called: Duration,
    /// Redials in one incident before the upstream is parked. None at all means that it is dialed only when a call or a
    /// person asks for it.
    pub attempts: u32,
    /// The youngest age of an incident at which it may be parked.
    pub patience: Duration,
    /// Whether the client is spared the news.
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
    /// Is it ever dialed again without being asked to?
    pub fn is_by_itself(&self) -> bool {
        self.attempts > 0
    }
}

/// What a person says about reconnecting, in the words of the `autoReconnect` block. What is not said keeps its default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AutoReconnect {
    /// False: no dial by itself; the next call dials once.
    pub enabled: Option<bool>,
    /// Redials of one incident; `Some(None)`: no end.
    pub max_retries: Option<Option<u32>>,
    /// The wait before the first redial.
    pub initial_retry_delay: Option<Duration>,
    /// The longest wait.
    pub max_retry_delay: Option<Duration>,
    /// How many times longer each wait is than the one before.
    pub backoff_multiplier: Option<f64>,
    /// False: the client is told.
    pub silent: Option<bool>,
}

impl AutoReconnect {
    /// A policy in which what is said here holds, and what is not said stays.
    pub fn over(self, mut policy: Reconnect) -> Reconnect {
        if let Some(initial) = self.initial_retry_delay {
            // Who names the first delay does not want a quicker one before it.
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
            // A number that someone chose is meant exactly.
            policy.patience = Duration::ZERO;
        }
        if self.enabled == Some(false) {
            policy.attempts = 0;
        }
        policy.silent = self.silent.unwrap_or(policy.silent);
        policy
    }
}

impl From<AutoReconnect> for Reconnect {
    fn from(said: AutoReconnect) -> Reconnect {
        said.over(Reconnect::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unset_reconnect_options_keep_their_defaults() {
        assert_eq!(Reconnect::from(AutoReconnect::default()), Reconnect::default());
    }

    #[test]
    fn reconnect_options_become_a_policy() {
        let said = AutoReconnect {
            enabled: Some(true),
            max_retries: Some(Some(10)),
            initial_retry_delay: Some(Duration::from_secs(2)),
            max_retry_delay: Some(Duration::from_secs(30)),
            backoff_multiplier: Some(1.5),
            silent: Some(true),
        };
        let policy = Reconnect::from(said);
        assert_eq!((policy.first, policy.initial, policy.multiplier), (None, Duration::from_secs(2), 1.5));
        assert_eq!((policy.attempts, policy.patience), (10, Duration::ZERO), "exactly that many");
        assert_eq!((policy.cap_idle, policy.cap_called), (Duration::from_secs(30), defaults::RECONNECT_CAP_CALLED));
    }

    #[test]
    fn zero_retries_equals_disabled_and_minus_one_is_unlimited() {
        let never = Reconnect::from(AutoReconnect { max_retries: Some(Some(0)), ..AutoReconnect::default() });
        let off = Reconnect::from(AutoReconnect {
            enabled: Some(false),
            max_retries: Some(Some(5)),
            ..AutoReconnect::default()
        });
        assert!(!never.is_by_itself() && !off.is_by_itself());
        let endless = Reconnect::from(AutoReconnect { max_retries: Some(None), ..AutoReconnect::default() });
        assert_eq!(endless.attempts, u32::MAX);
        let short = AutoReconnect { max_retry_delay: Some(Duration::from_secs(1)), ..AutoReconnect::default() };
        assert_eq!(Reconnect::from(short).cap_called, Duration::from_secs(1), "the longest wait holds for everybody");
    }
}
