//! The real driver and engine over in-memory streams on paused time.
//!
//! The tests check the order of events: the exit of a child comes after all its output, accepted bytes are counted
//! exactly, one exit is one fault, and no child can starve others.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

#[path = "../memory/child.rs"]
mod child;
#[path = "../memory/dialer.rs"]
mod dialer;
mod many_clients;
mod peers;

use std::collections::BTreeMap;
use std::task::Poll;
use std::time::Duration;

use mendline::decisions::port::Exit;
use mendline::decisions::{ClientId, Config, Engine, UpstreamConfig, UpstreamId, defaults};
use mendline::frontend::StdioFrontend;
use mendline::{Client, Driver};
use mendline_wire::Limits;
use peers::{CAPACITY, EventLog, FakeServer, Stage};
use tokio::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

/// A running driver with its client, its children and its events.
struct Harness {
    to_us: WriteHalf<DuplexStream>,
    from_us: Lines<BufReader<ReadHalf<DuplexStream>>>,
    programs: UnboundedReceiver<FakeServer>,
    events: EventLog,
    driver: JoinHandle<mendline_core::port::Ending>,
}

impl Harness {
    fn new(stdin_capacities: &[usize]) -> Harness {
        let (ours, theirs) = tokio::io::duplex(CAPACITY);
        let (reader, writer) = split(ours);
        let (from_us, to_us) = split(theirs);
        let (programs, arriving) = unbounded_channel();
        let stdin_capacities = stdin_capacities.iter().copied().collect();
        let stage = Stage { stdin_capacities, programs, dialers: BTreeMap::new() };
        let events = EventLog::default();
        let engine = Engine::new(Config::new(vec![UpstreamConfig::child("notes", "notes")]), 7);
        let frontend = StdioFrontend::new(reader, writer, &Limits::default());
        let client = Client { id: ClientId(1), upstream: UpstreamId(0), frontend };
        let driver = Driver::new(engine, Limits::default(), stage, events.clone()).with_client(client);
        let driver = tokio::spawn(driver.run(|_| Poll::Pending));
        Harness { to_us, from_us: BufReader::new(from_us).lines(), programs: arriving, events, driver }
    }

