//! HTTP/1.1 on one connection, as a client.
//!
//! The parts that judge bytes do no I/O: `encode` writes the head of a request, `parse` reads the head of a response,
//! and `body` finds the data in the bytes that follow it. `connection` reads and writes with them. It is polled by the
//! transport and holds no buffer while it waits: all connections read into one [`ReadBuffer`], and only bytes that
//! cannot be used at once are kept.
//!
//! The module is strict where two readers could disagree about the end of a response: such a response is refused, and
//! the [`Fault`] is the reason. A connection is used again only if the response ended exactly where the bytes did.

mod body;
mod connection;
mod encode;
mod fault;
mod parse;

pub(super) use connection::{Data, Http1, ReadBuffer};
pub(super) use encode::{encode_head, finish_head};
pub(super) use fault::Fault;
pub(super) use parse::Keep;

#[cfg(test)]
mod tests;
