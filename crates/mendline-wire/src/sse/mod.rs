//! Decoding and encoding of server-sent events.
//!
//! The format is that of the WHATWG HTML standard: lines that end in LF, CR or CRLF, fields `id`, `event`, `data` and
//! `retry`, comments, and a blank line that ends an event. Unlike `EventSource` of browsers, Mendline also needs events
//! without data: MCP primes a stream with an id alone, and sets the reconnect delay with a `retry` alone.
//!
//! The caller decides when to reconnect, and with which `Last-Event-ID`.

mod decoder;
mod encoder;

use bytes::Bytes;

pub use decoder::{SseDecoder, SseFault};
pub use encoder::SseEncoder;

/// An event, with every field as written. An absent field differs from an empty one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The id for a resumption. An empty id clears the last one.
    pub id: Option<Bytes>,
    /// The name of the event; absent means `message`.
    pub event: Option<Bytes>,
    /// The data; several `data` lines are joined by newlines.
    pub data: Option<Bytes>,
    /// Milliseconds to wait before a reconnect.
    pub retry: Option<u64>,
}
