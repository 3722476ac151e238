//! The time at which an exhausted quota is available again, from the headers about rate limits.
//!
//! Servers that send no `Retry-After` name it in several forms: `RateLimit: "default";r=0;t=30` and its earlier form
//! `RateLimit: limit=10, remaining=0, reset=30`, and as separate headers, `RateLimit-Reset` and `X-RateLimit-Reset`. The
//! value is a number of seconds, or in many `X-` headers a Unix time in seconds or milliseconds.
//!
//! Many servers send these headers with every response. So they count only for 429 and 503, and only for a quota that is
//! exhausted. A 429 does not need to name the remaining requests; a 503 does, because it has other causes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::StatusCode;
use http::header::{HeaderMap, HeaderName};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// The separate headers: the time, and the remaining requests.
const SEPARATE: [(HeaderName, HeaderName); 3] = [
    (HeaderName::from_static("ratelimit-reset"), HeaderName::from_static("ratelimit-remaining")),
    (HeaderName::from_static("x-ratelimit-reset"), HeaderName::from_static("x-ratelimit-remaining")),
    (HeaderName::from_static("x-rate-limit-reset"), HeaderName::from_static("x-rate-limit-remaining")),
];

/// Numbers from here on are no durations but Unix times, in seconds …
const UNIX_SECONDS: f64 = 1e9;
/// … and from here on in milliseconds …
const UNIX_MILLIS: f64 = 1e12;
/// … and from here on no times at all.
const NO_TIME: f64 = 1e15;

/// Returns the milliseconds until the exhausted quota is available again. A time that is over is no hint.
pub(super) fn reset(status: StatusCode, headers: &HeaderMap, now: impl Fn() -> SystemTime) -> Option<u64> {
    if !matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        return None;
    }
    let mut quotas: Vec<Quota> = Vec::new();
    for value in headers.get_all(RATE_LIMIT).iter().filter_map(|value| value.to_str().ok()) {
        quotas.extend(structured(value));
    }
    for (reset, remaining) in &SEPARATE {
        let number = |name| headers.get(name).and_then(|value| value.to_str().ok()).and_then(number);
        quotas.push(Quota { remaining: number(remaining), reset: number(reset) });
    }
    let is_exhausted = |quota: &&Quota| match quota.remaining {
        Some(remaining) => remaining < 1.0,
        None => status == StatusCode::TOO_MANY_REQUESTS,
    };
    let exhausted = quotas.iter().filter(is_exhausted);
    exhausted.filter_map(|quota| wait(quota.reset?, &now)).max().filter(|millis| *millis > 0)
}

/// One quota, as far as the server describes it.
#[derive(Clone, Copy, Debug, Default)]
struct Quota {
    remaining: Option<f64>,
    reset: Option<f64>,
}

/// Reads the quotas of a `RateLimit` header. In its earlier form the whole header is one quota.
fn structured(value: &str) -> Vec<Quota> {
    let mut earlier = Quota::default();
    let mut quotas = Vec::new();
    for member in split(value, b',') {
        let mut quota = Quota::default();
        for parameter in split(member, b';') {
            let Some((name, value)) = parameter.split_once('=') else { continue };
            let (name, value) = (name.trim(), number(value));
            match name {
                "r" => quota.remaining = value,
                "t" => quota.reset = value,
                "remaining" => earlier.remaining = value,
                "reset" => earlier.reset = value,
                _ => {}
            }
        }
        quotas.push(quota);
    }
    quotas.push(earlier);
    quotas
}

/// Splits a header at a separator that is not part of a quoted string.
fn split(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |letter: char| {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            letter => return !is_quoted && letter == char::from(separator),
        }
        false
    })
}

/// Reads a number of digits, perhaps with a fraction.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let is_plain = text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| is_plain)
}

