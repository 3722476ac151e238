//! The conversations that are cut.
//!
//! In each, a client performs the handshake, reads a list, makes one unsafe call, and leaves. They differ in the
//! transport, in the form of the answers, and in the [`Variant`]. The client waits for each answer before its next
//! step, so the number of a byte means the same in every run.

use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use mendline::decisions::config::Dialect;
use mendline::decisions::{ClientId, Config, Engine, Event, UpstreamConfig, UpstreamId};
use mendline::frontend::StdioFrontend;
use mendline::{Client, Driver, Observer};
use mendline_wire::Limits;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split};
use tokio::time::{Instant, sleep, timeout_at};

use super::faulty_stream::{Direction, Fault, Meter};
use super::host::Stage;
use super::observations::{Observations, Role};
use super::site::{AnswerMode, Site, Variant};

/// The transport to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    Stdio,
    Http1,
    Http2,
    Tls1,
    Tls2,
}

impl Wire {
    pub fn is_secure(self) -> bool {
        matches!(self, Wire::Tls1 | Wire::Tls2)
    }

    pub fn is_http2(self) -> bool {
        matches!(self, Wire::Http2 | Wire::Tls2)
    }
}

/// One conversation.
#[derive(Clone, Copy, Debug)]
pub struct Conversation {
    pub name: &'static str,
    wire: Wire,
    mode: AnswerMode,
    variant: Variant,
    modern: bool,
    /// The transport is configured and not detected.
    dialect_known: bool,
    /// The read and the unsafe call are sent together.
    together: bool,
    /// The length of the argument text.
    text: usize,
}

const fn legacy(name: &'static str, wire: Wire, mode: AnswerMode) -> Conversation {
    Conversation {
        name,
        wire,
        mode,
        variant: Variant::Plain,
        modern: false,
        dialect_known: matches!(mode, AnswerMode::Sse),
        together: false,
        text: 8,
    }
}

const fn modern(name: &'static str, wire: Wire, mode: AnswerMode) -> Conversation {
    Conversation { modern: true, ..legacy(name, wire, mode) }
}

const fn with_variant(variant: Variant, plain: Conversation) -> Conversation {
    Conversation { variant, ..plain }
}

const fn together(name: &'static str, wire: Wire) -> Conversation {
    Conversation { together: true, ..legacy(name, wire, AnswerMode::Json) }
}

/// A conversation with a message longer than one HTTP/2 frame.
const fn long(name: &'static str, wire: Wire) -> Conversation {
    Conversation { text: 20_000, ..legacy(name, wire, AnswerMode::Json) }
}

