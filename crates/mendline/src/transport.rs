//! Transports to upstreams.
//!
//! [`child`] runs a server as a child process. [`guard`] ends such a process when Mendline dies. `group` signals a
//! process group. [`http`] talks to a server over HTTP. `servers` offers commands and URLs to the driver. [`next`] holds the next
//! command or target until the engine applies it. The first three are Unix only, and so are the socket options in
//! `http/dial.rs`. A port to another system replaces these files and `crate::raw`.

pub mod child;
mod group;
pub mod guard;
pub mod http;
pub mod next;
pub(crate) mod servers;

pub use self::servers::Endpoint;
pub use crate::raw::ignore_termination_signals;
