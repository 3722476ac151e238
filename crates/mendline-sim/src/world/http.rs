//! HTTP exchanges: connect, write, deliver, cut and abort.
//!
//! This is the HTTP half of the simulated shell. It reports only what the contract of `port.rs` allows: that an
//! exchange is connected, what arrived in which order, and at the end how the exchange ended and how much of the
//! request the peer can have received. It never sends anything twice.

use mendline_core::reason::CutReason;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mendline_core::port::{Content, ExchangeEnd, ExchangeId, Written};
use mendline_core::{Input, Port};
use mendline_wire::{
    Kind, Limits, Message, Method, Received, ReceivedEvent, SseDecoder, SseEncoder, SseEvent, headers,
};

use super::World;
use crate::check::is_list_change;
use crate::client::stamp_of;
use crate::clock::Due;
use crate::exchange::{Exchange, Part, PendingRequest, Phase, Request};
use crate::fact::{Fact, Report, Via};
use crate::network_faults::{ConnectResult, Cut, NetworkFaults};
use crate::site;

/// The connect timeout of the shell.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time until a dead connection is detected: TCP keep-alive probes and the TCP user timeout.
const DEAD_CONNECTION_TIMEOUT: Duration = Duration::from_secs(45);

/// The time between two comments of a server.
pub(super) const COMMENT_INTERVAL: Duration = Duration::from_secs(10);

impl World {
    pub(super) fn begin_exchange(&mut self, id: ExchangeId, upstream: usize, request: Request) {
        let Some(site) = self.hosts.get(upstream).and_then(|host| host.site.clone()) else {
            return self
                .record(&Fact::ContractBroken("the engine started an exchange with an upstream that has no URL"));
        };
        let message = match request.body.clone() {
            Some(body) => self.parse_output(body),
            None => None,
        };
        let key = message.as_ref().and_then(|message| self.key_of(message));
        if let Some(message) = &message {
            self.record(&Fact::HandedOut { by: Via::Exchange(upstream, id), message, key });
        }
        let resumed = request.header(headers::LAST_EVENT_ID).and_then(site::read_event_name);
        if let Some(key) = resumed.and_then(|name| self.origins[upstream].answers(name)) {
            self.record(&Fact::ResponseResumed { by: Via::Exchange(upstream, id), key });
        }
        let host = &mut self.hosts[upstream];
        let takes = match site.faults.connect {
            ConnectResult::Connects if request.fresh => host.rng.millis(site.connect.0, site.connect.1),
            // An idle connection may be available.
            ConnectResult::Connects => host.rng.millis(0, site.connect.1),
            ConnectResult::Slow => host.rng.millis(250, 300),
            ConnectResult::Refused
            | ConnectResult::NameNotFound
            | ConnectResult::Unreachable
            | ConnectResult::Forbidden(_) => host.rng.millis(0, 5),
            ConnectResult::BlackHole | ConnectResult::ResolverTimeout | ConnectResult::TlsStall => CONNECT_TIMEOUT,
        };
        let rng = host.rng.fork(id.0);
        let credential = self.origins[upstream].authorization.current;
        let pending = PendingRequest { credential, exchange: Some(id), request, message, key };
        let exchange = Exchange::new(upstream, pending, site.faults.connect, rng);
        if self.exchanges.insert(id, exchange).is_some() {
            self.record(&Fact::ContractBroken("the engine used the id of an exchange twice"));
        }
        self.clock.after(takes, Due::ConnectEnds(id));
    }

    pub(super) fn connect_ends(&mut self, id: ExchangeId) {
        let now = self.clock.now();
        let Some(exchange) = self.exchanges.get_mut(&id).filter(|exchange| !exchange.is_closed()) else { return };
        let Phase::Connecting(connect) = exchange.phase else { return };
        let upstream = exchange.upstream;
        match connect.failure() {
            None => {
                exchange.phase = Phase::Sending;
                let wait = exchange.rng.millis(0, 1);
                self.clock.after(wait, Due::RequestBytesAccepted(id));
                self.report(upstream, id, Report::Reached, Input::Reached { exchange: id });
            }
            Some(how) => exchange.cut(how, now),
        }
    }

