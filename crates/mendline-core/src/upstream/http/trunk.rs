//! Legacy SSE: one long GET, the trunk, over which everything comes back.
//!
//! The trunk is the link: while it stands, a POST that finds no way is only that POST's trouble; when it is gone, so are the
//! session and every answer that was to come over it. A server that may have been greeted over a trunk is not greeted over
//! it again; the trunk is given up and another made.

use crate::config::Dialect;
use crate::evidence::{Evidence, Outcome};
use crate::port::{EndHow, Written};
use crate::slab::Key;
use crate::turn::Turn;
use crate::upstream::Upstream;
use crate::upstream::exchange::{Exchange, Purpose};
use crate::words::Cause;

impl Upstream {
    /// The server speaks something else than was tried. The call goes back to the queue, and the trunk is tried.
    pub(super) fn try_other_dialect(&mut self, key: Key, words: String, turn: &mut Turn<'_>) {
        let Some(http) = &mut self.http else { return };
        http.dialect = Dialect::Sse;
        http.refused = Some(words);
        self.settle_saying(key, Evidence::UNSENT, turn.now, String::new(), turn);
        self.sort_waiting();
        self.link.look_again(turn);
    }

    pub(super) fn trunk_ready(&mut self, turn: &mut Turn<'_>) {
        if let Some(http) = &mut self.http {
            http.refused = None;
            http.release(turn);
        }
        if self.link.handle_reached(turn) {
            match self.session.begin() {
                Some(greeting) => self.replay(greeting, turn),
                None => {
                    self.link.note_open(turn.now);
                    self.promote(turn);
                }
            }
        }
    }

    /// The trunk is gone, and with it the session and every answer that was to come over it.
    pub(super) fn trunk_ended(&mut self, exchange: &Exchange, how: &EndHow, turn: &mut Turn<'_>) {
        let Some(http) = &mut self.http else { return };
        http.endpoint = None;
        let words = match (exchange.status, how) {
            (None, EndHow::NoConnection(words) | EndHow::Forbidden(words) | EndHow::Cut(words)) => words.clone(),
            (Some(200..300), EndHow::Cut(words)) => words.clone(),
            (Some(200..300), _) => "the server ended its event stream".into(),
            (Some(status), _) => format!("the server answered HTTP {status} to the request for an event stream"),
            (None, _) => "the event stream could not be opened".into(),
        };
        // Only an answer tells that the server does not speak this dialect either; a broken line tells nothing.
        let was_answered = exchange.status.is_some() && !self.link.is_up();
        if let Some(refused) = http.refused.take_if(|_| was_answered) {
            // Neither dialect: the next call may try both again.
            http.dialect = Dialect::Auto;
            let words = format!("{refused}, and {words}");
            for key in std::mem::take(&mut self.waiting) {
                self.fail(key, Cause::CannotBridge, Outcome::NotSent, words.clone(), turn);
            }
            // Like a command that does not exist: asking again soon is pointless.
            return self.link.handle_unreachable(words, true, false, turn);
        }
        self.give_up_posts(turn);
        let hopeless = matches!(how, EndHow::Forbidden(_)) && exchange.status.is_none();
        self.link.handle_unreachable(words, hopeless, !self.calls.is_empty(), turn);
        // A POST that is still being written may yet arrive whole, so every call that left counts as received.
        self.lose_calls(|_| Written::Whole, turn);
        self.give_up_if_parked(turn);
    }

    /// The trunk is of no use any more: it is given up, and with it every answer that was to come over it.
    pub(in crate::upstream) fn drop_trunk(&mut self, turn: &mut Turn<'_>) {
        let Some(http) = &mut self.http else { return };
        let Some(trunk) = http.trunk() else { return };
        http.abort(trunk, turn);
        http.endpoint = None;
        self.give_up_posts(turn);
        self.lose_calls(|_| Written::Whole, turn);
    }

    /// What is still being posted would be answered over a trunk that is gone.
    pub(super) fn give_up_posts(&mut self, turn: &mut Turn<'_>) {
        for key in self.calls.keys_by_age() {
            self.take_back_unreached(key);
        }
        if let Some(http) = &mut self.http {
            http.abort_where(|purpose| matches!(purpose, Purpose::Call(_) | Purpose::Note), turn);
        }
        self.forget_session(turn);
    }
}
