//! Reasons why Mendline does not send something.

use std::fmt;
use std::time::Duration;

use super::ConnectError;
use crate::event::Wait;

/// The reason why Mendline does not send a request, or does not pass it on.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RefusalReason {
    /// Mendline is shutting down.
    Stopping,
    /// The server was removed from the configuration.
    Removed,
    /// Too many subscriptions are open.
    Subscriptions {
        /// The limit.
        limit: usize,
    },
    /// Too many calls wait.
    QueueFull {
        /// The limit.
        limit: usize,
    },
    /// The queue of waiting calls of one tool is full.
    ToolQueueFull {
        /// Its limit.
        limit: usize,
    },
    /// Too many calls wait, and other clients have fewer.
    Fairness {
        /// The limit.
        limit: usize,
    },
    /// Too many requests of one principal of the gateway are in flight.
    PrincipalInFlight {
        /// The limit.
        limit: usize,
    },
    /// Waiting messages hold nearly all the memory there is for them.
    Memory {
        /// The bytes that they hold.
        held: usize,
    },
    /// The limit of calls in flight was reached until the call's time was over.
    NoSlot,
    /// The server does not read what is written to it.
    NotRead,
    /// The server asked for a pause.
    Paused {
        /// The time that is left.
        wait: Duration,
    },
    /// The configured rate limit is reached.
    RateLimit {
        /// Calls at once.
        burst: u32,
        /// Calls per second.
        per_second: f64,
        /// The limit is that of one tool.
        of_tool: bool,
    },
    /// The server is overloaded.
    Overloaded,
    /// The server refused the credential, and a newer one is requested.
    CredentialRenewal,
    /// A circuit breaker is open after failures in a row.
    BreakerFailures {
        /// How many calls failed in a row.
        calls: u32,
        /// The breaker belongs to one tool.
        of_tool: bool,
    },
    /// A circuit breaker is open because of its failure rate.
    BreakerRate {
        /// How many calls failed.
        failed: u32,
        /// Out of how many.
        calls: u32,
        /// The breaker belongs to one tool.
        of_tool: bool,
    },
    /// A circuit breaker is open because the call that tried it while it was half open failed.
    BreakerTrial {
        /// The breaker belongs to one tool.
        of_tool: bool,
    },
    /// The operator isolated the server.
    Isolated,
    /// No client is connected that could answer the server.
    NoClient,
    /// A request of the server, and several clients could have caused it.
    UnknownClient,
    /// The client that could answer the server is gone.
    ClientGone,
    /// A request of the server, and the client has no stream that could carry it.
    NoStream,
    /// Too many requests of the server wait for the client.
    ServerRequests,
    /// The connection must not be made.
    Connect(ConnectError),
    /// The server redirects to a location that is not followed.
    Redirect {
        /// The server's origin.
        from: String,
        /// The status.
        status: u16,
        /// Where it leads, and why it is not followed.
        problem: String,
    },
    /// The server names an endpoint at another origin.
    Endpoint {
        /// The server's origin.
        from: String,
        /// The other origin, if what it named is a URL.
        to: Option<String>,
    },
    /// A header holds characters that HTTP does not allow.
    Header {
        /// Its name.
        name: String,
    },
    /// The URL cannot be written into an HTTP request.
    Url,
    /// The host cannot be written into an HTTP request.
    Host,
}

/// The reason why a shell refused a request.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestRefusal {
    /// The principal may not use the tool.
    DeniedTool,
    /// A limit of the principal is reached.
    Limit(RefusalReason),
}

