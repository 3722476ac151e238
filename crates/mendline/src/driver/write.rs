//! What the engine has to say, written.
//!
//! Every sink pulls for itself as much as it can take. A client that reads no more is found out here.

use std::task::Context;
use std::time::Duration;

use mendline_core::port::Pipe;
use mendline_core::{Input, Moment, Port};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Driver, Host, Observer, Direction, wire};

/// How often we look whether a client that sends no more still reads.
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
            let next = || wire::next_message(engine, port, wire_enabled.then_some((&mut *observer, upstream, Direction::ToServer)));
            if link.stdin.poll_write(cx, next).is_err() {
                link.suspect(Pipe::Stdin, now);
            }
        }
    }

    /// Lets every sink write what there is. Says whether the client was lost over it.
    pub(super) fn write_all(&mut self, cx: &mut Context<'_>, now: Moment) -> bool {
        self.write_links(cx, now);
        let (engine, observer, wire_enabled) = (&mut self.engine, &mut self.observer, self.wire_enabled);
        let (port, upstream) = (Port::Client(self.client), self.upstream);
        let next = || wire::next_message(engine, port, wire_enabled.then_some((&mut *observer, upstream, Direction::ToClient)));
        if self.to_client.poll_write(cx, next).is_ok() && !self.client_is_gone(cx, now) {
            return false;
        }
        self.client_lost = true;
        self.next_client_check = None;
        self.engine.handle(Input::ClientLost { client: self.client }, now);
        true
    }

    /// A client that sends no more may still read its answers, or may have been killed. While its calls run there is nothing
    /// to write that would tell, so we look.
    fn client_is_gone(&mut self, cx: &mut Context<'_>, now: Moment) -> bool {
        if self.next_client_check.is_none_or(|due| now < due) {
            return false;
        }
        self.next_client_check = Some(now + CLIENT_CHECK_INTERVAL);
        self.to_client.is_abandoned(cx)
    }
}
