//! Reads the head of a response.
//!
//! Only the fields that the engine needs are kept. The content type announces a body, but a status or length that rules
//! out a body has priority: a notification is accepted with 202 and no body, and some servers add a text that is no
//! message.

use std::time::SystemTime;

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::response::Parts;
use mendline_core::port::{self, Content, Head};

use super::{Challenge, rate_limit};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// Returns the fields that the engine needs. `empty` means that no body follows.
pub(super) fn head(parts: &Parts, empty: bool, wall_clock: fn() -> SystemTime) -> Head {
    Head {
        status: parts.status.as_u16(),
        content: content(parts.status, &parts.headers, empty),
        session: parts.headers.get(SESSION).and_then(|value| value.to_str().ok()).map(str::to_owned),
        retry_after_ms: retry_after(parts, wall_clock),
        challenge: challenge(&parts.headers),
    }
}

/// Returns what the server asks for, if it asks for another credential.
fn challenge(headers: &HeaderMap) -> Option<port::Challenge> {
    let mut challenges = headers.get_all(header::WWW_AUTHENTICATE).iter().peekable();
    challenges.peek()?;
    let lacks_scope = |value: &HeaderValue| {
        let text = String::from_utf8_lossy(value.as_bytes());
        Challenge::parse(&text).iter().any(Challenge::is_insufficient_scope)
    };
    Some(if challenges.any(lacks_scope) { port::Challenge::Scope } else { port::Challenge::Credential })
}

fn content(status: StatusCode, headers: &HeaderMap, empty: bool) -> Content {
    if empty || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED {
        return Content::Empty;
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("text/event-stream") {
        Content::Events
    } else if kind.eq_ignore_ascii_case("application/json") {
        Content::Json
    } else if status == StatusCode::ACCEPTED {
        Content::Empty
    } else {
        Content::Other
    }
}

/// The pause that the server asks for, in milliseconds. `Retry-After` wins over the headers about rate limits.
fn retry_after(parts: &Parts, wall_clock: fn() -> SystemTime) -> Option<u64> {
    // The date of the server, if there is one: the local clock may be wrong.
    let date = || parts.headers.get(header::DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
    let now = || date().unwrap_or_else(wall_clock);
    seconds_or_date(&parts.headers, now).or_else(|| rate_limit::reset(parts.status, &parts.headers, now))
}

fn seconds_or_date(headers: &HeaderMap, now: impl Fn() -> SystemTime) -> Option<u64> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse::<u64>() {
        return Some(seconds.saturating_mul(1000));
    }
    let then = httpdate::parse_http_date(value).ok()?;
    let wait = then.duration_since(now()).unwrap_or_default();
    Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
}

/// Returns the length of the head as HTTP/2 counts it: 32 bytes for each header in addition to its text.
pub(super) fn head_length(parts: &Parts) -> usize {
    parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use http::Response;

    use super::*;

    fn parts(status: u16, headers: &[(&str, &str)]) -> Parts {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        response.body(()).unwrap().into_parts().0
    }

    fn noon() -> SystemTime {
        httpdate::parse_http_date("Sun, 06 Nov 1994 12:00:00 GMT").unwrap()
    }

    #[test]
    fn content_follows_from_type_status_and_length() {
        let json = &[("content-type", "Application/JSON; charset=utf-8")][..];
        let events = &[("content-type", "text/event-stream;charset=utf-8")][..];
        let html = &[("content-type", "text/html")][..];
        for (status, headers, empty, expected) in [
            (200, json, false, Content::Json),
            (400, json, false, Content::Json),
            (200, json, true, Content::Empty),
            (200, events, false, Content::Events),
            (502, html, false, Content::Other),
            (200, &[], false, Content::Other),
            (202, html, false, Content::Empty),
            (202, &[], false, Content::Empty),
            (202, json, false, Content::Json),
            (204, json, false, Content::Empty),
        ] {
            assert_eq!(head(&parts(status, headers), empty, noon).content, expected, "{status} {headers:?} {empty}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let date = "Sun, 06 Nov 1994 12:00:30 GMT";
        for (headers, expected) in [
            (&[("retry-after", "7")][..], Some(7000)),
            (&[("retry-after", date)], Some(30_000)),
            (&[("retry-after", date), ("date", "Sun, 06 Nov 1994 12:00:20 GMT")], Some(10_000)),
            (&[("retry-after", "Sun, 06 Nov 1994 11:00:00 GMT")], Some(0)),
            (&[("retry-after", "99999999999999999999")], None),
            (&[("retry-after", "18446744073709551615")], Some(u64::MAX)),
            (&[("retry-after", "soon")], None),
            (&[], None),
        ] {
            assert_eq!(head(&parts(503, headers), true, noon).retry_after_ms, expected, "{headers:?}");
        }
        assert!(noon() > UNIX_EPOCH);
    }

    #[test]
    fn r20_retry_after_wins_over_rate_limit_headers() {
        let reset = ("x-ratelimit-reset", "784123230");
        for (headers, expected) in [
            (&[("retry-after", "7"), reset][..], Some(7000)),
            (&[("retry-after", "soon"), ("ratelimit", "\"a\";r=0;t=3")], Some(3000)),
            (&[("ratelimit", "\"a\";r=0;t=3")], Some(3000)),
            (&[("x-ratelimit-reset", "1800000010"), ("date", "Fri, 15 Jan 2027 08:00:00 GMT")], Some(10_000)),
        ] {
            assert_eq!(head(&parts(429, headers), true, noon).retry_after_ms, expected, "{headers:?}");
        }
    }

    #[test]
    fn t06_challenge_is_reported() {
        let asked = |text: &'static str| head(&parts(403, &[("www-authenticate", text)]), true, noon).challenge;
        assert_eq!(asked("Bearer"), Some(port::Challenge::Credential));
        assert_eq!(asked("Bearer error=\"insufficient_scope\", scope=\"a b\""), Some(port::Challenge::Scope));
        assert_eq!(head(&parts(403, &[]), true, noon).challenge, None);
    }
}
