//! What follows from the state of an upstream, after every input.
//!
//! A handler of an input changes the state: a call waits, a link is up, a session is lost. What follows from that, such
//! as sending the calls that may be sent now, is done here, once after the handler, in one order. So no handler can
//! forget it.

use super::Upstream;
use crate::cx::Cx;

impl Upstream {
    /// Does what follows from the state. Each step does nothing if nothing is to do.
    pub fn reconcile(&mut self, cx: &mut Cx<'_>) {
        self.replace_when_idle(cx);
        self.give_up_if_parked(cx);
        self.answer_joined(cx);
        self.announce(cx);
        self.start_probe(cx);
        self.probe_after_pause(cx);
        self.promote(cx);
        self.resync_lists(cx);
        self.pump(cx);
    }
}
