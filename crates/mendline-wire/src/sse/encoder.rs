//! Encoder for server-sent events.
//!
//! Decoding an encoded event yields the same event: an absent field stays absent, an empty one empty, and a leading
//! space is kept. Two values cannot be encoded. A carriage return in data becomes a newline (JSON needs none outside of
//! whitespace). An id or a name with a line end is left out, because it would inject fields into the stream.

use bytes::{BufMut, BytesMut};
use memchr::{memchr, memchr2, memchr3};

use super::SseEvent;

/// An encoder for event streams.
#[derive(Clone, Copy, Debug, Default)]
pub struct SseEncoder;

impl SseEncoder {
    /// Appends one event. An event without fields appends nothing.
    pub fn encode(&self, event: &SseEvent, out: &mut BytesMut) {
        let start = out.len();
        out.reserve(event.data.as_ref().map_or(0, |data| data.len()) + 64);
        if let Some(id) = event.id.as_deref().filter(|id| memchr3(b'\n', b'\r', 0, id).is_none()) {
            field(out, "id", id);
        }
        if let Some(name) = event.event.as_deref().filter(|name| memchr2(b'\n', b'\r', name).is_none()) {
            field(out, "event", name);
        }
        if let Some(milliseconds) = event.retry {
            field(out, "retry", milliseconds.to_string().as_bytes());
        }
        if let Some(data) = event.data.as_deref() {
            data_lines(out, data);
        }
        if out.len() > start {
            out.put_u8(b'\n');
        }
    }

    /// Appends a comment, which keeps a connection alive. Line ends in it become spaces.
    pub fn comment(&self, text: &str, out: &mut BytesMut) {
        out.put_slice(b": ");
        out.extend(text.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
        out.put_slice(b"\n\n");
    }

    /// Appends an event with the reconnect delay only.
    pub fn retry(&self, milliseconds: u64, out: &mut BytesMut) {
        self.encode(&SseEvent { retry: Some(milliseconds), ..SseEvent::default() }, out);
    }
}

fn field(out: &mut BytesMut, name: &str, value: &[u8]) {
    out.put_slice(name.as_bytes());
    out.put_slice(b": ");
    out.put_slice(value);
    out.put_u8(b'\n');
}

fn data_lines(out: &mut BytesMut, mut data: &[u8]) {
    while let Some(end) = memchr2(b'\n', b'\r', data) {
        field(out, "data", &data[..end]);
        let is_pair = data[end] == b'\r' && memchr(b'\n', &data[end..]) == Some(1);
        data = &data[end + 1 + usize::from(is_pair)..];
    }
    field(out, "data", data);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(event: &SseEvent) -> String {
        let mut out = BytesMut::new();
        SseEncoder.encode(event, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn event_is_written_field_by_field() {
        let event = SseEvent {
            id: Some("7".into()),
            event: Some("message".into()),
            data: Some("{\"a\":1}".into()),
            retry: Some(500),
        };
        assert_eq!(encoded(&event), "id: 7\nevent: message\nretry: 500\ndata: {\"a\":1}\n\n");
        assert_eq!(encoded(&SseEvent::default()), "");
        let mut out = BytesMut::new();
        SseEncoder.retry(3_000, &mut out);
        SseEncoder.comment("still\nhere", &mut out);
        assert_eq!(out, "retry: 3000\n\n: still here\n\n");
    }

    #[test]
    fn data_of_several_lines_becomes_several_fields() {
        let data = |data: &'static str| encoded(&SseEvent { data: Some(data.into()), ..SseEvent::default() });
        assert_eq!(data("a\nb\r\nc\rd\n"), "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n");
        assert_eq!(data(""), "data: \n\n");
        assert_eq!(data("\r\r\n"), "data: \ndata: \ndata: \n\n");
    }

    #[test]
    fn id_or_name_with_line_end_is_left_out() {
        let event = SseEvent {
            id: Some("1\ndata: forged".into()),
            event: Some("x\rdata: forged".into()),
            data: Some("d".into()),
            retry: None,
        };
        assert_eq!(encoded(&event), "data: d\n\n");
        assert_eq!(encoded(&SseEvent { id: Some("a\0b".into()), ..SseEvent::default() }), "");
    }
}
