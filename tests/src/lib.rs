//! The official SDKs in front of and behind Mendline.
//!
//! A peer is a program that was written by others: a client of an official SDK, or a server on one. Each client performs the
//! same script of operations (`scripts/*.json`) twice against the same server, once directly and once through
//! `mendline run`, with a [tap](transcript) on every pipe. Three things must then be equal: what the client's own API
//! returned, what the client saw on its pipe, and what the server saw on its own, the last two but for a closed list of
//! [differences]. What the peers themselves leave to chance is named in [`chance`], what nobody wants any more in
//! [`leftovers`]; both are taken out of both sides alike.
//!
//! What is installed, and from which lock files, is the business of `cargo xtask peers`; this package finds it in
//! `target/peers/`.

pub mod chance;
pub mod compare;
pub mod differences;
pub mod leftovers;
pub mod rename;
pub mod stage;
pub mod transcript;