impl RefusalReason {
    /// Returns the stable name for metrics.
    pub fn name(&self) -> &'static str {
        match self {
            RefusalReason::Stopping => "stopping",
            RefusalReason::Removed => "removed",
            RefusalReason::Subscriptions { .. } => "too_many_subscriptions",
            RefusalReason::PrincipalInFlight { .. } => "principal_in_flight",
            RefusalReason::QueueFull { .. } | RefusalReason::ToolQueueFull { .. } | RefusalReason::Fairness { .. } => {
                "queue_full"
            }
            RefusalReason::Memory { .. } => "memory_budget",
            RefusalReason::NoSlot | RefusalReason::NotRead => "no_slot",
            RefusalReason::Paused { .. } => "paused",
            RefusalReason::RateLimit { .. } => "rate_limit",
            RefusalReason::Overloaded => "overloaded",
            RefusalReason::CredentialRenewal => "credential_renewal",
            RefusalReason::BreakerFailures { .. }
            | RefusalReason::BreakerRate { .. }
            | RefusalReason::BreakerTrial { .. } => "breaker_open",
            RefusalReason::Isolated => "isolated",
            RefusalReason::NoClient | RefusalReason::ClientGone => "no_client",
            RefusalReason::UnknownClient => "unknown_client",
            RefusalReason::NoStream => "no_stream",
            RefusalReason::ServerRequests => "too_many_server_requests",
            RefusalReason::Connect(error) => error.name(),
            RefusalReason::Redirect { .. } => "redirect",
            RefusalReason::Endpoint { .. } => "endpoint",
            RefusalReason::Header { .. } | RefusalReason::Url | RefusalReason::Host => "unsendable",
        }
    }

    /// Passes every text that comes from outside to `each`.
    pub fn texts(&mut self, each: &mut dyn FnMut(&mut String)) {
        match self {
            RefusalReason::Connect(error) => error.texts(each),
            RefusalReason::Redirect { from, problem, .. } => {
                each(from);
                each(problem);
            }
            RefusalReason::Endpoint { from, to } => {
                each(from);
                to.iter_mut().for_each(each);
            }
            RefusalReason::Header { name } => each(name),
            _ => {}
        }
    }
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RefusalReason::Stopping => f.write_str("Mendline is stopping"),
            RefusalReason::Removed => f.write_str("the server was removed from the configuration"),
            RefusalReason::Overloaded => f.write_str("the server is overloaded"),
            RefusalReason::Paused { wait } => {
                write!(f, "the server asked for a pause of another {}", Wait(*wait))
            }
            RefusalReason::CredentialRenewal => {
                f.write_str("the server refused the credential, and a newer one is requested")
            }
            RefusalReason::Isolated => f.write_str("it was isolated by the operator"),
            RefusalReason::NoClient => f.write_str("no client is connected"),
            RefusalReason::UnknownClient => f.write_str("it names no call, and several clients are connected"),
            RefusalReason::ClientGone => f.write_str("the client has gone"),
            RefusalReason::NoStream => f.write_str("the client has no open stream"),
            RefusalReason::PrincipalInFlight { .. }
            | RefusalReason::Subscriptions { .. }
            | RefusalReason::ToolQueueFull { .. }
            | RefusalReason::QueueFull { .. }
            | RefusalReason::Fairness { .. }
            | RefusalReason::Memory { .. }
            | RefusalReason::NoSlot
            | RefusalReason::NotRead
            | RefusalReason::RateLimit { .. }
            | RefusalReason::ServerRequests => self.limit_words(f),
            RefusalReason::BreakerFailures { calls, of_tool } => {
                write!(f, "{calls} calls in a row have failed{}", breaker_of(*of_tool))
            }
            RefusalReason::BreakerRate { failed, calls, of_tool } => {
                write!(f, "{failed} of the last {calls} calls have failed{}", breaker_of(*of_tool))
            }
            RefusalReason::BreakerTrial { of_tool } => {
                write!(f, "the call that tried it has failed, too{}", breaker_of(*of_tool))
            }
            RefusalReason::Connect(error) => error.fmt(f),
            RefusalReason::Redirect { from, status, problem } => write!(f, "{from} redirects ({status}) {problem}"),
            RefusalReason::Endpoint { from, to: Some(to) } => {
                write!(f, "the server at {from} names an endpoint at {to}, where nothing may be sent")
            }
            RefusalReason::Endpoint { from, to: None } => {
                write!(f, "the server at {from} names an endpoint that is not a URL")
            }
            RefusalReason::Header { name } => write!(f, "the header {name} holds what HTTP does not allow"),
            RefusalReason::Url => f.write_str("its URL cannot be sent"),
            RefusalReason::Host => f.write_str("its host cannot be sent"),
        }
    }
}

impl RefusalReason {
    /// The text of a limit that is reached.
    fn limit_words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RefusalReason::PrincipalInFlight { limit } => {
                write!(f, "{limit} requests of this client's token are in flight, which is the limit")
            }
            RefusalReason::Subscriptions { limit } => {
                write!(f, "{limit} subscriptions are open, which is the limit")
            }
            RefusalReason::ToolQueueFull { limit } => {
                write!(f, "{limit} calls of this tool are waiting, which is its limit")
            }
            RefusalReason::QueueFull { limit } => write!(f, "{limit} are waiting, which is the limit"),
            RefusalReason::Fairness { limit } => write!(f, "other clients wait too, and {limit} are the limit"),
            RefusalReason::Memory { held } => {
                write!(f, "{held} bytes are held in memory, which is near the limit")
            }
            RefusalReason::NoSlot => f.write_str("no place became free in time"),
            RefusalReason::NotRead => f.write_str("the server does not read what is sent to it"),
            RefusalReason::RateLimit { burst, per_second, of_tool } if *per_second >= 1.0 => {
                write!(f, "the configured limit{} is {per_second} calls a second, {burst} at once", limit_of(*of_tool))
            }
            RefusalReason::RateLimit { burst, per_second, of_tool } => {
                let seconds = (1.0 / per_second).round();
                write!(f, "the configured limit{} is one call in {seconds} s, {burst} at once", limit_of(*of_tool))
            }
            RefusalReason::ServerRequests => f.write_str("too many questions are waiting for the client"),
            _ => f.write_str(self.name()),
        }
    }
}

/// The owner of a breaker in words.
fn breaker_of(is_of_tool: bool) -> &'static str {
    if is_of_tool { ", of this tool only" } else { "" }
}

/// The owner of a configured limit in words.
fn limit_of(is_of_tool: bool) -> &'static str {
    if is_of_tool { " of this tool" } else { "" }
}
