//! The scanner against `serde_json`: the same texts are JSON, whatever we or a broken peer make up.
//!
//! The oracle is `RawValue`, which checks the grammar and gives numbers and escapes no meaning, as the scanner does. Where
//! the two may differ, by design:
//! * Faults of the *envelope* (a duplicate member, a bad id, a method that is no string) and of the *limits* are found
//!   before the rest of the text is read, so they say nothing about its grammar.
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
    let text = Bytes::copy_from_slice(text);
    let error = match Received::from_text(text.clone(), &Limits::default()) {
        Received::Message(_) | Received::Batch(_) => return Some(true),
        Received::Broken { error, .. } => error,
        Received::TooLong { .. } => return None,
    };
    match error.fault {
        Fault::NotJson | Fault::NotUtf8 | Fault::Truncated => Some(false),
        Fault::Ambiguous | Fault::MissingId | Fault::EmptyBatch => Some(true),
        // Either a method that is no string, noticed on the way, or what a whole text turned out to be.
        Fault::NotJsonRpc if !error.method_seen => Some(true),
        _ => None,
    }
}

fn wrapped(params: &[u8]) -> Vec<u8> {
    [br#"{"jsonrpc":"2.0","method":"m","params":"#, params, b"}"].concat()
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
        let text = json_texts::damaged(&text, &wounds);
        if let Some(ours) = scanner(&text) {
            prop_assert_eq!(ours, oracle(&text), "{}", String::from_utf8_lossy(&text));
        }
    }

    #[test]
    fn a_damaged_value_is_judged_alike_inside_of_a_message(
        text in json_texts::value(), wounds in vec((any::<prop::sample::Index>(), any::<u8>(), any::<u8>()), 1..3),
    ) {
        let text = wrapped(&json_texts::damaged(&text, &wounds));
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
