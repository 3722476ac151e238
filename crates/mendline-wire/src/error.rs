//! Errors of texts that are not valid messages.
//!
//! An error names the first fault and its position. It also carries the id, if it can be determined, because an error
//! with an id can be answered.

use std::fmt;

use crate::Id;

/// The reason why a text is not a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireError {
    /// The fault.
    pub fault: Fault,
    /// The offset at which it was detected.
    pub at: usize,
    /// The id of the message, if it is certain.
    pub id: Option<Id>,
    /// Whether the text has a `method`: then it was a request or a notification, otherwise perhaps a response.
    pub method_seen: bool,
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Not JSON: noise, or a syntax error.
    NotJson,
    /// Bytes that are not UTF-8.
    NotUtf8,
    /// Not a JSON-RPC 2.0 message: not an object, no `"jsonrpc": "2.0"`, or no method, result or error.
    NotJsonRpc,
    /// Objects and arrays nested deeper than the limit.
    TooDeep,
    /// A duplicate member of the envelope, so that two readers could see two different messages.
    DuplicateKey,
    /// An id longer than the limit.
    IdTooLong,
    /// An id that is neither a number nor a string (`null` is allowed in an error response only).
    BadId,
    /// A result without an id.
    MissingId,
    /// A method together with a result or an error, or a result together with an error.
    Ambiguous,
    /// The text ends in the middle.
    Truncated,
    /// Longer than the limit.
    TooLong,
    /// A batch where one message was expected.
    Batch,
    /// A batch without messages.
    EmptyBatch,
    /// A batch with more messages than the limit.
    BatchTooLong,
}

impl Fault {
    /// Returns the description of the fault.
    pub fn words(self) -> &'static str {
        match self {
            Fault::NotJson => "not JSON",
            Fault::NotUtf8 => "not UTF-8",
            Fault::NotJsonRpc => "not a JSON-RPC 2.0 message",
            Fault::TooDeep => "nested too deeply",
            Fault::DuplicateKey => "a member of the envelope occurs twice",
            Fault::IdTooLong => "the id is too long",
            Fault::BadId => "the id is neither a number nor a string",
            Fault::MissingId => "a result without an id",
            Fault::Ambiguous => "a request and a response, or a result and an error, at once",
            Fault::Truncated => "the message ends in the middle",
            Fault::TooLong => "the message is too long",
            Fault::Batch => "a batch where one message is expected",
            Fault::EmptyBatch => "an empty batch",
            Fault::BatchTooLong => "too many messages in one batch",
        }
    }
}

impl WireError {
    pub(crate) fn new(fault: Fault, at: usize) -> WireError {
        WireError { fault, at, id: None, method_seen: false }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {}", self.fault.words(), self.at)?;
        match &self.id {
            Some(id) => write!(f, ", id {id})"),
            None => f.write_str(")"),
        }
    }
}

impl std::error::Error for WireError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_fault_offset_and_id() {
        let mut error = WireError::new(Fault::TooDeep, 90);
        assert_eq!(error.to_string(), "nested too deeply (at byte 90)");
        error.id = Some(Id::number(7));
        assert_eq!(error.to_string(), "nested too deeply (at byte 90, id 7)");
    }
}
