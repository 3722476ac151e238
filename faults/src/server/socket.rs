//! A server socket that a fault can cut.
//!
//! [`Socket`] sits between hyper and the kernel, above TLS if there is any. It counts bytes and ends when its
//! [`ConnectionHandle`] demands it: at once, or as soon as everything that hyper has buffered is written, so that a
//! response can be cut at an exact byte.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::Connection;
use crate::oracle::Oracle;

/// The way in which a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Ending {
    /// With a FIN.
    Fin,
    /// With a RST.
    Reset,
}

/// A handle by which a fault ends a connection.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionHandle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The number of the connection on this server, from 1.
    number: u64,
    requests: AtomicU64,
    /// Responses whose bodies are sent in pieces and have not ended.
    streaming: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    end_state: EndState,
    /// Bytes that are written before the end.
    final_bytes: Bytes,
    wakers: Vec<Waker>,
}

#[derive(Clone, Copy, Debug, Default)]
enum EndState {
    #[default]
    Open,
    EndsWhenFlushed(Ending),
    Ends(Ending),
    /// Nothing is read or written any more.
    Silent,
}

impl ConnectionHandle {
    pub(crate) fn new(number: u64) -> ConnectionHandle {
        let (requests, streaming) = (AtomicU64::new(0), AtomicU64::new(0));
        ConnectionHandle(Arc::new(Shared { number, requests, streaming, state: Mutex::default() }))
    }

    /// The number of the connection.
    pub(crate) fn number(&self) -> u64 {
        self.0.number
    }

    /// Counts a request and returns its number, from 1.
    pub(crate) fn count_request(&self) -> u64 {
        self.0.requests.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Counts a response whose body is sent in pieces, from its head to its end.
    pub(crate) fn count_streaming(&self, begins: bool) {
        if begins {
            self.0.streaming.fetch_add(1, Ordering::Relaxed);
        } else {
            self.0.streaming.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns whether a response has begun and not ended.
    pub(crate) fn is_streaming(&self) -> bool {
        self.0.streaming.load(Ordering::Relaxed) > 0
    }

    /// Stops reading and writing for good. The connection stays open.
    pub(crate) fn silence(&self) {
        self.end_with(EndState::Silent, Bytes::new());
    }

    /// Returns whether the connection is about to end.
    pub(crate) fn is_ending(&self) -> bool {
        !matches!(self.state().end_state, EndState::Open)
    }

    /// Returns whether the connection is over and this is the last handle.
    pub(crate) fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Ends the connection now and discards what hyper has buffered.
    pub(crate) fn end(&self, ending: Ending) {
        self.end_with(EndState::Ends(ending), Bytes::new());
    }

    /// Ends the connection as soon as everything that hyper has buffered is written.
    pub(crate) fn end_when_flushed(&self, ending: Ending) {
        self.end_with(EndState::EndsWhenFlushed(ending), Bytes::new());
    }

    /// Writes these bytes after everything that hyper has buffered, then ends the connection.
    pub(crate) fn write_and_end(&self, final_bytes: Bytes) {
        self.end_with(EndState::EndsWhenFlushed(Ending::Fin), final_bytes);
    }

    fn end_with(&self, end_state: EndState, final_bytes: Bytes) {
        let mut state = self.state();
        // The first end wins, but an immediate one replaces one that waits for a flush.
        if matches!(
            (state.end_state, end_state),
            (EndState::Open, _) | (EndState::EndsWhenFlushed(_), EndState::Ends(_) | EndState::Silent)
        ) {
            state.end_state = end_state;
            state.final_bytes = final_bytes;
        }
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The socket below hyper.
#[derive(Debug)]
pub(crate) struct Socket {
    connection: Connection,
    handle: ConnectionHandle,
    oracle: Arc<Oracle>,
    /// After `connection`, because fields are dropped in order: the count drops after the socket is closed.
    _open: Open,
}

/// A guard that counts the connection as open.
#[derive(Debug)]
struct Open(Arc<Oracle>);

impl Socket {
    pub(crate) fn new(connection: Connection, handle: ConnectionHandle, oracle: Arc<Oracle>) -> Socket {
        oracle.record(|counts| {
            counts.connections += 1;
            counts.open_connections += 1;
            counts.most_open_connections = counts.most_open_connections.max(counts.open_connections);
        });
        Socket { connection, handle, _open: Open(Arc::clone(&oracle)), oracle }
    }

    /// Fails once the connection must end. The error makes hyper drop it. A silent connection is pending without end.
    fn poll_check(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.handle.state();
        match state.end_state {
            EndState::Open | EndState::EndsWhenFlushed(_) => {
                if !state.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                    state.wakers.push(cx.waker().clone());
                }
                Poll::Ready(Ok(()))
            }
            EndState::Silent => Poll::Pending,
            EndState::Ends(ending) => {
                drop(state);
                if ending == Ending::Reset {
                    self.connection.tcp().set_zero_linger()?;
                }
                Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()))
            }
        }
    }

    /// Writes the final bytes, if there are any.
    fn poll_final_bytes(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let bytes = self.handle.state().final_bytes.clone();
            if bytes.is_empty() {
                return Pin::new(&mut self.connection).poll_flush(cx);
            }
            let written = std::task::ready!(Pin::new(&mut self.connection).poll_write(cx, &bytes))?;
            self.oracle.record(|counts| counts.bytes_out += written as u64);
            self.handle.state().final_bytes.advance(written);
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.poll_check(cx))?;
        let before = buf.filled().len();
        std::task::ready!(Pin::new(&mut self.connection).poll_read(cx, buf))?;
        let read = buf.filled().len() - before;
        self.oracle.record(|counts| counts.bytes_in += read as u64);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        std::task::ready!(self.poll_check(cx))?;
        let written = std::task::ready!(Pin::new(&mut self.connection).poll_write(cx, buf))?;
        self.oracle.record(|counts| counts.bytes_out += written as u64);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.poll_check(cx))?;
        std::task::ready!(Pin::new(&mut self.connection).poll_flush(cx))?;
        let end_state = self.handle.state().end_state;
        if let EndState::EndsWhenFlushed(ending) = end_state {
            std::task::ready!(self.poll_final_bytes(cx))?;
            self.handle.end(ending);
            return self.poll_check(cx);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if matches!(self.handle.state().end_state, EndState::Silent) {
            return Poll::Pending;
        }
        Pin::new(&mut self.connection).poll_shutdown(cx)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.record(|counts| counts.open_connections -= 1);
    }
}
