//! The id of a request, exactly as written.
//!
//! A response carries the id of its request. Peers compare ids in different ways (as numbers, as strings, as text), so
//! only the original text is correct for all of them: `7`, `"7"`, `7.0` and `7e0` are four ids, and each is returned as
//! received. Two ids are equal if their texts are equal.

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::inline::Inline;

/// The raw JSON text of an id: a number, a string with its quotes, or `null`.
#[derive(Clone)]
pub struct Id(Inline);

impl Id {
    /// Creates an id from its JSON text, as [`Message::id`](crate::Message::id) returns it.
    pub fn from_raw(raw: &[u8]) -> Id {
        Id(Inline::copy(raw))
    }

    /// Creates a numeric id.
    pub fn number(number: u64) -> Id {
        Id(Inline::decimal(number))
    }

    /// Returns the JSON text.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Returns the number, if the id is a plain non-negative integer. Mendline recognises its own ids by this, so other
    /// spellings of the same number (`7.0`, `"7"`, `007`) do not count.
    pub fn as_u64(&self) -> Option<u64> {
        Id::number_in(self.as_bytes())
    }

    /// Same as [`Id::as_u64`] for a JSON text.
    pub fn number_in(raw: &[u8]) -> Option<u64> {
        let (first, rest) = raw.split_first()?;
        if !raw.iter().all(u8::is_ascii_digit) || (*first == b'0' && !rest.is_empty()) {
            return None;
        }
        let value = |sum: u64, digit: &u8| sum.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
        match raw.len() {
            // Up to 19 digits always fit.
            0..=19 => Some(raw.iter().fold(0, value)),
            _ => std::str::from_utf8(raw).ok()?.parse().ok(),
        }
    }

    /// Returns whether it is `null`, which only an error response may carry.
    pub fn is_null(&self) -> bool {
        self.as_bytes() == b"null"
    }

    pub(crate) fn into_inline(self) -> Inline {
        self.0
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Id) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Id {}

impl PartialOrd for Id {
    fn partial_cmp(&self, other: &Id) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Id {
    fn cmp(&self, other: &Id) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for Id {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.as_bytes()))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_integer_is_an_own_id() {
        for (raw, number) in [
            ("0", Some(0)),
            ("7", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("99999999999999999999999", None),
            ("007", None),
            ("7.0", None),
            ("7e0", None),
            ("-7", None),
            ("\"7\"", None),
            ("null", None),
            ("", None),
        ] {
            assert_eq!(Id::from_raw(raw.as_bytes()).as_u64(), number, "{raw}");
        }
        assert_eq!(Id::number(42).as_u64(), Some(42));
    }

    #[test]
    fn ids_with_equal_text_are_equal() {
        assert_eq!(Id::from_raw(b"7"), Id::number(7));
        assert_ne!(Id::from_raw(b"7"), Id::from_raw(b"7.0"));
        assert_ne!(Id::from_raw(b"\"a\""), Id::from_raw(b"\"\\u0061\""));
        assert!(Id::from_raw(b"null").is_null());
        assert_eq!(format!("{:?} {}", Id::number(7), Id::from_raw(b"\"x\"")), "Id(7) \"x\"");
    }
}
