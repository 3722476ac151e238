//! The side that faces clients: one conversation each, every request answered once.

mod asks;
mod outbox;
mod session;

pub use session::ClientSession;
