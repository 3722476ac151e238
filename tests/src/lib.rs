//! The official SDKs in front of and behind Mendline.
//!
//! A peer is a program of an official SDK: a client or a server. Each client performs the same script of operations
//! (`scripts/*.json`) twice against the same server, directly and through `mendline run`, with a [tap](transcript) on
//! every pipe. Three things must be equal: the results of the client's API, the lines on the client's pipe, and the
//! lines on the server's pipe, the last two except for a closed list of [differences]. [`nondeterminism`] lists the
//! nondeterministic values of the peers, and [`cancelled_requests`] the messages that no peer wants; both are removed
//! from both sides.
//!
//! A server may also be at a URL. Then there are two comparisons: the results of the client's API must be those of the
//! same client that dials the same server itself, and the lines on the client's pipe must be those of the same server
//! over stdio, each [thread](threads) in order, except for [`transport_differences`]. A [relay] before the server taps
//! the [requests]: Mendline must send the same as the client itself. The [access] log of the server shows that nothing
//! was sent twice.
//!
//! A server may also fail during a [live conversation](live_client): one that is [killed](faulty_server) and restarted,
//! or a child that is [ended from outside](processes). These tests check the promises of Mendline instead of a
//! transcript.
//!
//! Every [failure](failures) that Mendline can answer with is read by the clients, in both eras.
//!
//! [Logins](logins) need no person: Mendline gets a home directory and a browser that confirms.
//!
//! A [gateway] stands between clients and servers that speak HTTP; a test can kill it and start it again.
//!
//! The programs of the [recipes] use frameworks as a reader of the pages does.
//!
//! The [zoo] is separate: servers and client libraries of many authors, and a binary instead of tests.
//!
//! `cargo xtask peers` installs the peers from lock files; this crate finds them in `target/peers/`.

pub mod access;
pub mod caller;
pub mod cancelled_requests;
pub mod compare;
pub mod differences;
pub mod failures;
pub mod faulty_server;
pub mod gateway;
pub mod http_client;
pub mod listening_server;
pub mod live_client;
pub mod logins;
pub mod nondeterminism;
pub mod processes;
pub mod recipes;
pub mod relay;
pub mod rename;
pub mod requests;
pub mod script;
pub mod stage;
pub mod threads;
pub mod transcript;
pub mod transport_differences;
pub mod zoo;
