//! One function for each parser of untrusted bytes. Each accepts any input and panics when a property is violated: not
//! only "does not crash", but also "independent of chunk boundaries", "agrees with serde_json" and "round trip".

use bytes::{Bytes, BytesMut};
use mendline_wire::{
    Fault, Kind, Limits, Line, Lines, Message, Patch, Received, Spliced, SseDecoder, SseEncoder, SseEvent, SseFault,
    edit, headers, meta,
};
use serde_json::value::RawValue;

/// All targets.
pub const ALL: [fn(&[u8]); 7] = [lines, sse, message, splice, headers, params, frames];

/// Lines do not depend on chunk boundaries, respect their limit, and use bounded memory.
pub fn lines(data: &[u8]) {
    let Some((&seed, stream)) = data.split_first() else { return };
    let limit = usize::from(seed % 64);
    let whole = read_lines(limit, [stream]);
    assert_eq!(whole, read_lines(limit, stream.chunks(usize::from(seed / 64) + 1)), "split into chunks");
    assert_eq!(whole, read_lines(limit, cut_by_content(stream)), "cut by content");
    for line in whole {
        match line {
            Line::Text(text) => assert!(text.len() <= limit && !text.contains(&b'\n')),
            Line::TooLong { length, head, tail } => {
                assert!(length > limit as u64 && head.len() <= 4096 && tail.len() <= 256);
            }
        }
    }
}

fn read_lines<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Line> {
    let mut lines = Lines::new(limit);
    let mut seen = Vec::new();
    for chunk in chunks {
        lines.buffer().extend_from_slice(chunk);
        while let Some(line) = lines.next_line() {
            seen.push(line);
        }
        assert!(lines.buffered() <= limit + 3, "the buffer is bounded by the limit");
    }
    while let Some(line) = lines.finish() {
        seen.push(line);
    }
    seen
}

/// Events do not depend on chunk boundaries and survive a round trip.
pub fn sse(data: &[u8]) {
    let Some((&seed, stream)) = data.split_first() else { return };
    let limit = usize::from(seed % 64) * 4;
    let whole = read_events(limit, [stream]);
    assert_eq!(whole, read_events(limit, stream.chunks(usize::from(seed / 64) + 1)), "split into chunks");
    assert_eq!(whole, read_events(limit, cut_by_content(stream)), "cut by content");
    let events: Vec<SseEvent> = whole.0.into_iter().filter_map(Result::ok).collect();
    let mut written = BytesMut::new();
    for event in &events {
        SseEncoder.encode(event, &mut written);
    }
    let reread: Result<Vec<_>, _> = read_events(usize::MAX, [&written[..]]).0.into_iter().collect();
    assert_eq!(reread.as_ref(), Ok(&events), "after a round trip");
}

type Events = (Vec<Result<SseEvent, SseFault>>, Option<Bytes>, u64);

fn read_events<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Events {
    let mut decoder = SseDecoder::new(limit);
    let mut seen = Vec::new();
    for chunk in chunks {
        decoder.buffer().extend_from_slice(chunk);
        while let Some(event) = decoder.next_event() {
            seen.push(event);
        }
        assert!(decoder.buffered() <= limit.saturating_add(2), "the buffer is bounded by the limit");
    }
    let last_id = decoder.last_event_id().cloned();
    decoder.finish();
    assert_eq!(decoder.buffered(), 0);
    (seen, last_id, decoder.comments())
}

/// Cuts after every byte that ends, begins or separates something.
fn cut_by_content(stream: &[u8]) -> impl Iterator<Item = &[u8]> {
    stream.split_inclusive(|byte| matches!(byte, b'\r' | b'\n' | b':' | b'd' | 0x80..))
}

/// An accepted message is JSON, and its parts are where the parser reports them. A message that is refused for its
/// syntax is not JSON.
pub fn message(data: &[u8]) {
    let text = Bytes::copy_from_slice(data);
    let is_json = std::str::from_utf8(data).is_ok_and(|text| serde_json::from_str::<&RawValue>(text).is_ok());
    match Message::parse(text.clone()) {
        Ok(message) => {
            assert!(is_json);
            check_parts(&message);
        }
        Err(error) => {
            assert!(error.at <= data.len());
            if let Some(id) = &error.id {
                assert!(serde_json::from_slice::<&RawValue>(id.as_bytes()).is_ok());
            }
            match error.fault {
                Fault::NotJson | Fault::NotUtf8 | Fault::Truncated => assert!(!is_json, "{error}"),
                // These are detected before the rest of the text is read.
                Fault::TooDeep | Fault::DuplicateKey | Fault::IdTooLong | Fault::Batch => {}
                _ => assert!(is_json, "{error}"),
            }
        }
    }
    let limits = Limits { message_bytes: 4096, depth: 8, id_bytes: 8, batch: 4 };
    if let Received::Batch(batch) = Received::from_text(text, &limits) {
        assert!(is_json && (1..=limits.batch).contains(&batch.len()));
    }
}

