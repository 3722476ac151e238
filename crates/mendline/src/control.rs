//! A running Mendline can be looked at and steered, by its own user and by nobody else.
//!
//! There is no daemon. Each running process has a socket of its own in the user's runtime directory, and whoever wants to
//! know something asks all of them:
//! - [`runtime_dir`]: where the sockets are, and whom such a directory must belong to;
//! - [`message`]: what is asked and answered, one JSON line each; [`snapshot`]: how a process and its servers stand;
//! - [`registry`]: the asking side: every process at once, one that hangs costs next to nothing.
//! - [`words`]: how a person reads it;
//! - [`status store`]: what a process knows of itself, from its events; [`server`]: its socket, the answering side.
//!
//! Nothing here can stop a call: without a socket a bridge does what it does, only unseen.

pub mod message;
pub mod runtime_dir;
pub mod registry;
pub mod server;
pub mod snapshot;
pub mod store;
pub mod words;

pub use message::{Command, Level, EventRecord};
pub use registry::{EventStream, ProcessStatus, StreamItem, Process, Registry, QueryError};
pub use server::Socket;
pub use snapshot::Snapshot;
pub use store::{StatusObserver, StatusStore};
