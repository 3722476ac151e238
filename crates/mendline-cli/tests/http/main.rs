//! `mendline run URL` as a real process before real sockets, and a server behind them that breaks on purpose.
//!
//! The fault server and the fault proxy run inside the test; the client talks to Mendline through its stdin and stdout. What
//! really ran is asked of the server's oracle and never concluded from what the client was told: the stories are about the
//! two being the same. Nothing leaves loopback, and nothing sleeps to be lucky.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

mod options;
#[path = "../client/mod.rs"]
mod client;
mod conversations;
mod credentials;
mod cuts;
mod client_exit;
mod framing;
mod http2;
mod subscriptions;
mod name_server;
mod names;
mod namespace;
mod network;
mod one_line;
mod policies;
mod reachability;
mod recording_proxy;
mod redirects;
mod restarts;
mod secure;
mod sessions;
mod silent_connections;
mod site;
mod slow_network;
mod sockets;
mod statuses;
mod suspend;
mod flapping;
mod wrap;
