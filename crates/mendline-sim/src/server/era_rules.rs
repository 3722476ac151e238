//! The part of a server that belongs to one era: who is let in, and what may be said by itself.

use mendline_wire::Message;

/// What happens to a message at the door.
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

/// The part of a server that belongs to one era.
pub trait EraRules {
    /// Lets a request or a notification in; complaints are sentences about what the peer did wrong.
    fn admit(&mut self, message: &Message, violations: &mut Vec<String>) -> Admission;
    /// Whether the server may ask its client something now.
    fn may_send_requests(&self) -> bool;
    /// Whether the server may send notifications on its own now.
    fn may_notify(&self) -> bool;
    /// Whether it keeps nothing of a conversation but what its client sends along.
    fn is_stateless(&self) -> bool {
        false
    }
    /// Whether the same greeting may come twice.
    fn allows_repeated_initialize(&self) -> bool {
        false
    }
}
