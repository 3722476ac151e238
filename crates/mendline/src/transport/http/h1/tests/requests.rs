//! Requests: their bytes, and the evidence of how much of them was written.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::Request;
use mendline_core::port::Written;
use mendline_core::reason::CutReason;
use mendline_wire::Spliced;
use proptest::prelude::*;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::transport::http::connect::MaybeTlsStream;
use crate::transport::http::h1::{Http1, Keep, ReadBuffer, connection, encode_head, finish_head};
use crate::transport::http::transfer::Failure;
use crate::transport::http::write_tracker::{TrackedIo, WriteTracker};

/// A stream that accepts so many bytes in steps of at most `step` bytes, then fails or waits.
struct LimitedIo {
    accepts: usize,
    step: usize,
    fails: bool,
    written: Arc<Mutex<Vec<u8>>>,
}

impl AsyncWrite for LimitedIo {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.accepts == 0 {
            return if self.fails { Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())) } else { Poll::Pending };
        }
        let count = buf.len().min(self.accepts).min(self.step);
        self.accepts -= count;
        self.written.lock().unwrap().extend_from_slice(&buf[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for LimitedIo {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

const HEAD: &[u8] = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 8\r\n\r\n";
const BODY: &[u8] = b"{\"\r\n\r\n\"}";

/// A connection on which a request with this body was begun.
struct Begun {
    http1: Http1<LimitedIo>,
    tracker: Arc<WriteTracker>,
    written: Arc<Mutex<Vec<u8>>>,
}

fn begin(accepts: usize, step: usize, fails: bool, body: Bytes) -> Begun {
    let tracker = WriteTracker::new();
    let written = Arc::<Mutex<Vec<u8>>>::default();
    let io = LimitedIo { accepts, step, fails, written: Arc::clone(&written) };
    let io = MaybeTlsStream::Plain(TrackedIo::new(io, Arc::clone(&tracker)));
    let mut http1 = Http1::new(io, Arc::clone(&tracker), 4096, Keep::All);
    let mut cx = Context::from_waker(Waker::noop());
    http1.begin(&mut HEAD.to_vec(), Some(&Spliced::whole(body)), &mut ReadBuffer::new(), &mut cx);
    Begun { http1, tracker, written }
}

#[tokio::test]
async fn written_follows_from_accepted_bytes() {
    let length = HEAD.len() + BODY.len();
    for accepts in 0..=length {
        let expected = match accepts {
            0 => Written::Nothing,
            all if all == length => Written::Whole,
            _ => Written::Partial,
        };
        for (step, fails) in [(1, true), (3, false), (usize::MAX, true), (usize::MAX, false)] {
            let begun = begin(accepts, step, fails, Bytes::from_static(BODY));
            assert_eq!(begun.tracker.written(), expected, "{accepts} bytes in steps of {step}");
            assert_eq!(begun.written.lock().unwrap()[..], [HEAD, BODY].concat()[..accepts]);
        }
    }
}

#[tokio::test]
async fn long_body_is_written_without_a_copy_and_unchanged() {
    let body: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    for step in [999, 70_000, usize::MAX] {
        let begun = begin(usize::MAX, step, false, Bytes::from(body.clone()));
        assert_eq!(begun.tracker.written(), Written::Whole);
        assert!(begun.written.lock().unwrap()[..] == [HEAD, &body[..]].concat()[..], "{step}");
    }
}

#[tokio::test(start_paused = true)]
async fn failed_write_is_reported_after_grace() {
    let mut begun = begin(10, usize::MAX, true, Bytes::from_static(BODY));
    let start = Instant::now();
    let mut buffer = ReadBuffer::new();
    let ended = std::future::poll_fn(|cx| begun.http1.poll_head(cx, &mut buffer)).await;
    assert_eq!(ended.err(), Some(Failure::Cut(CutReason::Reset)));
    assert_eq!(start.elapsed(), connection::GRACE);
    assert_eq!(begun.tracker.written(), Written::Partial);
}

fn encoded(request: &Request<()>, length: Option<usize>) -> String {
    let mut bytes = Vec::new();
    encode_head(request, &mut bytes);
    finish_head(length, &mut bytes);
    String::from_utf8(bytes).unwrap()
}

#[test]
fn head_has_target_headers_and_length() {
    let request = Request::get("/a?b").header("Host", "x").header("Content-Length", "9").body(()).unwrap();
    assert_eq!(encoded(&request, None), "GET /a?b HTTP/1.1\r\nhost: x\r\n\r\n");
    let request = Request::post("http://x.test:81/a").header("A", "1").header("A", "2").body(()).unwrap();
    let expected = "POST http://x.test:81/a HTTP/1.1\r\na: 1\r\na: 2\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(encoded(&request, Some(0)), expected);
}

proptest! {
    #[test]
    fn head_is_parsed_back(
        path in "/[a-z0-9/]{0,20}(\\?[a-z=&]{0,10})?",
        headers in proptest::collection::vec(("[a-z][a-z0-9-]{0,12}", "[!-~]([ -~]{0,20}[!-~])?"), 0..10),
        length: Option<u32>,
    ) {
        let mut request = Request::post(&path);
        for (name, value) in headers.iter().filter(|(name, _)| name != "content-length") {
            request = request.header(name, value);
        }
        let request = request.body(()).unwrap();
        let text = encoded(&request, length.map(|length| length as usize));
        let mut parsed = [httparse::EMPTY_HEADER; 20];
        let mut read = httparse::Request::new(&mut parsed);
        prop_assert_eq!(read.parse(text.as_bytes()).unwrap(), httparse::Status::Complete(text.len()));
        prop_assert_eq!((read.method, read.path, read.version), (Some("POST"), Some(&path[..]), Some(1)));
        let mut expected: Vec<(String, Vec<u8>)> =
            request.headers().iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
        expected.extend(length.map(|length| ("content-length".to_owned(), length.to_string().into_bytes())));
        let seen: Vec<_> = read.headers.iter().map(|header| (header.name.to_owned(), header.value.to_vec())).collect();
        prop_assert_eq!(seen, expected);
    }
}
