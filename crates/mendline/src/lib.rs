//! The tokio runtime around `mendline-core`: I/O, files, processes and the control socket.
//!
//! The engine in `mendline-core` takes every decision; this crate carries them out. [`Builder`] puts all parts together
//! and starts them. [`driver`] connects one engine to its I/O. [`frontend`] is the client side, [`transport`] the server side. [`os_events`] watches for sleep and network
//! changes. [`observe`] writes logs. [`catalogue`] caches handshakes and lists on disk, in the directory that [`state`]
//! finds. [`stats`] counts recoveries there. [`metrics`] exports counts and durations for monitoring systems. [`credential`] reads and renews the credentials of servers. [`control`] serves status and commands to the user who runs the process. [`os`] is the only module that names
//! an operating system.

mod background;
pub mod builder;
pub mod catalogue;
pub mod control;
pub mod credential;
pub mod driver;
pub mod frontend;
pub mod input_queue;
pub mod metrics;
pub mod observe;
pub mod os;
pub mod os_events;
pub mod state;
pub mod stats;
pub mod transport;

pub use builder::Builder;
pub use driver::{CacheStore, Child, Client, Direction, Drained, Driver, External, Host, Observer};
/// The engine.
pub use mendline_core as decisions;
