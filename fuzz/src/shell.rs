//! Targets for what the shell reads from other machines (certificates, URLs in answers, answers of a proxy, responses over
//! HTTP/1) and for the redaction of what it writes.
//!
//! They are separate from the wire's targets because they need the `mendline` crate;
//! `crates/mendline/tests/fuzz_smoke.rs` runs them in the ordinary tests.

use std::time::UNIX_EPOCH;

use mendline::decisions::Secret;
use mendline::observe::redact::Redactor;
use mendline::transport::http::fuzzing::{self, ResponseEnd};

/// All targets.
pub const ALL: [fn(&[u8]); 5] = [der, url, proxy, redact, response];

/// A parsed certificate is bounded by the size of the input, and bytes after the certificate have no effect.
pub fn der(data: &[u8]) {
    let Some(read) = fuzzing::certificate(data) else { return };
    let shown_length = read.subject.len() + read.issuer.len() + read.names.iter().map(String::len).sum::<usize>();
    // An invalid UTF-8 byte becomes three bytes, and an address of 16 bytes at most 39.
    assert!(shown_length <= 3 * data.len() && read.names.len() <= 32, "{read:?}");
    assert!(read.not_before >= UNIX_EPOCH && read.not_after >= UNIX_EPOCH, "{read:?}");
    assert_eq!(fuzzing::certificate(&[data, b"\x30\x00"].concat()).as_ref(), Some(&read), "with bytes after it");
    for end in [data.len() / 2, data.len() - 1] {
        let cut = fuzzing::certificate(&data[..end]);
        assert!(cut.is_none_or(|cut| cut == read), "cut at {end}");
    }
}

/// The first line is the URL of a server, the second a reference from it: an endpoint or the target of a redirect. A
/// resolved URL can be sent as it is and parses to itself, and a redirect never leaves its origin.
pub fn url(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (base, reference) = text.split_once('\n').unwrap_or(("http://server.test/a/b?c", text));
    let Ok((origin, path)) = fuzzing::url(base) else { return };
    check_target(&origin, &path);
    assert_eq!(fuzzing::resolve(base, ""), Ok((origin.clone(), path)), "an empty reference resolves to the base");
    let resolved = fuzzing::resolve(base, reference);
    if let Ok((there, path)) = &resolved {
        check_target(there, path);
        let names_an_origin = reference.starts_with("//") || reference.contains(':');
        assert!(names_an_origin || *there == origin, "{reference:?} leads from {origin} to {there}");
        // The absolute URL resolves to the same target from any base.
        let full = format!("{there}{path}");
        assert_eq!(fuzzing::resolve("http://elsewhere.test/x", &full).as_ref(), Ok(&(there.clone(), path.clone())));
    }
    for status in [301, 302, 303, 307, 308] {
        match fuzzing::follow(base, status, reference) {
            Some(Ok((there, path))) => {
                assert!(there == origin && matches!(status, 307 | 308), "{status} to {there}");
                assert_eq!(resolved.as_ref(), Ok(&(there, path)));
            }
            Some(Err(why)) => {
                let message = why.to_string();
                assert!(message.starts_with(&origin.to_string()) && is_one_line(&message), "{message:?}");
            }
            None => panic!("{base:?} was a URL"),
        }
    }
}

fn check_target(origin: &mendline::transport::http::Origin, path: &str) {
    assert!(path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic()), "{path:?}");
    assert!(!path.contains('#'), "{path:?}");
    let again = fuzzing::url(&format!("{origin}{path}"));
    assert_eq!(again.as_ref(), Ok(&(origin.clone(), path.to_owned())), "after a round trip");
}

/// Only a head with status 200 opens a tunnel, no byte after the head is consumed, and the error for a refusal is one
/// short line.
pub fn proxy(data: &[u8]) {
    let (made, taken) = fuzzing::proxy_answer(data);
    let head = data.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at + 4);
    assert!(taken <= head.unwrap_or(data.len()), "{taken} of {head:?}");
    match made {
        Ok(()) => assert!(data.starts_with(b"HTTP/1.") && head == Some(taken)),
        Err(why) => {
            let message = why.to_string();
            assert!(is_one_line(&message) && message.len() < 200, "{message:?}");
            assert!(message.starts_with("the proxy proxy.test:3128 ") && !message.contains("s3cret"), "{message:?}");
        }
    }
}

/// The first line is a secret, the rest a text. The redacted text does not contain the secret, and its growth is
/// limited to the placeholders.
pub fn redact(data: &[u8]) {
    let Some(end) = data.iter().position(|byte| *byte == b'\n') else { return };
    let (secret, text) = (&data[..end], &data[end + 1..]);
    let is_secret = (8..=64).contains(&secret.len()) && secret.iter().all(u8::is_ascii_graphic);
    let Some(secret) = std::str::from_utf8(secret).ok().filter(|_| is_secret) else { return };
    let redactor = Redactor::default();
    redactor.learn(&[Secret::new(secret)]);
    let middle = text.len() / 2;
    let around = [&text[..middle], secret.as_bytes(), &text[middle..]].concat();
    for text in [text, &around] {
        let once = redactor.redact(text).into_owned();
        let is_there = |text: &[u8]| text.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!is_there(&once), "{:?}", String::from_utf8_lossy(&once));
        assert!(once.len() <= 16 * text.len() + 16, "{} of {} bytes", once.len(), text.len());
        let cut = redactor.redact_cut(&text[..text.len().min(50)]).into_owned();
        assert!(!is_there(&cut), "{:?}", String::from_utf8_lossy(&cut));
    }
}

/// A response over HTTP/1 does not depend on how it is split, its head respects its limit, and a complete response leaves
/// a connection that can be used again only if all bytes belong to it.
pub fn response(data: &[u8]) {
    let Some((&seed, bytes)) = data.split_first() else { return };
    let (closes, limit) = (seed & 1 == 1, 64 + usize::from(seed));
    let whole = fuzzing::response(&[bytes], closes, limit);
    let step = usize::from(seed / 32) + 1;
    assert_eq!(whole, fuzzing::response(&bytes.chunks(step).collect::<Vec<_>>(), closes, limit), "in chunks of {step}");
    let by_content: Vec<&[u8]> = bytes.split_inclusive(|byte| matches!(byte, b'\r' | b'\n' | b':' | b'0')).collect();
    assert_eq!(whole, fuzzing::response(&by_content, closes, limit), "cut by content");
    assert!(whole.body.len() <= bytes.len() && whole.headers.len() <= 100, "{whole:?}");
    let head: usize = whole.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    assert!(head <= limit, "{whole:?}");
    assert!(whole.status.is_none_or(|status| (200..1000).contains(&status) || status == 101), "{whole:?}");
    if whole.is_reusable {
        let longer = [bytes, b"x"].concat();
        let again = fuzzing::response(&[&longer], closes, limit);
        assert!(!closes && !again.is_reusable && again.body == whole.body, "{again:?}");
    }
    if let ResponseEnd::Cut(why) = &whole.end {
        assert!(is_one_line(&why.to_string()), "{why}");
    }
}

fn is_one_line(message: &str) -> bool {
    !message.contains(char::is_control)
}
