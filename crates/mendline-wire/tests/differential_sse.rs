//! Compares the event decoder with `sse-stream` 0.3.
//!
//! They differ by design:
//! * A `retry` of more digits than fit into a `u64` means "very long" to us and is compared only below that.
//! * `sse-stream` wants UTF-8 and gives up the stream otherwise; we hand bytes on. Only valid text is compared.

use std::convert::Infallible;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream;
use mendline_wire::{SseDecoder, SseEvent};
use proptest::collection::vec;
use proptest::prelude::*;
use sse_stream::SseByteStream;

fn theirs(chunks: &[Bytes]) -> Vec<SseEvent> {
    let mut events = pin!(SseByteStream::new(stream::iter(chunks.iter().cloned().map(Ok::<Bytes, Infallible>))));
    let mut seen = Vec::new();
    // All data is available, so the stream is never pending.
    while let Poll::Ready(Some(event)) = events.as_mut().poll_next(&mut Context::from_waker(Waker::noop())) {
        let event = event.expect("valid text");
        seen.push(SseEvent {
            id: event.id.map(Bytes::from),
            event: event.event.map(Bytes::from),
            data: event.data.map(Bytes::from),
            retry: event.retry,
        });
    }
    seen
}

fn ours(chunks: &[Bytes]) -> Vec<SseEvent> {
    let mut decoder = SseDecoder::new(1 << 20);
    let mut seen = Vec::new();
    for chunk in chunks {
        decoder.buffer().extend_from_slice(chunk);
        seen.extend(std::iter::from_fn(|| decoder.next_event()).map(|event| event.expect("below the limit")));
    }
    seen
}

fn line() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        8 => prop::sample::select(vec!["data", "id", "event", "retry"]),
        1 => prop::sample::select(vec!["", "Data", " data", "dat", "comment", "\u{feff}data", "retry "]),
    ];
    let value = prop_oneof![
        3 => "[a-z{}\":é]{0,8}",
        1 => "[0-9]{0,12}",
        1 => "[ ]{0,2}[a-z\u{0}0-9]{0,3}",
    ];
    let end = prop::sample::select(vec!["\n", "\r", "\r\n"]);
    let colon = prop::sample::select(vec![": ", ":", "", ":  "]);
    (name, colon, value, end.clone(), prop::option::weighted(0.5, end))
        .prop_map(|(name, colon, value, end, blank)| format!("{name}{colon}{value}{end}{}", blank.unwrap_or("")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_decoders_yield_the_same_events(
        mark in prop::bool::weighted(0.1), lines in vec(line(), 0..16), size in 1..40usize,
    ) {
        let stream = if mark { "\u{feff}".to_owned() } else { String::new() } + &lines.concat();
        let chunks: Vec<Bytes> = stream.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect();
        prop_assert_eq!(ours(&chunks), theirs(&chunks), "{:?}", stream);
    }
}
