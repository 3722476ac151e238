//! `mendline run URL` as a real process with real sockets and a faulty server.
//!
//! The fault server and the fault proxy run inside the test; the client uses stdin and stdout of Mendline. The tests
//! compare the answers of the client with the executions that the server counted. They use only loopback and never
//! sleep for a fixed time.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

#[path = "../client/mod.rs"]
mod client;
mod client_exit;
mod conditions;
mod conversations;
mod credentials;
mod cuts;
mod flapping;
mod framing;
mod http2;
mod name_server;
mod names;
mod namespace;
mod network;
mod one_line;
mod options;
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
mod subscriptions;
mod suspend;
mod wrap;
