//! Compares the scanner with `serde_json`.
//!
//! The oracle is `RawValue`, which checks the grammar without interpreting numbers and escapes, as the scanner does.
//! They differ by design:
//! * A duplicate member of the envelope and everything beyond a limit (depth, length of the id, size of a batch) are
//!   found before the rest of the text is read, so they say nothing about its grammar.
//! * An array is a batch, which `Received` takes apart; it is compared there.

mod json_texts;

use bytes::Bytes;
use mendline_wire::{Fault, Limits, Message, Received};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::value::RawValue;

/// Returns whether the oracle accepts the text.
fn oracle(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| serde_json::from_str::<&RawValue>(text).is_ok())
}

/// Returns whether the scanner accepts the text; `None` if the fault does not concern the grammar.
fn scanner(text: &[u8]) -> Option<bool> {
    let error = match Received::from_text(Bytes::copy_from_slice(text), &Limits::default()) {
        Received::Message(_) | Received::Batch(_) => return Some(true),
        Received::Broken { error, .. } => error,
        Received::TooLong { .. } => return None,
    };
    match error.fault {
        Fault::NotJson | Fault::NotUtf8 | Fault::Truncated => Some(false),
        Fault::NotJsonRpc | Fault::Ambiguous | Fault::MissingId | Fault::BadId | Fault::EmptyBatch => Some(true),
        _ => None,
    }
}

fn wrapped(params: &[u8]) -> Vec<u8> {
    [br#"{"jsonrpc":"2.0","method":"m","params":"#, params, b"}"].concat()
}

/// Damages a text: bytes are replaced, inserted, removed or repeated.
fn damaged(text: &str, changes: &[(prop::sample::Index, u8, u8)]) -> Vec<u8> {
    const CHOICE: &[u8] = b"\"\\{}[]:,0123456789-+.eEtrufalsn \t\r\n\0\x1f\x7f\x80\xc3\xed\xff/u";
    let mut bytes = text.as_bytes().to_vec();
    for (place, how, which) in changes {
        if bytes.is_empty() {
            break;
        }
        let at = place.index(bytes.len());
        let byte = CHOICE[usize::from(*which) % CHOICE.len()];
        match how % 4 {
            0 => bytes[at] = byte,
            1 => bytes.insert(at, byte),
            2 => drop(bytes.remove(at)),
            _ => bytes.truncate(at),
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn generated_json_is_accepted_by_both(text in json_texts::value()) {
        prop_assert!(oracle(text.as_bytes()));
        prop_assert_ne!(scanner(text.as_bytes()), Some(false));
        prop_assert!(Message::parse(wrapped(text.as_bytes()).into()).is_ok());
    }

    #[test]
    fn damaged_json_yields_equal_results(
        (text, _) in json_texts::message(), changes in vec((any::<prop::sample::Index>(), any::<u8>(), any::<u8>()), 1..4),
    ) {
        let text = damaged(&text, &changes);
        if let Some(ours) = scanner(&text) {
            prop_assert_eq!(ours, oracle(&text), "{}", String::from_utf8_lossy(&text));
        }
    }

    #[test]
    fn damaged_value_in_a_message_yields_equal_results(
        text in json_texts::value(), changes in vec((any::<prop::sample::Index>(), any::<u8>(), any::<u8>()), 1..3),
    ) {
        let text = wrapped(&damaged(&text, &changes));
        if let Some(ours) = scanner(&text) {
            prop_assert_eq!(ours, oracle(&text), "{}", String::from_utf8_lossy(&text));
        }
    }
}

#[test]
fn short_texts_over_critical_alphabet_yield_equal_results() {
    const ALPHABET: &[u8] = b"\"\\{}[]:,0-.e1u \x01";
    let mut judged = 0;
    let mut text = Vec::new();
    for length in 0..=4u32 {
        for mut number in 0..ALPHABET.len().pow(length) {
            text.clear();
            for _ in 0..length {
                text.push(ALPHABET[number % ALPHABET.len()]);
                number /= ALPHABET.len();
            }
            let whole = wrapped(&text);
            if let Some(ours) = scanner(&whole) {
                judged += 1;
                assert_eq!(ours, oracle(&whole), "{}", String::from_utf8_lossy(&text));
            }
        }
    }
    assert!(judged > 60_000, "only {judged} texts were judged");
}

#[test]
fn huge_numbers_and_lone_surrogates_are_valid_json() {
    for odd in ["1e999", "-0.0", "123456789012345678901234567890", r#""\ud800""#, r#""\udc00\ud800""#] {
        assert!(oracle(odd.as_bytes()) && scanner(&wrapped(odd.as_bytes())) == Some(true), "{odd}");
    }
}
