//! The reachability of an HTTP server.
//!
//! Over HTTP there is no dial of its own: a call that is sent finds out whether the server is reachable, and reports it
//! to the supervisor.

use super::Supervisor;
use crate::cx::Cx;
use crate::event::{LinkState, Over};
use crate::reason::{LossReason, Reason};

impl Supervisor {
    /// Handles an exchange with a connection: the upstream is reachable. Returns whether this is a change.
    pub fn handle_reached(&mut self, over: Over, cx: &mut Cx<'_>) -> bool {
        if self.is_stopped() || matches!(self.state, LinkState::Up | LinkState::Draining) {
            return false;
        }
        if self.state != LinkState::Dialing {
            // Reached without a dial; it counts as one, or the backoff would not grow.
            self.count_dial(cx.now);
        }
        cx.disarm(&mut self.timer);
        self.come_up(over, cx);
        true
    }

    /// Handles a failed connection. While the link is waiting, it changes nothing.
    pub fn handle_unreachable(&mut self, why: Reason, permanent: bool, called: bool, cx: &mut Cx<'_>) {
        if matches!(self.state, LinkState::Dialing | LinkState::Up) {
            self.lose(why, permanent, called, cx);
        }
    }

    /// Returns to idle: no call waits.
    pub fn go_idle(&mut self, cx: &mut Cx<'_>) {
        if self.state == LinkState::Dialing {
            self.go_idle_because(LossReason::Unused, cx);
        }
    }

    /// Returns to dialing: reached, but not with a supported transport yet.
    pub fn return_to_dialing(&mut self, cx: &mut Cx<'_>) {
        if self.state == LinkState::Up {
            self.move_to(LinkState::Dialing, Some(LossReason::TryingSse.into()), cx);
        }
    }

    /// Starts a new link id for a new session, so that server requests of the old one are recognised.
    pub fn renew(&mut self) {
        self.dial += 1;
    }

    /// Dials again for a new target.
    pub(in crate::upstream::link) fn restart(&mut self, cx: &mut Cx<'_>) {
        self.forget_failures(cx);
        if matches!(self.state, LinkState::Up | LinkState::Dialing) && !self.is_stopped() {
            self.go_idle_because(LossReason::ConfigurationChanged, cx);
            self.open(cx);
        }
    }
}
