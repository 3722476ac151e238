//! Text from outside, made harmless.
//!
//! What a server prints ends up in a terminal, where a control character is a command and a bidirectional override makes a
//! line read as something else. Everything of that kind is shown as an escape; everything else is left as it is.

use std::fmt::{self, Write as _};

/// Text from outside: control characters, bidirectional overrides and broken UTF-8 shown as escapes.
pub struct Escaped<'a>(pub &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                if is_harmless(character) {
                    f.write_char(character)?;
                } else {
                    write!(f, "{}", character.escape_default())?;
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// Whether a character may be shown as it is.
pub(crate) fn is_harmless(character: char) -> bool {
    let reorders = matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}');
    !character.is_control() && !reorders
}
