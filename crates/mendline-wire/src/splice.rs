//! The text of a message with a few spans replaced.
//!
//! Mendline changes a message in this way: the id for the upstream, a field in `_meta`. The original text is shared;
//! only the replaced spans are new. One or two edits need no allocation.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use crate::inline::Inline;
use crate::{Id, Span};

/// The replacement of a span.
#[derive(Clone)]
pub struct Patch(Inline);

impl Patch {
    /// Creates a patch with the decimal digits of a number.
    pub fn number(number: u64) -> Patch {
        Patch(Inline::decimal(number))
    }

    /// Returns the new bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl From<Id> for Patch {
    fn from(id: Id) -> Patch {
        Patch(id.into_inline())
    }
}

impl From<&[u8]> for Patch {
    fn from(bytes: &[u8]) -> Patch {
        Patch(Inline::copy(bytes))
    }
}

impl From<Bytes> for Patch {
    fn from(bytes: Bytes) -> Patch {
        Patch(Inline::copy(&bytes))
    }
}

impl fmt::Debug for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Patch({})", String::from_utf8_lossy(self.as_bytes()))
    }
}

/// A text and the edits to it.
#[derive(Clone)]
pub struct Spliced {
    text: Bytes,
    edits: Edits,
    len: usize,
}

/// Edits in the order of their spans.
#[derive(Clone)]
enum Edits {
    None,
    One(Edit),
    Two([Edit; 2]),
    Many(Vec<Edit>),
}

#[derive(Clone)]
struct Edit {
    span: Span,
    patch: Patch,
}

impl Spliced {
    /// Creates a text without edits.
    pub fn whole(text: Bytes) -> Spliced {
        let len = text.len();
        Spliced { text, edits: Edits::None, len }
    }

    /// Creates a text with these spans replaced. The spans are disjoint, in any order; an empty one is an insertion,
    /// and several insertions at one offset keep their order.
    ///
    /// # Panics When spans overlap or lie outside of the text: they come from the same message, so that is a mistake
    /// in the code.
    pub fn new(text: Bytes, edits: impl IntoIterator<Item = (Span, Patch)>) -> Spliced {
        let mut spliced = Spliced::whole(text);
        for (span, patch) in edits {
            assert!(span.start <= span.end && span.end as usize <= spliced.text.len(), "{span:?} is not in the text");
            spliced.len = spliced.len - span.len() + patch.as_bytes().len();
            spliced.edits.insert(Edit { span, patch });
        }
        spliced
    }

    /// Returns the length.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends the text to a buffer.
    pub fn write_to(&self, out: &mut BytesMut) {
        out.reserve(self.len);
        let mut from = 0;
        for edit in self.edits.as_slice() {
            out.put_slice(&self.text[from..edit.span.start as usize]);
            out.put_slice(edit.patch.as_bytes());
            from = edit.span.end as usize;
        }
        out.put_slice(&self.text[from..]);
    }

    /// Returns the segments in order, none of them empty, for a vectored write.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        let mut from = 0;
        let kept_and_new = self.edits.as_slice().iter().flat_map(move |edit| {
            let kept = from..edit.span.start as usize;
            from = edit.span.end as usize;
            [&self.text[kept], edit.patch.as_bytes()]
        });
        let last = self.edits.as_slice().last().map_or(0, |edit| edit.span.end as usize);
        kept_and_new.chain([&self.text[last..]]).filter(|segment| !segment.is_empty())
    }

    /// Returns the text in one piece; without a copy if nothing was edited.
    pub fn to_bytes(&self) -> Bytes {
        if self.edits.as_slice().is_empty() {
            return self.text.clone();
        }
        let mut out = BytesMut::with_capacity(self.len);
        self.write_to(&mut out);
        out.freeze()
    }
}

