//! A faulty MCP server and a faulty TCP proxy for tests over real sockets.
//!
//! [`Server`] is an MCP server over HTTP: both eras of Streamable HTTP and the older HTTP+SSE, JSON or event streams,
//! sessions and resumption. A [`Rule`] injects one of the faults in [`fault`] at the n-th request, at every request or
//! for a time, before or after the tool has run. [`Proxy`] works below HTTP: it forwards bytes between two sockets and
//! applies the toxics in [`toxic`] to each direction.
//!
//! An [`Outage`] makes the whole server unavailable, in one of the forms that clients meet, until it ends.
//!
//! [`AuthorizationServer`] issues tokens, and an MCP server can demand them, with the differences and faults of providers.
//!
//! Both count everything. The [`Oracle`] holds what the server really did, so that a test can compare it with what the
//! client was told. Both can be changed at run time: by their methods, or from another language over HTTP through
//! [`Control`]. Both listen on loopback only, and all their tasks end when they are dropped.
//!
//! Faults are deterministic: the same requests meet the same faults.

pub mod command;
pub mod fault;
pub mod toxic;

mod authorization;
mod browse;
mod compare;
mod control;
mod identity;
mod oracle;
mod outage;
mod plan;
mod port;
mod proxy;
mod server;
mod settings;
mod task;

pub use authorization::{
    AuthorizationCounts, AuthorizationRequest, AuthorizationServer, AuthorizationSettings, Consent, Iss, Metadata,
    MetadataFault, Redirects, Refresh, ResourceMetadata, ResourceRule, TokenFault,
};
pub use control::{Control, Subject};
pub use identity::{Authority, Certificate, Identity};
pub use oracle::{Counts, ForeignRequest, Oracle, Seen};
pub use outage::{Arrival, Outage, Timeline};
pub use plan::{Rule, Timing, UnknownFault, When};
pub use proxy::{Direction, DirectionCounts, Proxy, ProxyCounts};
pub use server::{Ending, HttpRequest, Server};
pub use settings::{Answers, Era, Settings};
