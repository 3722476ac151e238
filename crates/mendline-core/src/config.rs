//! What the engine is told about its upstreams: typed values that are right by the time they are here.

use std::time::Duration;

use crate::defaults;

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
    /// Attempts per call, the first included.
    pub attempts: u32,
    /// When to dial again.
    pub reconnect: Reconnect,
    /// Whether the server's own hints about its tools are believed.
    pub trust_hints: bool,
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
            attempts: defaults::ATTEMPTS,
            reconnect: Reconnect::default(),
            trust_hints: true,
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
    /// Of a greeting that we replay.
    pub handshake: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            call: defaults::CALL,
            total: defaults::TOTAL,
            recovery: defaults::RECOVERY,
            handshake: defaults::HANDSHAKE,
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

/// When to dial again after a link was lost.
#[derive(Clone, Debug)]
pub struct Reconnect {
    /// The first redial comes within this time.
    pub first: Duration,
    /// The second waits about this long.
    pub initial: Duration,
    /// Each further one waits this many times longer.
    pub multiplier: f64,
    /// The longest wait while nobody calls.
    pub cap_idle: Duration,
    /// The longest wait while a call waits.
    pub cap_called: Duration,
    /// Redials in one incident before the upstream is parked.
    pub attempts: u32,
    /// The youngest age of an incident at which that may happen.
    pub patience: Duration,
}

impl Default for Reconnect {
    fn default() -> Self {
        Reconnect {
            first: defaults::RECONNECT_FIRST,
            initial: defaults::RECONNECT_INITIAL,
            multiplier: 2.0,
            cap_idle: defaults::RECONNECT_CAP_IDLE,
            cap_called: defaults::RECONNECT_CAP_CALLED,
            attempts: defaults::RECONNECT_ATTEMPTS,
            patience: defaults::RECONNECT_PATIENCE,
        }
    }
}
