//! A strict scanner for JSON text.
//!
//! The scanner accepts exactly the grammar of RFC 8259 and builds nothing: it only advances. Nesting is one bit per
//! level (object or array) in a machine word; more than 64 levels spill into a vector. There is no recursion, so depth
//! needs no stack.
//!
//! A [`Survey`] first inspects all bytes with vector instructions: whether the text is ASCII (otherwise the caller
//! checks UTF-8), and whether it has neither escapes nor control characters. In a text without them a string ends at
//! the next quote.
//!
//! Values are not interpreted: lone surrogates in `\u` escapes and numbers beyond any machine type are valid JSON. Only
//! the name `_meta` is noted, so that later lookups can skip messages without it.

use crate::Fault;

/// The reason and the position of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    pub(crate) fault: Fault,
    pub(crate) at: usize,
}

/// A position in a text.
pub(crate) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    /// The text has neither escapes nor control characters, so that a string ends at the next quote.
    has_no_escapes: bool,
    /// A member `_meta` was passed, or one with escapes in its name.
    saw_meta: bool,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a [u8], at: usize) -> Scanner<'a> {
        Scanner { text, at, has_no_escapes: false, saw_meta: false }
    }

    /// Creates a scanner for a surveyed text.
    pub(crate) fn over(text: &'a [u8], survey: Survey) -> Scanner<'a> {
        Scanner { text, at: 0, has_no_escapes: survey.has_no_escapes, saw_meta: false }
    }

    /// Returns whether a member `_meta` may have been passed.
    pub(crate) fn saw_meta(&self) -> bool {
        self.saw_meta
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    #[inline(always)]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Passes whitespace.
    #[inline(always)]
    pub(crate) fn whitespace(&mut self) {
        if self.peek().is_some_and(|byte| byte <= b' ') {
            self.skip_whitespace();
        }
    }

    fn skip_whitespace(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Passes this byte, or fails.
    #[inline(always)]
    pub(crate) fn expect(&mut self, byte: u8) -> Result<(), Stop> {
        match self.peek() {
            Some(found) if found == byte => {
                self.at += 1;
                Ok(())
            }
            found => Err(self.stop_for(found)),
        }
    }

    /// Passes the byte that was just peeked at.
    #[inline]
    pub(crate) fn pass(&mut self) {
        self.at += 1;
    }

    /// Passes this many known bytes.
    #[inline(always)]
    pub(crate) fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Passes exactly these bytes, if they come next.
    #[inline(always)]
    pub(crate) fn passes<const LENGTH: usize>(&mut self, bytes: &[u8; LENGTH]) -> bool {
        let found = self.text.get(self.at..).and_then(|rest| rest.first_chunk()) == Some(bytes);
        self.at += if found { LENGTH } else { 0 };
        found
    }

    /// Returns the fault at this position: the text ends, or it is invalid.
    pub(crate) fn stop(&self) -> Stop {
        self.stop_for(self.peek())
    }

    #[cold]
    fn stop_for(&self, found: Option<u8>) -> Stop {
        let fault = if found.is_none() { Fault::Truncated } else { Fault::NotJson };
        Stop { fault, at: self.at }
    }

    /// Passes one value of any kind, nested at most `depth` levels deep.
    pub(crate) fn value(&mut self, depth: u32) -> Result<(), Stop> {
        let mut stack = BracketStack::default();
        loop {
            match self.peek() {
                Some(b'"') => self.string()?,
                Some(open @ (b'{' | b'[')) => {
                    if stack.depth >= depth {
                        return Err(Stop { fault: Fault::TooDeep, at: self.at });
                    }
                    self.at += 1;
                    self.whitespace();
                    let is_object = open == b'{';
                    // In ASCII each closing bracket is two after its opening bracket.
                    if self.peek() == Some(open + 2) {
                        self.at += 1;
                    } else {
                        stack.push(is_object);
                        if is_object {
                            self.key()?;
                        }
                        continue;
                    }
                }
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.literal(b"true")?,
                Some(b'f') => self.literal(b"false")?,
                Some(b'n') => self.literal(b"null")?,
                _ => return Err(self.stop()),
            }
            loop {
                if stack.depth == 0 {
                    return Ok(());
                }
                self.whitespace();
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        self.whitespace();
                        if stack.in_object() {
                            self.key()?;
                        }
                        break;
                    }
                    Some(b'}') if stack.in_object() => stack.pop(),
                    Some(b']') if !stack.in_object() => stack.pop(),
                    _ => return Err(self.stop()),
                }
                self.at += 1;
            }
        }
    }

    /// Passes a key, its colon, and the whitespace around.
    #[inline(always)]
    fn key(&mut self) -> Result<(), Stop> {
        let start = self.at;
        self.string()?;
        let key = &self.text[start..self.at];
        self.saw_meta |= key == b"\"_meta\"" || !self.has_no_escapes && key.contains(&b'\\');
        self.colon()
    }

    /// Passes a colon and the whitespace around.
    #[inline(always)]
    pub(crate) fn colon(&mut self) -> Result<(), Stop> {
        self.whitespace();
        self.expect(b':')?;
        self.whitespace();
        Ok(())
    }

    /// Passes a string with its quotes.
    #[inline(always)]
    pub(crate) fn string(&mut self) -> Result<(), Stop> {
        self.expect(b'"')?;
        if self.has_no_escapes {
            self.at = quote(self.text, self.at);
            return self.expect(b'"');
        }
        self.string_with_escapes()
    }

    /// Passes the rest of a string that may contain escapes.
    fn string_with_escapes(&mut self) -> Result<(), Stop> {
        loop {
            self.at = plain(self.text, self.at);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                _ => return Err(self.stop()),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Stop> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 1;
                Ok(())
            }
            Some(b'u') => {
                self.at += 1;
                self.four_hex_digits()
            }
            _ => Err(self.stop()),
        }
    }

    fn four_hex_digits(&mut self) -> Result<(), Stop> {
        for _ in 0..4 {
            match self.peek() {
                Some(b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => self.at += 1,
                _ => return Err(self.stop()),
            }
        }
        Ok(())
    }

    /// Passes a number.
    pub(crate) fn number(&mut self) -> Result<(), Stop> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            // A leading zero is complete: `01` stops at the `1`.
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits()?,
            _ => return Err(self.stop()),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// Passes one digit or more.
    fn digits(&mut self) -> Result<(), Stop> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += digits;
        if digits == 0 { Err(self.stop()) } else { Ok(()) }
    }

    pub(crate) fn literal(&mut self, word: &[u8]) -> Result<(), Stop> {
        for &byte in word {
            self.expect(byte)?;
        }
        Ok(())
    }
}

