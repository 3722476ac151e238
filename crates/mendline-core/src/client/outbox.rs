//! The messages that wait to be written to a client.
//!
//! Answers are never dropped, so this queue is bounded by backpressure. Beyond the soft limit the engine stops reading
//! from a child that serves only this client. Beyond the hard limit it stops reading from the client itself.

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

    /// Returns whether the client is so far behind that a child must be slowed down.
    pub fn is_behind(&self) -> bool {
        self.messages.len() >= defaults::CLIENT_QUEUE_SOFT || self.bytes >= defaults::CLIENT_QUEUE_SOFT_BYTES
    }

    /// Returns whether it holds as much as it may without a reader.
    pub fn is_full_for_detached(&self) -> bool {
        self.messages.len() >= defaults::DETACHED_QUEUE || self.bytes >= defaults::DETACHED_QUEUE_BYTES
    }

    /// Returns whether it holds as much as it may for a client that cannot read it any more.
    pub fn is_full_for_lost_client(&self) -> bool {
        self.messages.len() >= defaults::KEPT_EVENTS || self.bytes >= defaults::KEPT_BYTES
    }

    /// Returns whether it takes no more notifications, although the stream has a connection.
    pub fn is_full_for_notifications(&self) -> bool {
        self.messages.len() >= defaults::NOTIFICATION_QUEUE || self.bytes >= defaults::NOTIFICATION_QUEUE_BYTES
    }

    /// Returns whether the client is so far behind that the engine stops reading from it.
    pub fn is_stuck(&self) -> bool {
        self.messages.len() >= defaults::CLIENT_QUEUE_HARD || self.bytes >= defaults::CLIENT_QUEUE_HARD_BYTES
    }
}
