//! Texts of servers in messages: cut, without control characters, redacted.

use mendline::observe::redact::Redactor;

/// The most characters of a server's text in a message.
const MAX_CHARS: usize = 200;

/// Returns a server's text in one line, escaped and cut.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == MAX_CHARS {
            shown.push('…');
            break;
        }
        match character {
            character if character.is_control() => shown.push(' '),
            // Characters that change the direction of text could make one address look like another.
            '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => shown.push('?'),
            character => shown.push(character),
        }
    }
    shown.trim().to_owned()
}

/// Returns a server's text in one line, redacted, escaped and cut.
pub(crate) fn quoted(redactor: &Redactor, text: &str) -> String {
    let redacted = redactor.redact(text.as_bytes());
    shown(&String::from_utf8_lossy(&redacted))
}

#[cfg(test)]
mod tests {
    use mendline::decisions::Secret;

    use super::*;

    #[test]
    fn text_is_one_short_line_without_secrets() {
        let redactor = Redactor::default();
        redactor.learn([&Secret::new("canary-secret-value")]);
        let text = quoted(&redactor, "bad\r\ntoken canary-secret-value \u{202e}x");
        assert_eq!(text, "bad  token ‹secret› ?x");
        assert_eq!(shown(&"x".repeat(1000)).chars().count(), MAX_CHARS + 1);
    }
}
