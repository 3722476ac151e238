//! Finds a member of a JSON-RPC message without parsing it.
//!
//! Both ends of the bench know the messages of the other, so a search for the quoted name is enough and takes a few
//! nanoseconds. It would be wrong for arbitrary messages, because it also finds nested members. No released program
//! uses this; the real envelope is in `mendline-wire`.

use memchr::memmem;

/// Returns the raw value of the first member with this name: a string with its quotes, or anything up to the next `,`,
/// `}` or `]`. `quoted` is the name in quotes.
pub(crate) fn member<'a>(message: &'a [u8], quoted: &[u8]) -> Option<&'a [u8]> {
    // Proxies that re-serialize messages may add blanks around the colon.
    let after_name = message.get(memmem::find(message, quoted)? + quoted.len()..)?.trim_ascii_start();
    let value = after_name.strip_prefix(b":")?.trim_ascii_start();
    let end = if value.first() == Some(&b'"') {
        1 + closing_quote(&value[1..])? + 1
    } else {
        value.iter().position(|byte| matches!(byte, b',' | b'}' | b']' | b' '))?
    };
    Some(&value[..end])
}

/// Returns the value of the first member with this name, if it is a number.
pub(crate) fn number(message: &[u8], quoted: &[u8]) -> Option<u64> {
    str::from_utf8(member(message, quoted)?).ok()?.parse().ok()
}

fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut escaped = false;
    text.iter().position(|byte| {
        let closes = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        closes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_returned_as_written() {
        let message = br#"{"jsonrpc":"2.0","id" : "a\"b\\","method":"tools/call","params":{"n": 12 ,"list":[3]}}"#;
        assert_eq!(member(message, b"\"id\""), Some(&br#""a\"b\\""#[..]));
        assert_eq!(member(message, b"\"method\""), Some(&br#""tools/call""#[..]));
        assert_eq!(number(message, b"\"n\""), Some(12));
        assert_eq!(number(message, b"\"method\""), None);
    }

    #[test]
    fn missing_names_and_values_are_not_members() {
        assert_eq!(member(br#"{"method":"ping"}"#, b"\"id\""), None);
        assert_eq!(member(br#"{"name":"id"}"#, b"\"id\""), None);
        assert_eq!(member(br#"{"id":"never ends"#, b"\"id\""), None);
    }
}
