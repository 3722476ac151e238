//! Content codings: decompresses bodies although only `identity` was requested.
//!
//! Some proxies and frameworks compress every response. `gzip` and `deflate` are decoded here incrementally. Received
//! bytes are inflated at once, so that an event of a stream is not delayed, and at most [`PIECE`] bytes at a time, so
//! that the reader, which counts them, can stop long before a few kilobytes become gigabytes. Any other coding is an
//! error that names it.

use bytes::{Buf as _, Bytes};
use http::header::{CONTENT_ENCODING, HeaderMap};
use mendline_core::reason::CutReason;
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};

/// The most bytes that are inflated at a time.
const PIECE: usize = 16 * 1024;

/// The most characters of a coding's name that are shown.
const MAX_NAME: usize = 40;

const GZIP_MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
/// The flags of a gzip header that announce its optional fields.
const HEADER_CRC: u8 = 2;
const EXTRA: u8 = 4;
const NAME: u8 = 8;
const COMMENT: u8 = 16;
const RESERVED: u8 = 0xe0;

/// Returns the inflater for a body with these headers, if it needs one. The error names a coding that is not supported.
pub(super) fn inflater_for(headers: &HeaderMap) -> Result<Option<Inflater>, CutReason> {
    let mut found = None;
    for value in headers.get_all(CONTENT_ENCODING) {
        for coding in value.to_str().unwrap_or("?").split(',').map(str::trim) {
            let is = |name: &str| coding.eq_ignore_ascii_case(name);
            let inflater = match () {
                () if coding.is_empty() || is("identity") => continue,
                () if is("gzip") || is("x-gzip") => Inflater::gzip(),
                () if is("deflate") => Inflater::zlib(),
                () => return Err(unsupported(coding)),
            };
            if found.replace(inflater).is_some() {
                return Err(unsupported("compressed twice"));
            }
        }
    }
    Ok(found)
}

fn unsupported(coding: &str) -> CutReason {
    let name: String = coding.chars().filter(|letter| !letter.is_control()).take(MAX_NAME).collect();
    CutReason::ContentCoding { name }
}

/// A decoder of gzip or zlib.
pub(super) struct Inflater {
    state: Box<InflateState>,
    section: Section,
    is_gzip: bool,
    /// Whether any byte was received.
    has_begun: bool,
    /// Received bytes that are not yet decoded.
    input: Bytes,
    /// Whether the last piece was full, so that more output may follow without more input.
    may_have_more: bool,
    output: Box<[u8; PIECE]>,
    /// The checksum and the length of the output of the current gzip member.
    crc: u32,
    length: u32,
}

/// The section of the format that the next byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    /// The ten bytes of every gzip header: how many were read, and the flags once they were read.
    Header {
        passed: usize,
        flags: u8,
    },
    /// The optional fields of the header; the flags name those that follow.
    Rest {
        flags: u8,
        field: Field,
    },
    Deflated,
    /// The checksum and length at the end of a gzip member: how many bytes were read.
    Trailer {
        passed: usize,
        bytes: [u8; 8],
    },
    /// The end; further bytes are ignored.
    Over,
}

/// An optional field of a gzip header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    /// The length of the extra field: how many of its bytes were read.
    ExtraLength { passed: u8, length: u16 },
    /// So many bytes to skip.
    Skip(u16),
    /// A text up to the next zero.
    Text,
}

impl Inflater {
    fn gzip() -> Inflater {
        Inflater::new(DataFormat::Raw, Section::Header { passed: 0, flags: 0 })
    }

    fn zlib() -> Inflater {
        Inflater::new(DataFormat::Zlib, Section::Deflated)
    }

    fn new(format: DataFormat, section: Section) -> Inflater {
        Inflater {
            state: InflateState::new_boxed(format),
            is_gzip: section != Section::Deflated,
            section,
            has_begun: false,
            input: Bytes::new(),
            may_have_more: false,
            output: Box::new([0; PIECE]),
            crc: 0,
            length: 0,
        }
    }

    /// Takes received bytes. All earlier ones must have been inflated.
    pub(super) fn push(&mut self, data: Bytes) {
        debug_assert!(self.input.is_empty(), "earlier input is not inflated");
        self.has_begun |= !data.is_empty();
        self.input = data;
    }

    /// Returns how many bytes wait to be inflated.
    pub(super) fn waiting(&self) -> usize {
        self.input.len()
    }

