//! The decisions of Mendline: when to dial, whether to send again, what to answer.
//!
//! This crate is one deterministic state machine. It does no I/O, reads no clock and has no randomness of its own: a
//! shell reports facts with their time, and the engine returns what to do next. So the whole engine can be simulated,
//! thousands of runs a second, with every invariant checked at every step.
//!
//! Start with [`port`], the contract with the shells, and [`Engine`], which they drive. `client/` holds the client
//! sessions, `upstream/` the servers and the calls to them, `policy/` the numeric policies.

mod client;
pub mod config;
mod cx;
pub mod defaults;
mod dial_pace;
mod dispatch;
mod engine;
pub mod event;
pub mod evidence;
pub mod histogram;
mod ledger;
mod list_cache;
pub mod metrics;
mod moment;
pub mod own_tools;
pub mod policy;
pub mod port;
mod quote;
pub mod reason;
pub mod recovery;
mod request;
mod rng;
mod secret;
pub mod sharing;
mod slab;
pub mod status;
pub mod story;
mod timers;
mod upstream;
mod upstream_table;
pub mod words;

pub use config::{Config, Lifetime, Limits, Reconnect, Timeouts, UpstreamConfig};
pub use engine::{Engine, Load};
pub use event::{Event, Level, LinkState};
pub use evidence::{Evidence, Outcome};
pub use list_cache::{ListCache, Unreadable};
pub use metrics::Metrics;
pub use moment::Moment;
pub use port::{
    ClientId, ClientStreams, Input, LinkId, Output, Port, RequestRefusal, StreamId, StreamMessage, UpstreamId,
};
pub use quote::Quote;
pub use rng::SeededRng;
pub use secret::Secret;
pub use status::Status;
pub use story::Story;