/// The properties of all bytes of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Survey {
    /// The text is ASCII.
    pub(crate) is_ascii: bool,
    /// The text has neither escapes nor control characters.
    pub(crate) has_no_escapes: bool,
}

impl Survey {
    /// Inspects every byte, eight at a time; the compiler vectorises this.
    pub(crate) fn of(text: &[u8]) -> Survey {
        let (words, rest) = text.as_chunks::<8>();
        let last = text.last_chunk::<8>().copied().unwrap_or_else(|| {
            let mut last = [b' '; 8];
            last[..rest.len()].copy_from_slice(rest);
            last
        });
        let inspect = |(special, union): (u64, u64), word: &[u8; 8]| {
            let word = u64::from_le_bytes(*word);
            (special | controls(word) | equals(word, b'\\'), union | word)
        };
        // Inspecting a byte twice does no harm.
        let (special, union) = inspect(words.iter().fold((0, 0), inspect), &last);
        Survey { is_ascii: union & TOPS == 0, has_no_escapes: special & TOPS == 0 }
    }
}

/// The open brackets: one bit per level, 1 for an object.
#[derive(Default)]
struct BracketStack {
    depth: u32,
    /// The innermost levels, up to 64 of them.
    word: u64,
    /// Full words of the levels outside of those.
    spilled: Vec<u64>,
}

impl BracketStack {
    #[inline]
    fn push(&mut self, is_object: bool) {
        if self.depth != 0 && self.depth.is_multiple_of(64) {
            self.spilled.push(self.word);
        }
        self.word = self.word << 1 | u64::from(is_object);
        self.depth += 1;
    }

