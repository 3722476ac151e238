//! The classification of messages that a client reads.
//!
//! Each message becomes an [`Incoming`]: an answer to one of its requests, progress, a notification, a request, or
//! something unexpected. The client uses ids and tokens alone; the checkers verify the result.

use std::time::Duration;

use bytes::Bytes;
use mendline_wire::{Id, Kind, Message, Method};

use super::{Client, ClientState, RequestSpec};
use crate::fact::Stamp;
use crate::oracle::{Effect, Failure, Key, Oracle, Verdict};

/// A message that a client has read.
#[derive(Clone, Debug)]
pub enum Incoming {
    /// The answer to a request.
    Answer(Key, Verdict, Option<Stamp>),
    /// An answer to no open request.
    Surplus,
    /// Progress: the request of the token, the request that the server meant, and the value.
    Progress(Option<Key>, Option<Key>, f64, Option<Stamp>),
    /// A notification.
    Notice(Option<Stamp>),
    /// A request of the server, its number, and the delay of the answer.
    ServerRequest(u32, Duration, Option<Stamp>),
    /// A message that it should not have received.
    Wrong(String),
}

impl Client {
    /// Reads one message.
    pub fn receive(&mut self, message: &Message, oracle: &mut Oracle) -> Incoming {
        match message.kind() {
            Kind::Result | Kind::Error => self.receive_answer(message, oracle),
            Kind::Request => self.receive_server_request(message),
            Kind::Notification if message.method() == Method::Progress => self.receive_progress(message),
            Kind::Notification if message.method() == Method::Cancelled => Incoming::Notice(None),
            Kind::Notification => {
                self.expected.notice_received(message.method());
                Incoming::Notice(stamp(message, &["_meta", "sim/at"]))
            }
        }
    }

    /// Answers a request of the server.
    pub fn reply(&mut self, number: u32) {
        let Some((id, nonce)) = self.server_requests.remove(&number) else { return };
        let (id, nonce) = (String::from_utf8_lossy(&id), String::from_utf8_lossy(&nonce));
        let line = if self.rng.percent(90) {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"sim/ask":{nonce},"role":"assistant"}}}}"#)
        } else {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-1,"message":"rejected","data":{nonce}}}}}"#)
        };
        self.outbox.push_back((Bytes::from(line), Vec::new()));
    }

    fn receive_answer(&mut self, message: &Message, oracle: &mut Oracle) -> Incoming {
        let id = Id::from_raw(message.id().unwrap_or_default());
        let verdict = verdict(message);
        let Some(keys) = self.waiting.get_mut(&id) else { return Incoming::Surplus };
        // If an id was used twice, the body identifies the request; without a body the first one is used.
        let index = match &verdict {
            Verdict::Passed(body) => keys.iter().position(|key| oracle.of(*key).replies.contains(body)),
            Verdict::Failed(_) => None,
        };
        let key = keys.remove(index.unwrap_or(0));
        // The stamp of a cached answer belongs to the past.
        let is_old = matches!(&verdict, Verdict::Passed(body)
            if !oracle.of(key).replies.contains(body)
                && (oracle.may_be_from_cache(oracle.of(key), body) || oracle.may_be_of_session(oracle.of(key), body)));
        if keys.is_empty() {
            self.waiting.remove(&id);
        }
        let record = oracle.of_mut(key);
        record.answers += 1;
        record.verdict = Some(verdict.clone());
        if let Some(token) = &record.token {
            self.tokens.remove(token);
        }
        let went_well = matches!(verdict, Verdict::Passed(_)) && message.kind() == Kind::Result;
        self.expected.settle(key, went_well);
        if let (true, Verdict::Passed(body)) = (went_well, &verdict) {
            self.expected.read_list(record.method, body);
            if self.era == crate::server::Era::Modern && contains(body, b"input_required") && self.is_connected() {
                self.continues_with = Some(record.what);
            }
        }
        if self.state == ClientState::Initializing(key) {
            self.initialized(&verdict, message.kind());
        }
        if let Some(tool) = self.continues_with.take() {
            self.send_request(
                RequestSpec { method: "tools/call", tool: Some(tool), effect: Effect::Unsafe, continues: true },
                oracle,
            );
        }
        Incoming::Answer(key, verdict, stamp_of(message).filter(|_| !is_old))
    }

    fn initialized(&mut self, verdict: &Verdict, kind: Kind) {
        let well = matches!(verdict, Verdict::Passed(_)) && kind == Kind::Result;
        self.state = if well { ClientState::Ready } else { ClientState::New };
        if well && self.era == crate::server::Era::Legacy {
            let line = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
            self.outbox.push_back((line, Vec::new()));
        }
    }

    fn receive_server_request(&mut self, message: &Message) -> Incoming {
        let Some(nonce) = message.get(&["_meta", "sim/ask"]) else {
            return Incoming::Wrong(format!("received a {} request that no server sent", message.method_name()));
        };
        self.server_requests_seen += 1;
        let id = Bytes::copy_from_slice(message.id().unwrap_or_default());
        if self.server_requests.values().any(|(open, _)| *open == id) {
            return Incoming::Wrong(format!("received two requests with the id {}", String::from_utf8_lossy(&id)));
        }
        self.server_requests.insert(self.server_requests_seen, (id, Bytes::copy_from_slice(nonce)));
        Incoming::ServerRequest(
            self.server_requests_seen,
            self.rng.millis(1, 300),
            stamp(message, &["_meta", "sim/at"]),
        )
    }

    fn receive_progress(&mut self, message: &Message) -> Incoming {
        let token = message.progress_token().map(|span| message.slice(span)).unwrap_or_default();
        let meant = number(message.get(&["_meta", "sim/key"])).map(Key);
        let value = message.get(&["progress"]).and_then(|raw| std::str::from_utf8(raw).ok()?.parse().ok());
        let named = self.tokens.get(token).copied();
        // Progress that Mendline reports itself refers to the request of the token.
        let meant = meant.or(named.filter(|_| message.find(&["_meta", "sim/key"]).is_none()));
        Incoming::Progress(named, meant, value.unwrap_or(f64::NAN), stamp(message, &["_meta", "sim/at"]))
    }
}