    pub(super) fn accept_request_bytes(&mut self, id: ExchangeId) {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        if exchange.phase != Phase::Sending || exchange.is_closed() {
            return;
        }
        let Some(site) = &mut self.hosts[exchange.upstream].site else { return };
        let left = exchange.unaccepted();
        let message = exchange.pending.as_ref().and_then(|pending| pending.message.as_ref());
        if site.faults.swallows_next && message.is_some_and(|message| message.kind() == Kind::Request) {
            site.faults.swallows_next = false;
            exchange.accept(left);
            exchange.stalled = true;
            return self.all_sent(id, false);
        }
        if let Some(chance) = site.faults.silent {
            // The operating system accepts everything; the peer receives nothing.
            exchange.accept(left);
            exchange.stalled = true;
            self.clock.after(DEAD_CONNECTION_TIMEOUT, Due::DeadConnectionFound(id));
            let delivered = self.rng.percent(chance);
            return self.all_sent(id, delivered);
        }
        if let Some((Cut::Request, chance)) = site.faults.cut
            && exchange.rng.percent(chance)
        {
            let some = exchange.rng.below(left);
            exchange.accept(some);
            return self.cut(id, CutReason::Reset);
        }
        let piece = if exchange.rng.percent(60) { left } else { exchange.rng.between(1, left) };
        if exchange.accept(piece) {
            self.all_sent(id, true);
        } else {
            let wait = exchange.rng.millis(0, 2);
            self.clock.after(wait, Due::RequestBytesAccepted(id));
        }
    }

    /// The request is fully accepted; it is forwarded to the server or lost.
    fn all_sent(&mut self, id: ExchangeId, delivered: bool) {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        exchange.phase = Phase::Sent;
        let (upstream, key, pending) = (exchange.upstream, exchange.key, exchange.pending.take());
        let latency = self.hosts[upstream].latency;
        let wait = exchange.rng.millis(latency.0, latency.1);
        if let Some(key) = key {
            self.oracle.of_mut(key).whole += 1;
            self.record(&Fact::Accepted { by: Via::Exchange(upstream, id), key });
        }
        if let (true, Some(pending)) = (delivered, pending) {
            let number = self.origins[upstream].enqueue(pending);
            self.clock.after(wait, Due::RequestArrives(upstream, number));
        }
    }

    /// Sends a part of the response, if the exchange is still open.
    pub(super) fn send_back(&mut self, id: Option<ExchangeId>, part: Part) {
        let now = self.clock.now();
        let Some((id, exchange)) = id.and_then(|id| self.exchanges.get_mut(&id).map(|exchange| (id, exchange))) else {
            return;
        };
        let upstream = exchange.upstream;
        let host = &self.hosts[upstream];
        let arrives = now + exchange.rng.millis(host.latency.0, host.latency.1);
        let size = part.size();
        exchange.carried += size;
        let faults = host.site.as_ref().map(|site| &site.faults);
        let is_over = |limit: Option<u64>, size: u64| size > 0 && limit.is_some_and(|limit| size > limit);
        let part = if is_over(faults.and_then(|faults| faults.message_limit), size) {
            Part::End(ExchangeEnd::TooLarge)
        } else if size > 0 && is_over(faults.and_then(|faults| faults.response_limit), exchange.carried) {
            Part::End(ExchangeEnd::Cut(CutReason::Reset))
        } else {
            part
        };
        let breaks = matches!(part, Part::End(ExchangeEnd::TooLarge | ExchangeEnd::Cut(_)));
        if let Some(arrives) = exchange.push(part, arrives) {
            self.clock.at(arrives, Due::PartArrives(id));
            if breaks {
                self.detach(upstream, id, true);
            }
        }
    }

