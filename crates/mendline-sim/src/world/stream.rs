//! The streams of an HTTP server: answers, events and replays.
//!
//! A stream belongs to a conversation; at most one exchange carries it at a time. Messages without a listener are kept
//! if the events have ids, and lost otherwise. `origin.rs` admits requests.

use bytes::Bytes;
use mendline_core::port::{Content, ExchangeEnd, ExchangeId};
use mendline_core::reason::CutReason;
use mendline_wire::{Message, Method, SseEvent, headers};

use super::World;
use super::http::COMMENT_INTERVAL;
use super::origin::head;
use crate::clock::Due;
use crate::exchange::{Part, PendingRequest};
use crate::network_faults::Cut;
use crate::site::{self, Conversation, Form, HttpServerKind, Site, Stream};

impl World {
    /// Sends the head of a stream, and a priming event if its events have ids. Some servers close the stream then.
    pub(super) fn begin_stream(&mut self, upstream: usize, number: u32, name: u32, method: Method, site: &Site) {
        let written = self.stream(upstream, number, name).map_or(0, |stream| stream.log.len());
        self.prime(upstream, (number, name, written), method, site);
    }

    /// Same, for a client that has received events up to this one.
    fn prime(&mut self, upstream: usize, (number, name, seen): (u32, u32, usize), method: Method, site: &Site) {
        let Some(stream) = self.stream(upstream, number, name) else { return };
        stream.primed += 1;
        let (listener, form, primed) = (stream.listener, stream.form, stream.primed);
        let mut head = head(200, Content::Events);
        head.session = stream.session.clone();
        self.send_back(listener, Part::Head(head));
        if let Some(listener) = listener.filter(|_| site.comments) {
            self.clock.after(COMMENT_INTERVAL, Due::CommentSent(listener));
        }
        if form != Form::NamedEvents {
            return;
        }
        let faults = &site.faults;
        let polls = faults.polls || self.rng.percent(site.polls);
        let closes = faults.primes_forever || (polls && name != 0 && method != Method::Initialize);
        let retry =
            faults.retry.or(if closes && self.rng.percent(50) { Some(self.rng.between(100, 800)) } else { None });
        self.send_back(listener, Part::Event(site::priming(number, name, seen, primed, retry)));
        if closes && let Some(listener) = listener {
            self.send_back(Some(listener), Part::End(ExchangeEnd::Complete));
            self.origins[upstream].detach(listener);
        }
    }

    pub(super) fn form_of(&mut self, upstream: usize, site: &Site, message: &Message) -> Form {
        let listens = message.method() == Method::SubscriptionsListen;
        if !listens && !self.hosts[upstream].rng.percent(site.events) {
            return Form::Json;
        }
        if site.names && site.kind == HttpServerKind::Stateful { Form::NamedEvents } else { Form::Events }
    }

    fn stream(&mut self, upstream: usize, number: u32, name: u32) -> Option<&mut Stream> {
        self.origins[upstream].conversations.get_mut(&number)?.streams.get_mut(&name)
    }

    pub(super) fn form(&self, upstream: usize, number: u32, stream: u32) -> Option<Form> {
        Some(self.origins[upstream].conversations.get(&number)?.streams.get(&stream)?.form)
    }

    /// Returns the notification stream, if it has a listener and the message does not belong to one answer.
    pub(super) fn notice_stream_or(&mut self, upstream: usize, number: u32, stream: u32, chance: u64) -> u32 {
        let has_listener = self.origins[upstream].conversations.get(&number).is_some_and(Conversation::has_listener);
        let cannot = self.form(upstream, number, stream) == Some(Form::Json);
        if has_listener && (cannot || self.rng.percent(chance)) { 0 } else { stream }
    }

    /// Writes a message to a stream of a conversation; the last one ends the stream.
    pub(super) fn write_to_stream(&mut self, upstream: usize, number: u32, name: u32, line: Bytes, last: bool) {
        let faults = self.hosts[upstream].site.as_ref().map(|site| site.faults.clone()).unwrap_or_default();
        let Some(stream) = self.stream(upstream, number, name) else { return };
        let last = last && name != 0;
        if stream.form == Form::Json && !last {
            return;
        }
        if stream.form == Form::NamedEvents {
            stream.log.push(line.clone());
        }
        stream.finished |= last;
        let (form, count, session) = (stream.form, stream.log.len(), stream.session.clone());
        let listener = if last { stream.listener.take() } else { stream.listener };
        let Some(exchange) = listener else { return };
        let breaks = matches!(faults.cut, Some((Cut::Body, chance)) if self.rng.percent(chance));
        if form == Form::Json {
            let mut head = head(200, Content::Json);
            head.session = session;
            self.send_back(listener, Part::Head(head));
            if breaks {
                return self.send_back(listener, Part::End(ExchangeEnd::Cut(CutReason::Reset)));
            }
            self.send_back(listener, Part::Body(line));
        } else if breaks {
            return self.cut(exchange, CutReason::Reset);
        } else {
            let id = (form == Form::NamedEvents).then(|| site::event_name(number, name, count));
            self.send_back(listener, Part::Event(SseEvent { id, event: None, data: Some(line), retry: faults.retry }));
        }
        if last {
            self.send_back(listener, Part::End(ExchangeEnd::Complete));
        }
    }

