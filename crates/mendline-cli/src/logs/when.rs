//! Points in time, as options and as log lines have them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Timestamp of a line, as text of fixed length: a later one is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timestamp([u8; Timestamp::LENGTH]);

impl Timestamp {
    const LENGTH: usize = "2026-11-15T12:20:12.123456Z".len();

    /// The beginning of every line.
    const LEAD: &'static [u8] = b"{\"time\":\"";

    /// Returns the timestamp of a line.
    pub(super) fn of_line(line: &[u8]) -> Option<Timestamp> {
        Timestamp::of_bytes(line.strip_prefix(Timestamp::LEAD)?.get(..Timestamp::LENGTH)?)
    }

    /// Parses a timestamp.
    pub(super) fn of_text(text: &str) -> Option<Timestamp> {
        Timestamp::of_bytes(text.as_bytes())
    }

    fn of_bytes(text: &[u8]) -> Option<Timestamp> {
        let fits = |(at, byte): (usize, &u8)| match at {
            4 | 7 => *byte == b'-',
            10 => *byte == b'T',
            13 | 16 => *byte == b':',
            19 => *byte == b'.',
            26 => *byte == b'Z',
            _ => byte.is_ascii_digit(),
        };
        let stamp = Timestamp(text.try_into().ok()?);
        stamp.0.iter().enumerate().all(fits).then_some(stamp)
    }

    pub(super) fn of_time(time: SystemTime) -> Timestamp {
        let text = humantime::format_rfc3339_micros(time.max(UNIX_EPOCH)).to_string();
        // Years beyond 9999 do not fit.
        Timestamp::of_text(&text).unwrap_or(Timestamp([b'9'; Timestamp::LENGTH]))
    }

    /// Parses the start of a process from the name of its files: `20261115T122012Z`.
    pub(super) fn of_name(name: &str) -> Option<Timestamp> {
        let (date, time) = name.strip_suffix('Z')?.split_once('T')?;
        let part = |text: &'_ str, from: usize, to: usize| text.get(from..to).map(str::to_owned);
        let date = format!("{}-{}-{}", part(date, 0, 4)?, part(date, 4, 6)?, part(date, 6, 8)?);
        let time = format!("{}:{}:{}", part(time, 0, 2)?, part(time, 2, 4)?, part(time, 4, 6)?);
        Timestamp::of_text(&format!("{date}T{time}.000000Z"))
    }
}

/// A point in time of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeArg {
    pub(super) stamp: Timestamp,
}

/// Parses `10m`, `2h`, `1h 30m` (before now), or `2026-11-15`, `2026-11-15 12:00:00`, `2026-11-15T12:00:00Z`.
pub(super) fn parse(text: &str) -> Result<TimeArg, String> {
    parse_at(text, SystemTime::now())
}

fn parse_at(text: &str, now: SystemTime) -> Result<TimeArg, String> {
    let text = text.trim();
    let wrong = || "use a duration before now such as 10m, 2h or 1d, or a time such as 2026-11-15T12:00:00Z".to_owned();
    let is_time = text.len() >= 10 && text.as_bytes().get(4) == Some(&b'-');
    let time = if is_time {
        let whole = if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.to_owned() };
        humantime::parse_rfc3339_weak(&whole).map_err(|_| wrong())?
    } else {
        let before: Duration = humantime::parse_duration(text).map_err(|_| wrong())?;
        now.checked_sub(before).unwrap_or(UNIX_EPOCH)
    };
    Ok(TimeArg { stamp: Timestamp::of_time(time) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> String {
        let now = UNIX_EPOCH + Duration::from_secs(10 * 24 * 3600);
        String::from_utf8(parse_at(text, now).unwrap().stamp.0.to_vec()).unwrap()
    }

    #[test]
    fn time_argument_is_a_duration_or_a_time() {
        assert_eq!(at("10m"), "1970-01-10T23:50:00.000000Z");
        assert_eq!(at("1h 30m"), "1970-01-10T22:30:00.000000Z");
        assert_eq!(at("2026-11-15"), "2026-11-15T00:00:00.000000Z");
        assert_eq!(at("2026-11-15 12:30:00"), "2026-11-15T12:30:00.000000Z");
        assert_eq!(at("2026-11-15T12:30:00.5Z"), "2026-11-15T12:30:00.500000Z");
        assert_eq!(at("1000y"), "1970-01-01T00:00:00.000000Z");
    }

    #[test]
    fn invalid_time_is_rejected_with_an_example() {
        for text in ["", "yesterday", "10", "2026-13-01", "-5m", "2026-11-15T12"] {
            assert!(parse_at(text, UNIX_EPOCH).unwrap_err().contains("10m"), "{text}");
        }
    }

    #[test]
    fn timestamp_is_read_only_at_line_start() {
        let line = br#"{"time":"2026-11-15T12:20:12.123456Z","level":"info"}"#;
        assert_eq!(Timestamp::of_line(line), Timestamp::of_text("2026-11-15T12:20:12.123456Z"));
        for line in [&b"garbage"[..], br#"{"time":"2026-11-15"#, br#"{"time":"2026-11-15T12:20:12,123456Z","#, b""] {
            assert_eq!(Timestamp::of_line(line), None);
        }
        assert_eq!(Timestamp::of_name("20261115T122012Z"), Timestamp::of_text("2026-11-15T12:20:12.000000Z"));
        assert_eq!(Timestamp::of_name("2026"), None);
        assert!(Timestamp::of_text("2026-11-15T12:20:12.123456Z") < Timestamp::of_text("2026-11-15T12:20:12.123457Z"));
    }
}
