//! Canaries: secrets that are given to Mendline or told by a server, searched for in everything that leaves the process.
//!
//! Each secret is repeated by a hostile child, server or proxy in every form it knows, and across every limit at which
//! Mendline cuts a text. Neither a secret nor eight characters of one may be found in an answer that is Mendline's own, in
//! what a command prints, in logs, wire records, status, catalogue, other files or arguments of processes. Answers of the
//! server itself pass unchanged and are not searched.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

#[path = "../client/mod.rs"]
#[allow(dead_code, reason = "other test binaries use more of it")]
mod client;

mod canary;
mod children;
mod home;
mod peers;
mod proxies;
mod servers;
