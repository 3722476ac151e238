//! Decoding of terminal input into keys.
//!
//! A terminal sends letters as themselves and most other keys as sequences that begin with ESC, which is also what the
//! key Esc sends. So an ESC is the key only if nothing follows for a moment; the reader decides when that is
//! ([`Keyboard::rest`]). Unknown sequences are skipped, however long they are. Pasted text comes between marks, so that
//! it is not taken for commands.
//!
//! The events of crossterm 0.29 are not used. It takes a sequence that arrives in two pieces for Esc and letters, its
//! `poll` does not return while a sequence is incomplete, and it loops for ever when the terminal has closed.

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    /// With Ctrl, as a lower-case letter.
    Control(char),
    /// A character of pasted text.
    Pasted(char),
    Up,
    Down,
    Home,
    End,
    PageUp,
    PageDown,
    Enter,
    Escape,
    Backspace,
    /// A key without a meaning here.
    Other,
}

const ESC: u8 = 0x1b;

/// Maximum length of the parameters of a sequence. Further bytes are dropped.
const LONGEST: usize = 16;

/// Input that is not a whole key yet.
#[derive(Debug, Default)]
pub(crate) struct Keyboard {
    state: State,
    is_pasting: bool,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Between,
    /// After an ESC.
    Escaped,
    /// After `ESC [`: parameters, up to a final byte.
    Sequence(Vec<u8>),
    /// After `ESC O`: one more byte.
    Single,
    /// Within a UTF-8 character.
    Character(Vec<u8>, usize),
}

impl Keyboard {
    /// Returns the keys that these bytes complete.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        bytes.iter().filter_map(|byte| self.feed_byte(*byte)).collect()
    }

    /// Ends an unfinished sequence after a pause.
    pub(crate) fn rest(&mut self) -> Option<Key> {
        match std::mem::take(&mut self.state) {
            State::Escaped if !self.is_pasting => Some(Key::Escape),
            _ => None,
        }
    }

    fn feed_byte(&mut self, byte: u8) -> Option<Key> {
        match std::mem::take(&mut self.state) {
            State::Between => self.begin(byte),
            State::Escaped => match byte {
                b'[' => self.enter(State::Sequence(Vec::new())),
                b'O' => self.enter(State::Single),
                // Esc, twice or quickly followed by another key.
                ESC => {
                    self.state = State::Escaped;
                    self.typed(Key::Escape)
                }
                // With Alt, which has no meaning here.
                _ => Some(Key::Other),
            },
            State::Single => Some(named(byte, &[])),
            State::Sequence(mut parameters) => match byte {
                ESC => self.enter(State::Escaped),
                0x40..=0x7e => self.end_sequence(byte, &parameters),
                _ => {
                    if parameters.len() < LONGEST {
                        parameters.push(byte);
                    }
                    self.enter(State::Sequence(parameters))
                }
            },
            State::Character(mut bytes, length) => {
                if !(0x80..0xc0).contains(&byte) {
                    return self.begin(byte);
                }
                bytes.push(byte);
                if bytes.len() < length {
                    return self.enter(State::Character(bytes, length));
                }
                let character = std::str::from_utf8(&bytes).ok().and_then(|text| text.chars().next());
                character.and_then(|character| self.typed(Key::Char(character)))
            }
        }
    }

    fn enter(&mut self, state: State) -> Option<Key> {
        self.state = state;
        None
    }

    fn begin(&mut self, byte: u8) -> Option<Key> {
        match byte {
            ESC => self.enter(State::Escaped),
            b'\r' | b'\n' => self.typed(Key::Enter),
            0x08 | 0x7f => self.typed(Key::Backspace),
            0x01..=0x1a => self.typed(Key::Control(char::from(byte - 1 + b'a'))),
            0x20..=0x7e => self.typed(Key::Char(char::from(byte))),
            0xc2..=0xdf => self.enter(State::Character(vec![byte], 2)),
            0xe0..=0xef => self.enter(State::Character(vec![byte], 3)),
            0xf0..=0xf4 => self.enter(State::Character(vec![byte], 4)),
            _ => None,
        }
    }

    /// Maps a key while text is pasted: only characters count.
    fn typed(&self, key: Key) -> Option<Key> {
        match (self.is_pasting, key) {
            (false, key) => Some(key),
            (true, Key::Char(character)) if !character.is_control() => Some(Key::Pasted(character)),
            (true, _) => None,
        }
    }

    fn end_sequence(&mut self, last: u8, parameters: &[u8]) -> Option<Key> {
        match (last, parameters) {
            (b'~', b"200") => self.is_pasting = true,
            (b'~', b"201") => self.is_pasting = false,
            _ if self.is_pasting => {}
            _ => return Some(named(last, parameters)),
        }
        None
    }
}

