//! The rules of one era: which messages a server admits, and which it may send on its own.

use mendline_wire::Message;

/// The handling of a received message.
pub enum Admission {
    /// It becomes a job.
    Job,
    /// It is answered at once with this result.
    Result(String),
    /// It is answered at once with this error.
    Error(i64, &'static str),
    /// It needs no answer.
    Accepted,
}

/// The rules of one era.
pub trait EraRules {
    /// Admits a request or a notification. Adds a sentence to `violations` for everything that the peer did wrong.
    fn admit(&mut self, message: &Message, violations: &mut Vec<String>) -> Admission;
    /// Returns whether the server may send requests now.
    fn may_send_requests(&self) -> bool;
    /// Returns whether the server may send notifications now.
    fn may_notify(&self) -> bool;
    /// Returns whether the server keeps no session state.
    fn is_stateless(&self) -> bool {
        false
    }
    /// Returns whether the same `initialize` request may arrive twice.
    fn allows_repeated_initialize(&self) -> bool {
        false
    }
}
