//! The server: what it answers, whatever carries the question, and the oracle that counts what it has run.
//!
//! It is a good server. It runs a tool as soon as a request is there whole, keeps sessions across connections, and
//! replays what a resumed stream has missed. Everything that goes wrong, goes wrong on the way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// How the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Each request with JSON.
    Json,
    /// Each request with a stream of events.
    Events,
    /// The same, with event ids, so that a stream can be resumed; and it keeps a stream for notices open.
    ResumableEvents,
    /// Everything over the one stream of the oldest HTTP transport.
    Trunk,
}

/// A request, whatever carried it.
#[derive(Debug, Default)]
pub struct Request {
    pub verb: String,
    pub path: String,
    pub session: Option<String>,
    pub last_event: Option<String>,
    pub body: Vec<u8>,
}

/// A response, whatever carries it.
pub struct Reply {
    pub status: u16,
    pub content_type: Option<&'static str>,
    pub session: Option<String>,
    pub body: Body,
}

pub enum Body {
    Whole(String),
    /// Events in pieces; the stream ends when no more can come.
    Events(UnboundedReceiver<String>),
}

/// One server, on however many connections.
#[derive(Clone)]
pub struct Site(Arc<Mutex<Inside>>);

struct Inside {
    manner: Manner,
    stateful: bool,
    sessions: u32,
    open: Vec<String>,
    /// What each response stream has said.
    streams: Vec<Vec<String>>,
    /// Streams that stay open. They end when the server does.
    held: Vec<UnboundedSender<String>>,
    trunks: BTreeMap<String, UnboundedSender<String>>,
    runs: BTreeMap<String, usize>,
}

impl Site {
    pub fn new(manner: Manner, stateful: bool) -> Site {
        Site(Arc::new(Mutex::new(Inside {
            manner,
            stateful,
            sessions: 0,
            open: Vec::new(),
            streams: Vec::new(),
            held: Vec::new(),
            trunks: BTreeMap::new(),
            runs: BTreeMap::new(),
        })))
    }

    /// How often a tool has run.
    pub fn runs(&self, tool: &str) -> usize {
        self.0.lock().unwrap().runs.get(tool).copied().unwrap_or(0)
    }

    /// What it has to say to a message, if anything.
    pub fn hear(&self, message: &Value) -> Option<Value> {
        self.0.lock().unwrap().hear(message)
    }

    /// Answers a request over HTTP.
    pub fn answer(&self, request: &Request) -> Reply {
        let mut inside = self.0.lock().unwrap();
        match request.verb.as_str() {
            "POST" if inside.manner == Manner::Trunk => inside.post_to_trunk(request),
            "POST" => inside.post(request),
            "GET" if inside.manner == Manner::Trunk => inside.open_trunk(),
            "GET" => inside.get(request),
            "DELETE" => {
                inside.open.retain(|session| Some(session) != request.session.as_ref());
                empty(200)
            }
            _ => empty(405),
        }
    }
}

impl Inside {
    fn hear(&mut self, message: &Value) -> Option<Value> {
        let id = message.get("id")?;
        let result = match message["method"].as_str()? {
            "initialize" => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "notes", "version": "1"},
            }),
            "server/discover" => json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}),
            "tools/list" => json!({"tools": [{"name": "create_note", "inputSchema": {"type": "object"}}]}),
            "tools/call" => {
                let tool = message["params"]["name"].as_str().unwrap_or_default().to_owned();
                *self.runs.entry(tool).or_default() += 1;
                json!({"content": [{"type": "text", "text": "noted"}]})
            }
            _ => json!({}),
        };
        Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    fn post(&mut self, request: &Request) -> Reply {
        let Ok(message) = serde_json::from_slice::<Value>(&request.body) else { return empty(400) };
        let greets = message["method"] == "initialize";
        let known = request.session.as_ref().is_some_and(|session| self.open.contains(session));
        if self.stateful && !greets && !known {
            return empty(404);
        }
        let Some(answer) = self.hear(&message) else { return empty(202) };
        let session = (self.stateful && greets).then(|| {
            self.sessions += 1;
            format!("session-{}", self.sessions)
        });
        self.open.extend(session.clone());
        match self.manner {
            Manner::Json | Manner::Trunk => Reply {
                status: 200,
                content_type: Some("application/json"),
                session,
                body: Body::Whole(answer.to_string()),
            },
            Manner::Events => Reply { session, ..stream(vec![format!("event: message\ndata: {answer}\n\n")]) },
            Manner::ResumableEvents => {
                let number = self.streams.len();
                let events = vec![format!("id: {number}/0\ndata:\n\n"), format!("id: {number}/1\ndata: {answer}\n\n")];
                self.streams.push(events.clone());
                Reply { session, ..stream(events) }
            }
        }
    }

    fn get(&mut self, request: &Request) -> Reply {
        if self.manner != Manner::ResumableEvents {
            return empty(405);
        }
        if !request.session.as_ref().is_some_and(|session| self.open.contains(session)) {
            return empty(404);
        }
        let Some(last) = &request.last_event else {
            let (sender, receiver) = unbounded_channel();
            // Whoever asked may be gone by the time it is sent.
            let _ = sender.send(": open\n\n".to_owned());
            self.held.push(sender);
            return events(receiver);
        };
        let missed = last.split_once('/').and_then(|(stream, seen)| {
            let events = self.streams.get(stream.parse::<usize>().ok()?)?;
            Some(events.iter().skip(seen.parse::<usize>().ok()? + 1).cloned().collect())
        });
        missed.map_or_else(|| empty(404), stream)
    }

    fn open_trunk(&mut self) -> Reply {
        self.sessions += 1;
        let path = format!("/messages?session={}", self.sessions);
        let (sender, receiver) = unbounded_channel();
        let _ = sender.send(format!("event: endpoint\ndata: {path}\n\n"));
        self.trunks.insert(path, sender);
        events(receiver)
    }

    fn post_to_trunk(&mut self, request: &Request) -> Reply {
        let Ok(message) = serde_json::from_slice::<Value>(&request.body) else { return empty(400) };
        if self.trunks.get(&request.path).is_none_or(UnboundedSender::is_closed) {
            return empty(404);
        }
        if let Some(answer) = self.hear(&message)
            && let Some(trunk) = self.trunks.get(&request.path)
        {
            let _ = trunk.send(format!("event: message\ndata: {answer}\n\n"));
        }
        empty(202)
    }
}

fn empty(status: u16) -> Reply {
    Reply { status, content_type: None, session: None, body: Body::Whole(String::new()) }
}

fn events(receiver: UnboundedReceiver<String>) -> Reply {
    Reply { status: 200, content_type: Some("text/event-stream"), session: None, body: Body::Events(receiver) }
}

/// A stream of these events and no more.
fn stream(all: Vec<String>) -> Reply {
    let (sender, receiver) = unbounded_channel();
    for event in all {
        let _ = sender.send(event);
    }
    events(receiver)
}
