//! The wire format: bytes to messages and back.
//!
//! A message keeps its original bytes. [`Message::parse`] makes one strict pass over them and records the spans of id,
//! method and body; everything else is looked up on demand. A changed message is a [`Spliced`]: the original text with
//! a few spans replaced, so that unknown fields, key order, number formats and escapes are preserved.
//!
//! Framing is sans-I/O: [`Lines`] for stdio and [`SseDecoder`] for event streams own a buffer that a shell reads into,
//! and return complete frames. Everything has a limit, and exceeding one is a value ([`Line::TooLong`], [`SseFault`],
//! [`Fault`]).
//!
//! `mendline-core` interprets messages (who must be answered, what may be sent again).

pub mod code;
pub mod edit;
mod error;
pub mod headers;
mod id;
mod inline;
mod limits;
mod lines;
mod message;
pub mod meta;
mod method;
mod received;
pub mod revision;
mod salvage;
mod scan;
mod span;
mod splice;
mod sse;
mod string;
mod value;

pub use error::{Fault, WireError};
pub use id::Id;
pub use limits::Limits;
pub use lines::{Line, Lines};
pub use message::{Kind, Message};
pub use method::Method;
pub use received::{Received, ReceivedEvent};
pub use span::Span;
pub use splice::{Patch, Spliced};
pub use sse::{SseDecoder, SseEncoder, SseEvent, SseFault};
pub use string::quote;
pub use value::{Elements, Members, Value};
