//! The conversations that are cut.
//!
//! Each is the same short story: a client greets, reads a list, makes one unsafe call, and leaves. They differ in what
//! carries them, in how the server answers, and in what happens in between ([`Twist`]). The client takes its next step
//! when the last was answered, so that the number of a byte means the same in every run.

use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use mendline::decisions::config::Dialect;
use mendline::decisions::{ClientId, Config, Engine, Event, UpstreamConfig, UpstreamId};
use mendline::{Client, Driver, Observer};
use mendline_wire::Limits;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split};
use tokio::time::{Instant, sleep, timeout_at};

use super::faulty_stream::{Fault, Meter, Direction};
use super::host::Stage;
use super::seen::{Role, Seen};
use super::site::{Manner, Site, Twist};

/// How a server is reached.
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
    manner: Manner,
    twist: Twist,
    modern: bool,
    /// Which dialect the server speaks is known beforehand.
    told: bool,
    /// The read and the unsafe call go out together.
    together: bool,
    /// The text of the note.
    text: usize,
}

const fn legacy(name: &'static str, wire: Wire, manner: Manner) -> Conversation {
    Conversation {
        name,
        wire,
        manner,
        twist: Twist::Plain,
        modern: false,
        told: matches!(manner, Manner::Sse),
        together: false,
        text: 8,
    }
}

const fn modern(name: &'static str, wire: Wire, manner: Manner) -> Conversation {
    Conversation { modern: true, ..legacy(name, wire, manner) }
}

const fn twisted(twist: Twist, plain: Conversation) -> Conversation {
    Conversation { twist, ..plain }
}

const fn together(name: &'static str, wire: Wire) -> Conversation {
    Conversation { together: true, ..legacy(name, wire, Manner::Json) }
}

/// Longer than one frame of HTTP/2.
const fn long(name: &'static str, wire: Wire) -> Conversation {
    Conversation { text: 20_000, ..legacy(name, wire, Manner::Json) }
}

/// All of them.
pub const ALL: [Conversation; 44] = [
    legacy("stdio", Wire::Stdio, Manner::Json),
    legacy("http1-json", Wire::Http1, Manner::Json),
    legacy("http1-events", Wire::Http1, Manner::Events),
    legacy("http1-resumable", Wire::Http1, Manner::ResumableEvents),
    legacy("http1-polled", Wire::Http1, Manner::PolledEvents),
    legacy("http2-json", Wire::Http2, Manner::Json),
    legacy("http2-events", Wire::Http2, Manner::Events),
    legacy("http2-resumable", Wire::Http2, Manner::ResumableEvents),
    legacy("http2-polled", Wire::Http2, Manner::PolledEvents),
    modern("modern-json", Wire::Http1, Manner::Json),
    modern("modern-events", Wire::Http1, Manner::Events),
    modern("modern2-json", Wire::Http2, Manner::Json),
    modern("modern2-events", Wire::Http2, Manner::Events),
    legacy("sse", Wire::Http1, Manner::Sse),
    legacy("sse2", Wire::Http2, Manner::Sse),
    Conversation { told: false, ..legacy("fallback", Wire::Http1, Manner::Sse) },
    Conversation { told: false, ..legacy("fallback2", Wire::Http2, Manner::Sse) },
    legacy("tls1-json", Wire::Tls1, Manner::Json),
    legacy("tls1-resumable", Wire::Tls1, Manner::ResumableEvents),
    legacy("tls2-json", Wire::Tls2, Manner::Json),
    modern("tls2-modern", Wire::Tls2, Manner::Events),
    together("stdio-together", Wire::Stdio),
    together("http1-together", Wire::Http1),
    together("http2-together", Wire::Http2),
    long("stdio-long", Wire::Stdio),
    long("http1-long", Wire::Http1),
    long("http2-long", Wire::Http2),
    twisted(Twist::Asks, legacy("stdio-asks", Wire::Stdio, Manner::Json)),
    twisted(Twist::Asks, legacy("http1-asks", Wire::Http1, Manner::Events)),
    twisted(Twist::Asks, legacy("http1-asks-resumable", Wire::Http1, Manner::ResumableEvents)),
    twisted(Twist::AsksElsewhere, legacy("http1-asks-notices", Wire::Http1, Manner::ResumableEvents)),
    twisted(Twist::AsksElsewhere, legacy("http2-asks-notices", Wire::Http2, Manner::ResumableEvents)),
    twisted(Twist::Asks, legacy("sse-asks", Wire::Http1, Manner::Sse)),
    twisted(Twist::Cancels, legacy("stdio-cancels", Wire::Stdio, Manner::Json)),
    twisted(Twist::Cancels, legacy("http1-cancels", Wire::Http1, Manner::Events)),
    twisted(Twist::Cancels, legacy("http2-cancels", Wire::Http2, Manner::Events)),
    twisted(Twist::Cancels, modern("modern-cancels", Wire::Http1, Manner::Events)),
    twisted(Twist::Cancels, modern("modern2-cancels", Wire::Http2, Manner::Events)),
    twisted(Twist::Cancels, legacy("sse-cancels", Wire::Http1, Manner::Sse)),
    twisted(Twist::Forgets, legacy("http1-forgets", Wire::Http1, Manner::Json)),
    twisted(Twist::Forgets, legacy("http2-forgets", Wire::Http2, Manner::ResumableEvents)),
    twisted(Twist::Redirects, legacy("http1-redirects", Wire::Http1, Manner::Events)),
    twisted(Twist::Redirects, legacy("http2-redirects", Wire::Http2, Manner::Json)),
    twisted(Twist::Dies, legacy("stdio-dies", Wire::Stdio, Manner::Json)),
];

