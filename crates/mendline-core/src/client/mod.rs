//! The client side: one session per client. Every request gets exactly one answer.

mod outbox;
mod server_requests;
mod session;
mod streams;

pub use session::ClientSession;
