//! What follows from the state of an upstream, after every input.
//!
//! A handler of an input changes the state: a call waits, a link is up, a session is lost. What follows from that, such
//! as sending the calls that may be sent now, is done here, once after the handler, in one order. So no handler can
//! forget it.

use super::{Phase, Upstream};
use crate::cx::Cx;

impl Upstream {
    /// Does what follows from the state. The conditions say when a step can have something to do.
    pub fn reconcile(&mut self, cx: &mut Cx<'_>) {
        match self.phase {
            Phase::ReplaceDue => self.replace_when_idle(cx),
            Phase::StopDue => self.stop_when_started(cx),
            Phase::Serving | Phase::Closing => {}
        }
        self.give_up_if_parked(cx);
        if self.clients.are_several() {
            self.answer_joined(cx);
        }
        if !self.config.reconnect.silent {
            self.announce(cx);
        }
        self.start_probe(cx);
        if self.gate.probes_first() {
            self.probe_after_pause(cx);
        }
        self.promote(cx);
        if self.lists.take_may_read() {
            self.resync_lists(cx);
        }
        self.pump(cx);
    }
}