/// All conversations.
pub const ALL: [Conversation; 44] = [
    legacy("stdio", Wire::Stdio, AnswerMode::Json),
    legacy("http1-json", Wire::Http1, AnswerMode::Json),
    legacy("http1-events", Wire::Http1, AnswerMode::Events),
    legacy("http1-resumable", Wire::Http1, AnswerMode::ResumableEvents),
    legacy("http1-polled", Wire::Http1, AnswerMode::PolledEvents),
    legacy("http2-json", Wire::Http2, AnswerMode::Json),
    legacy("http2-events", Wire::Http2, AnswerMode::Events),
    legacy("http2-resumable", Wire::Http2, AnswerMode::ResumableEvents),
    legacy("http2-polled", Wire::Http2, AnswerMode::PolledEvents),
    modern("modern-json", Wire::Http1, AnswerMode::Json),
    modern("modern-events", Wire::Http1, AnswerMode::Events),
    modern("modern2-json", Wire::Http2, AnswerMode::Json),
    modern("modern2-events", Wire::Http2, AnswerMode::Events),
    legacy("sse", Wire::Http1, AnswerMode::Sse),
    legacy("sse2", Wire::Http2, AnswerMode::Sse),
    Conversation { dialect_known: false, ..legacy("fallback", Wire::Http1, AnswerMode::Sse) },
    Conversation { dialect_known: false, ..legacy("fallback2", Wire::Http2, AnswerMode::Sse) },
    legacy("tls1-json", Wire::Tls1, AnswerMode::Json),
    legacy("tls1-resumable", Wire::Tls1, AnswerMode::ResumableEvents),
    legacy("tls2-json", Wire::Tls2, AnswerMode::Json),
    modern("tls2-modern", Wire::Tls2, AnswerMode::Events),
    together("stdio-together", Wire::Stdio),
    together("http1-together", Wire::Http1),
    together("http2-together", Wire::Http2),
    long("stdio-long", Wire::Stdio),
    long("http1-long", Wire::Http1),
    long("http2-long", Wire::Http2),
    with_variant(Variant::Asks, legacy("stdio-asks", Wire::Stdio, AnswerMode::Json)),
    with_variant(Variant::Asks, legacy("http1-asks", Wire::Http1, AnswerMode::Events)),
    with_variant(Variant::Asks, legacy("http1-asks-resumable", Wire::Http1, AnswerMode::ResumableEvents)),
    with_variant(Variant::AsksElsewhere, legacy("http1-asks-notices", Wire::Http1, AnswerMode::ResumableEvents)),
    with_variant(Variant::AsksElsewhere, legacy("http2-asks-notices", Wire::Http2, AnswerMode::ResumableEvents)),
    with_variant(Variant::Asks, legacy("sse-asks", Wire::Http1, AnswerMode::Sse)),
    with_variant(Variant::Cancels, legacy("stdio-cancels", Wire::Stdio, AnswerMode::Json)),
    with_variant(Variant::Cancels, legacy("http1-cancels", Wire::Http1, AnswerMode::Events)),
    with_variant(Variant::Cancels, legacy("http2-cancels", Wire::Http2, AnswerMode::Events)),
    with_variant(Variant::Cancels, modern("modern-cancels", Wire::Http1, AnswerMode::Events)),
    with_variant(Variant::Cancels, modern("modern2-cancels", Wire::Http2, AnswerMode::Events)),
    with_variant(Variant::Cancels, legacy("sse-cancels", Wire::Http1, AnswerMode::Sse)),
    with_variant(Variant::Forgets, legacy("http1-forgets", Wire::Http1, AnswerMode::Json)),
    with_variant(Variant::Forgets, legacy("http2-forgets", Wire::Http2, AnswerMode::ResumableEvents)),
    with_variant(Variant::Redirects, legacy("http1-redirects", Wire::Http1, AnswerMode::Events)),
    with_variant(Variant::Redirects, legacy("http2-redirects", Wire::Http2, AnswerMode::Json)),
    with_variant(Variant::Dies, legacy("stdio-dies", Wire::Stdio, AnswerMode::Json)),
];

/// The tool that must not run twice.
pub const TOOL: &str = "create_note";

/// Longer than any deadline: an answer that takes longer is a violation.
const NEVER: Duration = Duration::from_secs(3600);

/// The time after which a client cancels a call, in conversations that cancel.
const IMPATIENCE: Duration = Duration::from_secs(1);

impl Conversation {
    pub fn named(name: &str) -> Option<Conversation> {
        ALL.into_iter().find(|conversation| conversation.name == name)
    }

    /// Holds the conversation once, with or without a fault.
    pub fn hold(&self, fault: Option<Fault>) -> Observations {
        // Each run has its own runtime, so that no task outlives it.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(self.held(fault))
    }

    async fn held(&self, fault: Option<Fault>) -> Observations {
        let meter = Meter::new(fault);
        let site = Site::new(self.mode, self.variant, self.wire != Wire::Stdio && !self.modern, meter.clone());
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = split(ours);
        let log = EventLog::default();
        let stage = Stage { wire: self.wire, site: site.clone(), meter: meter.clone() };
        let frontend = StdioFrontend::new(reader, writer, &Limits::default());
        let client = Client { id: ClientId(1), upstream: UpstreamId(0), frontend };
        let engine = Engine::new(Config::new(vec![self.upstream()]), 7);
        let driver = Driver::new(engine, Limits::default(), stage, log.clone()).with_client(client);
        let driver = tokio::spawn(driver.run(|_| Poll::Pending));

        let mut test_client = TestClient::new(theirs, Observations::nothing(self.wire, self.mode, self.variant));
        for roles in self.steps() {
            let lines: String = roles.iter().map(|role| self.line(*role)).collect();
            test_client.ask(roles, &lines, meter.struck()).await;
            if self.variant == Variant::Cancels && *roles == [Role::Unsafe] {
                test_client.listen(Instant::now() + IMPATIENCE).await;
                test_client.cancel(Role::Unsafe).await;
            }
            test_client.listen(Instant::now() + NEVER).await;
            if *roles == [Role::Initialize] {
                if !test_client.observed.was_initialized() {
                    // The client stops if the handshake failed.
                    break;
                }
                if !self.modern {
                    test_client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
                }
            }
        }
        // Lets all bytes arrive: paused time does not advance while a task can run. The test reads the cancellations
        // now, because closing the connections would look like a cancellation.
        sleep(Duration::from_millis(1)).await;
        let was_cancelled = site.was_cancelled();

        let (mut observed, left) = test_client.leave().await;
        observed.ended = matches!(timeout_at(left + NEVER, driver).await, Ok(Ok(_))).then(|| left.elapsed());
        observed.runs = site.runs(TOOL);
        observed.resumed = site.resumed();
        observed.rejected = site.rejected();
        observed.server_knows_of_cancel = was_cancelled;
        observed.struck = meter.struck();
        (observed.up, observed.down) = (meter.carried(Direction::Up), meter.carried(Direction::Down));
        observed.events = std::mem::take(&mut log.0.lock().unwrap());
        observed
    }