/// The tool whose second run would be a second effect.
pub const TOOL: &str = "create_note";

/// Longer than any promise: whoever waits so long in vain has found a violation.
const NEVER: Duration = Duration::from_secs(3600);

/// How long a client waits for a tool before it cancels it, if that is what it does.
const IMPATIENCE: Duration = Duration::from_secs(1);

impl Conversation {
    pub fn named(name: &str) -> Option<Conversation> {
        ALL.into_iter().find(|conversation| conversation.name == name)
    }

    /// Holds the conversation once, with this fault or without one.
    pub fn hold(&self, fault: Option<Fault>) -> Seen {
        // A runtime of its own for each: nothing of one run can live on into the next.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(self.held(fault))
    }

    async fn held(&self, fault: Option<Fault>) -> Seen {
        let meter = Meter::new(fault);
        let site = Site::new(self.manner, self.twist, self.wire != Wire::Stdio && !self.modern, meter.clone());
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = split(ours);
        let notes = Notes::default();
        let stage = Stage { wire: self.wire, site: site.clone(), meter: meter.clone() };
        let client = Client { id: ClientId(1), upstream: UpstreamId(0), reader, writer };
        let engine = Engine::new(Config::new(vec![self.upstream()]), 7);
        let driver = Driver::new(engine, Limits::default(), stage, client, notes.clone()).run(|_| Poll::Pending);
        let driver = tokio::spawn(driver);

        let mut person = Person::new(theirs, Seen::nothing(self.wire, self.manner, self.twist));
        for roles in self.steps() {
            let lines: String = roles.iter().map(|role| self.line(*role)).collect();
            person.ask(roles, &lines, meter.struck()).await;
            if self.twist == Twist::Cancels && *roles == [Role::Unsafe] {
                person.listen(Instant::now() + IMPATIENCE).await;
                person.cancel(Role::Unsafe).await;
            }
            person.listen(Instant::now() + NEVER).await;
            if *roles == [Role::Initialize] {
                if !person.seen.was_initialized() {
                    // Nobody goes on with a server that has not greeted back.
                    break;
                }
                if !self.modern {
                    person.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
                }
            }
        }
        // What is on its way arrives: time stands still until nothing moves. Once the connections are closed, everything looks
        // cancelled, so this is the moment to ask.
        sleep(Duration::from_millis(1)).await;
        let was_cancelled = site.was_cancelled();

        let (mut seen, left) = person.leave().await;
        seen.ended = matches!(timeout_at(left + NEVER, driver).await, Ok(Ok(_))).then(|| left.elapsed());
        seen.runs = site.runs(TOOL);
        seen.resumed = site.resumed();
        seen.turned_away = site.turned_away();
        seen.server_knows_of_cancel = was_cancelled;
        seen.struck = meter.struck();
        (seen.up, seen.down) = (meter.carried(Direction::Up), meter.carried(Direction::Down));
        seen.events = std::mem::take(&mut notes.0.lock().unwrap());
        seen
    }

    fn upstream(&self) -> UpstreamConfig {
        let dialect = if self.told { Dialect::Sse } else { Dialect::Auto };
        match self.wire {
            Wire::Stdio => UpstreamConfig::child("notes", "notes"),
            wire if wire.is_secure() => UpstreamConfig::http("notes", "https://notes.test/mcp", dialect),
            _ => UpstreamConfig::http("notes", "http://notes.test/mcp", dialect),
        }
    }

    /// What is asked at once, step by step.
    fn steps(&self) -> &'static [&'static [Role]] {
        if self.together {
            &[&[Role::Initialize], &[Role::Read, Role::Unsafe]]
        } else if self.twist == Twist::Cancels {
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

/// The client: asks, answers what it is asked, and keeps a record of it all.
struct Person {
    from_us: Lines<BufReader<ReadHalf<DuplexStream>>>,
    to_us: WriteHalf<DuplexStream>,
    began: Instant,
    seen: Seen,
}

impl Person {
    fn new(io: DuplexStream, seen: Seen) -> Person {
        let (from_us, to_us) = split(io);
        Person { from_us: BufReader::new(from_us).lines(), to_us, began: Instant::now(), seen }
    }

    async fn say(&mut self, message: &Value) {
        self.to_us.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn ask(&mut self, roles: &[Role], lines: &str, after_fault: bool) {
        self.began = Instant::now();
        self.seen.ask(roles, after_fault);
        self.to_us.write_all(lines.as_bytes()).await.unwrap();
    }

    /// Listens until everything is answered, or until this moment.
    async fn listen(&mut self, until: Instant) {
        while self.seen.waits()
            && let Ok(Ok(Some(line))) = timeout_at(until, self.from_us.next_line()).await
        {
            if let Some(question) = self.seen.note(&line, self.began.elapsed()) {
                self.say(&json!({"jsonrpc": "2.0", "id": question, "result": {"action": "accept", "content": {}}}))
                    .await;
            }
        }
    }

    async fn cancel(&mut self, role: Role) {
        if self.seen.cancel(role) {
            let params = json!({"requestId": role.id()});
            self.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})).await;
        }
    }

    /// Sends no more, and hears what still comes: a second answer would come here.
    async fn leave(mut self) -> (Seen, Instant) {
        let left = Instant::now();
        self.to_us.shutdown().await.unwrap();
        while let Ok(Ok(Some(line))) = timeout_at(left + NEVER, self.from_us.next_line()).await {
            self.seen.note(&line, left.elapsed());
        }
        (self.seen, left)
    }
}

#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Observer for Notes {
    fn happened(&mut self, event: &Event) {
        self.0.lock().unwrap().push(event.to_string());
    }

    fn said(&mut self, _: UpstreamId, _: &[u8]) {}
}