    /// Delivers the next part of a response to the engine, if it has arrived and may be read.
    pub(super) fn hand_up(&mut self, id: ExchangeId) -> bool {
        let now = self.clock.now();
        let Some(exchange) = self.exchanges.get_mut(&id) else { return false };
        let upstream = exchange.upstream;
        match exchange.next(now) {
            None => return false,
            Some(Part::Comment | Part::Event(_) | Part::Body(_)) if !self.machine.may_read(Port::Exchange(id)) => {
                return false;
            }
            Some(_) => {}
        }
        let is_pretty = self.hosts[upstream].site.as_ref().is_some_and(|site| site.faults.pretty);
        match exchange.take() {
            Some(Part::Head(head)) => {
                let report = Report::Head(head.status);
                if let Some(site) = &mut self.hosts[upstream].site
                    && exchange.key.is_some()
                    && head.content == Content::Events
                {
                    exchange.stalled = std::mem::take(&mut site.faults.stalls_next_response);
                }
                let hint = head.retry_after_ms.filter(|_| matches!(head.status, 429 | 503));
                self.report(upstream, id, report, Input::Head { exchange: id, head });
                if let Some(millis) = hint {
                    self.record(&Fact::RetryAfter { upstream, wait: Duration::from_millis(millis) });
                }
            }
            Some(Part::Comment) => {
                self.report(upstream, id, Report::Bytes, Input::ResponseBytes { exchange: id });
            }
            Some(Part::Event(event)) => {
                let is_odd = self.hosts[upstream].site.as_ref().is_some_and(|site| site.faults.odd_frames);
                let event = if is_odd { self.reframe(event) } else { event };
                let event = if is_pretty { SseEvent { data: event.data.map(pretty), ..event } } else { event };
                let event = ReceivedEvent::new(event, &Limits::default());
                let has_message = event.received.is_some();
                self.record_delivery(upstream, id, event.received.as_ref());
                self.report(upstream, id, Report::Event(has_message), Input::StreamEvent { exchange: id, event });
            }
            Some(Part::Body(text)) => {
                let text = if is_pretty { pretty(text) } else { text };
                let received = Received::from_text(text, &Limits::default());
                self.record_delivery(upstream, id, Some(&received));
                self.report(upstream, id, Report::Body, Input::Body { exchange: id, received });
            }
            Some(Part::End(how)) => self.end_exchange(id, how),
            None => {}
        }
        true
    }

    /// Sends a comment in a response, and plans the next one.
    pub(super) fn send_comment(&mut self, id: ExchangeId) {
        if self.exchanges.get(&id).is_some_and(|exchange| !exchange.is_closed()) {
            self.send_back(Some(id), Part::Comment);
            self.clock.after(COMMENT_INTERVAL, Due::CommentSent(id));
        }
    }

    fn end_exchange(&mut self, id: ExchangeId, how: ExchangeEnd) {
        let Some(exchange) = self.exchanges.remove(&id) else { return };
        let written = exchange.written();
        if let (Some(key), ExchangeEnd::Complete | ExchangeEnd::Refused) = (exchange.key, &how)
            && written == Written::Whole
        {
            let record = self.oracle.of_mut(key);
            record.refused += u32::from(exchange.refuses);
            record.refused_for_credential += u32::from(exchange.refuses_credential);
            record.overloaded += u32::from(exchange.overloaded);
            record.harmless += u32::from(exchange.harmless);
            record.reported_session_lost += u32::from(exchange.reports_session_lost);
        }
        self.coverage.exchange_ended(&how, written);
        self.report(exchange.upstream, id, Report::End, Input::End { exchange: id, how, written });
    }

    fn report(&mut self, upstream: usize, exchange: ExchangeId, report: Report, input: Input) {
        self.send_input(input);
        self.record(&Fact::Reported { upstream, exchange, report });
    }

    fn record_delivery(&mut self, upstream: usize, id: ExchangeId, received: Option<&Received>) {
        let Some(received) = received else { return };
        self.record_received(Via::Exchange(upstream, id), received);
        let Received::Message(message) = received else { return };
        let Some(stamp) = stamp_of(message) else { return };
        self.record(&Fact::Delivered { upstream, stamp });
        if is_notice(message) {
            let is_list_change = is_list_change(message.method());
            self.record(&Fact::NoticeWritten { by: Via::Exchange(upstream, id), stamp, is_list_change });
        }
    }

    /// Aborts an exchange: the connection is closed.
    pub(super) fn abort(&mut self, id: ExchangeId) {
        let now = self.clock.now();
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        let upstream = exchange.upstream;
        exchange.cut(ExchangeEnd::Aborted, now);
        self.detach(upstream, id, true);
    }

    /// Cuts the connection of an exchange.
    pub fn cut(&mut self, id: ExchangeId, reason: CutReason) {
        let now = self.clock.now();
        let Some(exchange) = self.exchanges.get_mut(&id).filter(|exchange| !exchange.is_closed()) else { return };
        let upstream = exchange.upstream;
        exchange.cut(ExchangeEnd::Cut(reason), now);
        let noticed = exchange.rng.percent(60);
        self.detach(upstream, id, noticed);
    }

    /// Refuses an exchange that the server has not processed.
    pub(super) fn refuse(&mut self, id: ExchangeId) {
        let now = self.clock.now();
        let Some(exchange) = self.exchanges.get_mut(&id).filter(|exchange| !exchange.is_closed()) else { return };
        let upstream = exchange.upstream;
        exchange.cut(ExchangeEnd::Refused, now);
        exchange.refuses = true;
        self.detach(upstream, id, true);
    }