    #[inline]
    fn pop(&mut self) {
        self.depth -= 1;
        self.word = match self.depth.is_multiple_of(64).then(|| self.spilled.pop()) {
            Some(Some(outer)) => outer,
            _ => self.word >> 1,
        };
    }

    #[inline]
    fn in_object(&self) -> bool {
        self.word & 1 == 1
    }
}

/// Returns the first quote from `at` on, or the end of the text.
#[inline(always)]
fn quote(text: &[u8], mut at: usize) -> usize {
    for _ in 0..4 {
        let Some(word) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) else { break };
        let found = equals(u64::from_le_bytes(*word), b'"') & TOPS;
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = text.get(at..).unwrap_or_default();
    at + memchr::memchr(b'"', rest).unwrap_or(rest.len())
}

/// Returns the first byte from `at` on that is a quote, a backslash or a control character, or the end of the text.
///
/// Most strings are short, so it begins with words of eight bytes; longer strings are scanned in blocks that the
/// compiler vectorises.
#[inline]
pub(crate) fn plain(text: &[u8], mut at: usize) -> usize {
    for _ in 0..4 {
        let Some(word) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) else {
            return plain_by_byte(text, at);
        };
        let special = special_bytes(u64::from_le_bytes(*word));
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    plain_by_block(text, at)
}

fn plain_by_byte(text: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = text.get(at) {
        if is_special(byte) {
            break;
        }
        at += 1;
    }
    at
}

fn plain_by_block(text: &[u8], mut at: usize) -> usize {
    const BLOCK: usize = 64;
    while let Some(block) = text.get(at..).and_then(|rest| rest.first_chunk::<BLOCK>()) {
        if block.iter().fold(false, |any, &byte| any | is_special(byte)) {
            break;
        }
        at += BLOCK;
    }
    while let Some(word) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let special = special_bytes(u64::from_le_bytes(*word));
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    plain_by_byte(text, at)
}