impl Edits {
    /// Inserts an edit; insertions at one offset keep their order.
    fn insert(&mut self, edit: Edit) {
        *self = match std::mem::replace(self, Edits::None) {
            Edits::None => Edits::One(edit),
            Edits::One(first) if edit.goes_before(&first) => Edits::Two([edit, first]),
            Edits::One(first) => Edits::Two([first, edit]),
            Edits::Two(both) => {
                let mut many = Vec::from(both);
                insert_sorted(&mut many, edit);
                Edits::Many(many)
            }
            Edits::Many(mut many) => {
                insert_sorted(&mut many, edit);
                Edits::Many(many)
            }
        }
    }

    fn as_slice(&self) -> &[Edit] {
        match self {
            Edits::None => &[],
            Edits::One(edit) => std::slice::from_ref(edit),
            Edits::Two(both) => both,
            Edits::Many(many) => many,
        }
    }
}

impl Edit {
    /// Returns whether it is before another edit.
    fn goes_before(&self, other: &Edit) -> bool {
        if other.span.end <= self.span.start {
            return false;
        }
        assert!(self.span.end <= other.span.start, "overlapping edits");
        true
    }
}

fn insert_sorted(many: &mut Vec<Edit>, edit: Edit) {
    let behind = many.iter().take_while(|other| !edit.goes_before(other)).count();
    many.insert(behind, edit);
}

impl fmt::Debug for Spliced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spliced(")?;
        for segment in self.segments() {
            f.write_str(&String::from_utf8_lossy(segment))?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spliced(text: &'static str, edits: &[(u32, u32, &str)]) -> Spliced {
        let edits = edits.iter().map(|&(start, end, new)| (Span { start, end }, Patch::from(new.as_bytes())));
        Spliced::new(Bytes::from_static(text.as_bytes()), edits)
    }

    fn written(spliced: &Spliced) -> String {
        let mut out = BytesMut::from("> ");
        spliced.write_to(&mut out);
        assert_eq!(out.len(), spliced.len() + 2);
        assert_eq!(spliced.to_bytes(), out[2..]);
        assert!(spliced.segments().all(|segment| !segment.is_empty()));
        String::from_utf8_lossy(&out[2..]).into_owned()
    }

    #[test]
    fn edits_apply_in_any_order() {
        assert_eq!(written(&spliced("0123456789", &[])), "0123456789");
        assert_eq!(written(&spliced("0123456789", &[(3, 5, "xyz")])), "012xyz56789");
        assert_eq!(written(&spliced("0123456789", &[(8, 10, ""), (0, 1, "ab")])), "ab1234567");
        assert_eq!(written(&spliced("0123456789", &[(5, 5, "i"), (9, 10, "z"), (0, 2, "a"), (3, 4, "")])), "a24i5678z");
    }

    #[test]
    fn insertions_at_one_offset_keep_their_order() {
        assert_eq!(written(&spliced("ab", &[(1, 1, "1"), (1, 1, "2"), (1, 1, "3")])), "a123b");
        assert_eq!(written(&spliced("ab", &[(1, 2, "B"), (1, 1, "i")])), "aiB");
        assert_eq!(written(&spliced("ab", &[(0, 1, "A"), (1, 1, "i")])), "Aib");
        assert_eq!(written(&spliced("", &[(0, 0, "all")])), "all");
    }

    #[test]
    fn unedited_text_is_shared() {
        let text = Bytes::from(vec![b'x'; 100]);
        assert_eq!(Spliced::whole(text.clone()).to_bytes().as_ptr(), text.as_ptr());
    }

    #[test]
    #[should_panic(expected = "overlapping edits")]
    fn overlapping_edits_panic() {
        spliced("0123456789", &[(2, 5, "a"), (4, 6, "b")]);
    }

    #[test]
    #[should_panic(expected = "overlapping edits")]
    fn insertion_inside_a_replaced_span_panics() {
        spliced("0123456789", &[(2, 5, "a"), (3, 3, "b")]);
    }

    #[test]
    fn patch_holds_number_id_or_bytes() {
        assert_eq!(Patch::number(1_234).as_bytes(), b"1234");
        assert_eq!(Patch::from(Id::from_raw(b"\"a\"")).as_bytes(), b"\"a\"");
        assert_eq!(Patch::from(Bytes::from_static(b"{}")).as_bytes(), b"{}");
    }
}
