//! What exchanges find out about a server behind a URL.
//!
//! Over HTTP nothing is dialed for its own sake: a call that goes out finds out whether the server can be reached, and the
//! link is told.

use super::{Health, Link};
use crate::cx::Cx;
use crate::event::{LinkState, Over};
use crate::reason::{LossReason, Reason};

impl Link {
    /// Over HTTP: an exchange has a connection, so the upstream can be reached. Says whether that is news.
    pub fn handle_reached(&mut self, over: Over, cx: &mut Cx<'_>) -> bool {
        if self.stopped || matches!(self.state, LinkState::Up | LinkState::Draining) {
            return false;
        }
        if self.state != LinkState::Dialing {
            // Found by someone who was not sent to look; it counts as a dial all the same, or the backoff would stand still.
            self.count_dial(cx.now);
        }
        cx.disarm(&mut self.timer);
        self.health = Health::default();
        self.rise(over, cx);
        true
    }

    /// Over HTTP: no connection could be made. While one that is lost already is waited for, that is no news.
    pub fn handle_unreachable(&mut self, why: Reason, permanent: bool, called: bool, cx: &mut Cx<'_>) {
        if matches!(self.state, LinkState::Dialing | LinkState::Up) {
            self.lose(why, permanent, called, cx);
        }
    }

    /// Over HTTP: nobody wants anything, so nothing is tried until someone does.
    pub fn go_idle(&mut self, cx: &mut Cx<'_>) {
        if self.state == LinkState::Dialing {
            self.rest_because(LossReason::Unused, cx);
        }
    }

    /// Over HTTP: reached, but not yet in a language that it speaks.
    pub fn return_to_dialing(&mut self, cx: &mut Cx<'_>) {
        if self.state == LinkState::Up {
            self.move_to(LinkState::Dialing, Some(LossReason::TryingSse.into()), cx);
        }
    }

    /// Over HTTP: the session is a new one, and what was asked over the old one belongs to the old name.
    pub fn renew(&mut self) {
        self.dial += 1;
    }
}