/// Returns the milliseconds until this time, rounded up.
fn wait(reset: f64, now: impl Fn() -> SystemTime) -> Option<u64> {
    let until = |unix: Duration| (UNIX_EPOCH + unix).duration_since(now()).unwrap_or_default();
    let wait = if reset >= NO_TIME {
        return None;
    } else if reset >= UNIX_MILLIS {
        until(Duration::from_secs_f64(reset / 1000.0))
    } else if reset >= UNIX_SECONDS {
        until(Duration::from_secs_f64(reset))
    } else {
        Duration::from_secs_f64(reset)
    };
    u64::try_from(wait.as_micros().div_ceil(1000)).ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let value = |text: &str| HeaderValue::from_bytes(text.as_bytes()).unwrap();
        pairs.iter().map(|(name, text)| (HeaderName::from_static(name), value(text))).collect()
    }

    fn of(status: u16, pairs: &[(&'static str, &str)]) -> Option<u64> {
        reset(StatusCode::from_u16(status).unwrap(), &headers(pairs), now)
    }

    #[test]
    fn r20_reset_of_a_quota_is_read_in_every_form() {
        for (pairs, expected) in [
            (&[("ratelimit", "\"default\";r=0;t=30")][..], Some(30_000)),
            (&[("ratelimit", "default; r=0; t=30")], Some(30_000)),
            (&[("ratelimit", "\"burst\";r=5;t=1, \"daily\";r=0;t=7200")], Some(7_200_000)),
            (&[("ratelimit", "\"a\";r=0;t=2"), ("ratelimit", "\"b\";r=0;t=3")], Some(3_000)),
            (&[("ratelimit", "\"a;r=0,t=9\\\"\";r=0;t=2")], Some(2_000)),
            (&[("ratelimit", "limit=10, remaining=0, reset=50")], Some(50_000)),
            (&[("ratelimit", "\"default\";t=4")], Some(4_000)),
            (&[("ratelimit-limit", "10"), ("ratelimit-remaining", "0"), ("ratelimit-reset", "7")], Some(7_000)),
            (&[("x-ratelimit-reset", "7")], Some(7_000)),
            (&[("x-ratelimit-reset", "0.25")], Some(250)),
            (&[("x-ratelimit-reset", "1800000009")], Some(9_000)),
            (&[("x-ratelimit-reset", "1800000009.5")], Some(9_500)),
            (&[("x-ratelimit-reset", "1800000009250")], Some(9_250)),
            (&[("x-rate-limit-reset", "1800000001"), ("x-rate-limit-remaining", "0")], Some(1_000)),
        ] {
            assert_eq!(of(429, pairs), expected, "{pairs:?}");
        }
    }

    #[test]
    fn r20_reset_counts_only_for_an_exhausted_quota() {
        let full = &[("ratelimit", "\"default\";r=9;t=30")][..];
        let bare = &[("x-ratelimit-reset", "30")][..];
        let empty = &[("x-ratelimit-reset", "30"), ("x-ratelimit-remaining", "0")][..];
        let open = &[("x-ratelimit-reset", "30"), ("x-ratelimit-remaining", "12")][..];
        assert_eq!([full, bare, empty, open].map(|it| of(429, it)), [None, Some(30_000), Some(30_000), None]);
        assert_eq!([full, bare, empty, open].map(|it| of(503, it)), [None, None, Some(30_000), None]);
        assert_eq!([full, bare, empty, open].map(|it| of(200, it)), [None; 4]);
        assert_eq!([full, bare, empty, open].map(|it| of(502, it)), [None; 4]);
    }

    #[test]
    fn r20_hostile_reset_is_no_hint() {
        for value in [
            "",
            "0",
            "-1",
            "+5",
            "1e9",
            "inf",
            "NaN",
            "0x10",
            ".5",
            "1.2.3",
            "soon",
            "1799999999",
            "1799999999999",
            "1000000000000000",
            "99999999999999999999999999999999999999999",
            "6m0s",
            "\"5\"",
            "Sun, 06 Nov 1994 12:00:30 GMT",
        ] {
            for name in ["ratelimit-reset", "x-ratelimit-reset", "x-rate-limit-reset"] {
                assert_eq!(of(429, &[(name, value)]), None, "{name}: {value}");
            }
            assert_eq!(of(429, &[("ratelimit", &format!("\"default\";r=0;t={value}"))]), None, "{value}");
        }
        for value in ["\"", ";;;", ",,,", "=", "t", "\"\\", "r=0;;t", ";t=5;r=1", "\"a\";r=0;t=5\"", "é"] {
            let seen = reset(StatusCode::TOO_MANY_REQUESTS, &headers(&[("ratelimit", value)]), now);
            assert_eq!(seen, None, "{value}");
        }
    }

    proptest! {
        #[test]
        fn r20_any_header_gives_a_bounded_hint(value in "[ -~]{0,40}", number in any::<u64>(), epoch in any::<u32>()) {
            let now = || UNIX_EPOCH + Duration::from_secs(u64::from(epoch));
            let number = number.to_string();
            for text in [value.as_str(), number.as_str(), &format!("\"a\";r=0;t={number}")] {
                let Ok(text) = HeaderValue::from_str(text) else { continue };
                for name in ["ratelimit", "ratelimit-reset", "x-ratelimit-reset"] {
                    let map: HeaderMap = [(HeaderName::from_static(name), text.clone())].into_iter().collect();
                    let hint = reset(StatusCode::TOO_MANY_REQUESTS, &map, now);
                    prop_assert!(hint.is_none_or(|hint| hint > 0 && hint <= NO_TIME as u64), "{name}: {text:?}");
                }
            }
        }
    }
}
