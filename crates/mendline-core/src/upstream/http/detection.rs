//! The detection of the transport after the handshake.
//!
//! The first POST detects the transport: its refusal leads to legacy SSE. Some servers answer `initialize` at the URL of
//! their SSE stream too, and refuse every other POST there. So the transport is proven only by an answer to a request
//! besides the handshake. Until then, if a request and a ping after it are refused, a GET *looks* for an SSE stream:
//! - the stream names its endpoint: the transport is legacy SSE from then on. The handshake is repeated over this
//!   stream, and the calls that cannot have run, or may be repeated, are sent over it;
//! - anything else: the refusal is handled as without the look, and the next look comes much later.
//!
//! The GET stream for notifications has the same URL. If the server refused it, or opened it without an endpoint, there
//! is no SSE stream to look for.
//!
//! An error in the body of a response is doubted in the same way if it can be about every request. A call that is not
//! repeatable gets such an error as its answer, because the call may have run.

use super::{HttpLink, Refusal};
use crate::config::Dialect;
use crate::cx::{Alarm, Cx};
use crate::defaults;
use crate::event::LinkState;
use crate::evidence::{Evidence, Reply};
use crate::moment::Moment;
use crate::port::{Content, ExchangeId, HttpRequest, Reuse, Verb, Written};
use crate::reason::Reason;
use crate::slab::Key;
use crate::timers::TimerId;
use crate::upstream::Upstream;
use crate::upstream::availability::Sign;
use crate::upstream::call::Owner;
use crate::upstream::exchange::{ErrorBody, Exchange, Purpose, Verdict};
use crate::upstream::internal::InternalRequest;
use crate::upstream::link::Link;

/// The state of the detection.
#[derive(Debug, Default)]
pub(super) struct Detection {
    /// A request besides the handshake was answered over Streamable HTTP.
    proven: bool,
    /// From this time on a look is pointless: a GET at the URL was refused, or opened a stream without an endpoint.
    has_no_sse_from: Option<Moment>,
    look: Option<Look>,
    /// The earliest time of the next look.
    not_before: Moment,
}

/// A GET that looks for an SSE stream, with the refusals that wait for its result.
#[derive(Debug)]
struct Look {
    exchange: ExchangeId,
    timer: Option<TimerId>,
    probe: Option<(Sign, Reason)>,
    initialized: Option<Reason>,
    /// The session is reported lost, or an error is doubted.
    suspicion: bool,
}

/// A refusal that waits for the result of a look.
#[derive(Debug)]
pub(in crate::upstream) enum LookFor {
    /// That of a probe.
    Probe(Sign, Reason),
    /// That of `initialized`.
    Initialized(Reason),
    /// That of a ping that confirms another refusal.
    Confirmation,
}

impl HttpLink {
    /// Records an answer to a request besides the handshake.
    pub(super) fn prove_transport(&mut self) {
        self.detection.proven = true;
    }

    /// Records the status of the GET stream for notifications.
    pub(super) fn note_get(&mut self, id: ExchangeId, now: Moment) {
        let Some(exchange) = self.exchanges.get(&id) else { return };
        self.detection.has_no_sse_from = match exchange.status {
            // A legacy SSE server sends its endpoint soon after the head.
            Some(200..300) => (exchange.content == Content::Events).then(|| now + defaults::PROBE_PAUSE),
            // Perhaps only the session is unknown.
            Some(404) => exchange.session_named.is_none().then_some(now),
            Some(status) => matches!(status, 400 | 405 | 406 | 410 | 415 | 501).then_some(now),
            None => None,
        };
    }

    /// Records an endpoint in the GET stream for notifications: the URL offers legacy SSE too.
    pub(super) fn note_offered_sse(&mut self) {
        self.detection.has_no_sse_from = None;
    }

    /// Returns whether a GET looks for an SSE stream.
    pub(super) fn looks_for_sse(&self) -> bool {
        self.detection.look.is_some()
    }

    /// Returns whether the transport can still be legacy SSE after the handshake.
    fn is_unproven(&self) -> bool {
        self.configured == Dialect::Auto && self.dialect == Dialect::Auto && !self.detection.proven
    }

    /// Stops the look.
    fn stop_look(&mut self, cx: &mut Cx<'_>) -> Option<Look> {
        let mut look = self.detection.look.take()?;
        cx.disarm(&mut look.timer);
        Some(look)
    }

    /// Drops the look with its refusals.
    pub(in crate::upstream) fn drop_look(&mut self, cx: &mut Cx<'_>) {
        if let Some(look) = self.stop_look(cx) {
            self.abort(look.exchange, cx);
        }
    }
}

/// Returns whether an exchange that ended like this denies that the URL serves Streamable HTTP.
pub(in crate::upstream) fn denies_transport(verdict: &Verdict, exchange: &Exchange) -> bool {
    match exchange.status {
        // A page, or no response at all.
        Some(200..300) => {
            matches!(verdict, Verdict::Settle(Evidence { reply: Reply::Unreadable | Reply::Status(_), .. }, _))
        }
        // These are about the credential, the rate or the connection.
        Some(401 | 403 | 407 | 408 | 421 | 425 | 429) => false,
        status => matches!(status, Some(400..500)),
    }
}

impl Upstream {
    fn may_look(&self, now: Moment) -> bool {
        let is_due = |http: &HttpLink| {
            let Detection { has_no_sse_from, not_before, .. } = http.detection;
            http.is_unproven() && has_no_sse_from.is_none_or(|from| from > now) && not_before <= now
        };
        self.session.is_initialized() && !self.is_closing() && self.link.http().is_some_and(is_due)
    }