    async fn send(&mut self, line: &str) {
        self.to_us.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn line(&mut self) -> String {
        self.from_us.next_line().await.unwrap().expect("our stdout ended")
    }

    async fn program(&mut self) -> FakeServer {
        self.programs.recv().await.unwrap()
    }

    fn events(&self) -> String {
        self.events.0.lock().unwrap().join("\n")
    }
}

const WRITE: &str =
    r#"{"jsonrpc":"2.0","id":"w","method":"tools/call","params":{"name":"create_note","arguments":{}}}"#;

#[tokio::test(start_paused = true)]
async fn call_is_answered_without_delay() {
    let mut harness = Harness::new(&[]);
    let mut server = harness.program().await;
    let begin = tokio::time::Instant::now();
    harness.send(WRITE).await;
    let request = server.recv().await;
    server.answer(&request, r#"{"z":1e3,"a":2}"#).await;
    assert_eq!(harness.line().await, r#"{"jsonrpc":"2.0","id":"w","result":{"z":1e3,"a":2}}"#);
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn stdout_of_dead_child_is_read_before_exit() {
    let mut harness = Harness::new(&[]);
    let mut server = harness.program().await;
    harness.send(WRITE).await;
    let request = server.recv().await;
    // Both happen before the driver is polled again. It must not handle the exit first.
    server.answer(&request, "{}").await;
    server.exit_slot.set(Exit::Code(0));
    assert_eq!(harness.line().await, r#"{"jsonrpc":"2.0","id":"w","result":{}}"#);
}

#[tokio::test(start_paused = true)]
async fn stderr_tail_is_read_before_exit() {
    let mut harness = Harness::new(&[]);
    let mut server = harness.program().await;
    server.stderr.write_all(b"out of memory").await.unwrap();
    server.exit_slot.set(Exit::Code(3));
    harness.program().await;
    assert!(harness.events().contains("stderr out of memory\n"), "{}", harness.events());
}

#[tokio::test(start_paused = true)]
async fn pipe_closed_just_before_exit_is_not_separate_fault() {
    let mut harness = Harness::new(&[]);
    let mut server = harness.program().await;
    server.stdout = None;
    tokio::time::sleep(Duration::from_millis(10)).await;
    server.exit_slot.set(Exit::Signal(9));
    harness.program().await;
    let events = harness.events();
    assert!(events.contains("signal 9") && !events.contains("Draining"), "{events}");
}

#[tokio::test(start_paused = true)]
async fn live_process_with_closed_stdout_is_replaced() {
    let mut harness = Harness::new(&[]);
    let mut server = harness.program().await;
    server.stdout = None;
    let mut second = harness.program().await;
    harness.send(WRITE).await;
    let request = second.recv().await;
    second.answer(&request, "{}").await;
    assert!(harness.line().await.contains(r#""result":{}"#));
}

#[tokio::test(start_paused = true)]
async fn partly_written_call_goes_to_next_child() {
    let mut harness = Harness::new(&[WRITE.len() / 2]);
    let server = harness.program().await;
    harness.send(WRITE).await;
    // The stream accepts what fits, and the child dies with it.
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.exit_slot.set(Exit::Signal(9));
    let mut second = harness.program().await;
    let request = second.recv().await;
    assert_eq!(request["params"]["name"], "create_note");
    second.answer(&request, r#"{"done":true}"#).await;
    assert_eq!(harness.line().await, r#"{"jsonrpc":"2.0","id":"w","result":{"done":true}}"#);
}

#[tokio::test(start_paused = true)]
async fn fully_written_call_is_not_resent() {
    let mut harness = Harness::new(&[]);
    let server = harness.program().await;
    harness.send(WRITE).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.exit_slot.set(Exit::Signal(9));
    let answer = harness.line().await;
    assert!(answer.contains(r#""outcome":"unknown""#), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn flooding_child_does_not_starve_others() {
    let mut harness = Harness::new(&[]);
    let mut server = harness.program().await;
    let mut stderr = std::mem::replace(&mut server.stderr, tokio::io::duplex(1).0);
    let flood = tokio::spawn(async move { while stderr.write_all(b"and another thing\n").await.is_ok() {} });
    for _ in 0..100 {
        harness.send(WRITE).await;
        let request = server.recv().await;
        server.answer(&request, "{}").await;
        assert!(harness.line().await.contains(r#""result":{}"#));
    }
    flood.abort();
}

#[tokio::test(start_paused = true)]
async fn small_and_large_messages_keep_order() {
    let mut harness = Harness::new(&[]);
    let mut server = harness.program().await;
    let sender = tokio::spawn(async move {
        let large = "x".repeat(3 << 20);
        for number in 0..500 {
            let text = if number == 250 { large.as_str() } else { "small" };
            let params = format!(r#"{{"n":{number},"t":"{text}"}}"#);
            server.send(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/n","params":{params}}}"#)).await;
        }
        server
    });
    for number in 0..500 {
        let line = harness.line().await;
        assert!(line.contains(&format!(r#""n":{number},"#)), "{number}: {}", &line[..line.len().min(200)]);
        assert_eq!(line.len() > 1 << 20, number == 250);
    }
    sender.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn client_exit_ends_driver_and_child() {
    let mut harness = Harness::new(&[]);
    let mut server = harness.program().await;
    harness.to_us.shutdown().await.unwrap();
    let mut rest = Vec::new();
    server.stdin.read_to_end(&mut rest).await.unwrap();
    assert!(rest.is_empty());
    server.exit_slot.set(Exit::Code(0));
    let ended = harness.driver.await.unwrap();
    assert_eq!(ended, mendline_core::port::Ending::Ready);
}

#[tokio::test(start_paused = true)]
async fn answer_during_suspend_is_in_time() {
    let mut harness = Harness::new(&[]);
    let mut program = harness.program().await;
    harness.send(WRITE).await;
    let call = program.recv().await;
    program.answer(&call, r#"{"content":[]}"#).await;
    // The whole process was stopped past the deadline of the call.
    tokio::time::advance(defaults::CALL + Duration::from_secs(60)).await;
    assert_eq!(harness.line().await, r#"{"jsonrpc":"2.0","id":"w","result":{"content":[]}}"#);
    assert_eq!(harness.events().matches("was asleep").count(), 1, "{}", harness.events());
}

#[tokio::test(start_paused = true)]
async fn answer_before_deadline_is_accepted_when_read_late() {
    for late in [Duration::from_millis(1), Duration::from_secs(4)] {
        let mut harness = Harness::new(&[]);
        let mut program = harness.program().await;
        harness.send(WRITE).await;
        let call = program.recv().await;
        tokio::time::sleep(defaults::CALL - Duration::from_millis(1)).await;
        program.answer(&call, r#"{"content":[]}"#).await;
        // The process had no CPU: too short for a suspend, but past the deadline of the call.
        tokio::time::advance(Duration::from_millis(1) + late).await;
        assert_eq!(harness.line().await, r#"{"jsonrpc":"2.0","id":"w","result":{"content":[]}}"#, "{late:?}");
        assert!(!harness.events().contains("was asleep"), "{}", harness.events());
    }
}

#[tokio::test(start_paused = true)]
async fn deadline_passed_during_suspend_is_kept_afterwards() {
    let mut harness = Harness::new(&[]);
    let mut program = harness.program().await;
    harness.send(WRITE).await;
    program.recv().await;
    tokio::time::advance(defaults::CALL + Duration::from_secs(60)).await;
    assert!(harness.line().await.contains("timed_out"));
    assert_eq!(harness.events().matches("was asleep").count(), 1, "{}", harness.events());
}

#[tokio::test(start_paused = true)]
async fn punctual_deadline_is_not_taken_for_suspend() {
    let mut harness = Harness::new(&[]);
    let mut program = harness.program().await;
    harness.send(WRITE).await;
    program.recv().await;
    assert!(harness.line().await.contains("timed_out"));
    assert!(!harness.events().contains("was asleep"), "{}", harness.events());
}