    fn upstream(&self) -> UpstreamConfig {
        let dialect = if self.dialect_known { Dialect::Sse } else { Dialect::Auto };
        match self.wire {
            Wire::Stdio => UpstreamConfig::child("notes", "notes"),
            wire if wire.is_secure() => UpstreamConfig::http("notes", "https://notes.test/mcp", dialect),
            _ => UpstreamConfig::http("notes", "http://notes.test/mcp", dialect),
        }
    }

    /// Returns the requests of each step.
    fn steps(&self) -> &'static [&'static [Role]] {
        if self.together {
            &[&[Role::Initialize], &[Role::Read, Role::Unsafe]]
        } else if self.variant == Variant::Cancels {
            &[&[Role::Initialize], &[Role::Unsafe], &[Role::Read]]
        } else {
            &[&[Role::Initialize], &[Role::Read], &[Role::Unsafe]]
        }
    }

    fn line(&self, role: Role) -> String {
        let mut params = match role {
            Role::Initialize if !self.modern => json!({"protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "client", "version": "1"}}),
            Role::Unsafe => json!({"name": TOOL, "arguments": {"text": "x".repeat(self.text)}}),
            _ => json!({}),
        };
        if self.modern {
            params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {}});
        }
        let method = match role {
            Role::Initialize if self.modern => "server/discover",
            Role::Initialize => "initialize",
            Role::Read => "tools/list",
            Role::Unsafe => "tools/call",
        };
        format!("{}\n", json!({"jsonrpc": "2.0", "id": role.id(), "method": method, "params": params}))
    }
}

/// The client: sends requests, answers server requests, and records all messages.
struct TestClient {
    from_us: Lines<BufReader<ReadHalf<DuplexStream>>>,
    to_us: WriteHalf<DuplexStream>,
    began: Instant,
    observed: Observations,
}

impl TestClient {
    fn new(io: DuplexStream, observed: Observations) -> TestClient {
        let (from_us, to_us) = split(io);
        TestClient { from_us: BufReader::new(from_us).lines(), to_us, began: Instant::now(), observed }
    }

    async fn send(&mut self, message: &Value) {
        self.to_us.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn ask(&mut self, roles: &[Role], lines: &str, after_fault: bool) {
        self.began = Instant::now();
        self.observed.ask(roles, after_fault);
        self.to_us.write_all(lines.as_bytes()).await.unwrap();
    }

    /// Reads until every request is answered or the deadline has passed.
    async fn listen(&mut self, until: Instant) {
        while self.observed.waits()
            && let Ok(Ok(Some(line))) = timeout_at(until, self.from_us.next_line()).await
        {
            if let Some(question) = self.observed.note(&line, self.began.elapsed()) {
                self.send(&json!({"jsonrpc": "2.0", "id": question, "result": {"action": "accept", "content": {}}}))
                    .await;
            }
        }
    }

    async fn cancel(&mut self, role: Role) {
        if self.observed.cancel(role) {
            let params = json!({"requestId": role.id()});
            self.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})).await;
        }
    }

    /// Closes stdin and reads the rest, which would contain a second answer.
    async fn leave(mut self) -> (Observations, Instant) {
        let left = Instant::now();
        self.to_us.shutdown().await.unwrap();
        while let Ok(Ok(Some(line))) = timeout_at(left + NEVER, self.from_us.next_line()).await {
            self.observed.note(&line, left.elapsed());
        }
        (self.observed, left)
    }
}

#[derive(Clone, Default)]
struct EventLog(Arc<Mutex<Vec<String>>>);

impl Observer for EventLog {
    fn on_event(&mut self, event: &Event, _: mendline::driver::At) {
        self.0.lock().unwrap().push(event.to_string());
    }

    fn on_stderr(&mut self, _: UpstreamId, _: &[u8]) {}
}
