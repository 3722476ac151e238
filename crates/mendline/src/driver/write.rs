//! Writes the messages of the engine.
//!
//! Every sink pulls as much as it can write. A client that no longer reads is detected here.

use std::task::Context;

use mendline_core::port::Pipe;
use mendline_core::{Engine, Input, Moment, Port, UpstreamId};
use mendline_wire::Spliced;

use super::{Direction, Driver, Host, Observer, wire};
use crate::frontend::Frontend;

impl<H: Host, F: Frontend, O: Observer> Driver<H, F, O> {
    pub(super) fn write_links(&mut self, cx: &mut Context<'_>, now: Moment) {
        let (engine, observer, wire_enabled) = (&mut self.engine, &mut self.observer, self.wire_enabled);
        for link in &mut self.links {
            let (port, upstream) = (Port::Link(link.id), link.id.upstream);
            let next = || {
                let shown = wire_enabled.then_some((&mut *observer, upstream, Direction::ToServer));
                next_message(engine, port, now, shown)
            };
            if link.stdin.poll_write(cx, next).is_err() {
                link.suspect(Pipe::Stdin, now);
            }
        }
    }

    /// Writes to every sink. Returns whether a client was lost.
    pub(super) fn write_all(&mut self, cx: &mut Context<'_>, now: Moment) -> bool {
        self.write_links(cx, now);
        let (engine, observer, wire_enabled) = (&mut self.engine, &mut self.observer, self.wire_enabled);
        let mut is_lost = false;
        self.clients.retain_mut(|client| {
            let (port, upstream) = (Port::Client(client.id), client.upstream);
            let next = || {
                let shown = wire_enabled.then_some((&mut *observer, upstream, Direction::ToClient));
                next_message(engine, port, now, shown)
            };
            if client.frontend.poll_write(cx, next).is_ok() && !client.is_gone(cx, now) {
                return true;
            }
            engine.handle(Input::ClientLost { client: client.id }, now);
            is_lost = true;
            false
        });
        is_lost
    }
}

/// Returns the next message for this port, and shows it if there is an observer.
fn next_message<O: Observer>(
    engine: &mut Engine,
    port: Port,
    now: Moment,
    shown: Option<(&mut O, UpstreamId, Direction)>,
) -> Option<Spliced> {
    let message = engine.poll_write(port, now)?;
    if let Some((observer, upstream, direction)) = shown {
        wire::show_message(observer, upstream, direction, &message);
    }
    Some(message)
}
