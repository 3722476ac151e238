//! Transports to upstreams.
//!
//! [`child`] runs a server as a child process. [`guard`] ends such a process when Mendline dies. [`http`] talks to a
//! server over HTTP. `servers` offers commands and URLs to the driver. [`next`] holds the next command or target until
//! the engine applies it.

pub mod child;
pub mod http;
pub mod next;
pub(crate) mod servers;

pub use self::servers::Endpoint;
pub use crate::os::guard;
pub use crate::os::processes::ignore_termination_signals;
