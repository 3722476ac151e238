//! Tests of the whole connection: responses as bytes and the facts about them, and requests that are written in part.

mod against_hyper;
mod requests;

use mendline_core::reason::CutReason;
use proptest::prelude::*;

use super::Fault;
use crate::transport::http::fuzzing::{ResponseEnd, ResponseFacts, response};

const LIMIT: usize = 4096;

/// Reads a response in one piece on a connection that stays open.
fn read(text: &str) -> ResponseFacts {
    response(&[text.as_bytes()], false, LIMIT)
}

/// Returns the status and body of a complete response, and whether the connection can be used again.
fn complete(text: &str) -> (u16, String, bool) {
    let facts = read(text);
    assert_eq!(facts.end, ResponseEnd::Complete, "{text:?}: {facts:?}");
    (facts.status.unwrap(), String::from_utf8(facts.body).unwrap(), facts.is_reusable)
}

fn refused(fault: Fault) -> ResponseEnd {
    ResponseEnd::Cut(CutReason::NotHttp { error: fault.to_string() })
}

fn with_headers(headers: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{headers}\r\n\r\n")
}

fn chunked(body: &str) -> String {
    with_headers("Transfer-Encoding: chunked") + body
}

#[test]
fn body_ends_as_the_head_says() {
    for (text, expected) in [
        (with_headers("Content-Length: 5") + "hello", (200, "hello", true)),
        (with_headers("content-length:5\r\nContent-Length: 5, 5") + "hello", (200, "hello", true)),
        (with_headers("Content-Length: 0"), (200, "", true)),
        (chunked("5\r\nhello\r\n0\r\n\r\n"), (200, "hello", true)),
        (chunked("2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"), (200, "hello", true)),
        (chunked("5;a=\"b\";c\r\nhello\r\n000 \t;x\r\nA: b\r\nC: d\r\n\r\n"), (200, "hello", true)),
        (chunked("00000000000000000005\r\nhello\r\n0\r\n\r\n"), (200, "hello", true)),
        ("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n".to_owned(), (204, "", true)),
        ("HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), (304, "", true)),
        ("HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n".to_owned(), (101, "", false)),
        ("HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx".to_owned(), (200, "x", true)),
        ("\r\nHTTP/1.1 200 OK\nContent-Length: 1\n\nx".to_owned(), (200, "x", true)),
    ] {
        let (status, body, is_reusable) = complete(&text);
        assert_eq!((status, &body[..], is_reusable), expected, "{text:?}");
    }
}

#[test]
fn body_without_length_ends_with_the_connection() {
    let text = with_headers("Server: x") + "hello";
    assert_eq!(read(&text).end, ResponseEnd::Waiting);
    let facts = response(&[text.as_bytes()], true, LIMIT);
    assert_eq!((facts.end, &facts.body[..], facts.is_reusable), (ResponseEnd::Complete, &b"hello"[..], false));
}

#[test]
fn interim_responses_are_skipped() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n";
    let text = format!("{interim}{}x", with_headers("Content-Length: 1"));
    assert_eq!(complete(&text), (200, "x".to_owned(), true));
    let endless = "HTTP/1.1 100 Continue\r\n\r\n".repeat(1000);
    assert_eq!(read(&endless).end, ResponseEnd::TooLarge, "all heads together have a limit");
}

#[test]
fn connection_is_reused_only_if_both_sides_keep_it() {
    for (version, header, is_reusable) in [
        ("1.1", "X: y", true),
        ("1.1", "Connection: keep-alive", true),
        ("1.1", "Connection: close", false),
        ("1.1", "Connection: foo, CLOSE", false),
        ("1.0", "X: y", false),
        ("1.0", "Connection: Keep-Alive", true),
        ("1.0", "Connection: keep-alive, close", false),
    ] {
        let text = format!("HTTP/{version} 200 OK\r\n{header}\r\nContent-Length: 1\r\n\r\nx");
        assert_eq!(complete(&text).2, is_reusable, "{version} {header}");
    }
}

#[test]
fn bytes_after_a_response_prevent_reuse() {
    for body in ["5\r\nhello\r\n0\r\n\r\n", "0\r\n\r\n"] {
        assert!(complete(&chunked(body)).2);
        assert!(!complete(&(chunked(body) + "HTTP/1.1 200 OK\r\n")).2);
    }
    assert!(!complete(&(with_headers("Content-Length: 5") + "hello\r\n")).2);
    let end = with_headers("Content-Length: 0");
    assert!(!response(&[end.as_bytes(), b"x"], false, LIMIT).is_reusable);
    assert!(!response(&[end.as_bytes()], true, LIMIT).is_reusable);
}

