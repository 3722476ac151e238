//! Texts without their escapes.
//!
//! A secret with a quote or a slash is escaped in JSON and in URLs, and a server may escape more than necessary
//! (`\u0073`). So a text is searched as it is and without escapes, and matches are mapped back to the original. JSON
//! and URLs inside of JSON are decoded as well.
//!
//! A stray `\` or `%` before a secret forms an escape with the first characters of the secret (`\` and `r…`). So every
//! character inside of an escape is also tried as the start of a secret.

use std::borrow::Cow;
use std::ops::Range;

/// The length of a surrogate pair: `\ud83e\udd80`.
const MAX_ESCAPE_LENGTH: usize = 12;

/// A text without escapes, and the origin of each byte.
pub(super) struct Decoded<'t> {
    pub(super) bytes: Vec<u8>,
    /// The position of each byte in the original, and at the end the length of the original.
    origins: Vec<u32>,
    source: Source<'t>,
}

/// The text before decoding: the original, or an earlier decoding of it.
struct Source<'t> {
    bytes: Cow<'t, [u8]>,
    /// The position of each byte in the original; `None` if this is the original.
    origins: Option<Vec<u32>>,
    code: Code,
    /// The ranges of its escapes.
    escapes: Vec<Range<u32>>,
    is_truncated: bool,
}

