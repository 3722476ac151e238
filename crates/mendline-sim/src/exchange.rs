//! One HTTP request on its way, to the byte, and the response that comes back.
//!
//! Whether a call may be sent again hangs on how much of it the peer can have received, so a request travels in pieces and
//! the cable counts them. What comes back is a queue of parts, each with the moment at which it arrives: a head, events or
//! one body, an end. A cut takes away everything that has not been handed up, and is itself the end. *When* a cable moves
//! and what cuts it is left to the world.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use mendline_core::Moment;
use mendline_core::port::{EndHow, Head, Verb, Written};
use mendline_wire::{Message, SseEvent};

use crate::rng::Rng;
use crate::oracle::Key;
use crate::network_faults::ConnectResult;

/// What the engine wants sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// GET, POST or DELETE.
    pub verb: Verb,
    /// Where to, when it is not the server's own URL.
    pub target: Option<String>,
    /// What the engine put into the head.
    pub headers: Vec<(Cow<'static, str>, Arc<str>)>,
    /// The message.
    pub body: Option<Bytes>,
    /// No connection that has been idle may carry it.
    pub fresh: bool,
}

impl Request {
    /// One header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    /// How many bytes it is on the cable, about: what matters is that there are many.
    pub fn size(&self) -> u64 {
        let head: usize = self.headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        (120 + head + self.body.as_ref().map_or(0, Bytes::len)) as u64
    }
}

/// A whole request, under way to its server.
#[derive(Debug)]
pub struct PendingRequest {
    /// Over which exchange it came; none when nobody is left to read the answer.
    pub exchange: Option<mendline_core::port::ExchangeId>,
    /// What was asked.
    pub request: Request,
    /// The message in it.
    pub message: Option<Message>,
    /// The client's request in that, if it is one.
    pub key: Option<Key>,
}

/// A piece of a response.
#[derive(Clone, Debug)]
pub enum Part {
    /// Its head.
    Head(Head),
    /// One event.
    Event(SseEvent),
    /// Its whole body.
    Body(Bytes),
    /// Its end.
    End(EndHow),
}

impl Part {
    /// How many bytes of content it is, about.
    pub fn size(&self) -> u64 {
        match self {
            Part::Head(_) | Part::End(_) => 0,
            Part::Event(event) => event.data.as_ref().map_or(0, |data| data.len() as u64) + 8,
            Part::Body(text) => text.len() as u64,
        }
    }
}

/// How far an exchange is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A connection is being made, and this is what it will meet.
    Connecting(ConnectResult),
    /// The request is being written.
    Sending,
    /// All of the request has been accepted.
    Sent,
}

/// One exchange.
#[derive(Debug)]
pub struct Exchange {
    /// With which upstream.
    pub upstream: usize,
    /// How far it is.
    pub phase: Phase,
    /// The request, until all of it is accepted.
    pub pending: Option<PendingRequest>,
    /// The client's request in it, if it is one.
    pub key: Option<Key>,
    /// It is the stream over which everything comes, or the one for what is said unasked: a GET that waits.
    pub verb: Verb,
    /// The line is dead and nobody has noticed.
    pub stalled: bool,
    /// What comes back says that the request was turned away at the door.
    pub refuses: bool,
    /// What comes back says so by saying that the session is lost.
    pub reports_session_lost: bool,
    /// What comes back says that nobody here takes such requests: it is as if nothing had been sent.
    pub misdirected: bool,
    /// How many bytes of the response it has carried.
    pub carried: u64,
    /// Its own dice.
    pub rng: Rng,
    size: u64,
    accepted: u64,
    parts: VecDeque<(Moment, Part)>,
    /// The end is among the parts: nothing may be added.
    closed: bool,
}

impl Exchange {
    /// An exchange that is being connected.
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
            reports_session_lost: false,
            misdirected: false,
            carried: 0,
            rng,
            accepted: 0,
            parts: VecDeque::new(),
            closed: false,
        }
    }

    /// The cable takes up to this many bytes; says whether that was the last of them.
    pub fn accept(&mut self, bytes: u64) -> bool {
        self.accepted = self.size.min(self.accepted + bytes);
        self.accepted == self.size
    }

    /// Bytes that the cable has not taken.
    pub fn unaccepted(&self) -> u64 {
        self.size - self.accepted
    }

    /// What the peer can have received, at most.
    pub fn written(&self) -> Written {
        match self.accepted {
            0 => Written::Nothing,
            some if some < self.size => Written::Partly,
            _ => Written::Whole,
        }
    }

    /// Something comes back; it arrives after what came before it. Says when, unless the exchange is closed already.
    pub fn push(&mut self, part: Part, arrives: Moment) -> Option<Moment> {
        if self.closed {
            return None;
        }
        let arrives = self.parts.back().map_or(arrives, |(before, _)| arrives.max(*before));
        self.closed = matches!(part, Part::End(_));
        self.parts.push_back((arrives, part));
        Some(arrives)
    }

    /// It ends here: what has not been handed up never will be.
    pub fn cut(&mut self, how: EndHow, now: Moment) {
        self.parts.clear();
        self.stalled = false;
        self.closed = true;
        self.parts.push_back((now, Part::End(how)));
    }

    /// Whether its end is only a matter of being told. On a dead line it is told to nobody.
    pub fn is_closed(&self) -> bool {
        self.closed && !self.stalled
    }

    /// What can be handed up now.
    pub fn next(&self, now: Moment) -> Option<&Part> {
        self.parts.front().filter(|(arrives, _)| *arrives <= now && !self.stalled).map(|(_, part)| part)
    }

    /// Takes what can be handed up now.
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
        Exchange::new(0, PendingRequest { exchange: None, request, message: None, key: None }, ConnectResult::Connects, Rng::new(1))
    }

    #[test]
    fn what_the_peer_can_have_is_nothing_then_a_part_and_all_of_it_only_with_the_last_byte() {
        let mut exchange = exchange();
        assert_eq!(exchange.written(), Written::Nothing);
        let all = exchange.unaccepted();
        assert!(!exchange.accept(all - 1));
        assert_eq!(exchange.written(), Written::Partly);
        assert!(exchange.accept(1));
        assert_eq!(exchange.written(), Written::Whole);
    }

    #[test]
    fn a_cut_takes_away_what_was_not_handed_up_and_nothing_follows_it() {
        let mut exchange = exchange();
        let later = Moment::ZERO + Duration::from_secs(1);
        assert!(exchange.push(Part::Body(Bytes::new()), later).is_some());
        assert!(exchange.next(Moment::ZERO).is_none(), "it has not arrived");
        exchange.cut(EndHow::Cut("reset".into()), Moment::ZERO);
        assert!(exchange.push(Part::Body(Bytes::new()), later).is_none());
        assert!(matches!(exchange.next(Moment::ZERO), Some(Part::End(_))));
    }
}