#[test]
fn ambiguous_or_invalid_responses_are_refused() {
    for (text, fault) in [
        ("SSH-2.0-OpenSSH_9.2\r\n".to_owned(), Fault::NotHttp1),
        ("\0\0\x12\x04\0\0\0\0\0".to_owned(), Fault::NotHttp1),
        ("HTTP/2 200\r\n\r\n".to_owned(), Fault::NotHttp1),
        ("HTTP/1.2 200 OK\r\n\r\n".to_owned(), Fault::Version),
        ("HTTP/1.1 2x0 OK\r\n\r\n".to_owned(), Fault::StatusLine),
        ("HTTP/1.1 099 OK\r\n\r\n".to_owned(), Fault::StatusLine),
        ("HTTP/1.1 -20 OK\r\n\r\n".to_owned(), Fault::StatusLine),
        (with_headers("Content-Length : 5"), Fault::HeaderName),
        (with_headers("Content Length: 5"), Fault::HeaderName),
        (with_headers(": 5"), Fault::HeaderName),
        (with_headers("A: b\r\n Content-Length: 5"), Fault::HeaderName),
        (with_headers("A: b\0c"), Fault::HeaderValue),
        (with_headers("A: b\rContent-Length: 5"), Fault::HeaderValue),
        (with_headers("Content-Length: 5\r\nContent-Length: 6"), Fault::ContentLengths),
        (with_headers("Content-Length: 5, 6"), Fault::ContentLengths),
        (with_headers("Content-Length: -5"), Fault::ContentLength),
        (with_headers("Content-Length: +5"), Fault::ContentLength),
        (with_headers("Content-Length: 0x5"), Fault::ContentLength),
        (with_headers("Content-Length: 5 5"), Fault::ContentLength),
        (with_headers("Content-Length: "), Fault::ContentLength),
        (with_headers("Content-Length: 5,"), Fault::ContentLength),
        (with_headers("Content-Length: 18446744073709551616"), Fault::ContentLength),
        (with_headers("Content-Length: 5\r\nTransfer-Encoding: chunked"), Fault::TwoLengths),
        (with_headers("Transfer-Encoding: chunked\r\nContent-Length: 5"), Fault::TwoLengths),
        (with_headers("Transfer-Encoding: gzip, chunked"), Fault::TransferCoding),
        (with_headers("Transfer-Encoding: chunked, chunked"), Fault::TransferCoding),
        (with_headers("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), Fault::TransferCoding),
        (with_headers("Transfer-Encoding: identity"), Fault::TransferCoding),
        (with_headers("Transfer-Encoding: xchunked"), Fault::TransferCoding),
        (with_headers("Transfer-Encoding:"), Fault::TransferCoding),
        ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), Fault::OldTransferCoding),
        (chunked("\r\nhello"), Fault::ChunkSize),
        (chunked("-5\r\nhello"), Fault::ChunkSize),
        (chunked("+5\r\nhello"), Fault::ChunkSize),
        (chunked("0x5\r\nhello"), Fault::ChunkSize),
        (chunked(" 5\r\nhello"), Fault::ChunkSize),
        (chunked("5 5\r\nhello"), Fault::ChunkSize),
        (chunked("5\nhello\n0\n\n"), Fault::ChunkSize),
        (chunked("10000000000000000\r\nx"), Fault::ChunkSize),
        (chunked("5\rXhello"), Fault::ChunkEnd),
        (chunked("5;a\nhello"), Fault::ChunkExtension),
        (chunked("4\r\nhello\r\n"), Fault::ChunkEnd),
        (chunked("5\r\nhello\n0\r\n\r\n"), Fault::ChunkEnd),
        (chunked("0\r\nA: b\nC: d\r\n\r\n"), Fault::LineEnd),
        (chunked("0\r\nA: b\rC: d\r\n\r\n"), Fault::LineEnd),
        (chunked(&format!("5;{}\r\nhello", "x".repeat(20_000))), Fault::ExtensionsTooLong),
        (chunked(&"1;xxxxxxx\r\nx\r\n".repeat(3000)), Fault::ExtensionsTooLong),
        (chunked(&format!("0\r\n{}", "A: b\r\n".repeat(5000))), Fault::TrailerTooLong),
    ] {
        let facts = read(&text);
        assert_eq!(facts.end, refused(fault), "{text:.60?}");
        assert!(!facts.is_reusable);
    }
}

