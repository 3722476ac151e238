//! The server: its answers over every transport, and the oracle that counts its runs.
//!
//! It is a correct server. It runs a tool as soon as a request is complete, keeps sessions across connections, replays
//! the missed events of a resumed stream, and repeats an unanswered request to the client. All faults are in the
//! connection, unless the conversation has a [`Variant`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::faulty_stream::{Direction, Meter};

/// The form of the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerMode {
    /// JSON for each request.
    Json,
    /// An event stream for each request.
    Events,
    /// The same with event ids, so that a stream can be resumed, and with an open GET stream.
    ResumableEvents,
    /// The same, but each stream ends after an empty event, and the client must fetch the answer.
    PolledEvents,
    /// All answers over the one stream of the 2024-11-05 transport.
    Sse,
}

/// An additional event in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// None.
    Plain,
    /// The tool sends a request to the client before its answer, over the same stream.
    Asks,
    /// The same over the GET stream.
    AsksElsewhere,
    /// The tool never answers, and the client cancels the call.
    Cancels,
    /// The server loses all sessions after the list.
    Forgets,
    /// The child exits after the list.
    Dies,
    /// The server redirects requests to another path.
    Redirects,
}

/// A request over any transport.
#[derive(Debug, Default)]
pub struct Request {
    pub verb: String,
    pub path: String,
    pub session: Option<String>,
    pub last_event: Option<String>,
    pub body: Vec<u8>,
}

/// A response over any transport.
pub struct Reply {
    pub status: u16,
    pub content_type: Option<&'static str>,
    pub session: Option<String>,
    pub location: Option<&'static str>,
    pub body: Body,
}

impl Reply {
    /// Returns the headers that are set.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("content-type", self.content_type),
            ("mcp-session-id", self.session.as_deref()),
            ("location", self.location),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }
}

pub enum Body {
    Whole(String),
    /// Events in pieces; the stream ends with its sender.
    Events(UnboundedReceiver<String>),
}

/// One server with any number of connections.
#[derive(Clone)]
pub struct Site(Arc<Mutex<State>>);

struct State {
    mode: AnswerMode,
    variant: Variant,
    stateful: bool,
    sessions: u32,
    open: Vec<String>,
    streams: Vec<Stream>,
    /// The GET stream of each session.
    get_streams: BTreeMap<String, usize>,
    sse_streams: BTreeMap<String, UnboundedSender<String>>,
    /// Calls that wait for a response of the client: the id of the server request, the id of the call, and its stream.
    waiting: Vec<(String, Value, Option<usize>)>,
    server_requests: usize,
    runs: BTreeMap<String, usize>,
    with_variant: bool,
    cancelled: bool,
    resumed: usize,
    meter: Meter,
    /// The number of bytes that had gone up at each refusal or redirect.
    rejected: Vec<usize>,
}

/// An event stream: its sent events, and its live connection.
#[derive(Default)]
struct Stream {
    sent: Vec<String>,
    ended: bool,
    live: Option<UnboundedSender<String>>,
}

/// The reaction to a message.
enum Reaction {
    Nothing,
    Answer(Value),
    /// The answer waits for the client's response to this request.
    Question(Value),
    /// The response arrived: the answer to the call, and its stream.
    Late(Value, Option<usize>),
    /// No answer ever comes.
    Silence,
}

impl Site {
    pub fn new(mode: AnswerMode, variant: Variant, stateful: bool, meter: Meter) -> Site {
        Site(Arc::new(Mutex::new(State {
            mode,
            variant,
            stateful,
            sessions: 0,
            open: Vec::new(),
            streams: Vec::new(),
            get_streams: BTreeMap::new(),
            sse_streams: BTreeMap::new(),
            waiting: Vec::new(),
            server_requests: 0,
            runs: BTreeMap::new(),
            with_variant: false,
            cancelled: false,
            resumed: 0,
            meter,
            rejected: Vec::new(),
        })))
    }

    /// Returns how often a tool has run.
    pub fn runs(&self, tool: &str) -> usize {
        self.0.lock().unwrap().runs.get(tool).copied().unwrap_or(0)
    }

    /// Returns how often a response was resumed.
    pub fn resumed(&self) -> usize {
        self.0.lock().unwrap().resumed
    }

    /// Returns the number of bytes that had gone up at each refusal or redirect.
    pub fn rejected(&self) -> Vec<usize> {
        self.0.lock().unwrap().rejected.clone()
    }

    /// Returns true if the call was cancelled: by a notification, or because the client closed an open response.
    pub fn was_cancelled(&self) -> bool {
        let inside = self.0.lock().unwrap();
        let is_deserted = |stream: &Stream| stream.live.as_ref().is_some_and(UnboundedSender::is_closed);
        inside.cancelled || (!inside.stateful && inside.streams.iter().any(is_deserted))
    }

