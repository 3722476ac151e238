//! The real binary with real processes, signals and a faulty server.
//!
//! Every test waits with a deadline and never sleeps for a fixed time. The ledger of the server shows what really ran.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

#[path = "../client/mod.rs"]
mod client;
mod demo;
mod faults;
#[path = "../http/namespace.rs"]
#[allow(dead_code, reason = "other test binaries use more of it")]
mod namespace;
mod options;
mod pages;
mod policies;
mod reuse;
mod shutdown;
mod startup;
mod streams;
mod support;
mod suspend;
mod transparency;
mod usage;
mod wrap;
mod wrap_clients;
