//! The official SDKs in front of and behind Mendline.
//!
//! A peer is a program that was written by others: a client of an official SDK, or a server on one. Each client performs the
//! same script of operations (`scripts/*.json`) twice against the same server, once directly and once through
//! `mendline run`, with a [tap](transcript) on every pipe. Three things must then be equal: what the client's own API
//! returned, what the client saw on its pipe, and what the server saw on its own, the last two but for a closed list of
//! [differences]. What the peers themselves leave to chance is named in [`chance`], what nobody wants any more in
//! [`leftovers`]; both are taken out of both sides alike.
//!
//! A server may also be somewhere else. Then the comparison is with two conversations: what the client's API returned must be
//! what it returned when the same client dialed the same server itself, and what the client saw on its pipe must be what the
//! same server says on a pipe, each [thread](threads) in its order, but for what the [distance] itself changes. A
//! [relay] before the server taps the [requests]: it must be sent the same by Mendline as by the client itself. That
//! nothing was sent twice is read in the server's own log of [access].
//!
//! And what stands behind a client may break while it is [in conversation](live): a server that is [killed](faulty) and
//! comes back, a child that is ended [from outside](processes). What is held then is not a transcript but what was promised.
//!
//! What a client reads when Mendline itself answers is held too: every [failure](failures) that there can be, in both eras.
//!
//! What is installed, and from which lock files, is the business of `cargo xtask peers`; this package finds it in
//! `target/peers/`.

pub mod access;
pub mod caller;
pub mod nondeterminism;
pub mod compare;
pub mod differences;
pub mod transport_differences;
pub mod failures;
pub mod faulty_server;
pub mod cancelled_requests;
pub mod listening_server;
pub mod live_client;
pub mod processes;
pub mod relay;
pub mod rename;
pub mod requests;
pub mod script;
pub mod stage;
pub mod threads;
pub mod transcript;
