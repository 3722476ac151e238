//! Finds the data of a response body in the bytes after the head.
//!
//! A [`Decoder`] is given bytes as they arrive and tells which of them are data. It holds a few numbers and no bytes, so
//! its result does not depend on how the bytes are split.

use super::Fault;

/// The most bytes of the extensions of all chunks of a body. They carry nothing, so a body of extensions only is no
/// progress.
const MAX_EXTENSIONS: u32 = 16 * 1024;

/// The most bytes of a trailer, which is not used.
const MAX_TRAILER: u32 = 16 * 1024;

/// The way in which a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// After this many bytes.
    Length(u64),
    /// With the last chunk.
    Chunked,
    /// With the connection.
    UntilClose,
}

/// The state of one body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decoder {
    state: State,
    /// The bytes of extensions so far.
    extensions: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// So many bytes of data are left.
    Length(u64),
    UntilClose,
    /// The size of a chunk; the flag tells whether it has a digit.
    Size(u64, bool),
    /// White space after the size of a chunk.
    SizeSpace(u64),
    Extension(u64),
    /// The line feed after the size of a chunk.
    SizeEnd(u64),
    /// So many bytes of data of the current chunk are left.
    Chunk(u64),
    /// The carriage return and the line feed after the data of a chunk.
    ChunkCr,
    ChunkLf,
    /// A line of the trailer: the bytes of the trailer so far, and whether the line is empty so far.
    Trailer(u32, bool),
    /// The line feed after a carriage return in the trailer, after an empty line or another one.
    TrailerLf(u32, bool),
    Over,
}

/// The result of decoding some bytes: the first `skipped` of them are framing, the next `data` are data, and the rest
/// was not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Decoded {
    pub(super) skipped: usize,
    pub(super) data: usize,
}

impl Decoder {
    pub(super) fn new(framing: Framing) -> Decoder {
        let state = match framing {
            Framing::Length(0) => State::Over,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Size(0, false),
            Framing::UntilClose => State::UntilClose,
        };
        Decoder { state, extensions: 0 }
    }

    /// Returns whether the body has ended.
    pub(super) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Returns whether the end of the connection is the proper end of the body.
    pub(super) fn ends_with_connection(&self) -> bool {
        self.state == State::UntilClose
    }

    /// Reads bytes up to the end of the next piece of data, or to the end of the body.
    pub(super) fn decode(&mut self, bytes: &[u8]) -> Result<Decoded, Fault> {
        let mut at = 0;
        loop {
            let rest = bytes.len() - at;
            match &mut self.state {
                State::Over => return Ok(Decoded { skipped: at, data: 0 }),
                State::UntilClose => return Ok(Decoded { skipped: at, data: rest }),
                State::Length(left) | State::Chunk(left) if rest > 0 => {
                    let data = usize::try_from(*left).unwrap_or(usize::MAX).min(rest);
                    *left -= data as u64;
                    if *left == 0 {
                        let is_whole = matches!(self.state, State::Length(_));
                        self.state = if is_whole { State::Over } else { State::ChunkCr };
                    }
                    return Ok(Decoded { skipped: at, data });
                }
                state => {
                    let Some(byte) = bytes.get(at) else {
                        return Ok(Decoded { skipped: at, data: 0 });
                    };
                    *state = framing_byte(*state, *byte, &mut self.extensions)?;
                    at += 1;
                }
            }
        }
    }
}

/// Reads one byte of the framing of chunks.
fn framing_byte(state: State, byte: u8, extensions: &mut u32) -> Result<State, Fault> {
    let after_size = |size: u64| match byte {
        b'\r' => Ok(State::SizeEnd(size)),
        b';' => Ok(State::Extension(size)),
        b' ' | b'\t' => Ok(State::SizeSpace(size)),
        _ => Err(Fault::ChunkSize),
    };
    let count = |length: u32, limit: u32, fault: Fault| if length < limit { Ok(length + 1) } else { Err(fault) };
    match state {
        State::Size(size, has_digit) => match char::from(byte).to_digit(16) {
            Some(digit) => {
                let size = size.checked_mul(16).ok_or(Fault::ChunkSize)? + u64::from(digit);
                Ok(State::Size(size, true))
            }
            None if has_digit => after_size(size),
            None => Err(Fault::ChunkSize),
        },
        State::SizeSpace(size) => {
            *extensions = count(*extensions, MAX_EXTENSIONS, Fault::ExtensionsTooLong)?;
            after_size(size)
        }
        State::Extension(size) => {
            *extensions = count(*extensions, MAX_EXTENSIONS, Fault::ExtensionsTooLong)?;
            match byte {
                b'\r' => Ok(State::SizeEnd(size)),
                b'\n' => Err(Fault::ChunkExtension),
                _ => Ok(State::Extension(size)),
            }
        }
        State::SizeEnd(size) if byte == b'\n' => {
            Ok(if size == 0 { State::Trailer(0, true) } else { State::Chunk(size) })
        }
        State::ChunkCr if byte == b'\r' => Ok(State::ChunkLf),
        State::ChunkLf if byte == b'\n' => Ok(State::Size(0, false)),
        State::Trailer(length, is_empty) => {
            let length = count(length, MAX_TRAILER, Fault::TrailerTooLong)?;
            match byte {
                b'\r' => Ok(State::TrailerLf(length, is_empty)),
                b'\n' => Err(Fault::LineEnd),
                _ => Ok(State::Trailer(length, false)),
            }
        }
        State::TrailerLf(_, true) if byte == b'\n' => Ok(State::Over),
        State::TrailerLf(length, false) if byte == b'\n' => Ok(State::Trailer(length, true)),
        State::TrailerLf(..) => Err(Fault::LineEnd),
        _ => Err(Fault::ChunkEnd),
    }
}
