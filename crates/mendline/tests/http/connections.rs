//! The connection pool: reuse, idle time and limits.

use mendline::decisions::reason::ConnectError;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mendline::transport::http::{Dial, Dialed, HostPort};
use mendline_core::Input;
use mendline_core::port::Reuse;
use tokio::io::DuplexStream;
use tokio::time::{Instant, sleep};

use super::stage::{
    EVENTS_HEAD, MemoryDialer, PING, PONG, Server, Servers, Stage, get, json, memory_dialer, post, target,
};

/// Performs one exchange on this connection.
async fn again(stage: &mut Stage<MemoryDialer>, server: &mut Server, reuse: Reuse) {
    stage.begin_with(post(PING), reuse);
    let (facts, _) = tokio::join!(stage.facts(1), server.answer(json(PONG)));
    assert!(facts.last().unwrap().ends_with("end Complete Whole"), "{facts:?}");
}

async fn first(answer: &str) -> (Stage<MemoryDialer>, Servers, Server) {
    let (dial, mut servers) = memory_dialer();
    let mut stage = Stage::new(target("http://x.test/"), dial);
    stage.begin(post(PING));
    let serve = async {
        let mut server = servers.next().await;
        server.answer(answer).await;
        server
    };
    let (facts, server) = tokio::join!(stage.facts(1), serve);
    assert_eq!(facts.last().unwrap(), "end Complete Whole");
    (stage, servers, server)
}

#[tokio::test(start_paused = true)]
async fn recent_connection_is_reused() {
    let (mut stage, servers, mut server) = first(&json(PONG)).await;
    for _ in 0..10 {
        stage.during(sleep(Duration::from_millis(3900))).await;
        again(&mut stage, &mut server, Reuse::Any).await;
    }
    again(&mut stage, &mut server, Reuse::Fresh).await;
    stage.during(sleep(Duration::from_millis(900))).await;
    again(&mut stage, &mut server, Reuse::Fresh).await;
    assert_eq!(servers.unseen(), 0);
}

#[tokio::test(start_paused = true)]
async fn unsafe_call_takes_fresh_connection_after_one_idle_second() {
    let (mut stage, mut servers, _old) = first(&json(PONG)).await;
    stage.during(sleep(Duration::from_millis(1100))).await;
    stage.begin_with(post(PING), Reuse::Fresh);
    let (facts, _) = tokio::join!(stage.facts(1), async { servers.next().await.answer(json(PONG)).await });
    assert_eq!(facts.last().unwrap(), "2: end Complete Whole");
}

