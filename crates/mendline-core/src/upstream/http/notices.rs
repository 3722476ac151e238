//! The stream for messages that the server sends on its own: a long GET.
//!
//! It is opened after the handshake; a server may refuse it for good. When it ends it is reopened, with a growing
//! backoff while it carries nothing. An upstream without it is still ready.

use std::time::Duration;

use mendline_wire::headers;

use super::{Refusal, Stream};
use crate::cx::{Alarm, Cx};
use crate::defaults;
use crate::port::{Challenge, ExchangeId, HttpRequest, Reuse, Verb};
use crate::timers::TimerId;
use crate::upstream::Upstream;
use crate::upstream::credential::Remedy;
use crate::upstream::exchange::{Exchange, Purpose};
use crate::upstream::link::Link;

/// The stream for messages of the server.
#[derive(Debug, Default)]
pub(super) struct Notices {
    pub(super) wanted: bool,
    pub(super) exchange: Option<ExchangeId>,
    pub(super) timer: Option<TimerId>,
    pub(super) stream: Stream,
    pub(super) failures: u32,
    /// The challenge for which it was requested again.
    challenged: Option<Challenge>,
    /// It was refused for the credential, and waits for another one.
    is_refused: bool,
}

impl Notices {
    /// The wait before it is reopened.
    pub(super) fn wait(&self) -> Duration {
        let doubled = defaults::RESUME_WAIT * 2u32.saturating_pow(self.failures.min(10));
        self.stream.retry.unwrap_or_default().max(doubled.min(defaults::NOTICES_CAP) / 2)
    }
}

impl Upstream {
    pub(super) fn open_notices(&mut self, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        let is_needed = http.notices.wanted && http.notices.exchange.is_none() && http.notices.timer.is_none();
        let is_held = http.notices.is_refused || http.credential.is_awaited();
        if !is_needed || !http.supervisor.is_up() || !self.session.is_open() || is_held {
            return;
        }
        if self.gate.is_paused(cx.now) {
            http.notices.timer = cx.timers.arm(self.gate.resumes_at(cx.now), Alarm::Notices(self.id));
            return;
        }
        let mut headers = http.session_headers(false);
        if let Some(last) = &http.notices.stream.last_event {
            headers.push((headers::LAST_EVENT_ID.into(), String::from_utf8_lossy(last).into()));
            http.notices.stream.resumed = true;
        }
        let request = HttpRequest { verb: Verb::Get, target: None, headers, body: None };
        http.notices.exchange = Some(http.begin(Exchange::new(Purpose::Notices), request, Reuse::Any, cx));
    }

    /// Handles the end of the stream. It is reopened with its own backoff.
    pub(super) fn notices_ended(&mut self, exchange: &Exchange, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        http.notices.exchange = None;
        if exchange.is_refused_for_credential() && http.credential.kind().is_renewable() {
            return self.notices_refused(exchange, cx);
        }
        if matches!(exchange.status, Some(200..300)) {
            http.notices.challenged = None;
        }
        match exchange.status {
            Some(404) if exchange.session_named.is_some() => {
                http.notices.failures += 1;
                let refusal = Refusal::of(exchange).unwrap_or(Refusal::bare(404));
                self.notices_reported_lost(exchange.session_number, refusal, cx);
            }
            Some(429) => {
                http.notices.failures += 1;
                if exchange.retry_after.is_none() {
                    self.pause_without_hint(cx);
                }
                self.reopen_notices_later(cx);
            }
            Some(400..500) => http.notices.wanted = false,
            _ => {
                http.notices.failures = if exchange.has_message { 0 } else { http.notices.failures + 1 };
                self.reopen_notices_later(cx);
            }
        }
    }

    /// Handles a stream that was refused for the credential. It is opened again with another one.
    fn notices_refused(&mut self, exchange: &Exchange, cx: &mut Cx<'_>) {
        let before = self.link.http().and_then(|http| http.notices.challenged);
        let remedy = self.remedy_for(exchange, before, false, cx);
        let Link::Http(http) = &mut self.link else { return };
        http.notices.challenged = Some(exchange.challenge_or_default());
        http.notices.is_refused = remedy != Remedy::SendAgain || http.credential.is_renewing();
        self.open_notices(cx);
    }

    /// Opens the stream again that was refused for the last credential.
    pub(in crate::upstream) fn reopen_refused_notices(&mut self, cx: &mut Cx<'_>) {
        if let Link::Http(http) = &mut self.link {
            http.notices.is_refused = false;
        }
        self.open_notices(cx);
    }

    pub fn handle_notices_timer(&mut self, cx: &mut Cx<'_>) {
        if let Link::Http(http) = &mut self.link {
            http.notices.timer = None;
        }
        self.open_notices(cx);
    }

    pub(super) fn end_notices(&mut self, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        if let Some(id) = http.notices.exchange.take() {
            http.abort(id, cx);
        }
        cx.disarm(&mut http.notices.timer);
        http.notices = Notices::default();
    }
}
