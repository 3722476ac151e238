//! The real thing: the binary, real processes, real signals, and a server that misbehaves on purpose.
//!
//! Every story waits for what it expects with a deadline and never sleeps to be lucky. What the server really did is read
//! from its ledger.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

mod options;
#[path = "../client/mod.rs"]
mod client;
mod demo;
mod shutdown;
mod faults;
#[path = "../http/namespace.rs"]
#[allow(dead_code, reason = "other test binaries use more of it")]
mod namespace;
mod pages;
mod policies;
mod reuse;
mod startup;
mod suspend;
mod streams;
mod support;
mod transparency;
mod usage;
mod wrap;
