//! Reasons: why a connection, a process, a link, an attempt or a call failed.
//!
//! A reason is a type with fields. Code decides by its variants, metrics label by [`Reason::name`], people and models read
//! its `Display`; no code reads that text. Fields that hold text of a server, a proxy or the operating system are listed by
//! `texts`, so that a shell redacts them where they enter.
//!
//! - [`SpawnError`], [`ConnectError`], [`TlsError`], [`CutReason`]: what a shell reports.
//! - [`RefusalReason`]: why Mendline does not send something.
//! - [`CredentialError`]: why there is no valid credential.
//! - [`LossReason`]: why a link left its state.
//! - [`Reason`]: why an attempt or a call failed; it contains all the others.

mod call;
mod connect;
mod credential;
mod loss;
mod refusal;
mod spawn;
mod tls;

pub use call::Reason;
pub use connect::{ConnectError, CutReason, ProxyError};
pub use credential::CredentialError;
pub use loss::{HandshakeError, LossReason};
pub use refusal::{RefusalReason, RequestRefusal};
pub use spawn::SpawnError;
pub use tls::TlsError;

/// The end of a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It ended by itself, with this code.
    Code(i32),
    /// It was ended by this signal.
    Signal(i32),
}

/// A pipe of a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pipe {
    /// The child no longer reads.
    Stdin,
    /// The child no longer writes.
    Stdout,
}

/// The cause of a change of connectivity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectivityChange {
    /// The machine was asleep, or this process was stopped for long.
    SystemResumed,
    /// An interface, an address or a route changed.
    NetworkChanged,
}

impl std::fmt::Display for ConnectivityChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ConnectivityChange::SystemResumed => "the machine was asleep, or stood still",
            ConnectivityChange::NetworkChanged => "the network has changed",
        })
    }
}