fn contains(text: &[u8], what: &[u8]) -> bool {
    text.windows(what.len()).any(|window| window == what)
}

fn verdict(message: &Message) -> Verdict {
    let result = message.find(&["_meta", "dev.mendline/failure"]).is_some();
    let error = message.kind() == Kind::Error && message.find(&["data", "outcome"]).is_some();
    let path: &[&str] = if result { &["_meta", "dev.mendline/failure"] } else { &["data"] };
    let field = |name: &str| {
        let path: Vec<&str> = path.iter().copied().chain([name]).collect();
        (message.get_str(&path).map(|text| text.into_owned()), message.get(&path).map(<[u8]>::to_vec))
    };
    if !result && !error {
        return Verdict::Passed(Bytes::copy_from_slice(message.body().unwrap_or_default()));
    }
    Verdict::Failed(Failure {
        cause: field("cause").0.unwrap_or_default(),
        outcome: field("outcome").0.unwrap_or_default(),
        attempts: number(field("attempts").1.as_deref()).map(u64::from),
        retryable: match field("retryable").1.as_deref() {
            Some(b"true") => Some(true),
            Some(b"false") => Some(false),
            _ => None,
        },
        text: failure_text(message),
    })
}

fn failure_text(message: &Message) -> String {
    let text = message.get_str(&["message"]).map(std::borrow::Cow::into_owned);
    let content =
        || message.elements(&["content"]).find_map(|item| item.get_str(&["text"]).map(|text| text.into_owned()));
    text.or_else(content).unwrap_or_default()
}

fn number(raw: Option<&[u8]>) -> Option<u32> {
    std::str::from_utf8(raw?).ok()?.parse().ok()
}

/// Returns the stamp of a message.
pub fn stamp_of(message: &Message) -> Option<Stamp> {
    stamp(message, &["_meta", "sim/at"]).or_else(|| stamp(message, &["data", "sim/at"]))
}

fn stamp(message: &Message, path: &[&str]) -> Option<Stamp> {
    let raw = std::str::from_utf8(message.get(path)?).ok()?;
    let (dial, line) = raw.strip_prefix('[')?.strip_suffix(']')?.split_once(',')?;
    Some(Stamp { dial: dial.parse().ok()?, line: line.parse().ok()? })
}
