//! Things that break on purpose, for tests over real sockets.
//!
//! Two of them. [`Server`] is an MCP server over HTTP: both eras of Streamable HTTP and the older HTTP+SSE, JSON or event
//! streams, sessions, resumption. A [`Rule`] makes it break at the n-th request, at every one or for a time, with one of
//! the faults in [`fault`], before or after it has done what was asked. [`Proxy`] knows nothing of HTTP: it carries bytes
//! between two sockets and spoils them by the toxics in [`toxic`], for each direction by itself.
//!
//! Both count all that they see. What the [`Oracle`] has counted is what really happened, whatever a client was told, so a
//! test compares the two. Both are switched at run time: by their methods, or from another language through
//! [`Control`] over HTTP. Both listen on loopback only, and everything that they started ends when they are dropped.
//!
//! What is broken is decided here by rules and never by chance: the same requests meet the same faults.

pub mod command;
pub mod fault;
pub mod toxic;

mod compare;
mod control;
mod identity;
mod oracle;
mod plan;
mod proxy;
mod server;
mod settings;
mod task;

pub use control::{Control, Subject};
pub use identity::{Authority, Certificate, Identity};
pub use oracle::{Counts, Oracle, Seen, ForeignRequest};
pub use plan::{Rule, Timing, UnknownFault, When};
pub use proxy::{Direction, DirectionCounts, Proxy, ProxyCounts};
pub use server::{HttpRequest, Ending, Server};
pub use settings::{Answers, Era, Settings};
