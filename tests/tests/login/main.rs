//! Logins with real processes: `mendline login` and `mendline run` against authorization servers.
//!
//! The authorization servers are that of the fault server, npm `oidc-provider` with its pages clicked in Chromium, and
//! PyPI `oidc-provider-mock`. The figures that users lost logins to are counted by the servers: how often a person had to
//! log in, how often a refresh token was used, how often a rotated one was used again.
//! `cargo xtask logins` installs the peers and runs these tests.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test prints its figures")]

mod faults;
mod keyring;
mod kills;
mod one_login;
#[path = "../programs/mod.rs"]
mod programs;
mod providers;
mod shared;
mod ssh;
mod stage;
