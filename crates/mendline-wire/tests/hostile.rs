//! Hostile input: each case is a named fault, in bounded time and memory.
//!
//! Time is bounded by construction (one pass, no recursion, no backtracking); otherwise these tests would run for
//! minutes or overflow the stack.

use bytes::Bytes;
use mendline_wire::{Fault, Id, Limits, Line, Lines, Message, Received, SseDecoder, SseFault};

fn fault(text: impl Into<Bytes>) -> Fault {
    match Received::from_text(text.into(), &Limits::default()) {
        Received::Broken { error, .. } => error.fault,
        other => panic!("taken: {:.200}", format!("{other:?}")),
    }
}

fn request(params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#)
}

#[test]
fn mebibyte_of_brackets_is_too_deep() {
    for bracket in ["[", "{\"a\":", "[{\"\":"] {
        let bomb = bracket.repeat((1 << 20) / bracket.len());
        assert_eq!(fault(bomb.clone()), Fault::TooDeep);
        let Received::Broken { error, .. } = Received::from_text(request(&bomb).into(), &Limits::default()) else {
            panic!("taken");
        };
        assert_eq!((error.fault, error.id), (Fault::TooDeep, Some(Id::number(7))), "and its author can be told");
    }
}

#[test]
fn nesting_above_the_limit_is_refused() {
    let nested = |depth: usize| request(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
    assert!(Message::parse(nested(511).into()).is_ok());
    assert_eq!(fault(nested(512)), Fault::TooDeep);
}

#[test]
fn id_of_ten_megabytes_is_too_long() {
    for id in [format!("\"{}\"", "x".repeat(10_000_000)), "1".repeat(10_000_000)] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        let error = Message::parse(text.into()).unwrap_err();
        assert_eq!((error.fault, error.id), (Fault::IdTooLong, None));
    }
}

#[test]
fn duplicate_keys_in_body_are_not_envelope_duplicates() {
    let params = format!("{{{}\"name\":1}}", "\"name\":0,".repeat(100_000));
    let message = Message::parse(request(&params).into()).unwrap();
    assert_eq!(message.get(&["name"]), Some(&b"1"[..]), "inside of the body the last one counts");
    for twice in ["\"id\":8", "\"method\":\"x\"", "\"jsonrpc\":\"2.0\"", "\"params\":{}", "\"\\u0069\\u0064\":8"] {
        let text = request("{}").replacen('{', &format!("{{{twice},"), 1);
        assert_eq!(fault(text), Fault::DuplicateKey, "{twice}");
    }
}

#[test]
fn nul_and_other_control_characters_are_not_json() {
    assert_eq!(fault("\0"), Fault::NotJson);
    assert_eq!(fault(vec![0; 1 << 20]), Fault::NotJson);
    assert_eq!(fault(request("\"a\0b\"")), Fault::NotJson);
    assert_eq!(fault(request("{}\0")), Fault::NotJson);
    let escaped = Message::parse(request(r#"{"name":"a\u0000b"}"#).into()).unwrap();
    assert_eq!(escaped.get_str(&["name"]).as_deref(), Some("a\0b"), "escaped it is data");
}

#[test]
fn invalid_utf_8_is_reported_with_its_offset() {
    for bad in [&b"\xff"[..], b"\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xc0\xaf", b"\xe2\x82"] {
        let mut text = br#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":""#.to_vec();
        let at = text.len();
        text.extend_from_slice(bad);
        text.extend_from_slice(b"\"}}");
        let error = Message::parse(text.into()).unwrap_err();
        assert_eq!((error.fault, error.at, error.id), (Fault::NotUtf8, at, Some(Id::number(7))));
    }
}

#[test]
fn message_above_the_limit_reports_its_id() {
    let error = Message::parse(request(&format!("\"{}\"", "x".repeat(16 << 20))).into()).unwrap_err();
    assert_eq!((error.fault, error.id, error.method_seen), (Fault::TooLong, Some(Id::number(7)), true));
}

#[test]
fn huge_batch_is_refused_before_parsing() {
    assert_eq!(fault(format!("[{}0]", "0,".repeat(8_000_000))), Fault::BatchTooLong);
    assert_eq!(fault(format!("[{}]", " ".repeat(1 << 20))), Fault::EmptyBatch);
}

#[test]
fn endless_line_needs_bounded_memory_and_is_reported() {
    let limit = Limits::default().message_bytes;
    let mut lines = Lines::new(limit);
    let chunk = vec![b'x'; 1 << 20];
    lines.buffer().extend_from_slice(br#"{"result":{"text":""#);
    for _ in 0..64 {
        lines.buffer().extend_from_slice(&chunk);
        assert_eq!(lines.next_line(), None);
        assert!(lines.buffered() <= limit + chunk.len());
    }
    assert!(lines.buffer().capacity() <= 4 << 20, "what the line had grown is given back");
    lines.buffer().extend_from_slice(b"\"},\"jsonrpc\":\"2.0\",\"id\":31}\n{}\n");
    let line = lines.next_line().unwrap();
    let Received::TooLong { length, id, head } = Received::from_line(line, &Limits::default()) else {
        panic!("not too long");
    };
    assert_eq!((length, id, head.len()), ((64 << 20) + 46, Some(Id::number(31)), 4096));
    assert_eq!(lines.next_line(), Some(Line::Text("{}".into())), "and the next line is unharmed");
}

#[test]
fn endless_event_needs_bounded_memory() {
    let mut decoder = SseDecoder::new(1 << 20);
    let chunk = vec![b'x'; 1 << 20];
    let mut faults = Vec::new();
    decoder.buffer().extend_from_slice(b"id: 9\ndata: ");
    for _ in 0..64 {
        decoder.buffer().extend_from_slice(&chunk);
        faults.extend(std::iter::from_fn(|| decoder.next_event()));
        assert!(decoder.buffered() <= 2 << 20);
    }
    assert_eq!(faults, [Err(SseFault::TooLong { limit: 1 << 20, id: Some("9".into()) })]);
    decoder.buffer().extend_from_slice(b"\n\ndata: next\n\n");
    assert_eq!(decoder.next_event().unwrap().unwrap().data, Some("next".into()));
}
