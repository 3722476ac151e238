//! Writes the head of a request.
//!
//! `Content-Length` comes last, because it is the only header in which successive messages usually differ: the bytes
//! before it can be used again.

use http::Request;
use http::header::CONTENT_LENGTH;

/// Appends the head of a request to the buffer, up to and without `Content-Length`.
pub(in crate::transport::http) fn encode_head(head: &Request<()>, into: &mut Vec<u8>) {
    into.extend_from_slice(head.method().as_str().as_bytes());
    into.push(b' ');
    // Without a proxy the target has no scheme and no host, and with one it has both.
    let uri = head.uri();
    if let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) {
        into.extend_from_slice(scheme.as_bytes());
        into.extend_from_slice(b"://");
        into.extend_from_slice(authority.as_str().as_bytes());
    }
    into.extend_from_slice(uri.path_and_query().map_or("/", |path| path.as_str()).as_bytes());
    into.extend_from_slice(b" HTTP/1.1\r\n");
    for (name, value) in head.headers() {
        if name != CONTENT_LENGTH {
            into.extend_from_slice(name.as_str().as_bytes());
            into.extend_from_slice(b": ");
            into.extend_from_slice(value.as_bytes());
            into.extend_from_slice(b"\r\n");
        }
    }
}

/// Appends `Content-Length`, if there is one, and the end of the head.
pub(in crate::transport::http) fn finish_head(length: Option<usize>, into: &mut Vec<u8>) {
    if let Some(length) = length {
        into.extend_from_slice(b"content-length: ");
        append_decimal(length, into);
        into.extend_from_slice(b"\r\n");
    }
    into.extend_from_slice(b"\r\n");
}

fn append_decimal(mut number: usize, into: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    into.extend_from_slice(&digits[at..]);
}