#[test]
fn largest_lengths_are_accepted() {
    let huge = with_headers("Content-Length: 18446744073709551615") + "x";
    assert_eq!((read(&huge).end, read(&huge).body), (ResponseEnd::Waiting, b"x".to_vec()));
    let huge = chunked("ffffffffffffffff\r\nx");
    assert_eq!((read(&huge).end, read(&huge).body), (ResponseEnd::Waiting, b"x".to_vec()));
}

#[test]
fn head_over_a_limit_is_refused() {
    let of_length = |length: usize| {
        let text = with_headers(&format!("Content-Length: 0\r\nA: {}", "a".repeat(length)));
        let fill = text.len() - length;
        with_headers(&format!("Content-Length: 0\r\nA: {}", "a".repeat(length.saturating_sub(fill))))
    };
    assert_eq!(of_length(LIMIT).len(), LIMIT);
    assert_eq!(read(&of_length(LIMIT)).end, ResponseEnd::Complete);
    assert_eq!(read(&of_length(LIMIT + 1)).end, ResponseEnd::TooLarge);
    assert_eq!(read(&format!("HTTP/1.1 200 OK\r\nA: {}", "a".repeat(LIMIT))).end, ResponseEnd::TooLarge);
    let many = |count: usize| with_headers(&format!("Content-Length: 0{}", "\r\nA: b".repeat(count - 1)));
    assert_eq!(read(&many(100)).end, ResponseEnd::Complete);
    assert_eq!(read(&many(101)).end, ResponseEnd::TooLarge);
}

#[test]
fn response_cut_before_its_end_is_a_loss() {
    for text in [
        with_headers("Content-Length: 5") + "hello",
        chunked("5;a\r\nhello\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n"),
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n".to_owned(),
    ] {
        let head = text.find("\r\n\r\n").unwrap() + 4;
        for end in 0..text.len() {
            let facts = response(&[&text.as_bytes()[..end]], true, LIMIT);
            let expected = if facts.status.is_some() { CutReason::Closed } else { CutReason::ClosedWithoutAnswer };
            assert_eq!(facts.end, ResponseEnd::Cut(expected), "{end} of {text:?}");
            assert!(facts.status.is_none() || end >= head);
            assert!(text.starts_with("HTTP/1.1 100") || facts.status.is_some() == (end >= head));
        }
        assert_eq!(response(&[text.as_bytes()], true, LIMIT).end, ResponseEnd::Complete);
    }
}

/// Responses of every framing, and invalid ones.
fn samples() -> Vec<String> {
    vec![
        with_headers("Content-Length: 5\r\nContent-Type: application/json") + "hello",
        with_headers("Content-Length: 5") + "hello, and more",
        chunked("5;a=\"b\"\r\nhello\r\n1\r\n!\r\n0\r\nA: b\r\nC: d\r\n\r\n"),
        chunked("5\r\nhello\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n"),
        chunked("5\r\nhelloX"),
        chunked("5;\nhello"),
        with_headers("Server: x") + "until the end",
        format!(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\n{}x",
            with_headers("Content-Length: 1")
        ),
        "HTTP/1.0 200 OK\nConnection: keep-alive\nContent-Length: 2\n\nxy".to_owned(),
        "\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        with_headers("Content-Length: 5\r\nContent-Length: 6"),
        "HTTP/1.1 2x0 OK\r\n\r\n".to_owned(),
        "HTTP/1.x".to_owned(),
        "<html>".to_owned(),
    ]
}

#[test]
fn facts_do_not_depend_on_splits() {
    for text in samples() {
        for end in 0..=text.len() {
            let bytes = &text.as_bytes()[..end];
            for closes in [false, true] {
                let whole = response(&[bytes], closes, LIMIT);
                for at in 0..end {
                    let split = response(&[&bytes[..at], &bytes[at..]], closes, LIMIT);
                    assert_eq!(whole, split, "{end} bytes of {text:?}, split at {at}");
                }
                let single: Vec<&[u8]> = bytes.chunks(1).collect();
                assert_eq!(whole, response(&single, closes, LIMIT), "{end} bytes of {text:?} one at a time");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn facts_do_not_depend_on_splits_of_damaged_responses(
        sample in 0..samples().len(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        limit in 20_usize..200,
        closes: bool,
    ) {
        let mut bytes = samples()[sample].clone().into_bytes();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let whole = response(&[&bytes], closes, limit);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([0, bytes.len()]).collect();
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(whole, response(&pieces, closes, limit));
    }
}
