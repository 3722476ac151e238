//! The official SDKs in front of and behind Mendline.
//!
//! A peer is a program that was written by others: a client of an official SDK, or a server on one. Each client performs the
//! same script of operations (`scripts/*.json`) twice against the same server, once directly and once through
//! `mendline run`, with a [tap](transcript) on every pipe. Three things must then be equal: what the client's own API
//! returned, what the client saw on its pipe, and what the server saw on its own, the last two but for a closed list of
//! [differences]. What the peers themselves leave to chance is named in [`chance`], what nobody wants any more in
//! [`leftovers`]; both are taken out of both sides alike.
//!
//! A server may also be somewhere else. Then there is no second pipe to tap, and the comparison is with two conversations:
//! what the client's API returned must be what it returned when the same client dialed the same server itself, and what
//! the client saw on its pipe must be what the same server says on a pipe, each [thread](threads) in its order, but for
//! what the [distance] itself changes. That nothing was sent twice is read in the server's own log of [access].
//!
//! What is installed, and from which lock files, is the business of `cargo xtask peers`; this package finds it in
//! `target/peers/`.

pub mod access;
pub mod chance;
pub mod compare;
pub mod differences;
pub mod distance;
pub mod leftovers;
pub mod listening;
pub mod rename;
pub mod script;
pub mod stage;
pub mod threads;
pub mod transcript;
