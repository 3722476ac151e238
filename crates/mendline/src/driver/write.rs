//! Writes the messages of the engine.
//!
//! Every sink pulls as much as it can write. A client that no longer reads is detected here.

use std::task::Context;
use std::time::Duration;

use mendline_core::port::Pipe;
use mendline_core::{Input, Moment, Port};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Direction, Driver, Host, Observer, wire};

/// The interval of checks whether a client that has closed its output still reads.
const CLIENT_CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl<H, R, W, O> Driver<H, R, W, O>
where
    H: Host,
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
    O: Observer,
{
    pub(super) fn write_links(&mut self, cx: &mut Context<'_>, now: Moment) {
        let (engine, observer, wire_enabled) = (&mut self.engine, &mut self.observer, self.wire_enabled);
        for link in &mut self.links {
            let (port, upstream) = (Port::Link(link.id), link.id.upstream);
            let next = || {
                wire::next_message(
                    engine,
                    port,
                    wire_enabled.then_some((&mut *observer, upstream, Direction::ToServer)),
                )
            };
            if link.stdin.poll_write(cx, next).is_err() {
                link.suspect(Pipe::Stdin, now);
            }
        }
    }

    /// Writes to every sink. Returns whether the client was lost.
    pub(super) fn write_all(&mut self, cx: &mut Context<'_>, now: Moment) -> bool {
        self.write_links(cx, now);
        let (engine, observer, wire_enabled) = (&mut self.engine, &mut self.observer, self.wire_enabled);
        let (port, upstream) = (Port::Client(self.client), self.upstream);
        let next = || {
            wire::next_message(engine, port, wire_enabled.then_some((&mut *observer, upstream, Direction::ToClient)))
        };
        if self.to_client.poll_write(cx, next).is_ok() && !self.client_is_gone(cx, now) {
            return false;
        }
        self.client_lost = true;
        self.next_client_check = None;
        self.engine.handle(Input::ClientLost { client: self.client }, now);
        true
    }

    /// Checks whether the client is gone. A client that has closed its output may still read answers, or may have been
    /// killed. While its calls run there is nothing to write that would show it.
    fn client_is_gone(&mut self, cx: &mut Context<'_>, now: Moment) -> bool {
        if self.next_client_check.is_none_or(|due| now < due) {
            return false;
        }
        self.next_client_check = Some(now + CLIENT_CHECK_INTERVAL);
        self.to_client.is_abandoned(cx)
    }
}
