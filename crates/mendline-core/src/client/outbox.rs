//! What waits to be written to a client.
//!
//! Answers are never dropped, so this queue is bounded from the other side: beyond the soft limit we stop reading from a
//! child that serves only this client, beyond the hard limit we stop reading from the client itself, which then writes and
//! does not read.

use std::collections::VecDeque;

use mendline_wire::Spliced;

use crate::defaults;
use crate::ledger::Ledger;

/// The queue.
#[derive(Debug, Default)]
pub struct Outbox {
    messages: VecDeque<Spliced>,
    bytes: usize,
}

impl Outbox {
    pub fn push(&mut self, message: Spliced, ledger: &mut Ledger) {
        self.bytes += message.len();
        ledger.charge(message.len());
        self.messages.push_back(message);
    }

    pub fn pop(&mut self, ledger: &mut Ledger) -> Option<Spliced> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.len();
        ledger.release(message.len());
        Some(message)
    }

    pub fn clear(&mut self, ledger: &mut Ledger) {
        self.messages.clear();
        ledger.release(std::mem::take(&mut self.bytes));
    }

    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Is the client far enough behind to slow a child down?
    pub fn is_behind(&self) -> bool {
        self.messages.len() >= defaults::CLIENT_QUEUE_SOFT || self.bytes >= defaults::CLIENT_QUEUE_SOFT_BYTES
    }

    /// Is the client so far behind that we should not listen to it either?
    pub fn is_stuck(&self) -> bool {
        self.messages.len() >= defaults::CLIENT_QUEUE_HARD || self.bytes >= defaults::CLIENT_QUEUE_HARD_BYTES
    }
}