fn check_parts(message: &Message) {
    for span in [message.id_span(), message.body_span(), message.progress_token(), meta::subscription_id(message)] {
        if let Some(raw) = span.map(|span| message.slice(span)) {
            assert!(serde_json::from_slice::<&RawValue>(raw).is_ok());
        }
    }
    match message.kind() {
        Kind::Request | Kind::Result => assert!(message.id().is_some_and(|id| id != b"null")),
        Kind::Notification => assert_eq!(message.id(), None),
        Kind::Error => {}
    }
    for (key, value) in message.value().into_iter().flat_map(|body| body.members()) {
        let name = key.as_str().expect("a key is a string");
        assert!(serde_json::from_slice::<&RawValue>(value.raw()).is_ok());
        assert!(message.find(&[&name]).is_some_and(|span| span.start >= value.span().start));
        for element in message.elements(&[&name]) {
            assert!(serde_json::from_slice::<&RawValue>(element.raw()).is_ok());
        }
    }
    for (_, value) in headers::derive(message) {
        assert!(value.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')));
    }
}

/// An edit changes its own span and nothing else.
pub fn splice(data: &[u8]) {
    let Ok(message) = Message::parse(Bytes::copy_from_slice(data)) else { return };
    if let Some(id) = message.id_span() {
        let renamed = Spliced::new(message.text().clone(), [(id, Patch::number(u64::MAX))]);
        let there = Message::parse(renamed.to_bytes()).expect("still a message");
        assert_eq!(there.id(), Some(&b"18446744073709551615"[..]));
        assert_eq!((there.body(), there.kind(), there.method()), (message.body(), message.kind(), message.method()));
        let back = [(there.id_span().expect("an id"), Patch::from(message.slice(id)))];
        assert_eq!(Spliced::new(there.text().clone(), back).to_bytes(), message.text());
    }
    for (path, key) in [(&[][..], "name"), (&["_meta"], "io.modelcontextprotocol/logLevel"), (&["a", "b"], "\"\n")] {
        let Some((span, patch)) = edit::member(&message, path, key, b"[1e3]") else { continue };
        let edited = Spliced::new(message.text().clone(), [(span, patch)]).to_bytes();
        let suffix = message.text().len() - span.range().end;
        assert_eq!(edited[..span.range().start], message.text()[..span.range().start]);
        assert_eq!(edited[edited.len() - suffix..], message.text()[span.range().end..]);
        // The edit may nest deeper than the limit of the original.
        let limits = Limits { depth: 1024, ..Limits::default() };
        let edited = Message::parse_with(edited, &limits).expect("still a message");
        let whole: Vec<&str> = path.iter().copied().chain([key]).collect();
        assert_eq!(edited.get(&whole), Some(&b"[1e3]"[..]));
        assert_eq!((edited.id(), edited.kind()), (message.id(), message.kind()));
    }
}

/// Any text survives the encoding as a header, and the encoded header contains only valid characters.
pub fn headers(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let header = headers::encode_value(text);
    assert!(header.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')));
    assert_eq!(headers::decode_value(&header).as_deref(), Ok(text));
    if let Ok(value) = headers::decode_value(text) {
        assert_eq!(headers::decode_value(&headers::encode_value(&value)), Ok(value.clone()));
    }
}

/// Each message becomes one line: a body or an event leaves as one line for each message in it, with the same meaning.
pub fn frames(data: &[u8]) {
    let mut decoder = SseDecoder::new(usize::MAX);
    decoder.buffer().extend_from_slice(data);
    decoder.buffer().extend_from_slice(b"\n\n");
    let events = std::iter::from_fn(|| decoder.next_event()).filter_map(|event| event.ok()?.data);
    for frame in events.chain([Bytes::copy_from_slice(data)]) {
        let bare = frame.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&frame);
        let whole: Option<&RawValue> = serde_json::from_slice(bare).ok();
        match (Received::from_text(frame.clone(), &Limits::default()), whole) {
            (Received::Message(message), Some(whole)) => check_line(&message, whole.get()),
            // The text is nested deeper than serde reads, but line ends can still be checked.
            (Received::Message(message), None) => assert!(!has_line_end(&message), "a line end in a message"),
            (Received::Batch(batch), Some(whole)) => {
                let parts: Vec<&RawValue> = serde_json::from_str(whole.get()).expect("an array");
                assert_eq!(batch.len(), parts.len());
                for (message, part) in batch.iter().zip(parts) {
                    if let Ok(message) = message {
                        check_line(message, part.get());
                    }
                }
            }
            (Received::Batch(batch), None) => {
                assert!(!batch.iter().flatten().any(has_line_end), "a line end in a message");
            }
            (Received::Broken { .. } | Received::TooLong { .. }, _) => {}
        }
    }
}

fn has_line_end(message: &Message) -> bool {
    message.text().iter().any(|byte| matches!(byte, b'\n' | b'\r'))
}

fn check_line(message: &Message, came: &str) {
    let line = message.text();
    assert!(!has_line_end(message), "a line end in a message");
    assert_eq!(&line[..], came.replace(['\n', '\r'], " ").as_bytes(), "changed in more than its line ends");
}

/// Annotations of a tool's schema give valid and unique header names and valid header values for all arguments; a list
/// without annotations gives none. The schema and the arguments are the same text.
pub fn params(data: &[u8]) {
    let text = [br#"{"jsonrpc":"2.0","id":1,"result":"#, data, b"}"].concat();
    let Ok(message) = Message::parse(Bytes::from(text)) else { return };
    let Some(schema) = message.value() else { return };
    let found = headers::ParamHeader::of_schema(schema);
    assert!(headers::ParamHeader::may_be_in(&message) || found.as_ref().is_ok_and(Vec::is_empty), "{found:?}");
    let found = match found {
        Ok(found) => found,
        Err(fault) => return assert!(!fault.to_string().contains(char::is_control), "{fault}"),
    };
    for (at, header) in found.iter().enumerate() {
        let name = header.name();
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        assert!(name.starts_with("Mcp-Param-") && name.bytes().all(is_allowed), "{name:?}");
        assert!(found[..at].iter().all(|other| !other.name().eq_ignore_ascii_case(name)), "{name:?} twice");
        for arguments in std::iter::once(schema).chain(schema.members().map(|(_, value)| value)) {
            let value = header.value(arguments).unwrap_or_default();
            assert!(value.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')), "{value:?}");
        }
    }
}
