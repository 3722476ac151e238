//! An HTTP exchange, simulated byte by byte.
//!
//! Whether a call may be sent again depends on how much of it the peer can have received. A request is therefore sent
//! in pieces, and the exchange counts the bytes. The response is a queue of parts with arrival times: a head, events or
//! one body, an end. A cut discards all parts that were not delivered and ends the exchange. The world decides when
//! bytes are accepted and when an exchange is cut.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use mendline_core::Moment;
use mendline_core::port::{ExchangeEnd, Head, Verb, Written};
use mendline_wire::{Message, SseEvent};

use crate::network_faults::ConnectResult;
use crate::oracle::Key;
use crate::rng::Rng;

/// A request of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// GET, POST or DELETE.
    pub verb: Verb,
    /// The target, if it differs from the URL of the server.
    pub target: Option<String>,
    /// The headers of the engine.
    pub headers: Vec<(Cow<'static, str>, Arc<str>)>,
    /// The message.
    pub body: Option<Bytes>,
    /// The request must not use an idle connection.
    pub fresh: bool,
}

impl Request {
    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    /// Returns the approximate number of bytes.
    pub fn size(&self) -> u64 {
        let head: usize = self.headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        (120 + head + self.body.as_ref().map_or(0, Bytes::len)) as u64
    }
}

/// A complete request in transit to its server.
#[derive(Debug)]
pub struct PendingRequest {
    /// The number of the credential that it carries.
    pub credential: u32,
    /// Its exchange; `None` if the response has no reader.
    pub exchange: Option<mendline_core::port::ExchangeId>,
    /// The request.
    pub request: Request,
    /// The message in it.
    pub message: Option<Message>,
    /// The client request in it, if there is one.
    pub key: Option<Key>,
}

/// A part of a response.
#[derive(Clone, Debug)]
pub enum Part {
    /// Its head.
    Head(Head),
    /// A comment in an event stream.
    Comment,
    /// One event.
    Event(SseEvent),
    /// Its whole body.
    Body(Bytes),
    /// Its end.
    End(ExchangeEnd),
}

impl Part {
    /// Returns the approximate number of content bytes.
    pub fn size(&self) -> u64 {
        match self {
            Part::Head(_) | Part::Comment | Part::End(_) => 0,
            Part::Event(event) => event.data.as_ref().map_or(0, |data| data.len() as u64) + 8,
            Part::Body(text) => text.len() as u64,
        }
    }
}

/// The phase of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Connecting, with this result.
    Connecting(ConnectResult),
    /// The request is being written.
    Sending,
    /// The request is fully accepted.
    Sent,
}

/// An HTTP exchange.
#[derive(Debug)]
pub struct Exchange {
    /// Its upstream.
    pub upstream: usize,
    /// Its phase.
    pub phase: Phase,
    /// The request, until it is fully accepted.
    pub pending: Option<PendingRequest>,
    /// The client request in it, if there is one.
    pub key: Option<Key>,
    /// The HTTP method. A GET waits for server messages.
    pub verb: Verb,
    /// The connection is dead and the shell has not noticed.
    pub stalled: bool,
    /// The response reports that the server rejected the request.
    pub refuses: bool,
    /// It is about the credential.
    pub refuses_credential: bool,
    /// The response asks for a pause.
    pub overloaded: bool,
    /// The response has a status after which the server has done nothing, as the configuration says.
    pub harmless: bool,
    /// The rejection reports a lost session.
    pub reports_session_lost: bool,
    /// Number of response bytes carried so far.
    pub carried: u64,
    /// Its random number generator.
    pub rng: Rng,
    size: u64,
    accepted: u64,
    parts: VecDeque<(Moment, Part)>,
    /// The end is queued; no part may be added.
    closed: bool,
}

impl Exchange {
    /// Creates an exchange that is connecting.
    pub fn new(upstream: usize, pending: PendingRequest, connect: ConnectResult, rng: Rng) -> Exchange {
        Exchange {
            upstream,
            phase: Phase::Connecting(connect),
            key: pending.key,
            verb: pending.request.verb,
            size: pending.request.size(),
            pending: Some(pending),
            stalled: false,
            refuses: false,
            refuses_credential: false,
            overloaded: false,
            harmless: false,
            reports_session_lost: false,
            carried: 0,
            rng,
            accepted: 0,
            parts: VecDeque::new(),
            closed: false,
        }
    }

    /// Accepts up to this many bytes. Returns whether the request is fully accepted.
    pub fn accept(&mut self, bytes: u64) -> bool {
        self.accepted = self.size.min(self.accepted + bytes);
        self.accepted == self.size
    }

    /// Returns the number of bytes that are not accepted.
    pub fn unaccepted(&self) -> u64 {
        self.size - self.accepted
    }

    /// Returns how much the peer can have received.
    pub fn written(&self) -> Written {
        match self.accepted {
            0 => Written::Nothing,
            some if some < self.size => Written::Partial,
            _ => Written::Whole,
        }
    }

    /// Queues a part of the response, after all earlier parts. Returns its arrival time, or `None` if the exchange is
    /// closed.
    pub fn push(&mut self, part: Part, arrives: Moment) -> Option<Moment> {
        if self.closed {
            return None;
        }
        let arrives = self.parts.back().map_or(arrives, |(before, _)| arrives.max(*before));
        self.closed = matches!(part, Part::End(_));
        self.parts.push_back((arrives, part));
        Some(arrives)
    }

    /// Ends the exchange and discards all parts that were not delivered.
    pub fn cut(&mut self, how: ExchangeEnd, now: Moment) {
        self.parts.clear();
        self.stalled = false;
        self.closed = true;
        self.parts.push_back((now, Part::End(how)));
    }

    /// Returns whether its end only has to be reported. The end of a dead connection is not reported.
    pub fn is_closed(&self) -> bool {
        self.closed && !self.stalled
    }

    /// Returns the next part that can be delivered.
    pub fn next(&self, now: Moment) -> Option<&Part> {
        self.parts.front().filter(|(arrives, _)| *arrives <= now && !self.stalled).map(|(_, part)| part)
    }

    /// Removes the next part.
    pub fn take(&mut self) -> Option<Part> {
        self.parts.pop_front().map(|(_, part)| part)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn exchange() -> Exchange {
        let request = Request {
            verb: Verb::Post,
            target: None,
            headers: Vec::new(),
            body: Some(Bytes::from_static(b"{}")),
            fresh: true,
        };
        Exchange::new(
            0,
            PendingRequest { credential: 0, exchange: None, request, message: None, key: None },
            ConnectResult::Connects,
            Rng::new(1),
        )
    }

    #[test]
    fn request_is_whole_only_with_its_last_byte() {
        let mut exchange = exchange();
        assert_eq!(exchange.written(), Written::Nothing);
        let all = exchange.unaccepted();
        assert!(!exchange.accept(all - 1));
        assert_eq!(exchange.written(), Written::Partial);
        assert!(exchange.accept(1));
        assert_eq!(exchange.written(), Written::Whole);
    }

    #[test]
    fn cut_discards_undelivered_parts() {
        let mut exchange = exchange();
        let later = Moment::ZERO + Duration::from_secs(1);
        assert!(exchange.push(Part::Body(Bytes::new()), later).is_some());
        assert!(exchange.next(Moment::ZERO).is_none(), "it has not arrived");
        exchange.cut(ExchangeEnd::Cut(mendline_core::reason::CutReason::Reset), Moment::ZERO);
        assert!(exchange.push(Part::Body(Bytes::new()), later).is_none());
        assert!(matches!(exchange.next(Moment::ZERO), Some(Part::End(_))));
    }
}