#[tokio::test(start_paused = true)]
async fn idle_connection_is_closed_before_server_timeout() {
    let keep_alive =
        |seconds: u32| json(PONG).replace("\r\n\r\n", &format!("\r\nKeep-Alive: timeout={seconds}\r\n\r\n"));
    for (answer, rests) in
        [(json(PONG), 4000), (keep_alive(3), 2000), (keep_alive(30), 29_000), (keep_alive(9999), 60_000)]
    {
        let (mut stage, _servers, mut server) = first(&answer).await;
        let start = Instant::now();
        assert!(stage.during(server.is_closed()).await);
        assert_eq!(start.elapsed().as_millis(), rests, "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn connection_close_header_prevents_reuse() {
    for header in ["Connection: close", "Keep-Alive: timeout=1"] {
        let (mut stage, _servers, mut server) =
            first(&json(PONG).replace("\r\n\r\n", &format!("\r\n{header}\r\n\r\n"))).await;
        let start = Instant::now();
        assert!(stage.during(server.is_closed()).await);
        assert_eq!(start.elapsed(), Duration::ZERO, "{header}");
    }
}

#[tokio::test(start_paused = true)]
async fn connection_closed_by_server_is_not_reused() {
    let (mut stage, mut servers, server) = first(&json(PONG)).await;
    drop(server);
    stage.begin(post(PING));
    let (facts, _) = tokio::join!(stage.facts(1), async { servers.next().await.answer(json(PONG)).await });
    assert_eq!(facts.last().unwrap(), "2: end Complete Whole");
}

#[tokio::test(start_paused = true)]
async fn body_of_202_keeps_connection() {
    let accepted = "HTTP/1.1 202 Accepted\r\nContent-Length: 8\r\n\r\nAccepted";
    let (mut stage, servers, mut server) = first(accepted).await;
    again(&mut stage, &mut server, Reuse::Any).await;
    assert_eq!(servers.unseen(), 0);
}

#[tokio::test(start_paused = true)]
async fn unfinished_body_of_202_costs_only_connection() {
    let (mut stage, mut servers, mut server) =
        first("HTTP/1.1 202 Accepted\r\nContent-Length: 1000000\r\n\r\nAccep").await;
    stage.begin(post(PING));
    let (facts, _) = tokio::join!(stage.facts(1), async { servers.next().await.answer(json(PONG)).await });
    assert_eq!(facts.last().unwrap(), "2: end Complete Whole");
    assert!(stage.during(server.is_closed()).await);
}

/// Makes so many exchanges at the same time, each on a connection of its own, and returns the connections.
async fn burst(stage: &mut Stage<MemoryDialer>, servers: &mut Servers, count: usize, answer: &str) -> Vec<Server> {
    for _ in 0..count {
        stage.begin(post(PING));
    }
    let serve = async {
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(servers.next().await);
        }
        for server in &mut all {
            server.answer(answer).await;
        }
        all
    };
    let (facts, all) = tokio::join!(stage.facts(count), serve);
    assert_eq!(facts.iter().filter(|fact| fact.ends_with("end Complete Whole")).count(), count);
    all
}

async fn count_open(stage: &mut Stage<MemoryDialer>, servers: &mut [Server]) -> usize {
    let mut open = 0;
    for server in servers {
        let closed = stage.during(tokio::time::timeout(Duration::from_micros(1), server.is_closed())).await;
        open += usize::from(closed.is_err());
    }
    open
}

fn keep_alive(seconds: u32) -> String {
    json(PONG).replace("\r\n\r\n", &format!("\r\nKeep-Alive: timeout={seconds}\r\n\r\n"))
}

#[tokio::test(start_paused = true)]
async fn p01_pool_keeps_as_many_connections_as_were_in_use() {
    let (dial, mut servers) = memory_dialer();
    let mut stage = Stage::new(target("http://x.test/"), dial);
    // Not only at the start of the process.
    stage.during(sleep(Duration::from_secs(60))).await;
    let mut all = burst(&mut stage, &mut servers, 200, &json(PONG)).await;
    assert_eq!(count_open(&mut stage, &mut all).await, 200);
    for _ in 0..200 {
        stage.begin(post(PING));
    }
    let serve = async {
        for server in &mut all {
            server.answer(json(PONG)).await;
        }
    };
    let (facts, ()) = tokio::join!(stage.facts(200), serve);
    assert_eq!(facts.iter().filter(|fact| fact.ends_with("end Complete Whole")).count(), 200);
    assert_eq!(servers.unseen(), 0, "nothing was dialed again");
}

#[tokio::test(start_paused = true)]
async fn p01_pool_keeps_sixty_four_after_a_past_burst() {
    let (dial, mut servers) = memory_dialer();
    let mut stage = Stage::new(target("http://x.test/"), dial);
    let mut all = burst(&mut stage, &mut servers, 200, &keep_alive(60)).await;
    stage.during(sleep(Duration::from_secs(4))).await;
    assert_eq!(count_open(&mut stage, &mut all).await, 200);
    stage.during(sleep(Duration::from_secs(7))).await;
    assert_eq!(count_open(&mut stage, &mut all).await, 64, "the burst is long over");
    stage.during(sleep(Duration::from_secs(49))).await;
    assert_eq!(count_open(&mut stage, &mut all).await, 0, "the idle limit has passed");
}

/// Serves the next connection once.
async fn serve_once(servers: &mut Servers) -> Server {
    let mut server = servers.next().await;
    server.answer(json(PONG)).await;
    server
}

/// Performs one exchange on a new connection.
async fn on_a_new_one(stage: &mut Stage<MemoryDialer>, servers: &mut Servers, reuse: Reuse) -> Server {
    stage.begin_with(post(PING), reuse);
    let (facts, server) = tokio::join!(stage.facts(1), serve_once(servers));
    assert!(facts.last().unwrap().ends_with("end Complete Whole"), "{facts:?}");
    server
}

#[tokio::test(start_paused = true)]
async fn r24_unsafe_call_after_a_loss_avoids_connections_as_idle() {
    let (mut stage, mut servers, mut lost) = first(&json(PONG)).await;
    stage.during(sleep(Duration::from_millis(500))).await;
    // The server closes the connection when it gets an unsafe call.
    stage.begin_with(post(PING), Reuse::Fresh);
    let (facts, _) = tokio::join!(stage.facts(1), async move { lost.request().await });
    assert!(facts.last().unwrap().contains("Cut"), "{facts:?}");

    let mut old = on_a_new_one(&mut stage, &mut servers, Reuse::Fresh).await;
    stage.during(sleep(Duration::from_millis(260))).await;
    let mut new = on_a_new_one(&mut stage, &mut servers, Reuse::Fresh).await;
    stage.during(sleep(Duration::from_millis(240))).await;
    again(&mut stage, &mut new, Reuse::Fresh).await;
    assert_eq!(servers.unseen(), 0, "it was idle for less than half of the fatal time");
    // A repeatable call may take any connection.
    drop(new);
    stage.during(sleep(Duration::from_millis(500))).await;
    again(&mut stage, &mut old, Reuse::Any).await;
    assert_eq!(servers.unseen(), 0);
}

#[tokio::test(start_paused = true)]
async fn r24_end_of_a_running_call_is_no_fatal_time() {
    let (mut stage, mut servers, mut server) = first(&json(PONG)).await;
    stage.during(sleep(Duration::from_millis(300))).await;
    stage.begin_with(post(PING), Reuse::Fresh);
    let crash = async move {
        server.request().await;
        sleep(Duration::from_secs(2)).await;
    };
    let (facts, ()) = tokio::join!(stage.facts(1), crash);
    assert!(facts.last().unwrap().contains("Cut"), "{facts:?}");
    let mut server = on_a_new_one(&mut stage, &mut servers, Reuse::Fresh).await;
    stage.during(sleep(Duration::from_millis(900))).await;
    again(&mut stage, &mut server, Reuse::Fresh).await;
    assert_eq!(servers.unseen(), 0);
}

#[tokio::test(start_paused = true)]
async fn r24_close_of_idle_connection_shows_the_fatal_time() {
    let (mut stage, mut servers, server) = first(&json(PONG)).await;
    stage.during(sleep(Duration::from_millis(500))).await;
    drop(server);
    stage.during(sleep(Duration::from_millis(1))).await;
    let _old = on_a_new_one(&mut stage, &mut servers, Reuse::Fresh).await;
    stage.during(sleep(Duration::from_millis(260))).await;
    let mut new = on_a_new_one(&mut stage, &mut servers, Reuse::Fresh).await;
    stage.during(sleep(Duration::from_millis(240))).await;
    again(&mut stage, &mut new, Reuse::Fresh).await;
    assert_eq!(servers.unseen(), 0);
}

#[tokio::test(start_paused = true)]
async fn r24_announced_close_is_no_fatal_time() {
    let close = json(PONG).replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    let (mut stage, mut servers, server) = first(&close).await;
    drop(server);
    let mut server = on_a_new_one(&mut stage, &mut servers, Reuse::Fresh).await;
    stage.during(sleep(Duration::from_millis(900))).await;
    again(&mut stage, &mut server, Reuse::Fresh).await;
    assert_eq!(servers.unseen(), 0);
}

#[tokio::test(start_paused = true)]
async fn event_stream_occupies_its_connection() {
    let (dial, mut servers) = memory_dialer();
    let mut stage = Stage::new(target("http://x.test/"), dial);
    stage.begin(get());
    let mut stream = stage.next_server(&mut servers).await;
    stream.answer(EVENTS_HEAD).await;
    stage.next().await;
    stage.begin(post(PING));
    let (facts, _) = tokio::join!(stage.facts(1), async { servers.next().await.answer(json(PONG)).await });
    assert_eq!(facts.last().unwrap(), "2: end Complete Whole");
}

#[tokio::test(start_paused = true)]
async fn close_drops_only_idle_connections() {
    let (mut stage, mut servers, mut resting) = first(&json(PONG)).await;
    stage.begin(get());
    stage.next().await;
    assert!(stage.during(resting.request()).await.starts_with("GET"));
    stage.begin(post(PING));
    let serve = async {
        let mut server = servers.next().await;
        server.answer(json(PONG)).await;
        server
    };
    let (_, mut second) = tokio::join!(stage.facts(1), serve);
    stage.http.close();
    let start = Instant::now();
    assert!(stage.during(second.is_closed()).await);
    assert_eq!(start.elapsed(), Duration::ZERO);
    resting.write(json(PONG)).await;
    assert_eq!(stage.facts(1).await.last().unwrap(), "2: end Complete Whole");
}

/// A dialer that never connects.
struct BlackHole;

impl Dial for BlackHole {
    type Io = DuplexStream;

    fn dial(
        &self,
        _: &HostPort,
        _: Duration,
    ) -> impl Future<Output = Result<Dialed<DuplexStream>, ConnectError>> + Send + 'static {
        std::future::pending()
    }
}

