//! The conversations that are cut, and what was seen of one.
//!
//! Each is the same short story: a client greets, reads a list, makes one unsafe call, and leaves. It takes its next step
//! when the last was answered, so that the number of a byte means the same in every run.

use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use mendline::decisions::config::Dialect;
use mendline::decisions::{ClientId, Config, Engine, Event, UpstreamConfig, UpstreamId};
use mendline::{Client, Driver, Observer};
use mendline_wire::Limits;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, split};
use tokio::time::{Instant, timeout};

use super::cable::{Fault, Meter, Way};
use super::host::Stage;
use super::site::{Manner, Site};

/// How a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    Stdio,
    Http1,
    Http2,
}

/// One conversation.
#[derive(Clone, Copy, Debug)]
pub struct Conversation {
    pub name: &'static str,
    wire: Wire,
    manner: Manner,
    modern: bool,
    /// The read and the unsafe call go out together.
    together: bool,
    /// The text of the note.
    text: usize,
}

const fn legacy(name: &'static str, wire: Wire, manner: Manner) -> Conversation {
    Conversation { name, wire, manner, modern: false, together: false, text: 8 }
}

const fn modern(name: &'static str, wire: Wire, manner: Manner) -> Conversation {
    Conversation { modern: true, ..legacy(name, wire, manner) }
}

const fn together(name: &'static str, wire: Wire) -> Conversation {
    Conversation { together: true, ..legacy(name, wire, Manner::Json) }
}

/// Longer than one frame of HTTP/2.
const fn long(name: &'static str, wire: Wire) -> Conversation {
    Conversation { text: 20_000, ..legacy(name, wire, Manner::Json) }
}

/// All of them.
pub const ALL: [Conversation; 16] = [
    legacy("stdio", Wire::Stdio, Manner::Json),
    legacy("http1-json", Wire::Http1, Manner::Json),
    legacy("http1-events", Wire::Http1, Manner::Events),
    legacy("http1-resumable", Wire::Http1, Manner::ResumableEvents),
    legacy("http2-json", Wire::Http2, Manner::Json),
    legacy("http2-events", Wire::Http2, Manner::Events),
    legacy("http2-resumable", Wire::Http2, Manner::ResumableEvents),
    modern("modern-json", Wire::Http1, Manner::Json),
    modern("modern-events", Wire::Http1, Manner::Events),
    legacy("trunk", Wire::Http1, Manner::Trunk),
    together("stdio-together", Wire::Stdio),
    together("http1-together", Wire::Http1),
    together("http2-together", Wire::Http2),
    long("stdio-long", Wire::Stdio),
    long("http1-long", Wire::Http1),
    long("http2-long", Wire::Http2),
];

/// The tool whose second run would be a second effect.
pub const TOOL: &str = "create_note";

/// Longer than any promise: whoever waits so long in vain has found a violation.
const NEVER: Duration = Duration::from_secs(3600);

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Greeting,
    Read,
    Unsafe,
}

/// One request and everything that came back with its id.
#[derive(Clone, Debug)]
pub struct Asked {
    pub role: Role,
    /// The fault had struck before it was made.
    pub after_fault: bool,
    pub took: Option<Duration>,
    pub answers: Vec<Value>,
}

