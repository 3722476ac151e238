//! Reads from and writes to a frontend with many clients.
//!
//! Only streams for which messages wait are looked at, so the cost of a call does not depend on the number of clients.

use std::task::{Context, Poll};

use mendline_core::Moment;

use super::{Driver, Host, Iteration, Observer};
use crate::frontend::{Frontend, MultiInput};

/// The limit of inputs in one iteration.
const INPUTS_PER_ITERATION: usize = 64;

impl<H: Host, F: Frontend, O: Observer> Driver<H, F, O> {
    pub(super) fn read_multi(&mut self, cx: &mut Context<'_>, now: Moment, iteration: &mut Iteration) {
        for _ in 0..INPUTS_PER_ITERATION {
            let Some(multi) = &mut self.multi else { return };
            match multi.poll_input(cx) {
                Poll::Ready(MultiInput::Engine(input)) => self.handle_multi_input(input, now),
                Poll::Ready(MultiInput::Room(client, stream)) => self.ready_streams.push((client, stream)),
                Poll::Pending => return,
            }
        }
        iteration.again = true;
    }

    /// Passes the messages that wait to their streams, as far as those have room.
    pub(super) fn write_multi(&mut self, now: Moment) {
        let Some(multi) = &mut self.multi else { return };
        for (client, stream) in self.ready_streams.drain(..) {
            while multi.has_room(client, stream) {
                let Some(message) = self.engine.poll_stream(client, stream, now) else { break };
                let is_last = message.is_last;
                multi.write(client, stream, message);
                if is_last {
                    break;
                }
            }
        }
    }
}
