//! Transports to clients.
//!
//! A [`Frontend`] is one client as the driver sees it. [`StdioFrontend`] serves a client over two byte streams, with one
//! message on each line; [`stdio`] opens the stdin and stdout of this process for it. [`ChannelFrontend`] serves a
//! client in this process. A [`MultiFrontend`] has many clients, each with many streams: [`http`] serves MCP over HTTP.

mod channel;
pub mod http;
mod stdio_frontend;

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use mendline_core::{ClientId, Input, StreamId, StreamMessage, UpstreamId};
use mendline_wire::Spliced;

pub use self::channel::{ChannelClosed, ChannelFrontend, ClientChannel, channel};
pub use self::stdio_frontend::StdioFrontend;
pub use crate::driver::Step;
pub use crate::os::stdio;

/// The side of the driver on which a client is.
///
/// The driver asks the engine before each [`poll_input`](Frontend::poll_input) whether the client may be read from. It
/// knows the type of its frontends, so that a message takes neither an allocation nor a dynamic call to pass.
pub trait Frontend: Send {
    /// Returns the next frame from the client. Reads at most `allowance` bytes for it, and reduces the allowance by
    /// what it has read.
    fn poll_input(&mut self, cx: &mut Context<'_>, allowance: &mut usize) -> Step;

    /// Pulls messages from `next` and writes them, until there is none left or the client takes no more. Messages that
    /// cannot be written yet stay in the engine, except for a bounded rest. Fails once, when the client can no longer
    /// be written to.
    fn poll_write(&mut self, cx: &mut Context<'_>, next: impl FnMut() -> Option<Spliced>) -> io::Result<()>;

    /// Returns whether a client that has closed its output no longer reads either, as far as that shows without a
    /// write.
    fn is_abandoned(&mut self, cx: &mut Context<'_>) -> bool;

    /// Returns whether the client has taken every message that the last [`poll_write`](Frontend::poll_write) could
    /// pull, or will never take the rest.
    fn is_flushed(&self) -> bool;
}

/// A frontend with many clients, each of which has many streams. It numbers its clients itself.
pub trait MultiFrontend: Send {
    /// Returns the next input of a client.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<MultiInput>;

    /// Returns whether a stream takes another message. After it did not, [`MultiInput::Room`] reports that it does.
    fn has_room(&mut self, client: ClientId, stream: StreamId) -> bool;

    /// Takes a message for a stream.
    fn write(&mut self, client: ClientId, stream: StreamId, message: StreamMessage);

    /// Returns whether every message was written to its client, or never will be.
    fn is_flushed(&self) -> bool;

    /// Returns the headers of clients that go with every request to this upstream.
    fn request_headers(&self, upstream: UpstreamId) -> Vec<(Cow<'static, str>, Arc<str>)> {
        let _ = upstream;
        Vec::new()
    }

    /// The engine has removed an upstream: its number may be used again.
    fn forget_upstream(&mut self, upstream: UpstreamId) {
        let _ = upstream;
    }
}

/// An input of a [`MultiFrontend`].
pub enum MultiInput {
    /// An input of the engine about a client.
    Engine(Input),
    /// A stream takes messages again.
    Room(ClientId, StreamId),
}
