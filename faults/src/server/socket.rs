//! A server's socket that a fault can get hold of.
//!
//! hyper owns the connection and knows how to be a good peer; a fault wants to be a bad one. Between hyper and the kernel
//! sits [`Socket`], which counts bytes and ends when its [`ConnectionHandle`] says so: at once, or as soon as all that hyper had to say
//! is written, which is how a response is cut at an exact byte. With TLS it sits above it, and counts what was said.

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

/// How a connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Ending {
    /// Properly, with a FIN.
    Fin,
    /// Rudely, with a RST.
    Reset,
}

/// What a fault holds a connection by.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionHandle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Counts the connections of the server, from 1.
    number: u64,
    requests: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    end_state: EndState,
    /// Bytes of our own that go out before the end.
    final_bytes: Bytes,
    wakers: Vec<Waker>,
}

#[derive(Clone, Copy, Debug, Default)]
enum EndState {
    #[default]
    Open,
    EndsWhenFlushed(Ending),
    Ends(Ending),
}

impl ConnectionHandle {
    pub(crate) fn new(number: u64) -> ConnectionHandle {
        ConnectionHandle(Arc::new(Shared { number, requests: AtomicU64::new(0), state: Mutex::default() }))
    }

    /// Which connection it is.
    pub(crate) fn number(&self) -> u64 {
        self.0.number
    }

    /// Counts a request, and says which one it is, from 1.
    pub(crate) fn count_request(&self) -> u64 {
        self.0.requests.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether nothing more will be heard or said on it.
    pub(crate) fn is_ending(&self) -> bool {
        !matches!(self.state().end_state, EndState::Open)
    }

    /// Whether the connection is over and nobody else holds it.
    pub(crate) fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Ends the connection now; what hyper still had to say is lost.
    pub(crate) fn end(&self, ending: Ending) {
        self.end_with(EndState::Ends(ending), Bytes::new());
    }

    /// Ends the connection as soon as everything is written that hyper has been given.
    pub(crate) fn end_when_flushed(&self, ending: Ending) {
        self.end_with(EndState::EndsWhenFlushed(ending), Bytes::new());
    }

    /// Writes these bytes after all that hyper has been given, then ends the connection.
    pub(crate) fn write_and_end(&self, final_bytes: Bytes) {
        self.end_with(EndState::EndsWhenFlushed(Ending::Fin), final_bytes);
    }

    fn end_with(&self, end_state: EndState, final_bytes: Bytes) {
        let mut state = self.state();
        // The first end counts, but a patient one may be overtaken by one that is not.
        if matches!((state.end_state, end_state), (EndState::Open, _) | (EndState::EndsWhenFlushed(_), EndState::Ends(_))) {
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

/// The socket under hyper.
#[derive(Debug)]
pub(crate) struct Socket {
    connection: Connection,
    handle: ConnectionHandle,
    oracle: Arc<Oracle>,
    /// After the line, because fields are dropped in their order: what is not counted any more has ended.
    _open: Open,
}

/// A connection that is counted as open as long as this lives.
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

    /// Passes as long as the connection is not to end. An error is what makes hyper let go of it.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let mut state = self.handle.state();
        match state.end_state {
            EndState::Open | EndState::EndsWhenFlushed(_) => {
                if !state.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                    state.wakers.push(cx.waker().clone());
                }
                Ok(())
            }
            EndState::Ends(ending) => {
                drop(state);
                if ending == Ending::Reset {
                    self.connection.tcp().set_zero_linger()?;
                }
                Err(io::ErrorKind::ConnectionAborted.into())
            }
        }
    }

    /// Writes the last words, if there are any.
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
        self.check(cx)?;
        let before = buf.filled().len();
        std::task::ready!(Pin::new(&mut self.connection).poll_read(cx, buf))?;
        let read = buf.filled().len() - before;
        self.oracle.record(|counts| counts.bytes_in += read as u64);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        let written = std::task::ready!(Pin::new(&mut self.connection).poll_write(cx, buf))?;
        self.oracle.record(|counts| counts.bytes_out += written as u64);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        std::task::ready!(Pin::new(&mut self.connection).poll_flush(cx))?;
        let end_state = self.handle.state().end_state;
        if let EndState::EndsWhenFlushed(ending) = end_state {
            std::task::ready!(self.poll_final_bytes(cx))?;
            self.handle.end(ending);
            return Poll::Ready(self.check(cx));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(cx)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.record(|counts| counts.open_connections -= 1);
    }
}
