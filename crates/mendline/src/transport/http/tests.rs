//! Tests of the cost of a call, without clocks: they count what is polled, searched and buffered.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use mendline_core::Input;
use mendline_core::port::{ExchangeId, HttpRequest, Reuse, Verb};
use mendline_core::reason::ConnectError;
use mendline_wire::Spliced;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf};
use tokio::task::unconstrained;

use super::{Dial, Dialed, Exchange, HostPort, Http, Target};

/// A dialer of streams in memory. After a number of them, dials do not end.
#[derive(Clone, Default)]
struct Memory {
    left: Arc<AtomicUsize>,
    servers: Arc<Mutex<Vec<DuplexStream>>>,
    reads: Arc<AtomicUsize>,
}

impl Dial for Memory {
    type Io = CountedIo;

    fn dial(
        &self,
        _: &HostPort,
        _: Duration,
    ) -> impl Future<Output = Result<Dialed<CountedIo>, ConnectError>> + Send + 'static {
        let is_answered = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        let (io, server) = tokio::io::duplex(1 << 16);
        if is_answered.is_ok() {
            self.servers.lock().unwrap().push(server);
        }
        let io = CountedIo { io, reads: Arc::clone(&self.reads) };
        async move {
            if is_answered.is_err() {
                std::future::pending::<()>().await;
            }
            Ok(Dialed { io, looks_open: None })
        }
    }
}

/// A stream that counts how often it is read.
struct CountedIo {
    io: DuplexStream,
    reads: Arc<AtomicUsize>,
}

impl AsyncRead for CountedIo {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for CountedIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// A transport and its servers.
struct Bench {
    http: Http<Memory>,
    memory: Memory,
    next: u64,
}

impl Bench {
    /// Creates a transport with this many connections that are answered.
    fn new(connections: usize) -> Bench {
        let memory = Memory::default();
        memory.left.store(connections, Ordering::Relaxed);
        let mut http = Http::new(Target::parse("http://x.test/").unwrap(), memory.clone());
        http.limit_calls(1000);
        Bench { http, memory, next: 0 }
    }

    fn begin(&mut self, count: usize, reuse: Reuse) {
        for _ in 0..count {
            self.next += 1;
            let body = Some(Spliced::whole(Bytes::from_static(b"{}")));
            let request = HttpRequest { verb: Verb::Post, target: None, headers: Vec::new(), body };
            self.http.begin(ExchangeId(self.next), request, reuse);
        }
    }

    /// Polls until nothing is left to do. Returns the number of ended exchanges.
    fn settle(&mut self) -> usize {
        let mut cx = Context::from_waker(Waker::noop());
        let mut ends = 0;
        // A pending poll may have reached the limit of its work.
        let mut idle = 0;
        while idle < 100 {
            match self.http.poll_input(&mut cx, |_| true) {
                Poll::Ready(fact) => {
                    idle = 0;
                    ends += usize::from(matches!(fact, Input::End { .. }));
                }
                Poll::Pending => idle += 1,
            }
        }
        ends
    }

    /// Reads a request on each connection that has one, and answers it.
    fn answer(&self) -> usize {
        let mut cx = Context::from_waker(Waker::noop());
        let mut answered = 0;
        for server in self.memory.servers.lock().unwrap().iter_mut() {
            let mut request = [0; 4096];
            let read = std::pin::pin!(server.read(&mut request)).poll(&mut cx);
            if matches!(read, Poll::Ready(Ok(1..))) {
                let answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
                assert!(std::pin::pin!(server.write_all(answer)).poll(&mut cx).is_ready());
                answered += 1;
            }
        }
        answered
    }
}

#[tokio::test(start_paused = true)]
async fn p01_waiting_exchanges_are_not_searched_for_in_vain() {
    unconstrained(async {
        let mut bench = Bench::new(1);
        bench.begin(1, Reuse::Any);
        bench.settle();
        assert_eq!(bench.answer(), 1);
        assert_eq!(bench.settle(), 1);
        // The only connection is too old for a call that requires a fresh one, and no dial ends.
        tokio::time::advance(Duration::from_secs(3)).await;
        let before = bench.http.searches;
        bench.begin(500, Reuse::Fresh);
        bench.http.assign();
        assert_eq!(bench.http.searches - before, 1, "one search shows that there is none for the others");
        bench.begin(1, Reuse::Any);
        bench.settle();
        let before = bench.http.searches;
        bench.http.assign();
        assert_eq!(bench.http.searches - before, 0, "no connection is free");
        assert_eq!(bench.answer(), 1);
        assert_eq!(bench.settle(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p01_facts_of_many_exchanges_are_reported_together() {
    unconstrained(async {
        let mut bench = Bench::new(32);
        bench.begin(32, Reuse::Any);
        bench.settle();
        assert_eq!(bench.answer(), 32);
        let first = bench.http.poll_input(&mut Context::from_waker(Waker::noop()), |_| true);
        assert!(matches!(first, Poll::Ready(Input::Head { .. })));
        let mut collected = 0;
        while bench.http.facts.pop().is_some() {
            collected += 1;
        }
        assert_eq!(collected, 31, "the heads of the others");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p01_call_polls_only_its_own_connection() {
    unconstrained(async {
        let mut bench = Bench::new(64);
        bench.begin(64, Reuse::Any);
        bench.settle();
        assert_eq!((bench.answer(), bench.settle()), (64, 64));
        let before = bench.memory.reads.load(Ordering::Relaxed);
        bench.begin(1, Reuse::Any);
        bench.settle();
        assert_eq!((bench.answer(), bench.settle()), (1, 1));
        let reads = bench.memory.reads.load(Ordering::Relaxed) - before;
        assert!(reads <= 4, "{reads} reads: before the request, the response, the end, and a spare one");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p01_waiting_connection_holds_no_buffer() {
    unconstrained(async {
        let mut bench = Bench::new(8);
        for _ in 0..2 {
            bench.begin(8, Reuse::Any);
            bench.settle();
            let on = |exchange: &Exchange| match &exchange.stage {
                super::Stage::Sent { assignment, .. } => Some(assignment.connection),
                _ => None,
            };
            let waiting: Vec<_> = bench.http.exchanges.values().filter_map(|exchange| on(exchange)).collect();
            assert_eq!(waiting.len(), 8);
            for connection in waiting {
                let (http1, ..) = bench.http.pool.http1(connection).unwrap();
                assert_eq!(http1.buffered(), 0);
            }
            assert_eq!((bench.answer(), bench.settle()), (8, 8));
        }
    })
    .await;
}