/// Returns the key of a final byte, whatever its modifiers.
fn named(last: u8, parameters: &[u8]) -> Key {
    let first = parameters.split(|byte| *byte == b';').next().unwrap_or_default();
    match (last, first) {
        (b'A', _) => Key::Up,
        (b'B', _) => Key::Down,
        (b'H', _) | (b'~', b"1" | b"7") => Key::Home,
        (b'F', _) | (b'~', b"4" | b"8") => Key::End,
        (b'M', b"") => Key::Enter,
        (b'~', b"5") => Key::PageUp,
        (b'~', b"6") => Key::PageDown,
        _ => Key::Other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        Keyboard::default().feed(bytes)
    }

    #[test]
    fn keys_are_decoded_from_terminal_sequences() {
        assert_eq!(keys(b"q\x03\r\x7f"), [Key::Char('q'), Key::Control('c'), Key::Enter, Key::Backspace]);
        assert_eq!(keys(b"\x1b[A\x1bOB\x1b[1;5A"), [Key::Up, Key::Down, Key::Up]);
        assert_eq!(keys(b"\x1b[5~\x1b[6~\x1b[H\x1b[4~"), [Key::PageUp, Key::PageDown, Key::Home, Key::End]);
        assert_eq!(keys("ü日🦀".as_bytes()), [Key::Char('ü'), Key::Char('日'), Key::Char('🦀')]);
    }

    #[test]
    fn key_may_arrive_in_pieces() {
        let mut keyboard = Keyboard::default();
        assert_eq!(keyboard.feed(b"\x1b"), []);
        assert_eq!(keyboard.feed(b"["), []);
        assert_eq!(keyboard.feed(b"A\xc3"), [Key::Up]);
        assert_eq!(keyboard.feed(b"\xbc"), [Key::Char('ü')]);
    }

    #[test]
    fn escape_is_a_key_when_nothing_follows() {
        let mut keyboard = Keyboard::default();
        assert_eq!(keyboard.feed(b"\x1b"), []);
        assert_eq!(keyboard.rest(), Some(Key::Escape));
        assert_eq!(keyboard.rest(), None);
        assert_eq!(keyboard.feed(b"\x1b\x1b"), [Key::Escape], "the second may still become something else");
    }

    #[test]
    fn pasted_text_is_no_command() {
        let keys = keys(b"\x1b[200~iy\r\x03\x1b[A\x1b[201~q");
        assert_eq!(keys, [Key::Pasted('i'), Key::Pasted('y'), Key::Char('q')]);
    }

    #[test]
    fn unknown_sequences_are_skipped() {
        let endless = [b"\x1b[".as_slice(), &[b'1'; 10_000], b"zq"].concat();
        assert_eq!(keys(&endless), [Key::Other, Key::Char('q')]);
        assert_eq!(keys(b"\x1b[<0;10;10Mq"), [Key::Other, Key::Char('q')], "a mouse");
    }

    proptest! {
        #[test]
        fn splitting_input_does_not_change_the_keys(bytes: Vec<u8>, cut in 0..64usize) {
            let cut = cut.min(bytes.len());
            let mut keyboard = Keyboard::default();
            let mut pieces = keyboard.feed(&bytes[..cut]);
            pieces.extend(keyboard.feed(&bytes[cut..]));
            prop_assert_eq!(pieces, keys(&bytes));
        }
    }
}
