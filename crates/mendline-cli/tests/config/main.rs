//! Servers from a configuration file, run by real processes.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is how it says no")]

#[path = "../client/mod.rs"]
#[allow(dead_code, reason = "shared with stories that need more of it")]
mod client;

mod checking;
mod named;
mod reload;
#[path = "../http/site.rs"]
#[allow(dead_code, reason = "shared with stories that need more of it")]
mod site;
mod stage;
