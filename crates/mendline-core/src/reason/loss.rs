//! Reasons for changes of a link's state.

use std::fmt;

use super::{ConnectivityChange, Exit, Pipe};

/// The reason why a link left its state, as far as no connection error, process error or response explains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// The child process ended.
    Exited(Exit),
    /// The child process closed one of its pipes.
    PipeClosed(Pipe),
    /// The server did not answer pings.
    Unresponsive {
        /// How many in a row.
        pings: u32,
    },
    /// The server did not answer a probe.
    ProbeTimedOut,
    /// The server is a bridge that answers only that its own connection is gone.
    DeadBridge,
    /// The server ended its event stream.
    SseStreamEnded,
    /// The event stream could not be opened.
    SseStreamNotOpened,
    /// The server lost the session.
    SessionLost,
    /// The server refuses the session that it has just created.
    SessionRefused,
    /// The operator requested a new connection.
    Requested,
    /// The operator isolated the server.
    Isolated,
    /// The configuration of the server changed.
    ConfigurationChanged,
    /// Mendline is shutting down.
    Stopping,
    /// No call waits for the server.
    Unused,
    /// The server does not know Streamable HTTP.
    TryingSse,
    /// A parked server is tried.
    Probe,
    /// A call waits for a parked server.
    WokenByCall,
    /// The limit of dials per minute is reached.
    DialLimit,
    /// The machine slept, or its network changed.
    Connectivity(ConnectivityChange),
    /// The server has not been started yet.
    NotStarted,
    /// The child process runs and has not answered the handshake.
    StartedNotInitialized,
    /// The server accepted a connection and has not answered the handshake.
    ConnectedNotInitialized,
    /// No connection has been made yet.
    NotConnected,
}

impl LossReason {
    /// Returns the stable name for metrics.
    pub fn name(self) -> &'static str {
        match self {
            LossReason::Exited(Exit::Code(_)) => "exited",
            LossReason::Exited(Exit::Signal(_)) => "killed_by_signal",
            LossReason::PipeClosed(_) => "pipe_closed",
            LossReason::Unresponsive { .. } => "unresponsive",
            LossReason::ProbeTimedOut => "probe_timed_out",
            LossReason::DeadBridge => "dead_bridge",
            LossReason::SseStreamEnded => "sse_stream_ended",
            LossReason::SseStreamNotOpened => "sse_stream_not_opened",
            LossReason::SessionLost => "session_lost",
            LossReason::SessionRefused => "session_refused",
            LossReason::Requested => "requested",
            LossReason::Isolated => "isolated",
            LossReason::ConfigurationChanged => "configuration_changed",
            LossReason::Stopping => "stopping",
            LossReason::Unused => "unused",
            LossReason::TryingSse => "trying_sse",
            LossReason::Probe => "probe",
            LossReason::WokenByCall => "woken_by_call",
            LossReason::DialLimit => "dial_limit",
            LossReason::Connectivity(ConnectivityChange::SystemResumed) => "system_resumed",
            LossReason::Connectivity(ConnectivityChange::NetworkChanged) => "network_changed",
            LossReason::NotStarted => "not_started",
            LossReason::StartedNotInitialized | LossReason::ConnectedNotInitialized => "not_initialized",
            LossReason::NotConnected => "not_connected",
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LossReason::Exited(Exit::Code(code)) => return write!(f, "the server ended with exit code {code}"),
            LossReason::Exited(Exit::Signal(signal)) => return write!(f, "the server was killed by signal {signal}"),
            LossReason::Unresponsive { pings } => return write!(f, "the server did not answer {pings} pings"),
            LossReason::Connectivity(change) => return write!(f, "{change}"),
            LossReason::PipeClosed(Pipe::Stdin) => "the server closed its stdin",
            LossReason::PipeClosed(Pipe::Stdout) => "the server closed its stdout",
            LossReason::ProbeTimedOut => "the server did not answer a probe in time",
            LossReason::DeadBridge => "it only answers that its own connection is gone",
            LossReason::SseStreamEnded => "the server ended its event stream",
            LossReason::SseStreamNotOpened => "the event stream could not be opened",
            LossReason::SessionLost => "the server has lost the session",
            LossReason::SessionRefused => "the server refuses the session that it has just made",
            LossReason::Requested => "requested by the operator",
            LossReason::Isolated => "isolated by the operator",
            LossReason::ConfigurationChanged => "its configuration has changed",
            LossReason::Stopping => "stopping",
            LossReason::Unused => "nothing to send",
            LossReason::TryingSse => "trying legacy SSE",
            LossReason::Probe => "probe",
            LossReason::WokenByCall => "woken by a call",
            LossReason::DialLimit => "it was dialed too often of late",
            LossReason::NotStarted => "it has not started yet",
            LossReason::StartedNotInitialized => "it has started, but has not answered the handshake",
            LossReason::ConnectedNotInitialized => "it accepted a connection, but has not answered the handshake",
            LossReason::NotConnected => "no connection has been made yet",
        })
    }
}

/// The reason why a handshake failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The server did not answer `initialize` in time.
    TimedOut,
    /// The answer to `initialize` is not JSON-RPC.
    Unreadable,
    /// The answer to `initialize` is over the limit for one message.
    TooLarge,
    /// The server answered `initialize` with an error.
    Refused {
        /// The text of the error.
        message: String,
        /// The server had accepted the same handshake before.
        again: bool,
    },
    /// The outcome of `initialize` is not known.
    Unknown,
    /// The server did not accept `initialized`.
    InitializedRejected {
        /// Its status, if it answered.
        status: Option<u16>,
    },
    /// The server did not accept `initialized` in time.
    InitializedTimedOut,
    /// The server did not name its endpoint in time (2024-11-05 transport).
    NoEndpoint,
}

impl HandshakeError {
    /// Returns the stable name for metrics.
    pub fn name(&self) -> &'static str {
        match self {
            HandshakeError::TimedOut | HandshakeError::InitializedTimedOut => "handshake_timed_out",
            HandshakeError::Unreadable | HandshakeError::TooLarge => "handshake_unreadable",
            HandshakeError::Refused { .. } | HandshakeError::InitializedRejected { .. } => "handshake_refused",
            HandshakeError::Unknown => "handshake_unknown",
            HandshakeError::NoEndpoint => "no_endpoint",
        }
    }
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HandshakeError::Refused { message, again: false } => {
                return write!(f, "the server refused the handshake: {message}");
            }
            HandshakeError::InitializedRejected { status: Some(status) } => {
                return write!(f, "the server answered HTTP {status} to `initialized`");
            }
            HandshakeError::Refused { again: true, .. } => "the server refused to be initialized again",
            HandshakeError::TimedOut => "the server did not answer the handshake in time",
            HandshakeError::Unreadable => "its answer to the handshake could not be read",
            HandshakeError::TooLarge => "its answer to the handshake is over the limit for one message",
            HandshakeError::Unknown => "it is not known whether the server was initialized",
            HandshakeError::InitializedRejected { status: None } => "the server did not take `initialized`",
            HandshakeError::InitializedTimedOut => "the server did not take `initialized` in time",
            HandshakeError::NoEndpoint => "the server did not name its endpoint in time",
        })
    }
}