impl<'t> Decoded<'t> {
    /// Returns every decoding of a text that differs from it. Omits an incomplete escape at the end of a truncated
    /// text.
    pub(super) fn readings(text: &'t [u8], is_truncated: bool) -> Vec<Decoded<'t>> {
        let mut readings = Vec::new();
        readings.extend(Decoded::read(Cow::Borrowed(text), PERCENT, is_truncated));
        if let Some(once) = Decoded::read(Cow::Borrowed(text), BACKSLASH, is_truncated) {
            let read = |code: Code| {
                memchr::memchr(code.sign, &once.bytes)?;
                Decoded::read(Cow::Owned(once.bytes.clone()), code, is_truncated)
            };
            let deeper = [BACKSLASH, PERCENT].into_iter().filter_map(read);
            readings.extend(deeper.map(|twice| twice.behind(&once)));
            readings.push(once);
        }
        readings
    }

    /// Returns the ranges in the original where this secret starts inside of an escape. At the end of a truncated text,
    /// its first `shortest` bytes are enough.
    pub(super) fn ranges_inside_escapes(&self, secret: &[u8], shortest: usize) -> impl Iterator<Item = Range<usize>> {
        let source = &self.source;
        let starts = source.escapes.iter().flat_map(|escape| escape.start as usize + 1..escape.end as usize);
        starts.filter_map(move |start| {
            let end = source.end_of(start, secret, shortest)?;
            let origin = |at: usize| source.origins.as_ref().map_or(at, |origins| origins[at] as usize);
            Some(origin(start)..origin(end))
        })
    }

    /// Maps a range of this text to the original.
    pub(super) fn origin(&self, range: &Range<usize>) -> Range<usize> {
        self.origins[range.start] as usize..self.origins[range.end] as usize
    }

    fn read(text: Cow<'t, [u8]>, code: Code, is_truncated: bool) -> Option<Decoded<'t>> {
        memchr::memchr(code.sign, &text)?;
        let mut bytes = Vec::with_capacity(text.len());
        let mut origins = Vec::with_capacity(text.len() + 1);
        let mut escapes = Vec::new();
        let mut at = 0;
        while let Some(step) = code.step(&text, at, is_truncated) {
            bytes.extend_from_slice(step.written());
            origins.extend(step.written().iter().map(|_| at as u32));
            if step.length > 1 {
                escapes.push(at as u32..(at + step.length) as u32);
            }
            at += step.length;
        }
        origins.push(text.len() as u32);
        Some(Decoded { bytes, origins, source: Source { bytes: text, origins: None, code, escapes, is_truncated } })
    }

    fn behind(mut self, first: &Decoded<'_>) -> Decoded<'t> {
        for origin in &mut self.origins {
            *origin = first.origins[*origin as usize];
        }
        self.source.origins = Some(first.origins.clone());
        self
    }
}

impl Source<'_> {
    /// Returns the end of a secret that starts here, if it does.
    fn end_of(&self, start: usize, secret: &[u8], shortest: usize) -> Option<usize> {
        let mut at = start;
        let mut found = 0;
        while found < secret.len() {
            let Some(step) = self.code.step(&self.bytes, at, self.is_truncated) else {
                return (self.is_truncated && found >= shortest).then_some(self.bytes.len());
            };
            if !secret[found..].starts_with(step.written()) {
                return None;
            }
            found += step.written().len();
            at += step.length;
        }
        Some(at)
    }
}

/// A syntax of escapes.
#[derive(Clone, Copy)]
struct Code {
    sign: u8,
    escape: Escape,
}

const BACKSLASH: Code = Code { sign: b'\\', escape: backslash };
const PERCENT: Code = Code { sign: b'%', escape: percent };

/// One character of a text: an escape, or a plain byte.
struct Step {
    buffer: [u8; 4],
    width: usize,
    /// The number of bytes that it takes in the text.
    length: usize,
}

impl Step {
    fn written(&self) -> &[u8] {
        &self.buffer[..self.width]
    }
}

impl Code {
    /// Returns the character at a position. Returns `None` at the end of the text.
    fn step(self, text: &[u8], at: usize, is_truncated: bool) -> Option<Step> {
        let byte = *text.get(at)?;
        let found = if byte == self.sign { (self.escape)(&text[at..]) } else { None };
        if is_truncated && found.is_none() && byte == self.sign && text.len() - at < MAX_ESCAPE_LENGTH {
            return None;
        }
        let mut buffer = [byte, 0, 0, 0];
        let (width, length) = found.map_or((1, 1), |(value, length)| (value.encode(&mut buffer).len(), length));
        Some(Step { buffer, width, length })
    }
}

/// The value of an escape.
enum Unescaped {
    Byte(u8),
    Character(char),
}

impl Unescaped {
    fn encode(self, buffer: &mut [u8; 4]) -> &[u8] {
        match self {
            Unescaped::Byte(byte) => {
                buffer[0] = byte;
                &buffer[..1]
            }
            Unescaped::Character(character) => character.encode_utf8(buffer).as_bytes(),
        }
    }
}

/// Decodes the escape at the start of a text. Returns its value and its length.
type Escape = fn(&[u8]) -> Option<(Unescaped, usize)>;

fn percent(text: &[u8]) -> Option<(Unescaped, usize)> {
    Some((Unescaped::Byte(hex(text.get(1..3)?)? as u8), 3))
}

fn backslash(text: &[u8]) -> Option<(Unescaped, usize)> {
    let byte = |byte| Some((Unescaped::Byte(byte), 2));
    match *text.get(1)? {
        b'n' => byte(b'\n'),
        b'r' => byte(b'\r'),
        b't' => byte(b'\t'),
        b'b' => byte(8),
        b'f' => byte(12),
        sign @ (b'"' | b'\\' | b'/' | b'\'') => byte(sign),
        b'x' => Some((Unescaped::Byte(hex(text.get(2..4)?)? as u8), 4)),
        b'u' => {
            let first = hex(text.get(2..6)?)?;
            if let Some(character) = char::from_u32(first) {
                return Some((Unescaped::Character(character), 6));
            }
            let second = text.get(6..12)?.strip_prefix(b"\\u").and_then(hex)?;
            let pair = char::decode_utf16([first as u16, second as u16]).next()?.ok()?;
            Some((Unescaped::Character(pair), 12))
        }
        _ => None,
    }
}

fn hex(digits: &[u8]) -> Option<u32> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    digits.iter().try_fold(0, |value, byte| Some(value << 4 | digit(byte)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(text: &str) -> Vec<String> {
        let readings = Decoded::readings(text.as_bytes(), false);
        readings.iter().map(|it| String::from_utf8_lossy(&it.bytes).into_owned()).collect()
    }

    #[test]
    fn escapes_of_json_and_urls_are_decoded_twice() {
        assert_eq!(readings("plain"), [""; 0]);
        assert_eq!(readings("a%2Fb%2fc%zz%2"), ["a/b/c%zz%2"]);
        assert_eq!(readings(r#"a\"b\/c\u00e9\ud83e\udd80\q\u12"#), [r#"a"b/cé🦀\q\u12"#, r#"a"b/cé🦀\q\u12"#]);
        assert_eq!(readings(r#"{\\\"a\\\":%41"#), [r#"{\\\"a\\\":A"#, r#"{"a":%41"#, r#"{\"a\":A"#, r#"{\"a\":%41"#]);
    }

    #[test]
    fn incomplete_escape_at_the_end_is_omitted() {
        for text in [&br"ab\u0063\u00"[..], br"ab\u0063\", b"ab%63%6"] {
            let readings = Decoded::readings(text, true);
            assert_eq!(readings.last().unwrap().bytes, b"abc");
            assert_eq!(readings.last().unwrap().origin(&(0..3)), 0..text.len());
        }
    }

    #[test]
    fn range_maps_back_to_the_original() {
        let text = br"x\\u0041\\u0042y";
        let readings = Decoded::readings(text, false);
        assert_eq!(readings[0].bytes, b"xABy");
        assert_eq!(readings[0].origin(&(1..3)), 1..15);
        assert_eq!(readings[0].origin(&(3..4)), 15..16);
    }
}
