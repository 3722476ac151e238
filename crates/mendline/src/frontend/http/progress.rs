//! The progress of responses: how many are not written yet, and which of them the client does not take.
//!
//! A client of HTTP/2 decides for each response how much of it may be sent. One that allows nothing holds a response
//! without blocking the connection, so writes to the socket do not show it. A response whose next part was handed over
//! and not taken for [`Pace::stall`](super::Pace) ends its connection.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use super::body::ResponseBody;

/// The responses of one connection that wait for their client.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitingResponses(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    since: HashMap<u64, Instant>,
}

impl WaitingResponses {
    /// The time since which one of them waits.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.lock().since.values().min().copied()
    }

    fn new_number(&self) -> u64 {
        let mut waiting = self.lock();
        waiting.next += 1;
        waiting.next
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of responses that are not handed over to their connections.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenResponses(Arc<AtomicUsize>);

impl OpenResponses {
    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The body of a response whose progress is watched.
pub struct WatchedBody {
    body: ResponseBody,
    /// None for a response that never ends by itself.
    open: Option<OpenResponses>,
    waiting: Option<(WaitingResponses, u64)>,
}

impl WatchedBody {
    /// Watches a body: as one of the open responses, unless it never ends, and as one that may wait for its client.
    pub(super) fn new(body: ResponseBody, open: &OpenResponses, waiting: Option<WaitingResponses>) -> WatchedBody {
        let open = (!matches!(body, ResponseBody::Followed(_))).then(|| open.clone());
        if let Some(open) = &open {
            open.0.fetch_add(1, Ordering::Relaxed);
        }
        let waiting = waiting.map(|waiting| {
            let number = waiting.new_number();
            (waiting, number)
        });
        WatchedBody { body, open, waiting }
    }
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        if let Some((waiting, number)) = &this.waiting {
            let mut waiting = waiting.lock();
            match frame {
                Poll::Ready(Some(_)) => drop(waiting.since.insert(*number, Instant::now())),
                Poll::Ready(None) | Poll::Pending => drop(waiting.since.remove(number)),
            }
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for WatchedBody {
    fn drop(&mut self) {
        if let Some((waiting, number)) = &self.waiting {
            waiting.lock().since.remove(number);
        }
        if let Some(open) = &self.open {
            open.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;
    use std::time::Duration;

    use http::{Request, Response};
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use hyper_util::server::conn::auto;

    use super::super::paced_io::{Pace, PacedIo};
    use super::*;

    fn poll(body: &mut WatchedBody) -> Option<Bytes> {
        let frame = Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(frame) = frame else { panic!("a text is ready at once") };
        frame.map(|frame| frame.unwrap().into_data().unwrap())
    }

    #[test]
    fn long_text_is_handed_over_in_parts_and_counts_until_its_end() {
        let (open, waiting) = (OpenResponses::default(), WaitingResponses::default());
        let text = Bytes::from(vec![b'x'; 200_000]);
        let mut body = WatchedBody::new(ResponseBody::Text(Some(text.clone())), &open, Some(waiting.clone()));
        let mut read = Vec::new();
        while let Some(part) = poll(&mut body) {
            assert!(part.len() <= 64 * 1024 && waiting.oldest().is_some());
            read.extend_from_slice(&part);
        }
        assert_eq!((read.len(), open.count(), waiting.oldest()), (text.len(), 1, None));
        drop(body);
        assert_eq!(open.count(), 0);
    }

    #[test]
    fn dropped_response_waits_no_longer() {
        let (open, waiting) = (OpenResponses::default(), WaitingResponses::default());
        let text = Bytes::from(vec![b'x'; 200_000]);
        let mut body = WatchedBody::new(ResponseBody::Text(Some(text)), &open, Some(waiting.clone()));
        poll(&mut body);
        drop(body);
        assert_eq!((open.count(), waiting.oldest()), (0, None));
    }

    #[tokio::test(start_paused = true)]
    async fn http2_client_that_allows_no_bytes_is_cut() {
        const STALL: Duration = Duration::from_secs(60);
        let (client, server) = tokio::io::duplex(1 << 20);
        let (open, waiting) = (OpenResponses::default(), WaitingResponses::default());
        let pace = Pace { stall: STALL, bytes: 64 * 1024 };
        let server = PacedIo::new(server, STALL, pace).watching(waiting.clone());
        let counted = open.clone();
        let service = service_fn(move |_: Request<hyper::body::Incoming>| {
            let text = ResponseBody::Text(Some(Bytes::from(vec![b'x'; 4 << 20])));
            let body = WatchedBody::new(text, &counted, Some(waiting.clone()));
            async move { Ok::<_, Infallible>(Response::new(body)) }
        });
        let serving = tokio::spawn(async move {
            let builder = auto::Builder::new(TokioExecutor::new());
            builder.serve_connection(TokioIo::new(server), service).await.is_err()
        });
        let mut builder = h2::client::Builder::new();
        let (mut requests, connection) = builder.initial_window_size(1000).handshake::<_, Bytes>(client).await.unwrap();
        let connection = tokio::spawn(connection);
        let request = Request::get("http://localhost/").body(()).unwrap();
        let (response, _) = requests.send_request(request, true).unwrap();
        // The client has the head, and takes nothing of the body.
        let response = response.await.unwrap();
        let begin = Instant::now();
        assert!(serving.await.unwrap(), "the connection ends");
        assert!((STALL..STALL * 2).contains(&begin.elapsed()), "{:?}", begin.elapsed());
        let _ = connection.await;
        drop(response);
        assert_eq!(open.count(), 0);
    }
}
