//! Facts about exchanges that were found and not yet reported.
//!
//! Facts of several exchanges are collected before they are reported, because similar work is faster when it is done
//! together: the code that polls connections and that of the engine displace each other from the caches of the processor.
//! The engine counts the memory of a message when the message is reported, so only a few bytes are collected.

use std::collections::VecDeque;

use mendline_core::Input;

/// The number of bytes of collected messages from which they are reported first. Many small messages fit into it.
const MESSAGE_BYTES: usize = 64 * 1024;

#[derive(Default)]
pub(super) struct Facts {
    queue: VecDeque<Input>,
    /// The bytes of the messages that were added since the queue was empty.
    bytes: usize,
}

impl Facts {
    /// Adds a fact without a message.
    pub(super) fn push(&mut self, fact: Input) {
        self.queue.push_back(fact);
    }

    /// Adds a fact with a message of this many bytes.
    pub(super) fn push_message(&mut self, fact: Input, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.queue.push_back(fact);
    }

    /// Removes and returns the oldest fact.
    pub(super) fn pop(&mut self) -> Option<Input> {
        let fact = self.queue.pop_front();
        if self.queue.is_empty() {
            self.bytes = 0;
        }
        fact
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns whether facts must be reported before more are collected.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= MESSAGE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use mendline_core::port::ExchangeId;

    use super::*;

    #[test]
    fn s05_large_messages_are_reported_before_more_are_collected() {
        let fact = || Input::Reached { exchange: ExchangeId(1) };
        let mut facts = Facts::default();
        facts.push(fact());
        facts.push_message(fact(), MESSAGE_BYTES - 1);
        assert!(!facts.is_full());
        facts.push_message(fact(), 1);
        assert!(facts.is_full());
        while facts.pop().is_some() {}
        assert!(!facts.is_full() && facts.is_empty(), "all were reported");
    }
}
