//! Properties of every message and every stream.

mod json_texts;

use bytes::{Bytes, BytesMut};
use mendline_wire::{
    Id, Kind, Limits, Line, Lines, Message, Patch, Received, Spliced, SseDecoder, SseEncoder, SseEvent, edit, headers,
    quote,
};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

fn parse(text: &str) -> Message {
    Message::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn cuts(stream: &[u8], at: &[prop::sample::Index]) -> Vec<Vec<u8>> {
    let mut places: Vec<usize> = at.iter().map(|index| index.index(stream.len() + 1)).collect();
    places.extend([0, stream.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| stream[pair[0]..pair[1]].to_vec()).collect()
}

fn read_lines(chunks: &[Vec<u8>], limit: usize) -> Vec<Line> {
    let mut lines = Lines::new(limit);
    let mut seen = Vec::new();
    for chunk in chunks {
        lines.buffer().extend_from_slice(chunk);
        seen.extend(std::iter::from_fn(|| lines.next_line()));
    }
    seen.extend(std::iter::from_fn(|| lines.finish()));
    seen
}

fn read_events(chunks: &[Vec<u8>], limit: usize) -> Vec<Result<SseEvent, mendline_wire::SseFault>> {
    let mut decoder = SseDecoder::new(limit);
    let mut seen = Vec::new();
    for chunk in chunks {
        decoder.buffer().extend_from_slice(chunk);
        seen.extend(std::iter::from_fn(|| decoder.next_event()));
    }
    seen
}

/// An event with encodable values: no line end in an id or a name, no NUL in an id, no carriage return in data.
fn event() -> impl Strategy<Value = SseEvent> {
    let field = |pattern: &'static str| prop::option::of(pattern.prop_map(Bytes::from));
    (field("[^\r\n\u{0}]{0,8}"), field("[^\r\n]{0,8}"), field("[^\r]{0,30}"), prop::option::of(any::<u64>()))
        .prop_map(|(id, event, data, retry)| SseEvent { id, event, data, retry })
}

/// Returns the text with spaces in place of raw line ends.
fn on_one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

/// Returns the messages as written to stdio, and the lines that a client reads.
fn written(messages: &[Message]) -> (Vec<u8>, Vec<Line>) {
    let mut out = BytesMut::new();
    for message in messages {
        Spliced::whole(message.text().clone()).write_to(&mut out);
        out.extend_from_slice(b"\n");
    }
    let read = read_lines(&[out.to_vec()], usize::MAX);
    (out.to_vec(), read)
}

/// Returns the messages of a frame.
fn messages(received: Received) -> Vec<Message> {
    match received {
        Received::Message(message) => vec![message],
        Received::Batch(batch) => batch.into_iter().flatten().collect(),
        Received::Broken { .. } | Received::TooLong { .. } => Vec::new(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn message_is_parsed_with_its_id_as_written((text, id) in json_texts::message()) {
        let message = parse(&text);
        prop_assert_eq!(message.id().map(|raw| String::from_utf8_lossy(raw).into_owned()), id);
        prop_assert_eq!(message.text(), &on_one_line(&text));
        prop_assert_eq!(message.id().is_none(), message.kind() == Kind::Notification);
    }

    #[test]
    fn replaced_id_can_be_restored(
        (text, id) in json_texts::message(), other in json_texts::id(),
    ) {
        let message = parse(&text);
        if let (Some(span), Some(id)) = (message.id_span(), id) {
            let away = Spliced::new(message.text().clone(), [(span, Patch::from(other.as_bytes()))]);
            let there = Message::parse(away.to_bytes()).unwrap();
            prop_assert_eq!(there.id(), Some(other.as_bytes()));
            prop_assert_eq!(there.body(), message.body());
            let home = [(there.id_span().unwrap(), Patch::from(Id::from_raw(id.as_bytes())))];
            prop_assert_eq!(Spliced::new(there.text().clone(), home).to_bytes(), on_one_line(&text));
        }
    }

    #[test]
    fn lookups_agree_with_serde_json(params in json_texts::any_object()) {
        let message = parse(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{params}}}"#));
        let oracle: Value = serde_json::from_str(&params).unwrap();
        for (key, expected) in oracle.as_object().unwrap() {
            let found = message.get(&[key]).unwrap();
            prop_assert_eq!(&serde_json::from_slice::<Value>(found).unwrap(), expected);
            let text = message.get_str(&[key]);
            prop_assert_eq!(text.as_deref(), expected.as_str());
            let elements: Vec<Value> =
                message.elements(&[key]).map(|element| serde_json::from_slice(element.raw()).unwrap()).collect();
            prop_assert_eq!(elements.as_slice(), expected.as_array().map_or(&[][..], Vec::as_slice));
            for (inner, expected) in expected.as_object().into_iter().flatten() {
                let found = message.get(&[key, inner]).unwrap();
                prop_assert_eq!(&serde_json::from_slice::<Value>(found).unwrap(), expected);
            }
        }
        prop_assert_eq!(message.get(&["not there"]), None);
    }

    #[test]
    fn setting_a_member_changes_no_other_byte(
        (text, _) in json_texts::message(),
        path in vec(prop::sample::select(vec!["_meta", "a", "name"]), 0..3),
        value in json_texts::value(),
    ) {
        let message = parse(&text);
        let Some((span, patch)) = edit::member(&message, &path, "name", value.as_bytes()) else {
            prop_assert_eq!(edit::set_member(&message, &path, "name", value.as_bytes()).to_bytes(), message.text());
            return Ok(());
        };
        let edited = Spliced::new(message.text().clone(), [(span, patch)]);
        prop_assert_eq!(edited.len(), edited.to_bytes().len());
        let edited = parse(std::str::from_utf8(&edited.to_bytes()).unwrap());
        let whole: Vec<&str> = path.iter().copied().chain(["name"]).collect();
        let value = on_one_line(&value);
        prop_assert_eq!(edited.get(&whole), Some(value.as_bytes()));
        prop_assert!(edited.text().starts_with(&message.text()[..span.range().start]));
        prop_assert!(edited.text().ends_with(&message.text()[span.range().end..]));
        prop_assert_eq!((edited.kind(), edited.id()), (message.kind(), message.id()));
    }

    #[test]
    fn w01_messages_that_arrive_over_http_leave_as_one_line_each(
        bodies in vec(vec(json_texts::message(), 1..4), 1..4),
        (mark, before, after) in ("\u{feff}?", "[ \t\r\n]{0,3}", "[ \t\r\n]{0,3}"),
        at in vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let texts: Vec<String> = bodies
            .iter()
            .map(|body| match body.as_slice() {
                [(only, _)] => format!("{mark}{before}{only}{after}"),
                batch => {
                    let texts: Vec<&str> = batch.iter().map(|(text, _)| text.as_str()).collect();
                    format!("{mark}{before}[{before}{}{after}]{after}", texts.join(&format!("{before},{after}")))
                }
            })
            .collect();
        // Each message as a body, and all of them as events of one stream.
        let mut stream = BytesMut::new();
        for text in &texts {
            let data = Some(Bytes::from(text.replace('\r', " ")));
            SseEncoder.encode(&SseEvent { data, ..SseEvent::default() }, &mut stream);
        }
        let events = read_events(&cuts(&stream, &at), usize::MAX);
        let data = events.into_iter().map(|event| event.unwrap().data.unwrap());
        for frames in [texts.iter().map(|text| Bytes::from(text.clone())).collect::<Vec<_>>(), data.collect()] {
            let came = frames.into_iter().flat_map(|frame| messages(Received::from_text(frame, &Limits::default())));
            let came: Vec<Message> = came.collect();
            let sent: Vec<&String> = bodies.iter().flatten().map(|(text, _)| text).collect();
            prop_assert_eq!(came.len(), sent.len());
            let (out, lines) = written(&came);
            prop_assert!(!out.contains(&b'\r'));
            prop_assert_eq!(lines.len(), sent.len());
            for (line, sent) in lines.iter().zip(sent) {
                let Line::Text(line) = line else { panic!("{line:?}") };
                let sent = on_one_line(sent);
                prop_assert_eq!(line, sent.trim_ascii());
            }
        }
    }

    #[test]
    fn w01_any_bytes_over_http_give_lines_that_are_one_message_each(
        bytes in vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'\r'), Just(b'{'), Just(b'"')], 0..60),
        (text, _) in json_texts::message(),
        at in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        // Noise alone is rarely a message, so a message with inserted noise is tried too.
        let mut noisy = text.into_bytes();
        let place = at.index(noisy.len() + 1);
        noisy.splice(place..place, bytes.iter().copied().take(if is_cut { 60 } else { 2 }));
        for frame in [bytes, noisy] {
            let mut decoder = SseDecoder::new(usize::MAX);
            decoder.buffer().extend_from_slice(&frame);
            decoder.buffer().extend_from_slice(b"\n\n");
            let events = std::iter::from_fn(|| decoder.next_event()).filter_map(|event| event.ok()?.data);
            for frame in events.chain([Bytes::from(frame)]) {
                let came = messages(Received::from_text(frame, &Limits::default()));
                let (out, lines) = written(&came);
                prop_assert!(!out.contains(&b'\r'));
                prop_assert_eq!(lines.len(), came.len());
            }
        }
    }

    #[test]
    fn lines_do_not_depend_on_chunking(
        lines in vec("\u{feff}?[a-zé\r \t]{0,12}\r?\n", 0..12),
        rest in "[a-z\r]{0,4}",
        at in vec(any::<prop::sample::Index>(), 0..12),
        limit in 0..14usize,
    ) {
        let stream = lines.concat() + &rest;
        let whole = read_lines(&[stream.clone().into_bytes()], limit);
        prop_assert_eq!(&whole, &read_lines(&cuts(stream.as_bytes(), &at), limit));
        // An independent implementation of the rules.
        let unmarked = stream.strip_prefix('\u{feff}').unwrap_or(&stream);
        let expected: Vec<&str> = unmarked
            .split('\n')
            .map(|line| line.strip_suffix('\r').unwrap_or(line))
            .filter(|line| !line.trim_ascii().is_empty() || line.len() > limit)
            .collect();
        prop_assert_eq!(whole.len(), expected.len());
        for (line, expected) in whole.iter().zip(expected) {
            match line {
                Line::Text(text) => {
                    prop_assert_eq!(&text[..], expected.as_bytes());
                    prop_assert!(text.len() <= limit);
                }
                Line::TooLong { length, head, tail } => {
                    prop_assert_eq!(*length, expected.len() as u64);
                    prop_assert!(expected.len() > limit && head == expected.as_bytes() && tail == expected.as_bytes());
                }
            }
        }
    }

    #[test]
    fn events_do_not_depend_on_chunking(
        lines in vec("(data|id|event|retry|:|x)?(: ?)?[a-z0-9é]{0,6}(\n|\r|\r\n)(\n|\r|\r\n)?", 0..20),
        at in vec(any::<prop::sample::Index>(), 0..16),
        limit in 0..60usize,
    ) {
        let stream = lines.concat();
        let whole = read_events(&[stream.clone().into_bytes()], limit);
        prop_assert_eq!(whole, read_events(&cuts(stream.as_bytes(), &at), limit));
    }

    #[test]
    fn events_round_trip(
        events in vec(event(), 0..6), at in vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut out = BytesMut::new();
        for event in &events {
            SseEncoder.encode(event, &mut out);
            SseEncoder.comment("still here", &mut out);
        }
        let expected: Vec<_> = events.into_iter().filter(|event| *event != SseEvent::default()).map(Ok).collect();
        prop_assert_eq!(read_events(&cuts(&out, &at), usize::MAX), expected);
    }

    #[test]
    fn any_text_round_trips_through_a_header(text in "\\PC{0,20}|[ \t\r\n\u{0}-\u{ff}]{0,10}") {
        let header = headers::encode_value(&text);
        prop_assert!(header.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')));
        prop_assert_eq!(headers::decode_value(&header).unwrap(), text.as_str());
    }

    #[test]
    fn any_text_round_trips_through_quoting(text in any::<String>()) {
        prop_assert_eq!(serde_json::from_str::<String>(&quote(&text)).unwrap(), text);
    }
}
