//! The shutdown of an engine: running calls finish, everything is answered, children end.
//!
//! It begins when the shell requests it, or when all clients have gone in a process that ends with its clients.

use super::Engine;
use crate::client::ClientSession;
use crate::config::Lifetime;
use crate::cx::{Alarm, Cx};
use crate::defaults;
use crate::event::Event;
use crate::port::{Ending, Output};
use crate::timers::Timers;
use crate::upstream::Upstream;

/// The phase of the shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    /// Running calls are being finished.
    Draining,
    /// Everything is answered; children are ending.
    Closing,
    /// Children are gone.
    Finished,
}

impl Engine {
    /// Lets running calls end; the second request ends them.
    pub(super) fn stop(&mut self) {
        match self.phase {
            Phase::Running => {
                self.begin_drain();
                cx!(self).wake_in(defaults::DRAIN, Alarm::Drain);
            }
            Phase::Draining => self.close(),
            Phase::Closing | Phase::Finished => {}
        }
    }

    /// Advances the shutdown if a step is due.
    pub(super) fn advance_shutdown(&mut self) {
        if self.phase == Phase::Running && self.lifetime == Lifetime::WithClients {
            if self.clients.is_empty() {
                self.close();
            } else if self.clients.values().all(ClientSession::has_ended) {
                self.begin_drain();
            }
        }
        if self.phase == Phase::Draining && self.running() == 0 {
            self.close();
        }
        if self.phase == Phase::Closing && self.upstreams.iter().all(Upstream::is_over) {
            self.finish();
        }
    }

    fn running(&self) -> usize {
        self.clients.values().map(ClientSession::running).sum()
    }

    /// Accepts no new calls and lets running calls finish. After the end of a client's input, each call's deadline
    /// bounds this; after a request to stop, the drain timeout does.
    fn begin_drain(&mut self) {
        self.phase = Phase::Draining;
        let running = self.running();
        for upstream in self.upstreams.iter_mut() {
            upstream.refuse_new_calls();
        }
        cx!(self).emit(Event::Stopping { running });
    }

    pub(super) fn close(&mut self) {
        if matches!(self.phase, Phase::Running | Phase::Draining) {
            if self.phase == Phase::Running {
                cx!(self).emit(Event::Stopping { running: 0 });
            }
            self.phase = Phase::Closing;
            for upstream in self.upstreams.iter_mut() {
                upstream.close(cx!(self));
                upstream.reconcile(cx!(self));
            }
            self.dispatch_all();
        }
    }

    fn finish(&mut self) {
        self.phase = Phase::Finished;
        // A timer that is still armed would only wake the shell.
        self.timers = Timers::default();
        let ending = self.upstreams.iter().map(Upstream::ending).max().unwrap_or(Ending::Ready);
        let cx = cx!(self);
        cx.emit(Event::Stopped);
        cx.output(Output::Finished { ending });
    }
}