    pub(super) fn receive_get(&mut self, upstream: usize, pending: &PendingRequest, site: &Site) {
        let Some(exchange) = pending.exchange else { return };
        if site.faults.no_get {
            return self.answer_status(Some(exchange), 405);
        }
        let Some(session) = pending.request.header(headers::SESSION_ID) else {
            return self.answer_status(Some(exchange), 400);
        };
        let Some(number) = self.origins[upstream].of_session(session) else {
            return self.reply_session_lost(upstream, pending, site.session_lost_reply());
        };
        let resumed = pending.request.header(headers::LAST_EVENT_ID).map(site::read_event_name);
        // A client that resumes the answer to `initialize` does not know the negotiated version yet.
        let conversation = self.origins[upstream].conversations.get(&number);
        let stream = resumed.flatten().and_then(|(_, stream, _)| conversation?.streams.get(&stream));
        if stream.is_none_or(|stream| stream.session.is_none()) {
            self.check_version(upstream, number, pending);
        }
        match resumed {
            Some(name) => self.resume(upstream, exchange, number, name, site),
            None if site.has_notice_stream => {
                let form = if site.names { Form::NamedEvents } else { Form::Events };
                if let Some(conversation) = self.origins[upstream].conversations.get_mut(&number) {
                    conversation.listen(form, exchange);
                }
                self.begin_stream(upstream, number, 0, Method::None, site);
            }
            None => self.answer_status(Some(exchange), 405),
        }
    }

    pub(super) fn resume(
        &mut self,
        upstream: usize,
        exchange: ExchangeId,
        number: u32,
        name: Option<(u32, u32, usize)>,
        site: &Site,
    ) {
        let found = name.filter(|(conversation, _, _)| *conversation == number && !site.faults.resumes_nothing);
        let conversation = self.origins[upstream].conversations.get_mut(&number);
        let stream = found.and_then(|(_, stream, _)| conversation?.streams.get_mut(&stream));
        let (Some(stream), Some((_, which, seen))) = (stream, found) else {
            return self.answer_status(Some(exchange), 400);
        };
        stream.listener = Some(exchange);
        let seen = if site.faults.replays_all { 0 } else { seen };
        if site.faults.primes_forever {
            return self.prime(upstream, (number, which, seen), Method::None, site);
        }
        let (missed, finished) = (stream.log.iter().skip(seen).cloned().collect::<Vec<_>>(), stream.finished);
        if finished {
            stream.listener = None;
        }
        self.send_back(Some(exchange), Part::Head(head(200, Content::Events)));
        for (index, line) in missed.into_iter().enumerate() {
            let id = Some(site::event_name(number, which, seen + index + 1));
            let event = SseEvent { id, event: None, data: Some(line), retry: site.faults.retry };
            self.send_back(Some(exchange), Part::Event(event));
        }
        if finished {
            self.send_back(Some(exchange), Part::End(ExchangeEnd::Complete));
        }
    }

    pub(super) fn open_sse_stream(&mut self, upstream: usize, pending: &PendingRequest, site: &Site) {
        let Some(exchange) = pending.exchange else { return };
        if site.faults.no_get {
            return self.answer_status(Some(exchange), 405);
        }
        let number = self.origins[upstream].next_conversation();
        let mut conversation = Conversation::new(self.fresh_server(upstream, number, HttpServerKind::Sse), None);
        conversation.listen(Form::Events, exchange);
        self.origins[upstream].conversations.insert(number, conversation);
        self.send_back(Some(exchange), Part::Head(head(200, Content::Events)));
        if site.faults.omits_endpoint {
            return;
        }
        let data = Some(Bytes::from(format!("/messages?s={number}")));
        let endpoint = SseEvent { id: None, event: Some(Bytes::from_static(b"endpoint")), data, retry: None };
        self.send_back(Some(exchange), Part::Event(endpoint));
    }
}
