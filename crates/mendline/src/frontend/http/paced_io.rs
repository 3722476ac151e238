//! A connection whose client has to keep a pace.
//!
//! Two kinds of clients would hold a connection for ever: one that sends the first bytes and no more, before the version
//! of HTTP is known, and one that does not read its response, or reads it byte by byte. hyper limits the time for the
//! head of a request, and neither of these. The time in which a write cannot go on is counted here, and begins anew
//! with every [`Pace::bytes`] that the client has taken; an idle stream costs nothing of it. Over HTTP/2 the connection
//! also ends if one of its responses waits for that time ([`WaitingResponses`]).

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::progress::WaitingResponses;

/// The bytes that tell HTTP/2 from HTTP/1.
const PREFACE: usize = 24;

/// The pace of a client that reads: at least this many bytes in this time of waiting for it.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The time for which writes may wait.
    pub stall: Duration,
    /// The bytes after which it begins anew.
    pub bytes: usize,
}

/// A connection.
pub(super) struct PacedIo<T> {
    inner: T,
    opening: Option<Opening>,
    pace: Pace,
    /// The time for which writes have waited, without the present wait.
    stalled: Duration,
    written: usize,
    waiting: Option<Waiting>,
    responses: WaitingResponses,
    /// The time at which the response that waits longest is late.
    late: Option<Pin<Box<Sleep>>>,
}

/// The time for the first bytes.
struct Opening {
    deadline: Pin<Box<Sleep>>,
    read: usize,
}

/// A write that cannot go on.
struct Waiting {
    since: Instant,
    deadline: Pin<Box<Sleep>>,
}

impl<T> PacedIo<T> {
    /// Wraps a connection that was just opened.
    pub(super) fn new(inner: T, opening: Duration, pace: Pace) -> PacedIo<T> {
        let opening = Opening { deadline: Box::pin(tokio::time::sleep(opening)), read: 0 };
        let (responses, stalled) = (WaitingResponses::default(), Duration::ZERO);
        PacedIo { inner, opening: Some(opening), pace, stalled, written: 0, waiting: None, responses, late: None }
    }

    /// Watches the responses of the connection.
    pub(super) fn watching(mut self, responses: WaitingResponses) -> PacedIo<T> {
        self.responses = responses;
        self
    }

    /// Returns whether the client does not take a response. If not, the task is woken when that may be so.
    fn has_late_response(&mut self, cx: &mut Context<'_>) -> bool {
        while let Some(oldest) = self.responses.oldest() {
            let deadline = oldest + self.pace.stall;
            let late = self.late.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
            if late.deadline() != deadline {
                late.as_mut().reset(deadline);
            }
            if late.as_mut().poll(cx).is_pending() {
                return false;
            }
            if self.responses.oldest() == Some(oldest) {
                return true;
            }
        }
        self.late = None;
        false
    }

    /// Counts the result of a write.
    fn count(&mut self, result: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match result {
            Poll::Ready(result) => {
                if let Some(waiting) = self.waiting.take() {
                    self.stalled += waiting.since.elapsed();
                }
                self.written += result.as_ref().map_or(0, |written| *written);
                if self.written >= self.pace.bytes {
                    (self.written, self.stalled) = (0, Duration::ZERO);
                }
                Poll::Ready(result)
            }
            Poll::Pending => {
                let left = self.pace.stall.saturating_sub(self.stalled);
                let waiting = self.waiting.get_or_insert_with(|| Waiting {
                    since: Instant::now(),
                    deadline: Box::pin(tokio::time::sleep(left)),
                });
                ready!(waiting.deadline.as_mut().poll(cx));
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
            }
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for PacedIo<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let result = Pin::new(&mut this.inner).poll_read(cx, buffer);
        if result.is_pending() && this.has_late_response(cx) {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not take a response")));
        }
        let Some(opening) = &mut this.opening else { return result };
        if result.is_pending() {
            ready!(opening.deadline.as_mut().poll(cx));
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client sends nothing")));
        }
        opening.read += buffer.filled().len() - before;
        if opening.read >= PREFACE {
            this.opening = None;
        }
        result
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for PacedIo<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.inner).poll_write(cx, bytes);
        this.count(result, cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.inner).poll_write_vectored(cx, slices);
        this.count(result, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    const OPENING: Duration = Duration::from_secs(30);
    const PACE: Pace = Pace { stall: Duration::from_secs(60), bytes: 1000 };

    #[tokio::test(start_paused = true)]
    async fn client_that_sends_a_few_bytes_is_cut() {
        let (mut client, server) = duplex(64);
        let mut server = PacedIo::new(server, OPENING, PACE);
        client.write_all(b"PRI").await.unwrap();
        let mut text = [0; 64];
        assert_eq!(server.read(&mut text).await.unwrap(), 3);
        let error = server.read(&mut text).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn client_with_a_request_may_be_idle() {
        let (mut client, server) = duplex(64);
        let mut server = PacedIo::new(server, OPENING, PACE);
        client.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut text = [0; 64];
        assert!(server.read(&mut text).await.unwrap() > PREFACE);
        tokio::time::timeout(OPENING * 2, server.read(&mut text)).await.unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn reader_of_one_byte_per_second_is_cut() {
        let (mut client, server) = duplex(64);
        let mut server = PacedIo::new(server, OPENING, PACE);
        let reader = tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if client.read_u8().await.is_err() {
                    return;
                }
            }
        });
        let begin = Instant::now();
        let error = server.write_all(&[b'x'; 10_000]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(begin.elapsed() < PACE.stall * 2, "{:?}", begin.elapsed());
        drop(server);
        reader.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn slow_but_steady_reader_gets_everything() {
        let (mut client, server) = duplex(64);
        let mut server = PacedIo::new(server, OPENING, PACE);
        let reader = tokio::spawn(async move {
            let mut all = 0;
            let mut text = [0; 64];
            while all < 10_000 {
                tokio::time::sleep(Duration::from_secs(2)).await;
                all += client.read(&mut text).await.unwrap();
            }
        });
        server.write_all(&[b'x'; 10_000]).await.unwrap();
        reader.await.unwrap();
    }
}
