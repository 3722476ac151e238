//! Bytes to messages and back: everything that Mendline knows about the wire, and nothing else.
//!
//! A message stays the bytes that came. [`Message::parse`] makes one strict pass over them and remembers where the few
//! things lie that decisions need (id, method, body); the rest is looked up when somebody asks and is otherwise never
//! touched. A changed message is a [`Spliced`]: the original text with a few spans replaced, so unknown fields, key
//! order, number formats and escapes survive because nobody ever writes them again.
//!
//! Framing is sans-I/O: [`Lines`] for stdio and [`SseDecoder`] for event streams own a buffer that a shell reads into,
//! and hand out whole frames. Everything has a limit, and reaching one is a value ([`Line::TooLong`], [`SseFault`],
//! [`Fault`]), not an accident.
//!
//! What a message *means* (who must be answered, what may be sent again) is left to `mendline-core`.

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