    /// Returns the next piece of output; `None` until more is pushed. A piece may be empty.
    pub(super) fn next_piece(&mut self) -> Option<Result<&[u8], &'static str>> {
        loop {
            if self.section == Section::Over {
                self.input.clear();
            }
            if self.input.is_empty() && !(self.may_have_more && self.section == Section::Deflated) {
                return None;
            }
            if self.section == Section::Deflated {
                return Some(match self.inflate() {
                    Ok(length) => Ok(&self.output[..length]),
                    Err(words) => Err(words),
                });
            }
            let byte = self.input.get_u8();
            match self.read_byte(byte) {
                Ok(section) => self.section = section,
                Err(words) => return Some(Err(words)),
            }
        }
    }

    /// Returns whether the body may end here.
    pub(super) fn is_complete(&self) -> bool {
        !self.has_begun || matches!(self.section, Section::Over | Section::Header { passed: 0, .. })
    }

    fn inflate(&mut self) -> Result<usize, &'static str> {
        let done = inflate(&mut self.state, &self.input, &mut self.output[..], MZFlush::None);
        self.input.advance(done.bytes_consumed);
        self.may_have_more = done.bytes_written == PIECE;
        let piece = &self.output[..done.bytes_written];
        if self.is_gzip {
            self.crc = crc32(self.crc, piece);
            self.length = self.length.wrapping_add(done.bytes_written as u32);
        }
        match done.status {
            Ok(MZStatus::StreamEnd) if self.is_gzip => self.section = Section::Trailer { passed: 0, bytes: [0; 8] },
            Ok(MZStatus::StreamEnd) => self.section = Section::Over,
            Ok(_) => {}
            // More input is needed.
            Err(MZError::Buf) if self.input.is_empty() => self.may_have_more = false,
            Err(_) => return Err("the server's compressed answer is damaged"),
        }
        Ok(done.bytes_written)
    }

    /// Reads one byte outside of the deflated data.
    fn read_byte(&mut self, byte: u8) -> Result<Section, &'static str> {
        const DAMAGED: &str = "the server's compressed answer is not gzip";
        Ok(match self.section {
            Section::Header { passed, .. } if passed < GZIP_MAGIC.len() => {
                if byte != GZIP_MAGIC[passed] {
                    return Err(DAMAGED);
                }
                Section::Header { passed: passed + 1, flags: 0 }
            }
            Section::Header { passed: 3, .. } if byte & RESERVED != 0 => return Err(DAMAGED),
            Section::Header { passed: 3, .. } => Section::Header { passed: 4, flags: byte },
            Section::Header { passed, flags } if passed < 9 => Section::Header { passed: passed + 1, flags },
            Section::Header { flags, .. } => next_field(flags),
            Section::Rest { flags, field } => match field {
                Field::ExtraLength { passed: 0, .. } => {
                    Section::Rest { flags, field: Field::ExtraLength { passed: 1, length: u16::from(byte) } }
                }
                Field::ExtraLength { length, .. } => match length | u16::from(byte) << 8 {
                    0 => next_field(flags),
                    length => Section::Rest { flags, field: Field::Skip(length) },
                },
                Field::Skip(left) if left > 1 => Section::Rest { flags, field: Field::Skip(left - 1) },
                Field::Text if byte != 0 => Section::Rest { flags, field },
                Field::Skip(_) | Field::Text => next_field(flags),
            },
            Section::Trailer { passed, mut bytes } => {
                bytes[passed] = byte;
                if passed < 7 {
                    return Ok(Section::Trailer { passed: passed + 1, bytes });
                }
                let [crc, length] =
                    [0, 4].map(|at| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
                if (crc, length) != (self.crc, self.length) {
                    return Err("the server's compressed answer does not fit its check sum");
                }
                // Another member may follow.
                self.state = InflateState::new_boxed(DataFormat::Raw);
                (self.crc, self.length) = (0, 0);
                Section::Header { passed: 0, flags: 0 }
            }
            section @ (Section::Deflated | Section::Over) => section,
        })
    }
}

/// Returns the section that follows in a header with these remaining flags.
fn next_field(flags: u8) -> Section {
    let fields = [
        (EXTRA, Field::ExtraLength { passed: 0, length: 0 }),
        (NAME, Field::Text),
        (COMMENT, Field::Text),
        (HEADER_CRC, Field::Skip(2)),
    ];
    let next = fields.into_iter().find(|(flag, _)| flags & flag != 0);
    next.map_or(Section::Deflated, |(flag, field)| Section::Rest { flags: flags & !flag, field })
}

