//! The outbox: messages that wait for a link, and the byte range of each in a child's stdin.
//!
//! A call stays a key until the shell pulls it and can be removed until then. When it is pulled, its byte range is
//! recorded. After the child's death the shell reports how many bytes its stdin accepted, which decides for every call
//! whether the child can have received all of it.

use std::collections::VecDeque;

use mendline_wire::{Method, Spliced};

use crate::defaults;
use crate::ledger::Ledger;
use crate::port::Written;
use crate::slab::Key;

/// A queued message.
#[derive(Debug)]
pub enum Out {
    /// A call, serialized when it is pulled.
    Call(Key),
    /// A serialized message and its method.
    Text(Spliced, Method),
}

/// The byte range of a message in a child's stdin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    start: u64,
    end: u64,
}

impl ByteRange {
    /// The part that the child can have received, if its stdin accepted `accepted` bytes in all. The newline does not
    /// count: some servers accept the last line without it.
    pub fn written(self, accepted: u64) -> Written {
        if accepted >= self.end {
            Written::Whole
        } else if accepted > self.start {
            Written::Partial
        } else {
            Written::Nothing
        }
    }
}

/// The outbox of one link.
#[derive(Debug, Default)]
pub struct Outbox {
    queue: VecDeque<Out>,
    text_bytes: usize,
    handed: u64,
}

impl Outbox {
    pub fn push_call(&mut self, call: Key) {
        self.queue.push_back(Out::Call(call));
    }

    /// Queues a message that must not be dropped; other limits keep these few.
    pub fn push_text(&mut self, text: Spliced, method: Method, ledger: &mut Ledger) {
        ledger.charge(text.len());
        self.text_bytes += text.len();
        self.queue.push_back(Out::Text(text, method));
    }

    /// Queues a message that may be dropped when the child is far behind; returns whether it was queued.
    pub fn try_push_text(&mut self, text: Spliced, method: Method, ledger: &mut Ledger) -> bool {
        let fits = self.queue.len() < defaults::LINK_QUEUE && ledger.try_charge(text.len());
        if fits {
            self.text_bytes += text.len();
            self.queue.push_back(Out::Text(text, method));
        }
        fits
    }

    pub fn pop(&mut self, ledger: &mut Ledger) -> Option<Out> {
        self.pop_where(|_| true, ledger)
    }

    /// Removes the first message that may be sent; it overtakes the others, which keep their order.
    pub fn pop_where(&mut self, may_go: impl Fn(&Out) -> bool, ledger: &mut Ledger) -> Option<Out> {
        let index = self.queue.iter().position(may_go)?;
        let out = self.queue.remove(index)?;
        if let Out::Text(text, _) = &out {
            ledger.release(text.len());
            self.text_bytes -= text.len();
        }
        Some(out)
    }

    /// Removes the next serialized message, unless a call is before it.
    pub fn pop_text(&mut self, ledger: &mut Ledger) -> Option<Spliced> {
        self.queue.front().filter(|out| matches!(out, Out::Text(..)))?;
        match self.pop(ledger)? {
            Out::Text(text, _) => Some(text),
            Out::Call(_) => None,
        }
    }

    /// Removes a call that was not pulled yet.
    pub fn remove(&mut self, call: Key) {
        self.queue.retain(|out| !matches!(out, Out::Call(key) if *key == call));
    }

    /// Records that a message of `length` bytes was handed to the shell, which adds a newline.
    pub fn hand_over(&mut self, length: usize) -> ByteRange {
        let range = ByteRange { start: self.handed, end: self.handed + length as u64 };
        self.handed = range.end + 1;
        range
    }

    /// Clears the outbox: the next link starts at byte zero.
    pub fn reset(&mut self, ledger: &mut Ledger) {
        self.queue.clear();
        ledger.release(std::mem::take(&mut self.text_bytes));
        self.handed = 0;
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns whether the next message is a call.
    pub fn begins_with_call(&self) -> bool {
        self.first_call().is_some()
    }

    /// The next message, if it is a call.
    pub fn first_call(&self) -> Option<Key> {
        match self.queue.front() {
            Some(Out::Call(key)) => Some(*key),
            _ => None,
        }
    }

    /// Returns whether any message may be sent.
    pub fn any(&self, may_go: impl Fn(&Out) -> bool) -> bool {
        self.queue.iter().any(may_go)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_bytes_tell_what_each_message_can_have_written() {
        let mut outbox = Outbox::default();
        let (first, second) = (outbox.hand_over(10), outbox.hand_over(5));
        for (accepted, of_first, of_second) in [
            (0, Written::Nothing, Written::Nothing),
            (9, Written::Partial, Written::Nothing),
            (10, Written::Whole, Written::Nothing),
            (11, Written::Whole, Written::Nothing),
            (12, Written::Whole, Written::Partial),
            (16, Written::Whole, Written::Whole),
            (17, Written::Whole, Written::Whole),
        ] {
            assert_eq!((first.written(accepted), second.written(accepted)), (of_first, of_second), "{accepted}");
        }
    }
}
