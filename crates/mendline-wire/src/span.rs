//! A place in a message's text.
//!
//! Two `u32` instead of two `usize`: messages are far shorter than 4 GiB (longer ones are refused before they get
//! here), and a parsed message carries several spans through every queue.

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
    /// The span of these offsets. Offsets beyond `u32` do not occur: the parser refuses such texts.
    pub(crate) fn new(start: usize, end: usize) -> Span {
        debug_assert!(start <= end && u32::try_from(end).is_ok());
        Span { start: start as u32, end: end as u32 }
    }

    /// An empty span, which as an edit means "insert here".
    pub fn at(offset: u32) -> Span {
        Span { start: offset, end: offset }
    }

    /// For slicing.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// How many bytes it covers.
    pub fn len(self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }

    /// Whether it covers nothing.
    pub fn is_empty(self) -> bool {
        self.end <= self.start
    }
}
