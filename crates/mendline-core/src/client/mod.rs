//! The side that faces clients: one conversation each, every request answered once.

mod server_requests;
mod outbox;
mod session;

pub use session::ClientSession;