    /// Returns whether the response to a call has begun.
    fn is_being_answered(&self) -> bool {
        let Link::Http(http) = &self.link else { return false };
        http.exchanges().any(|it| match (it.purpose, it.status) {
            (Purpose::Call(key), Some(200..300)) => self.is_clients(key),
            _ => false,
        })
    }

    /// Looks for an SSE stream if the transport is not proven. Returns whether the refusal waits for the result.
    pub(in crate::upstream) fn look_for_sse(&mut self, what: LookFor, cx: &mut Cx<'_>) -> bool {
        let may_look = self.may_look(cx.now);
        let Link::Http(http) = &mut self.link else { return false };
        if !http.looks_for_sse() {
            if !may_look {
                return false;
            }
            let request = HttpRequest { verb: Verb::Get, target: None, headers: Vec::new(), body: None };
            let exchange = http.begin(Exchange::new(Purpose::Look), request, Reuse::Fresh, cx);
            let timer = cx.wake_in(defaults::PROBE, Alarm::Look(self.id));
            http.detection.look = Some(Look { exchange, timer, probe: None, initialized: None, suspicion: false });
        }
        let Some(look) = &mut http.detection.look else { return false };
        match what {
            LookFor::Probe(sign, why) => look.probe = Some((sign, why)),
            LookFor::Initialized(why) => look.initialized = Some(why),
            LookFor::Confirmation => look.suspicion = true,
        }
        true
    }

    /// Handles a look that the server did not answer in time.
    pub fn handle_look_timer(&mut self, cx: &mut Cx<'_>) {
        self.look_failed(true, cx);
    }

    /// Handles a look without an endpoint: the refusals are handled as without it.
    pub(super) fn look_failed(&mut self, is_answered: bool, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        let Some(look) = http.stop_look(cx) else { return };
        http.abort(look.exchange, cx);
        // A broken connection shows nothing.
        http.detection.not_before = cx.now + if is_answered { defaults::LOOK_PAUSE } else { defaults::PROBE_PAUSE };
        let is_held = http.pending_initialized.is_some();
        if look.suspicion {
            self.confirmed_without_sse(cx);
        }
        if let Some(why) = look.initialized.filter(|_| is_held) {
            self.handshake_incomplete(why, cx);
        }
        if let Some((sign, why)) = look.probe {
            self.probe_failed_after_look(sign, why, cx);
        }
    }

    /// Handles the endpoint in the stream of a look: the transport is legacy SSE.
    pub(super) fn sse_found(&mut self, id: ExchangeId, endpoint: String, cx: &mut Cx<'_>) {
        let is_linked = matches!(self.link.state(), LinkState::Up | LinkState::Dialing);
        let is_answering = self.is_being_answered();
        let Link::Http(http) = &mut self.link else { return };
        if !http.is_unproven() || is_answering || !is_linked {
            // A call is answered now, or the link is gone.
            return self.look_failed(true, cx);
        }
        http.stop_look(cx);
        self.refused_before_sse(cx);
        self.resolved_by_sse(cx);
        let Link::Http(http) = &mut self.link else { return };
        http.dialect = Dialect::Sse;
        self.give_up_posts(cx);
        self.lose_calls(|_| Written::Whole, cx);
        let Link::Http(http) = &mut self.link else { return };
        // Calls in flight run to their end: their answers do not depend on an SSE stream.
        cx.disarm(&mut http.orphans_timer);
        let session_number = http.session.number();
        let Some(exchange) = http.exchanges.get_mut(&id) else { return };
        (exchange.purpose, exchange.session_number) = (Purpose::SseStream, session_number);
        http.endpoint = Some(endpoint);
        self.link.return_to_dialing(cx);
        self.sse_stream_ready(cx);
    }

    /// Returns whether an error can be the refusal of every request at this URL.
    pub(super) fn doubts_transport(
        &self,
        id: ExchangeId,
        key: Key,
        error: &ErrorBody,
        is_named: bool,
        now: Moment,
    ) -> bool {
        let (Link::Http(http), Some(call)) = (&self.link, self.calls.get(key)) else { return false };
        let Some(exchange) = http.exchanges.get(&id) else { return false };
        let is_test = matches!(
            call.owner,
            Owner::Us(
                InternalRequest::Handshake
                    | InternalRequest::Ping
                    | InternalRequest::Silence
                    | InternalRequest::Confirm
                    | InternalRequest::Probe
                    | InternalRequest::ProbeHandshake
            )
        );
        let can_be_about_all = match exchange.status {
            Some(200..300) => matches!(error.code, -32600 | -32601),
            // These codes are about a modern request.
            Some(400) => !(-32022..=-32020).contains(&error.code),
            // Without the call's id it is no answer, and the end of the exchange decides.
            Some(404..=406 | 415) => is_named,
            _ => false,
        };
        can_be_about_all && !is_test && !exchange.resumes && !self.is_handshake(key) && self.may_look(now)
    }

    /// Handles such an error. Returns whether it waits for the result of a ping and a look.
    pub(super) fn doubt_error(&mut self, id: ExchangeId, key: Key, error: &ErrorBody, cx: &mut Cx<'_>) -> bool {
        let Some(call) = self.calls.get(key) else { return false };
        let is_held = self.is_clients(key) && call.effect.is_repeatable();
        let Link::Http(http) = &mut self.link else { return false };
        let Some(exchange) = http.exchanges.get(&id) else { return false };
        let (session_number, status) = (exchange.session_number, exchange.status.unwrap_or(200));
        let refusal = Refusal::with(status, error.code, &error.words);
        if is_held {
            http.leave(id, cx);
        }
        self.error_doubted(session_number, refusal, is_held.then_some((key, error)), cx);
        is_held
    }
}
