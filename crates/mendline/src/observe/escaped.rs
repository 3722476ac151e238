//! Escapes text from peers for everything that is printed, logged or shown.
//!
//! A server, a project's file or another process can put any character into a name or a message. In a terminal a
//! control character is a command, a bidirectional override changes how a line reads, and a character without a glyph
//! makes two different names look the same. Such characters are shown as escapes; all others stay.
//!
//! The rule uses Unicode properties: the categories Cc (control), Cf (format), Zl and Zp (line and paragraph
//! separators), and all characters with Default_Ignorable_Code_Point, such as variation selectors and tags. This splits
//! emoji that are joined or varied by such characters; visible characters matter more here.

use std::fmt::{self, Write as _};

/// Text with escapes for invalid UTF-8 and for characters that are not [harmless](is_harmless).
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

/// JSON with `\u` escapes for characters in strings that are not [harmless](is_harmless).
///
/// The result is JSON of the same meaning. Outside of strings, valid JSON has no such characters except line ends and
/// tabs; a carriage return there becomes a space.
pub struct EscapedJson<'a>(pub &'a str);

impl fmt::Display for EscapedJson<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '\n' | '\t' => f.write_char(character)?,
                '\r' => f.write_char(' ')?,
                _ if is_harmless(character) => f.write_char(character)?,
                _ => write!(f, "{}", JsonEscape(character))?,
            }
        }
        Ok(())
    }
}

/// One character as a JSON escape: `\u009b`, or two surrogates above U+FFFF.
pub(crate) struct JsonEscape(pub(crate) char);

impl fmt::Display for JsonEscape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(f, "\\u{unit:04x}"))
    }
}

/// Returns whether a character may be shown unescaped.
pub fn is_harmless(character: char) -> bool {
    match character {
        ' '..='~' => true,
        '\0'..='\u{9f}' => false,
        _ => !is_format(character) && !is_ignored(character) && !matches!(character, '\u{2028}' | '\u{2029}'),
    }
}

/// Returns whether a character has category Cf in Unicode 17.
fn is_format(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{890}'..='\u{891}'
            | '\u{8e2}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{2064}'
            | '\u{2066}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{110bd}'
            | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0001}'
            | '\u{e0020}'..='\u{e007f}'
    )
}

/// Returns whether a character has Default_Ignorable_Code_Point in Unicode 17, except for those of category Cf.
fn is_ignored(character: char) -> bool {
    matches!(
        character,
        '\u{34f}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{2065}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fff8}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s07_every_kind_of_hostile_character_is_escaped() {
        let hostile = "\0\u{7}\u{8}\r\n\t\u{1b}\u{7f}\u{80}\u{85}\u{9b}\u{9d}\u{9f}\u{ad}\u{61c}\u{180e}\u{200b}\u{200d}\u{200f}\
                       \u{2028}\u{2029}\u{202a}\u{202e}\u{2060}\u{2064}\u{2065}\u{2066}\u{206f}\u{3164}\u{fe0f}\u{feff}\
                       \u{fff9}\u{fffb}\u{e0001}\u{e0041}\u{e007f}\u{e0100}\u{1d173}";
        for character in hostile.chars() {
            assert!(!is_harmless(character), "{character:?}");
        }
        let shown = Escaped(hostile.as_bytes()).to_string();
        assert!(shown.is_ascii() && shown.chars().all(is_harmless), "{shown}");
        assert_eq!(Escaped(b"a\xffb").to_string(), "a\\xffb");
    }

    #[test]
    fn ordinary_text_of_any_language_is_not_changed() {
        let text = "Zürich – 日本語 · العربية עברית हिन्दी ไทย ⚡ 🎉 ½ \u{a0}x";
        assert_eq!(Escaped(text.as_bytes()).to_string(), text);
        assert_eq!(EscapedJson(text).to_string(), text);
    }

    #[test]
    fn s07_escaped_json_keeps_its_meaning() {
        let text = "{\n\t\"a\u{9b}\": \"\u{202e}\\u001b \u{e0041}\u{7f}\\\\ ü\"\r\n}";
        let escaped = EscapedJson(text).to_string();
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&escaped), value(text));
        assert!(
            escaped.chars().all(|character| is_harmless(character) || matches!(character, '\n' | '\t')),
            "{escaped:?}"
        );
    }
}
