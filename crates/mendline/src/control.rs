//! Status and commands of running processes, for the user who runs them.
//!
//! There is no daemon. Each running process has its own socket in the user's runtime directory, and commands such as
//! `mendline status` query all of them:
//! - [`runtime_dir`]: the directory of the sockets, and the checks of its owner and mode;
//! - [`message`]: requests and responses, one JSON line each; [`snapshot`]: the state of a process and its servers;
//! - [`registry`]: the client side, which queries all processes at once;
//! - [`words`]: snapshots as text for people;
//! - [`store`]: the status of this process, folded from its events; [`server`]: the socket that serves it.
//!
//! Calls do not depend on this module: without a socket a process works as usual, but `mendline status` does not see
//! it.

pub mod call_report;
pub mod message;
mod parent;
pub mod registry;
pub mod runtime_dir;
pub mod server;
pub mod snapshot;
pub mod store;
pub mod words;

pub use message::{Command, EventRecord, Level};
pub use registry::{EventStream, Process, ProcessStatus, QueryError, Registry, StreamItem};
pub use server::Socket;
pub use snapshot::Snapshot;
pub use store::{SharedStatus, StatusObserver, StatusStore};