#[inline]
fn is_special(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const TOPS: u64 = u64::from_ne_bytes([0x80; 8]);

/// Returns the top bit of each special byte. Only the lowest set bit is exact, because subtractions borrow upwards from
/// a match.
#[inline]
fn special_bytes(word: u64) -> u64 {
    (controls(word) | equals(word, b'"') | equals(word, b'\\')) & TOPS
}

/// Returns the top bit of each byte that equals this one; other bits are undefined.
#[inline]
fn equals(word: u64, byte: u8) -> u64 {
    let differs = word ^ (ONES * u64::from(byte));
    differs.wrapping_sub(ONES) & !differs
}

/// Returns the top bit of each control character; other bits are undefined.
#[inline]
fn controls(word: u64) -> u64 {
    word.wrapping_sub(ONES * 0x20) & !word
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(text: &str, depth: u32) -> Result<usize, Stop> {
        let mut scanner = Scanner::new(text.as_bytes(), 0);
        scanner.value(depth)?;
        Ok(scanner.at())
    }

    #[test]
    fn special_byte_is_found_at_every_offset() {
        for special in ["\"", "\\", "\u{0}", "\u{1f}", "\n"] {
            for len in 0..200 {
                let text = format!("{}{special}é\"\\\u{1}xxxxxxxx", "é".repeat(len / 2) + &"z".repeat(len % 2));
                assert_eq!(plain(text.as_bytes(), 0), len, "{special:?} after {len}");
            }
        }
        assert_eq!(plain("\u{7f}\u{20}é!#[]".as_bytes(), 0), 8, "neighbours of the special bytes are plain");
    }

    #[test]
    fn survey_inspects_every_byte() {
        let plain = Survey { is_ascii: true, has_no_escapes: true };
        for len in 0..70 {
            let text = "~ \"".repeat(len)[..len].to_owned();
            assert_eq!(Survey::of(text.as_bytes()), plain, "{len} bytes");
            for place in 0..len {
                for (byte, seen) in [
                    (b'\\', Survey { has_no_escapes: false, ..plain }),
                    (b'\0', Survey { has_no_escapes: false, ..plain }),
                    (0x1f, Survey { has_no_escapes: false, ..plain }),
                    (0x80, Survey { is_ascii: false, ..plain }),
                    (0xff, Survey { is_ascii: false, ..plain }),
                    (0x7f, plain),
                ] {
                    let mut text = text.clone().into_bytes();
                    text[place] = byte;
                    assert_eq!(Survey::of(&text), seen, "{byte} at {place} of {len}");
                }
            }
        }
    }

    #[test]
    fn string_without_escapes_is_passed_equally() {
        for len in 0..100 {
            for text in [format!("\"{}\"", "é!#".repeat(len)), format!("\"{}", "é!#".repeat(len))] {
                let survey = Survey::of(text.as_bytes());
                assert!(survey.has_no_escapes);
                let (mut fast, mut slow) = (Scanner::over(text.as_bytes(), survey), Scanner::new(text.as_bytes(), 0));
                assert_eq!((fast.string(), fast.at()), (slow.string(), slow.at()), "{text}");
            }
        }
    }

    #[test]
    fn meta_member_is_detected_in_any_spelling() {
        let met = |text: &str| {
            let mut scanner = Scanner::over(text.as_bytes(), Survey::of(text.as_bytes()));
            scanner.value(9).unwrap();
            scanner.saw_meta()
        };
        for text in
            [r#"{"_meta":1}"#, r#"[{"a":{"b":1,"_meta":{}}}]"#, r#"{"\u005fmeta":1}"#, r#"{"a":"\n","_meta":1}"#]
        {
            assert!(met(text), "{text}");
        }
        for text in [r#"{"meta":1}"#, r#"{"a":"_meta"}"#, r#"{"a":"\u005fmeta"}"#, r#"{"_metadata":1}"#, "[]"] {
            assert!(!met(text), "{text}");
        }
    }

    #[test]
    fn nesting_is_tracked_across_words() {
        for depth in [1, 63, 64, 65, 127, 128, 129, 300] {
            let (open, close): (String, String) = (0..depth)
                .map(|level| if level % 3 == 0 { ("{\"a\":", "}") } else { ("[", "]") })
                .fold((String::new(), String::new()), |(open, close), (o, c)| (open + o, c.to_owned() + &close));
            let text = format!("{open}1{close}");
            assert_eq!(scan(&text, depth), Ok(text.len()), "{depth} levels");
            assert_eq!(scan(&text, depth - 1).unwrap_err().fault, Fault::TooDeep);
            let swapped = text.replacen('}', "]", 1);
            assert!(scan(&swapped, depth).is_err(), "a closing bracket of the other kind");
        }
    }

    #[test]
    fn empty_container_counts_as_a_level() {
        assert_eq!(scan("[[]]", 2), Ok(4));
        assert_eq!(scan("[[]]", 1), Err(Stop { fault: Fault::TooDeep, at: 1 }));
        assert_eq!(scan("{}", 0), Err(Stop { fault: Fault::TooDeep, at: 0 }));
    }

    #[test]
    fn every_prefix_of_a_message_is_truncated() {
        let text = r#"{"a":[true,false,null,-1.5e+3,"x\u00e9\n"],"b":{"c":{}}}"#;
        for cut in 0..text.len() {
            let stop = scan(&text[..cut], 512).unwrap_err();
            assert_eq!(stop, Stop { fault: Fault::Truncated, at: cut }, "cut at {cut}");
        }
    }

    #[test]
    fn invalid_grammar_is_not_json() {
        for text in [
            "tru3",
            "nul",
            "+1",
            ".5",
            "1.x",
            "1e,",
            "-x",
            "\"\t\"",
            "\"\\x\"",
            "\"\\u00g0\"",
            "{a:1}",
            "{\"a\" 1}",
            "[1 2]",
            "[1,]",
            "{\"a\":1,}",
            "{,}",
            "'a'",
            "NaN",
            "Infinity",
            "/**/1",
            "\u{0}",
            "{\"a\":1]",
            "[1}",
        ] {
            let stop = scan(text, 512).unwrap_err();
            assert!(matches!(stop.fault, Fault::NotJson | Fault::Truncated), "{text}");
        }
        assert_eq!(scan("01", 512), Ok(1), "the caller sees what is left over");
    }
}
