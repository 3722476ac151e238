//! A span in the text of a message.
//!
//! It uses `u32`, because messages are shorter than 4 GiB (longer ones are refused) and every queued message holds
//! several spans.

use std::ops::Range;

/// A half-open range of bytes in a message's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The byte after the last one.
    pub end: u32,
}

impl Span {
    /// Creates a span. The parser refuses texts with larger offsets.
    pub(crate) fn new(start: usize, end: usize) -> Span {
        debug_assert!(start <= end && u32::try_from(end).is_ok());
        Span { start: start as u32, end: end as u32 }
    }

    /// Creates an empty span, which is an insertion.
    pub fn at(offset: u32) -> Span {
        Span { start: offset, end: offset }
    }

    /// Returns the range.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Returns the number of bytes.
    pub fn len(self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }

    /// Returns whether it is empty.
    pub fn is_empty(self) -> bool {
        self.end <= self.start
    }
}