/// What was seen of one conversation.
#[derive(Clone, Debug)]
pub struct Seen {
    pub wire: Wire,
    pub asked: Vec<Asked>,
    /// Runs of [`TOOL`].
    pub runs: usize,
    pub struck: bool,
    /// How long the driver took to end after its client had left.
    pub ended: Option<Duration>,
    pub up: (usize, Vec<usize>),
    pub down: (usize, Vec<usize>),
    pub events: Vec<String>,
}

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
        let site = Site::new(self.manner, self.wire != Wire::Stdio && !self.modern);
        let upstream = match (self.wire, self.manner) {
            (Wire::Stdio, _) => UpstreamConfig::child("notes", "notes"),
            (_, Manner::Trunk) => UpstreamConfig::http("notes", "http://notes.test/mcp", Dialect::Sse),
            _ => UpstreamConfig::http("notes", "http://notes.test/mcp", Dialect::Auto),
        };
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = split(ours);
        let (from_us, mut to_us) = split(theirs);
        let mut from_us = BufReader::new(from_us).lines();
        let notes = Notes::default();
        let stage = Stage { wire: self.wire, site: site.clone(), meter: meter.clone() };
        let client = Client { id: ClientId(1), upstream: UpstreamId(0), reader, writer };
        let engine = Engine::new(Config::new(vec![upstream]), 7);
        let driver =
            tokio::spawn(Driver::new(engine, Limits::default(), stage, client, notes.clone()).run(|_| Poll::Pending));

        let mut seen = Seen::nothing(self.wire);
        for roles in self.steps() {
            let (after_fault, began) = (meter.struck(), Instant::now());
            let lines: String = roles.iter().map(|role| self.line(*role)).collect();
            to_us.write_all(lines.as_bytes()).await.unwrap();
            seen.asked.extend(roles.iter().map(|&role| Asked { role, after_fault, took: None, answers: Vec::new() }));
            while seen.asked.iter().any(|asked| asked.took.is_none())
                && let Ok(Ok(Some(line))) = timeout(NEVER, from_us.next_line()).await
            {
                seen.note(&line, began);
            }
            if *roles == [Role::Greeting] {
                if seen.asked[0].answers.first().is_none_or(|answer| answer.get("result").is_none()) {
                    // Nobody goes on with a server that has not greeted back.
                    break;
                }
                if !self.modern {
                    to_us.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n").await.unwrap();
                }
            }
        }

        let left = Instant::now();
        to_us.shutdown().await.unwrap();
        // A second answer would come here.
        while let Ok(Ok(Some(line))) = timeout(NEVER, from_us.next_line()).await {
            seen.note(&line, left);
        }
        seen.ended = matches!(timeout(NEVER, driver).await, Ok(Ok(_))).then(|| left.elapsed());
        seen.runs = site.runs(TOOL);
        seen.struck = meter.struck();
        (seen.up, seen.down) = (meter.carried(Way::Up), meter.carried(Way::Down));
        seen.events = std::mem::take(&mut notes.0.lock().unwrap());
        seen
    }

    /// What is asked at once, step by step.
    fn steps(&self) -> &'static [&'static [Role]] {
        if self.together {
            &[&[Role::Greeting], &[Role::Read, Role::Unsafe]]
        } else {
            &[&[Role::Greeting], &[Role::Read], &[Role::Unsafe]]
        }
    }

    fn line(&self, role: Role) -> String {
        let mut params = match role {
            Role::Greeting if !self.modern => json!({"protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "client", "version": "1"}}),
            Role::Unsafe => json!({"name": TOOL, "arguments": {"text": "x".repeat(self.text)}}),
            _ => json!({}),
        };
        if self.modern {
            params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {}});
        }
        let method = match role {
            Role::Greeting if self.modern => "server/discover",
            Role::Greeting => "initialize",
            Role::Read => "tools/list",
            Role::Unsafe => "tools/call",
        };
        format!("{}\n", json!({"jsonrpc": "2.0", "id": name(role), "method": method, "params": params}))
    }
}

/// The id of a request.
fn name(role: Role) -> &'static str {
    match role {
        Role::Greeting => "greeting",
        Role::Read => "read",
        Role::Unsafe => "unsafe",
    }
}

impl Seen {
    /// What is seen of a conversation that has not begun.
    pub fn nothing(wire: Wire) -> Seen {
        Seen {
            wire,
            asked: Vec::new(),
            runs: 0,
            struck: false,
            ended: None,
            up: (0, Vec::new()),
            down: (0, Vec::new()),
            events: Vec::new(),
        }
    }

    /// Notes a line that came to the client, if it answers something.
    fn note(&mut self, line: &str, began: Instant) {
        let message: Value = serde_json::from_str(line).unwrap();
        let answered =
            self.asked.iter_mut().find(|asked| message.get("method").is_none() && message["id"] == name(asked.role));
        if let Some(asked) = answered {
            asked.took.get_or_insert_with(|| began.elapsed());
            asked.answers.push(message);
        }
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