/// Continues the CRC-32 `before` over these bytes.
fn crc32(before: u32, bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut at = 0;
        while at < 256 {
            let (mut value, mut bit) = (at as u32, 0);
            while bit < 8 {
                value = if value & 1 == 1 { value >> 1 ^ 0xedb8_8320 } else { value >> 1 };
                bit += 1;
            }
            table[at] = value;
            at += 1;
        }
        table
    };
    !bytes.iter().fold(!before, |crc, byte| crc >> 8 ^ TABLE[usize::from(crc as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use miniz_oxide::deflate::{compress_to_vec, compress_to_vec_zlib};

    use super::*;

    /// Builds a gzip member with these flags and the fields that they announce.
    fn gzip(text: &[u8], flags: u8) -> Vec<u8> {
        let mut out = vec![0x1f, 0x8b, 8, flags, 1, 2, 3, 4, 0, 255];
        for (flag, field) in
            [(EXTRA, &b"\x05\x00extra"[..]), (NAME, b"a name\0"), (COMMENT, b"\0"), (HEADER_CRC, b"xy")]
        {
            if flags & flag != 0 {
                out.extend_from_slice(field);
            }
        }
        out.extend(compress_to_vec(text, 6));
        out.extend(crc32(0, text).to_le_bytes());
        out.extend((text.len() as u32).to_le_bytes());
        out
    }

    fn read(mut inflater: Inflater, coded: &[u8], step: usize) -> Result<Vec<u8>, &'static str> {
        let mut out = Vec::new();
        for chunk in coded.chunks(step) {
            inflater.push(Bytes::copy_from_slice(chunk));
            while let Some(piece) = inflater.next_piece() {
                let piece = piece?;
                assert!(piece.len() <= PIECE);
                out.extend_from_slice(piece);
            }
        }
        if inflater.is_complete() { Ok(out) } else { Err("incomplete") }
    }

    #[test]
    fn checksum_is_crc_32() {
        assert_eq!(crc32(crc32(0, b"1234"), b"56789"), 0xcbf4_3926);
    }

    #[test]
    fn r23_gzip_is_read_with_every_header_however_it_is_cut() {
        let text: Vec<u8> = (0..10_000u32).flat_map(|at| (at * at).to_string().into_bytes()).collect();
        for flags in 0..32 {
            let coded = gzip(b"short", flags);
            for step in [1, 2, 7, 1000] {
                assert_eq!(read(Inflater::gzip(), &coded, step).as_deref(), Ok(&b"short"[..]), "{flags} {step}");
            }
        }
        for step in [1, 4095, usize::MAX] {
            assert!(read(Inflater::gzip(), &gzip(&text, 0), step) == Ok(text.clone()), "{step}");
            assert!(read(Inflater::zlib(), &compress_to_vec_zlib(&text, 6), step) == Ok(text.clone()), "{step}");
        }
        let two = [gzip(b"one ", 0), gzip(b"two", NAME)].concat();
        assert_eq!(read(Inflater::gzip(), &two, 3).as_deref(), Ok(&b"one two"[..]));
    }

    #[test]
    fn r23_damaged_or_cut_gzip_is_an_error() {
        let whole = gzip(b"a text that is long enough to be damaged", 0);
        for length in 1..whole.len() {
            assert_eq!(read(Inflater::gzip(), &whole[..length], 5), Err("incomplete"), "{length}");
        }
        for at in [0, 1, 2, 3, 12, 20, whole.len() - 8, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            assert!(read(Inflater::gzip(), &damaged, 9).is_err(), "{at}");
        }
        assert!(read(Inflater::gzip(), b"<html>", 9).is_err());
    }

    #[test]
    fn r23_unknown_coding_is_named() {
        let headers = |value: &str| HeaderMap::from_iter([(CONTENT_ENCODING, value.parse().unwrap())]);
        assert!(inflater_for(&HeaderMap::new()).unwrap().is_none());
        assert!(inflater_for(&headers("identity")).unwrap().is_none());
        assert!(inflater_for(&headers("GZip")).unwrap().is_some());
        assert!(inflater_for(&headers(" x-gzip , identity")).unwrap().is_some());
        let unknown = inflater_for(&headers("br")).err().unwrap();
        assert_eq!(unknown, CutReason::ContentCoding { name: "br".to_owned() });
        assert!(inflater_for(&headers("gzip, gzip")).is_err());
        assert!(inflater_for(&headers(&"z".repeat(4000))).err().unwrap().to_string().len() < 200);
    }
}
