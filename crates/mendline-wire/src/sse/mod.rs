//! Server-sent events, in and out.
//!
//! The format is that of the WHATWG's HTML standard, read as bytes: lines that end in LF, CR or CRLF, fields `id`,
//! `event`, `data` and `retry`, comments, and a blank line that ends an event. Beyond a browser's `EventSource`
//! Mendline has to see events *without* data as well: MCP primes a stream with an id alone, and asks for patience with
//! a `retry` alone.
//!
//! When to reconnect, and with which `Last-Event-ID`, is decided elsewhere.

mod decoder;
mod encoder;

use bytes::Bytes;

pub use decoder::{SseDecoder, SseFault};
pub use encoder::SseEncoder;

/// One event, with every field as it was written. An absent field is not an empty one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// What to resume after. An empty id takes the last one back.
    pub id: Option<Bytes>,
    /// The name of the event; absent means `message`.
    pub event: Option<Bytes>,
    /// The data; several `data` lines are joined by newlines.
    pub data: Option<Bytes>,
    /// How many milliseconds to wait before reconnecting.
    pub retry: Option<u64>,
}
