//! The side that faces clients: one conversation each, every request answered once.

mod outbox;
mod server_requests;
mod session;

pub use session::ClientSession;
