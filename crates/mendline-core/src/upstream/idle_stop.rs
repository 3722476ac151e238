//! The end of a process or session that is not used.
//!
//! The shell knows which clients use an upstream, and requests its end. A process is ended by the shutdown sequence, a
//! session over HTTP by DELETE; this is no loss, and nothing is dialed until the next request. While clients remain,
//! their handshake is kept and repeated then. Without clients everything that belonged to them is forgotten, so that the
//! next client is served as if it were the first.

use super::call::Owner;
use super::exchange::{Exchange, Purpose};
use super::link::Link;
use super::session::Session;
use super::{Phase, Upstream};
use crate::cx::Cx;
use crate::event::Event;
use crate::port::{HttpRequest, Reuse, Verb};

impl Upstream {
    /// Ends the process or session, unless it has calls. [`Upstream::reconcile`] does it, once it does not start.
    pub fn stop_idle(&mut self, _: &mut Cx<'_>) {
        if self.open_calls() > 0 || self.is_closing() {
            return;
        }
        // A server that is to be replaced is replaced now, because it has no calls.
        if self.phase == Phase::Serving && self.link.is_in_use() {
            self.phase = Phase::StopDue;
        }
        self.forget_clients_that_left();
    }

    /// Records that a client uses it.
    pub(super) fn note_used(&mut self) {
        if self.phase == Phase::StopDue {
            self.phase = Phase::Serving;
        }
    }

    /// Ends an unused process or session. One that is being started is ended once it runs.
    pub(super) fn stop_when_started(&mut self, cx: &mut Cx<'_>) {
        if self.open_calls() > 0 {
            self.phase = Phase::Serving;
        }
        if self.phase != Phase::StopDue || self.link.is_starting() {
            return;
        }
        self.phase = Phase::Serving;
        self.save_now(cx);
        self.end_session_over_http(cx);
        self.end_internal_requests(cx);
        self.session.lose();
        self.forget_clients_that_left();
        self.link.stop_unused(cx);
        cx.emit(Event::IdleStopped { upstream: self.id });
    }

    /// Forgets the handshake of clients that are gone: the next client makes its own.
    fn forget_clients_that_left(&mut self) {
        if self.clients.is_empty() {
            self.session = Session::new();
        }
    }

    fn end_session_over_http(&mut self, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        if http.has_session() {
            let headers = http.session_headers(false);
            let request = HttpRequest { verb: Verb::Delete, target: None, headers, body: None };
            http.begin(Exchange::new(Purpose::CloseSession), request, Reuse::Any, cx);
        }
        self.drop_sse_stream(cx);
        self.forget_session(cx);
        self.availability.reset(cx);
    }

    fn end_internal_requests(&mut self, cx: &mut Cx<'_>) {
        for key in self.calls.keys_by_age() {
            if matches!(self.calls.get(key).map(|call| call.owner), Some(Owner::Us(_))) {
                self.drop_exchange(key, cx);
                drop(self.take(key, cx));
            }
        }
    }
}
