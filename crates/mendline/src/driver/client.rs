//! One connected client.

use std::task::Context;
use std::time::Duration;

use mendline_core::{ClientId, Moment, UpstreamId};

use crate::frontend::Frontend;

/// The interval of checks whether a client that has closed its output still reads.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A client that connects to a driver.
pub struct Client<F> {
    /// Its id in the engine, which no other client of the engine has or had.
    pub id: ClientId,
    /// The server that it uses.
    pub upstream: UpstreamId,
    /// Its side of the driver.
    pub frontend: F,
}

/// A connected client.
pub(super) struct Connected<F> {
    pub(super) id: ClientId,
    pub(super) upstream: UpstreamId,
    pub(super) frontend: F,
    /// The engine did not allow reading in the last iteration.
    pub(super) paused: bool,
    /// The time of the next check whether the client still reads. Set when the client has closed its output.
    pub(super) next_check: Option<Moment>,
}

impl<F: Frontend> Connected<F> {
    pub(super) fn new(client: Client<F>) -> Connected<F> {
        let Client { id, upstream, frontend } = client;
        Connected { id, upstream, frontend, paused: false, next_check: None }
    }

    /// Checks whether the client is gone. A client that has closed its output may still read answers, or may have been
    /// killed. While its calls run there is nothing to write that would show it.
    pub(super) fn is_gone(&mut self, cx: &mut Context<'_>, now: Moment) -> bool {
        if self.next_check.is_none_or(|due| now < due) {
            return false;
        }
        self.next_check = Some(now + CHECK_INTERVAL);
        self.frontend.is_abandoned(cx)
    }
}