    /// Handles a line for a child. Returns its reply, and whether the child continues.
    pub fn handle(&self, message: &Value) -> (Option<Value>, bool) {
        let mut inside = self.0.lock().unwrap();
        let sent = match inside.handle(message) {
            Reaction::Nothing | Reaction::Silence => None,
            Reaction::Answer(sent) | Reaction::Question(sent) | Reaction::Late(sent, _) => Some(sent),
        };
        let dies = inside.is_due(Variant::Dies, message);
        (sent, !dies)
    }

    /// Answers a request over HTTP.
    pub fn answer(&self, request: &Request) -> Reply {
        let mut inside = self.0.lock().unwrap();
        let reply = inside.answer(request);
        if reply.status >= 300 {
            let so_far = inside.meter.carried(Direction::Up).0;
            inside.rejected.push(so_far);
        }
        reply
    }
}

impl State {
    fn answer(&mut self, request: &Request) -> Reply {
        if self.variant == Variant::Redirects && request.path == "/mcp" {
            return Reply { location: Some("/mcp/here"), ..empty(307) };
        }
        match request.verb.as_str() {
            "POST" if self.mode == AnswerMode::Sse => self.post_to_sse(request),
            "POST" => self.post(request),
            "GET" if self.mode == AnswerMode::Sse => self.open_sse(),
            "GET" => self.get(request),
            "DELETE" => {
                self.open.retain(|session| Some(session) != request.session.as_ref());
                empty(200)
            }
            _ => empty(405),
        }
    }

    /// Returns true if this variant happens now: once, after the list.
    fn is_due(&mut self, variant: Variant, message: &Value) -> bool {
        let now = self.variant == variant && message["method"] == "tools/list" && !self.with_variant;
        self.with_variant |= now;
        now
    }

