//! Running bridges, inspected and controlled through their control sockets: `status`, `reconnect`, `isolate`, `resume`.
//!
//! Each test has its own runtime directory and sees only its own processes. The tests compare the output of `status`
//! with what happened to real servers, and wait for each state with a deadline.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

#[path = "../client/mod.rs"]
#[allow(dead_code, reason = "other test binaries use more of it")]
mod client;
mod commands;
mod completion;
mod connections;
mod explain;
mod many;
mod metrics;
mod probing;
mod schema;
#[path = "../http/site.rs"]
#[allow(dead_code, reason = "other test binaries use more of it")]
mod site;
mod sockets;
mod stage;
mod states;
mod terminal;
mod watch;
