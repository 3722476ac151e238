//! What waits to be written to a child, and how far into its stdin each thing reaches.
//!
//! A call stays a name until the shell pulls it: until then it can be taken back without a trace. When it is pulled, its
//! place in the stream of bytes is noted, so that after the child's death the shell's one number (how many bytes its stdin
//! accepted) tells for every call whether the child can have had all of it.

use std::collections::VecDeque;

use mendline_wire::{Method, Spliced};

use crate::defaults;
use crate::ledger::Ledger;
use crate::port::Written;
use crate::slab::Key;

/// One thing to write.
#[derive(Debug)]
pub enum Out {
    /// A call, made into bytes when it is pulled.
    Call(Key),
    /// A message that is ready, and what it is.
    Text(Spliced, Method),
}

/// Where a message lies in the stream of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    start: u64,
    end: u64,
}

impl ByteRange {
    /// What the child can have received of it, when its stdin accepted `accepted` bytes in all. The newline does not count:
    /// some servers take the last line without it.
    pub fn written(self, accepted: u64) -> Written {
        if accepted >= self.end {
            Written::Whole
        } else if accepted > self.start {
            Written::Partly
        } else {
            Written::Nothing
        }
    }
}

/// The queue for one link.
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

    /// Queues a message that must go out; the engine's own limits keep these few.
    pub fn push_text(&mut self, text: Spliced, method: Method, ledger: &mut Ledger) {
        ledger.charge(text.len());
        self.text_bytes += text.len();
        self.queue.push_back(Out::Text(text, method));
    }

    /// Queues a message that may be dropped when the child is far behind; says whether it was queued.
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

    /// The first one that may go; what has to wait is overtaken, and keeps its order.
    pub fn pop_where(&mut self, may_go: impl Fn(&Out) -> bool, ledger: &mut Ledger) -> Option<Out> {
        let index = self.queue.iter().position(may_go)?;
        let out = self.queue.remove(index)?;
        if let Out::Text(text, _) = &out {
            ledger.release(text.len());
            self.text_bytes -= text.len();
        }
        Some(out)
    }

    /// The next message that is ready, unless a call stands before it.
    pub fn pop_text(&mut self, ledger: &mut Ledger) -> Option<Spliced> {
        self.queue.front().filter(|out| matches!(out, Out::Text(..)))?;
        match self.pop(ledger)? {
            Out::Text(text, _) => Some(text),
            Out::Call(_) => None,
        }
    }

    /// Takes a call back that was not pulled yet.
    pub fn remove(&mut self, call: Key) {
        self.queue.retain(|out| !matches!(out, Out::Call(key) if *key == call));
    }

    /// Notes that a message of `length` bytes was handed to the shell, which adds a newline.
    pub fn hand_over(&mut self, length: usize) -> ByteRange {
        let range = ByteRange { start: self.handed, end: self.handed + length as u64 };
        self.handed = range.end + 1;
        range
    }

    /// Forgets everything: the next link starts at its first byte.
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

    /// Whether any of it may go.
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
            (9, Written::Partly, Written::Nothing),
            (10, Written::Whole, Written::Nothing),
            (11, Written::Whole, Written::Nothing),
            (12, Written::Whole, Written::Partly),
            (16, Written::Whole, Written::Whole),
            (17, Written::Whole, Written::Whole),
        ] {
            assert_eq!((first.written(accepted), second.written(accepted)), (of_first, of_second), "{accepted}");
        }
    }
}
