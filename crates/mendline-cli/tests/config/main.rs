//! Servers from a configuration file, run by real processes.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

#[path = "../client/mod.rs"]
#[allow(dead_code, reason = "other test binaries use more of it")]
mod client;

mod checking;
mod client_entries;
mod client_names;
mod editing;
mod named;
mod operators;
mod own_tools;
mod reload;
#[path = "../http/site.rs"]
#[allow(dead_code, reason = "other test binaries use more of it")]
mod site;
mod stage;
mod statistics;
