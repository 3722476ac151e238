//! The rule of HTTP/1.1 that a response breaks.

use std::fmt;

/// The rule that a response breaks. Such a response is refused as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::transport::http) enum Fault {
    /// The first bytes are not those of HTTP/1.
    NotHttp1,
    /// The version is neither 1.0 nor 1.1.
    Version,
    /// The status line has another form.
    StatusLine,
    /// A header name has a byte that is not allowed, such as a space before the colon, or begins on a folded line.
    HeaderName,
    /// A header value has a byte that is not allowed.
    HeaderValue,
    /// A line ends with a carriage return alone.
    LineEnd,
    /// `Content-Length` is not a number.
    ContentLength,
    /// Several values of `Content-Length` differ.
    ContentLengths,
    /// `Content-Length` and `Transfer-Encoding` are both given.
    TwoLengths,
    /// The transfer coding is not `chunked`.
    TransferCoding,
    /// HTTP/1.0 has no transfer codings.
    OldTransferCoding,
    /// The size of a chunk is missing, no hexadecimal number, or too large.
    ChunkSize,
    /// The extension of a chunk contains a line end.
    ChunkExtension,
    /// The size or the data of a chunk is not followed by a line end.
    ChunkEnd,
    /// The extensions of all chunks are too long.
    ExtensionsTooLong,
    /// The trailer is too long.
    TrailerTooLong,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::NotHttp1 => "it does not begin with \"HTTP/1.\"",
            Fault::Version => "its version is neither 1.0 nor 1.1",
            Fault::StatusLine => "its status line is invalid",
            Fault::HeaderName => "the name of a header is invalid",
            Fault::HeaderValue => "the value of a header is invalid",
            Fault::LineEnd => "a line end is invalid",
            Fault::ContentLength => "its Content-Length is not a number",
            Fault::ContentLengths => "it has several values of Content-Length that differ",
            Fault::TwoLengths => "it has both Content-Length and Transfer-Encoding",
            Fault::TransferCoding => "its Transfer-Encoding is not \"chunked\"",
            Fault::OldTransferCoding => "it has a Transfer-Encoding in HTTP/1.0",
            Fault::ChunkSize => "the size of a chunk is invalid",
            Fault::ChunkExtension => "the extension of a chunk is invalid",
            Fault::ChunkEnd => "a chunk does not end where its size says",
            Fault::ExtensionsTooLong => "the extensions of its chunks are too long",
            Fault::TrailerTooLong => "its trailer is too long",
        })
    }
}
