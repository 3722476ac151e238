//! A response as an event stream, and its resumption.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use mendline_wire::headers;

use crate::cx::Cx;
use crate::event::Event;
use crate::port::{HttpRequest, Reuse, Verb};
use crate::request::Op;
use crate::slab::Key;
use crate::upstream::Upstream;
use crate::upstream::exchange::{Exchange, Purpose};
use crate::upstream::link::Link;

/// The state of a response stream.
#[derive(Debug, Default)]
pub struct Stream {
    pub last_event: Option<Bytes>,
    pub retry: Option<Duration>,
    /// Resumptions since the last message.
    pub tries: u32,
    /// All resumptions; nothing resets this count.
    pub total: u32,
    pub resume_at: Option<crate::moment::Moment>,
    /// The session in its head; a handshake that breaks off is resumed in it.
    pub session: Option<String>,
    /// The ids of the delivered events, as far back as a server may replay them.
    passed_on: VecDeque<Bytes>,
    pub(super) resumed: bool,
    /// Its resumption was refused for the credential, and waits for another one.
    pub(in crate::upstream) is_refused: bool,
}

/// The number of kept ids: more than a server keeps for replay.
const REMEMBERED: usize = 1000;

impl Stream {
    /// Forgets the response of a lost attempt: the next attempt has its own.
    pub(in crate::upstream) fn restart(&mut self) {
        *self = Stream { total: self.total, ..Stream::default() };
    }

    /// Records an event; returns whether it is new. Replayed events are delivered once.
    pub(super) fn note(&mut self, id: Option<Bytes>, retry: Option<Duration>, has_message: bool) -> bool {
        if let Some(id) = id.filter(|id| !id.is_empty()) {
            if self.resumed && self.passed_on.contains(&id) {
                return false;
            }
            // A copy: the slice would keep its whole buffer alive.
            let id = Bytes::copy_from_slice(&id);
            self.passed_on.push_back(id.clone());
            if self.passed_on.len() > REMEMBERED {
                self.passed_on.pop_front();
            }
            self.last_event = Some(id);
        }
        self.retry = retry.or(self.retry);
        // Priming events and accepted connections reset nothing; only a message does.
        if has_message {
            self.tries = 0;
        }
        true
    }
}

impl Upstream {
    /// Resumes a call's response.
    pub(in crate::upstream) fn resume(&mut self, key: Key, cx: &mut Cx<'_>) {
        let (Link::Http(http), Some(call)) = (&mut self.link, self.calls.get_mut(key)) else { return };
        call.stream.resume_at = None;
        let Some(last_event) = &call.stream.last_event else { return };
        let mut exchange = Exchange::new(Purpose::Call(key));
        exchange.resumes = true;
        // Until a handshake is answered, only the head of its own response knows the session.
        let mut headers = http.session_headers(call.request.op == Op::Initialize);
        if call.request.op == Op::Initialize {
            exchange.session.clone_from(&call.stream.session);
            headers.extend(call.stream.session.as_deref().map(|session| (headers::SESSION_ID.into(), session.into())));
        }
        headers.push((headers::LAST_EVENT_ID.into(), String::from_utf8_lossy(last_event).into()));
        call.stream.resumed = true;
        // Its answer shows that the server is available now.
        call.begun = http.begun() + 1;
        let (resumption, most) = (call.stream.tries, call.policy(&self.config).resume_attempts);
        let (name, tool) = (call.name, call.tool.clone());
        cx.emit(Event::ResponseResumed { upstream: self.id, call: name, tool, resumption, most });
        http.begin(exchange, HttpRequest { verb: Verb::Get, target: None, headers, body: None }, Reuse::Any, cx);
    }
}
