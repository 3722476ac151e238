//! The next probe of a server: a request of Mendline that shows whether it is available.
//!
//! The probe is a `ping`; for a server that refuses pings it is a `tools/list`, in the modern era `server/discover`. A
//! refusal with 400 or 404 can be about the session or about the method, so a second probe follows: a handshake, in the
//! modern era a `tools/list`. The session of such a handshake is used only if another ping shows that the old one is
//! lost.

use std::sync::Arc;

use mendline_wire::Message;

use super::Availability;
use crate::moment::Moment;
use crate::request::ClientRequest;
use crate::upstream::http::params;
use crate::upstream::keepalive::ping;

/// The step of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeStep {
    /// The first request: a ping, or `server/discover`.
    First,
    /// A handshake or a `tools/list`, after 400 or 404.
    Second,
    /// Another ping, which decides between the old session and that of the handshake.
    Confirm,
}

/// The session of a handshake that was sent as a probe.
#[derive(Debug)]
pub struct ProbedSession {
    pub session: Option<Arc<str>>,
    pub handshake: ClientRequest,
    pub answer: Message,
}

/// The server of a probe, as far as it decides which request is sent.
#[derive(Clone, Copy, Debug)]
pub struct ProbeTarget {
    /// A handshake was completed, so the era is legacy.
    pub is_legacy: bool,
    /// The server refuses pings in live sessions.
    pub refuses_pings: bool,
}

/// The consequence of a probe that was refused with 400 or 404.
#[derive(Debug)]
pub enum NextProbe {
    /// The handshake is the next probe.
    Handshake(ClientRequest),
    /// Another request is the next probe.
    Another,
    /// The old session is lost, and that of the handshake is used.
    Adopt(ProbedSession),
    /// None: the server is away.
    Away,
}

impl Availability {
    /// Returns whether a request is known that probes a modern server.
    pub fn has_modern_probe(&self) -> bool {
        self.discover.is_some()
    }

    /// Keeps the modern probe that has the metadata of this request.
    pub fn keep_probe_of(&mut self, request: &ClientRequest) {
        if request.is_modern() {
            self.discover = discover(request);
        }
    }

    /// Begins a probe with its first request.
    pub fn begin_probe(&mut self) {
        self.step = ProbeStep::First;
    }

    /// The next request of the probe.
    pub fn next_probe(&mut self, target: ProbeTarget, now: Moment) -> Option<ClientRequest> {
        self.probed = Some(now);
        match (&self.discover, self.step) {
            (Some(discover), ProbeStep::First) if !target.is_legacy => Some(discover.clone()),
            (Some(discover), _) if !target.is_legacy => params::list_tools(discover, None),
            _ if target.refuses_pings => params::in_session("tools/list", None),
            _ => ping(),
        }
    }

    /// Handles a probe that the server refused with 400 or 404. `handshake` is that of the current session.
    pub fn handle_refused_probe(&mut self, handshake: Option<ClientRequest>) -> NextProbe {
        match self.step {
            ProbeStep::First => {
                self.step = ProbeStep::Second;
                match handshake {
                    Some(handshake) => NextProbe::Handshake(handshake),
                    None if self.has_modern_probe() => NextProbe::Another,
                    None => NextProbe::Away,
                }
            }
            ProbeStep::Confirm => self.probed_session.take().map_or(NextProbe::Away, NextProbe::Adopt),
            ProbeStep::Second => NextProbe::Away,
        }
    }

    /// Keeps the session of a handshake until another ping decides about it.
    pub fn confirm_old_session(&mut self, probed: ProbedSession) {
        self.probed_session = Some(probed);
        self.step = ProbeStep::Confirm;
    }

    /// Takes the session of a handshake that is not used.
    pub fn take_unused_session(&mut self) -> Option<Arc<str>> {
        self.probed_session.take()?.session
    }
}

/// A `server/discover` with the metadata of this request.
fn discover(request: &ClientRequest) -> Option<ClientRequest> {
    params::with_meta_of(request, "server/discover", None)
}
