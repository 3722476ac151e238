//! A client over two byte streams, with one message on each line.

use std::io;
use std::task::Context;

use mendline_wire::{Limits, Spliced};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Frontend, Step, stdio};
use crate::driver::sink::Sink;
use crate::driver::source::Source;

/// A client over two byte streams: stdin and stdout of this process, or others.
pub struct StdioFrontend<R = stdio::Input, W = stdio::Output> {
    source: Source<R>,
    sink: Sink<W>,
}

impl StdioFrontend {
    /// Opens the stdin and stdout of this process. Must be called inside a tokio runtime.
    pub fn open(limits: &Limits) -> io::Result<StdioFrontend> {
        let (reader, writer) = stdio::open()?;
        Ok(StdioFrontend::new(reader, writer, limits))
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> StdioFrontend<R, W> {
    /// Creates a frontend over the stream that the client writes to and the stream that it reads from.
    pub fn new(reader: R, writer: W, limits: &Limits) -> StdioFrontend<R, W> {
        StdioFrontend { source: Source::new(reader, limits.message_bytes), sink: Sink::new(writer) }
    }
}

impl<R, W> Frontend for StdioFrontend<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
{
    fn poll_input(&mut self, cx: &mut Context<'_>, allowance: &mut usize) -> Step {
        self.source.poll_line(cx, allowance)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, next: impl FnMut() -> Option<Spliced>) -> io::Result<()> {
        self.sink.poll_write(cx, next)
    }

    fn is_abandoned(&mut self, cx: &mut Context<'_>) -> bool {
        self.sink.is_abandoned(cx)
    }

    fn is_flushed(&self) -> bool {
        self.sink.is_closed() || self.sink.is_empty()
    }
}
