//! The client side: one session per client. Every request gets exactly one answer.

mod outbox;
mod server_requests;
mod session;

pub use session::ClientSession;