#[tokio::test(start_paused = true)]
async fn unanswered_dial_ends_at_connect_timeout() {
    let mut stage = Stage::new(target("http://x.test/"), BlackHole);
    let start = Instant::now();
    stage.begin(post(PING));
    stage.begin(post(PING));
    let words = "NoConnection(\"x.test:80 did not answer within 5.0 s\") Nothing";
    assert_eq!(stage.facts(2).await, [format!("end {words}"), format!("2: end {words}")]);
    assert_eq!(start.elapsed(), Duration::from_secs(5));

    let mut stage = Stage::new(target("http://x.test/").connect_timeout(Duration::from_millis(1500)), BlackHole);
    assert_eq!(
        stage.exchange(post(PING)).await,
        ["end NoConnection(\"x.test:80 did not answer within 1.5 s\") Nothing"]
    );
}

/// A dialer whose first dial succeeds. Later dials hang, and count when they are aborted.
struct SingleDial {
    memory_dialer: MemoryDialer,
    dials: AtomicUsize,
    given_up: Arc<AtomicUsize>,
}

struct Hanging(Arc<AtomicUsize>);

impl Drop for Hanging {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Dial for SingleDial {
    type Io = DuplexStream;

    fn dial(
        &self,
        place: &HostPort,
        patience: Duration,
    ) -> impl Future<Output = Result<Dialed<DuplexStream>, ConnectError>> + Send + 'static {
        let first = (self.dials.fetch_add(1, Ordering::Relaxed) == 0).then(|| self.memory_dialer.dial(place, patience));
        let hanging = Hanging(Arc::clone(&self.given_up));
        async move {
            match first {
                Some(first) => {
                    std::mem::forget(hanging);
                    first.await
                }
                None => {
                    let _hanging = hanging;
                    std::future::pending().await
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dial_without_waiting_exchange_is_aborted() {
    let (memory_dialer, mut servers) = memory_dialer();
    let given_up = Arc::new(AtomicUsize::new(0));
    let dial = SingleDial { memory_dialer, dials: AtomicUsize::new(0), given_up: Arc::clone(&given_up) };
    let mut stage = Stage::new(target("http://x.test/"), dial);
    stage.begin(post(PING));
    let mut server = stage.next_server(&mut servers).await;
    stage.begin(post(PING));
    stage.during(sleep(Duration::from_secs(1))).await;
    assert_eq!(given_up.load(Ordering::Relaxed), 0, "the second exchange waits for its dial");
    let serve = async {
        server.answer(json(PONG)).await;
        server.answer(json(PONG)).await;
    };
    let (facts, ()) = tokio::join!(stage.facts(2), serve);
    assert_eq!(facts.last().unwrap(), "2: end Complete Whole", "and takes what is free before");
    stage.during(sleep(Duration::from_millis(1))).await;
    assert_eq!(given_up.load(Ordering::Relaxed), 1);
}

/// A dialer that needs some time, and counts its dials.
struct SlowDialer {
    memory_dialer: Arc<MemoryDialer>,
    dials: Arc<AtomicUsize>,
}

const DIAL_TIME: Duration = Duration::from_millis(50);

impl Dial for SlowDialer {
    type Io = DuplexStream;

    fn dial(
        &self,
        place: &HostPort,
        patience: Duration,
    ) -> impl Future<Output = Result<Dialed<DuplexStream>, ConnectError>> + Send + 'static {
        self.dials.fetch_add(1, Ordering::Relaxed);
        let (memory_dialer, place) = (Arc::clone(&self.memory_dialer), place.clone());
        async move {
            sleep(DIAL_TIME).await;
            memory_dialer.dial(&place, patience).await
        }
    }
}

#[tokio::test(start_paused = true)]
async fn p01_dial_continues_after_its_exchange_got_another_connection() {
    let (memory_dialer, mut servers) = memory_dialer();
    let dials = Arc::new(AtomicUsize::new(0));
    let dial = SlowDialer { memory_dialer: Arc::new(memory_dialer), dials: Arc::clone(&dials) };
    let mut stage = Stage::new(target("http://x.test/"), dial);
    stage.begin(post(PING));
    let mut first = stage.next_server(&mut servers).await;
    // Two calls are in flight all the time. Each new one waits for a dial, and the answer to the other comes first.
    for _ in 0..20 {
        stage.begin(post(PING));
        let answer_soon = async {
            sleep(DIAL_TIME / 10).await;
            first.answer(json(PONG)).await;
        };
        let (facts, ()) = tokio::join!(stage.facts(1), answer_soon);
        assert!(facts.last().unwrap().ends_with("end Complete Whole"), "{facts:?}");
        // The waiting exchange takes the connection before the client sends its next call.
        let next = tokio::time::timeout(Duration::from_millis(1), stage.next()).await;
        assert!(matches!(next, Ok(Input::Reached { .. }) | Err(_)), "{next:?}");
        if servers.unseen() > 0 {
            break;
        }
    }
    assert_eq!(servers.unseen(), 1, "the pool has grown to the number of calls in flight");
    assert_eq!(dials.load(Ordering::Relaxed), 2, "and nothing was dialed in vain");
}
