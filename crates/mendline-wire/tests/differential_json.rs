//! The scanner against `serde_json`: the same texts are JSON, whatever we or a broken peer make up.
//!
//! The oracle is `RawValue`, which checks the grammar and gives numbers and escapes no meaning, as the scanner does.
//! Where the two may differ, by design:
//! * A duplicate member of the envelope and everything beyond a limit (depth, length of the id, size of a batch) are
//!   found before the rest of the text is read, so they say nothing about its grammar.
//! * An array is a batch, which `Received` takes apart; it is compared there.

mod json_texts;

use bytes::Bytes;
use mendline_wire::{Fault, Limits, Message, Received};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::value::RawValue;

/// Whether the oracle takes it.
fn oracle(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| serde_json::from_str::<&RawValue>(text).is_ok())
}

/// Whether we take it for JSON; `None` where the fault says nothing about that.
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

/// Damage: bytes replaced, inserted, removed or repeated.
fn damaged(text: &str, wounds: &[(prop::sample::Index, u8, u8)]) -> Vec<u8> {
    const CHOICE: &[u8] = b"\"\\{}[]:,0123456789-+.eEtrufalsn \t\r\n\0\x1f\x7f\x80\xc3\xed\xff/u";
    let mut bytes = text.as_bytes().to_vec();
    for (place, how, which) in wounds {
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
    fn generated_json_is_taken_by_both(text in json_texts::value()) {
        prop_assert!(oracle(text.as_bytes()));
        prop_assert_ne!(scanner(text.as_bytes()), Some(false));
        prop_assert!(Message::parse(wrapped(text.as_bytes()).into()).is_ok());
    }

    #[test]
    fn damaged_json_is_judged_alike(
        (text, _) in json_texts::message(), wounds in vec((any::<prop::sample::Index>(), any::<u8>(), any::<u8>()), 1..4),
    ) {
        let text = damaged(&text, &wounds);
        if let Some(ours) = scanner(&text) {
            prop_assert_eq!(ours, oracle(&text), "{}", String::from_utf8_lossy(&text));
        }
    }

    #[test]
    fn a_damaged_value_is_judged_alike_inside_of_a_message(
        text in json_texts::value(), wounds in vec((any::<prop::sample::Index>(), any::<u8>(), any::<u8>()), 1..3),
    ) {
        let text = wrapped(&damaged(&text, &wounds));
        if let Some(ours) = scanner(&text) {
            prop_assert_eq!(ours, oracle(&text), "{}", String::from_utf8_lossy(&text));
        }
    }
}

#[test]
fn every_short_text_over_the_critical_alphabet_is_judged_alike() {
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
fn numbers_and_surrogates_beyond_any_machine_type_are_good_json_to_both() {
    for odd in ["1e999", "-0.0", "123456789012345678901234567890", r#""\ud800""#, r#""\udc00\ud800""#] {
        assert!(oracle(odd.as_bytes()) && scanner(&wrapped(odd.as_bytes())) == Some(true), "{odd}");
    }
}