    fn handle(&mut self, message: &Value) -> Reaction {
        if message["method"] == "notifications/cancelled" {
            self.cancelled = true;
        }
        let Some(id) = message.get("id") else { return Reaction::Nothing };
        let Some(method) = message["method"].as_str() else {
            let position = self.waiting.iter().position(|(question, _, _)| question == id);
            return position.map_or(Reaction::Nothing, |place| {
                let (_, call, stream) = self.waiting.remove(place);
                Reaction::Late(noted(&call), stream)
            });
        };
        let result = match method {
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
                return match self.variant {
                    Variant::Cancels => Reaction::Silence,
                    Variant::Asks | Variant::AsksElsewhere => {
                        self.server_requests += 1;
                        let question = format!("question-{}", self.server_requests);
                        self.waiting.push((question.clone(), id.clone(), None));
                        let params = json!({"message": "Really?", "requestedSchema": {"type": "object"}});
                        Reaction::Question(
                            json!({"jsonrpc": "2.0", "id": question, "method": "elicitation/create", "params": params}),
                        )
                    }
                    _ => Reaction::Answer(noted(id)),
                };
            }
            _ => json!({}),
        };
        Reaction::Answer(json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    fn post(&mut self, request: &Request) -> Reply {
        let Ok(message) = serde_json::from_slice::<Value>(&request.body) else { return empty(400) };
        let is_initialize = message["method"] == "initialize";
        let known = request.session.as_ref().is_some_and(|session| self.open.contains(session));
        if self.stateful && !is_initialize && !known {
            return empty(404);
        }
        let reply = match self.handle(&message) {
            Reaction::Nothing => return empty(202),
            Reaction::Late(answer, stream) => {
                if let Some(stream) = stream {
                    self.send(stream, &answer.to_string());
                    self.end(stream);
                }
                return empty(202);
            }
            Reaction::Answer(answer) if self.mode == AnswerMode::Json => {
                Reply { content_type: Some("application/json"), body: Body::Whole(answer.to_string()), ..empty(200) }
            }
            Reaction::Answer(answer) => {
                let stream = self.begin();
                let reply = self.listen(stream, 0);
                if self.mode == AnswerMode::PolledEvents {
                    self.streams[stream].live = None;
                }
                self.send(stream, &answer.to_string());
                self.end(stream);
                reply
            }
            Reaction::Question(question) => {
                let stream = self.begin();
                if let Some((_, _, place)) = self.waiting.last_mut() {
                    *place = Some(stream);
                }
                let elsewhere = request.session.clone().filter(|_| self.variant == Variant::AsksElsewhere);
                let asks = elsewhere.map_or(stream, |session| self.get_stream(&session));
                self.send(asks, &question.to_string());
                self.listen(stream, 0)
            }
            Reaction::Silence => {
                let stream = self.begin();
                self.listen(stream, 0)
            }
        };
        let session = (self.stateful && is_initialize).then(|| {
            self.sessions += 1;
            format!("session-{}", self.sessions)
        });
        self.open.extend(session.clone());
        if self.is_due(Variant::Forgets, &message) {
            self.open.clear();
        }
        Reply { session, ..reply }
    }

    fn get(&mut self, request: &Request) -> Reply {
        if !self.has_ids() {
            return empty(405);
        }
        let Some(session) = request.session.clone().filter(|session| self.open.contains(session)) else {
            return empty(404);
        };
        let Some(last) = &request.last_event else {
            // A client without an event id has seen no event: a stream starts with an empty event that has an id.
            let stream = self.get_stream(&session);
            return self.listen(stream, 0);
        };
        let place =
            last.split_once('/').and_then(|(stream, observed)| Some((stream.parse().ok()?, observed.parse().ok()?)));
        let Some((stream, observed)) = place.filter(|(stream, _): &(usize, usize)| *stream < self.streams.len()) else {
            return empty(404);
        };
        self.resumed += usize::from(self.get_streams.values().all(|get_streams| *get_streams != stream));
        self.listen(stream, observed + 1)
    }

    fn has_ids(&self) -> bool {
        matches!(self.mode, AnswerMode::ResumableEvents | AnswerMode::PolledEvents)
    }

    /// Returns the GET stream of this session.
    fn get_stream(&mut self, session: &str) -> usize {
        if let Some(stream) = self.get_streams.get(session) {
            return *stream;
        }
        let stream = self.begin();
        self.get_streams.insert(session.to_owned(), stream);
        stream
    }

    fn begin(&mut self) -> usize {
        self.streams.push(Stream::default());
        let stream = self.streams.len() - 1;
        if self.has_ids() {
            self.send(stream, "");
        }
        stream
    }

    fn send(&mut self, number: usize, data: &str) {
        let has_ids = self.has_ids();
        let Some(stream) = self.streams.get_mut(number) else { return };
        let event = if has_ids {
            let retry = if self.mode == AnswerMode::PolledEvents && data.is_empty() { "retry: 100\n" } else { "" };
            format!("id: {number}/{}\n{retry}data: {data}\n\n", stream.sent.len())
        } else {
            format!("event: message\ndata: {data}\n\n")
        };
        if let Some(live) = &stream.live {
            // The connection may be closed. The client can resume the stream.
            let _ = live.send(event.clone());
        }
        stream.sent.push(event);
    }

    fn end(&mut self, number: usize) {
        if let Some(stream) = self.streams.get_mut(number) {
            stream.ended = true;
            stream.live = None;
        }
    }

    /// Returns the events of this stream from this number on, and all later ones.
    fn listen(&mut self, number: usize, from: usize) -> Reply {
        let Some(stream) = self.streams.get_mut(number) else { return empty(404) };
        let (sender, receiver) = unbounded_channel();
        for event in stream.sent.iter().skip(from) {
            let _ = sender.send(event.clone());
        }
        if !stream.ended {
            stream.live = Some(sender);
        }
        events(receiver)
    }

    fn open_sse(&mut self) -> Reply {
        self.sessions += 1;
        let path = format!("/messages?session={}", self.sessions);
        let (sender, receiver) = unbounded_channel();
        let _ = sender.send(format!("event: endpoint\ndata: {path}\n\n"));
        self.sse_streams.insert(path, sender);
        events(receiver)
    }

    fn post_to_sse(&mut self, request: &Request) -> Reply {
        let Ok(message) = serde_json::from_slice::<Value>(&request.body) else { return empty(400) };
        if self.sse_streams.get(&request.path).is_none_or(UnboundedSender::is_closed) {
            return empty(404);
        }
        let sent = match self.handle(&message) {
            Reaction::Nothing | Reaction::Silence => return empty(202),
            Reaction::Answer(sent) | Reaction::Question(sent) | Reaction::Late(sent, _) => sent,
        };
        if let Some(sse) = self.sse_streams.get(&request.path) {
            let _ = sse.send(format!("event: message\ndata: {sent}\n\n"));
        }
        empty(202)
    }
}

fn noted(call: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": call, "result": {"content": [{"type": "text", "text": "noted"}]}})
}

fn empty(status: u16) -> Reply {
    Reply { status, content_type: None, session: None, location: None, body: Body::Whole(String::new()) }
}

fn events(receiver: UnboundedReceiver<String>) -> Reply {
    Reply { content_type: Some("text/event-stream"), body: Body::Events(receiver), ..empty(200) }
}