    /// Cuts every connection to an upstream.
    pub fn cut_all(&mut self, upstream: usize) {
        for id in self.connected(upstream) {
            self.cut(id, CutReason::Reset);
        }
    }

    /// Sets the result of every connection attempt to an upstream.
    pub fn block(&mut self, upstream: usize, connect: ConnectResult) {
        if let Some(site) = &mut self.hosts[upstream].site {
            site.faults.connect = connect;
        }
    }

    /// Encodes an event with unusual framing and decodes it again.
    fn reframe(&mut self, event: SseEvent) -> SseEvent {
        let mut plain = BytesMut::new();
        SseEncoder.encode(&event, &mut plain);
        let end = *self.rng.pick(&["\r\n", "\r", "\n"]);
        let mut text = BytesMut::from(&b"\xef\xbb\xbf: hello\n"[..]);
        for byte in plain {
            if byte == b'\n' { text.extend_from_slice(end.as_bytes()) } else { text.extend_from_slice(&[byte]) }
        }
        text.extend_from_slice(b": so long\n\n");
        let mut decoder = SseDecoder::new(1 << 20);
        let mut read = Vec::new();
        while !text.is_empty() {
            let piece = self.rng.between(1, 1 + text.len() as u64 / 3).min(text.len() as u64) as usize;
            decoder.buffer().extend_from_slice(&text.split_to(piece));
            read.extend(std::iter::from_fn(|| decoder.next_event()).flatten());
        }
        let id_and_data = |event: &SseEvent| (event.id.clone(), event.data.clone().filter(|data| !data.is_empty()));
        if read.len() != 1 || id_and_data(&read[0]) != id_and_data(&event) {
            self.record(&Fact::ContractBroken("an event was decoded differently than it was encoded"));
        }
        read.pop().unwrap_or(event)
    }

    pub(super) fn dead_connection_found(&mut self, id: ExchangeId) {
        if self.exchanges.get(&id).is_some_and(|exchange| exchange.stalled) {
            self.cut(id, CutReason::TimedOut);
        }
    }

    /// Returns the connected exchanges of an upstream.
    pub fn connected(&self, upstream: usize) -> Vec<ExchangeId> {
        let is_match = |exchange: &Exchange| {
            exchange.upstream == upstream
                && !exchange.is_closed()
                && matches!(exchange.phase, Phase::Sending | Phase::Sent)
        };
        self.exchanges.iter().filter(|(_, exchange)| is_match(exchange)).map(|(id, _)| *id).collect()
    }

    /// Makes every connection to an upstream silent.
    pub fn silence(&mut self, upstream: usize) {
        for id in self.connected(upstream) {
            if let Some(exchange) = self.exchanges.get_mut(&id)
                && exchange.phase == Phase::Sent
            {
                exchange.stalled = true;
                self.clock.after(DEAD_CONNECTION_TIMEOUT, Due::DeadConnectionFound(id));
            }
        }
    }

    /// Clears all network faults, releases held answers, and detects dead connections soon.
    pub fn clear_network_faults(&mut self, upstream: usize) {
        if let Some(site) = &mut self.hosts[upstream].site {
            site.faults = NetworkFaults::default();
        }
        self.release_conversations(upstream);
        for id in self.connected(upstream) {
            if let Some(exchange) = self.exchanges.get_mut(&id)
                && exchange.stalled
            {
                let wait = exchange.rng.millis(0, 2_000);
                self.clock.after(wait, Due::DeadConnectionFound(id));
            }
        }
    }
}

fn is_notice(message: &Message) -> bool {
    message.kind() == Kind::Notification && !matches!(message.method(), Method::Progress | Method::Cancelled)
}

/// Returns a message with line ends and a byte order mark around its parts. The body is unchanged, so that it can be
/// compared.
fn pretty(text: Bytes) -> Bytes {
    let Ok(message) = Message::parse(text.clone()) else { return text };
    let body = message.body_span().map_or(text.len() - 1..text.len() - 1, |span| span.range());
    let parts: [&[u8]; 8] = [
        b"\xef\xbb\xbf\r\n{\n\t",
        &text[1..body.start],
        b"\r",
        &text[body.clone()],
        b"\r\n",
        &text[body.end..text.len() - 1],
        b"\n}",
        b"\r\n\n",
    ];
    Bytes::from(parts.concat())
}
