//! Running bridges, looked at and steered through their control sockets: `status`, `reconnect`, `isolate`, `resume`.
//!
//! Every story has a runtime directory of its own, so it sees its own processes and nobody else's. What `status` says is held
//! against what was done to real servers; stories wait for facts, with a deadline, and never for time.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

#[path = "../client/mod.rs"]
#[allow(dead_code, reason = "other test binaries use more of it")]
mod client;
mod completion;
mod connections;
mod many;
mod probing;
mod schema;
#[path = "../http/site.rs"]
#[allow(dead_code, reason = "other test binaries use more of it")]
mod site;
mod sockets;
mod stage;
mod states;
mod commands;
mod terminal;
mod watch;
