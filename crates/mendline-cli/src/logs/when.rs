//! Points in time, as options and as log lines have them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::zone::{Clock, Day, Zone};

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

    /// Returns the time.
    pub(super) fn time(self) -> Option<SystemTime> {
        std::str::from_utf8(&self.0).ok().and_then(|text| humantime::parse_rfc3339(text).ok())
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
    time: SystemTime,
    /// True if only the time of day was given, and the day is the last one with that time.
    is_clock: bool,
}

impl TimeArg {
    pub(super) fn stamp(self) -> Timestamp {
        Timestamp::of_time(self.time)
    }

    /// Returns the end of a range that begins at `since`: 23:00 is after 22:00, even if it is not yet 23:00 today.
    /// Returns `None` if the end is before the beginning.
    pub(super) fn end_after(self, since: Option<TimeArg>) -> Option<TimeArg> {
        let Some(since) = since else { return Some(self) };
        let later = if self.is_clock && self.time < since.time {
            TimeArg { time: self.time.checked_add(DAY)?, ..self }
        } else {
            self
        };
        (later.time >= since.time).then_some(later)
    }
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

const FORMS: &str = "use a duration before now such as 10m, 2h or 1d, a time such as 22:00, today, yesterday or \
                     yesterday 22:00, or a date such as 2026-11-15, 2026-11-15 22:00 or 2026-11-15T21:00:00Z";

/// Parses a duration before now (`10m`, `1h 30m`, `2 hours ago`), a time of day (`22:00`), a day (`today`, `yesterday`,
/// `2026-11-15`) with or without a time, or `now`. Times are local unless they end with `Z` or an offset.
pub(super) fn parse(text: &str) -> Result<TimeArg, String> {
    parse_at(text, SystemTime::now(), &Zone::local()).ok_or_else(|| FORMS.to_owned())
}

fn parse_at(text: &str, now: SystemTime, zone: &Zone) -> Option<TimeArg> {
    let text = text.trim().to_ascii_lowercase();
    let fixed = |time| Some(TimeArg { time, is_clock: false });
    let before = text.strip_suffix("ago").map_or(text.as_str(), str::trim_end);
    if let Ok(before) = humantime::parse_duration(before) {
        return fixed(now.checked_sub(before).unwrap_or(UNIX_EPOCH));
    }
    if text == "now" {
        return fixed(now);
    }
    if let Some(clock) = clock(&text) {
        let today = zone.time(zone.day(now)?, clock)?;
        let last = if today > now { zone.time(zone.day(now)?.before()?, clock)? } else { today };
        return Some(TimeArg { time: last, is_clock: true });
    }
    let (day, rest) = match text.find([' ', 't']).filter(|at| text[*at..].len() > 1 && *at >= 10) {
        Some(at) => (&text[..at], text[at + 1..].trim()),
        None => text.split_once(' ').map_or((text.as_str(), ""), |(day, rest)| (day, rest.trim())),
    };
    let day = match day {
        "today" => zone.day(now)?,
        "yesterday" => zone.day(now)?.before()?,
        date => date_of(date)?,
    };
    let (time, offset) = offset(rest)?;
    let clock = if time.is_empty() { Clock::default() } else { clock(time)? };
    fixed(match offset {
        Some(offset) => Zone::fixed(offset)?.time(day, clock)?,
        None => zone.time(day, clock)?,
    })
}

/// Parses `22:00`, `22:00:30` and `22:00:30.5`.
fn clock(text: &str) -> Option<Clock> {
    let mut parts = text.split(':');
    let (hour, minute) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let (second, fraction) = match parts.next() {
        Some(seconds) => seconds.split_once('.').map_or((seconds, ""), |(second, fraction)| (second, fraction)),
        None => ("0", ""),
    };
    let is_fraction = fraction.len() <= 9 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if parts.next().is_some() || !is_fraction || hour > 23 || minute > 59 {
        return None;
    }
    let nanos = format!("{fraction:0<9}").parse().ok()?;
    let second = u8::try_from(number(second, 2)?).ok().filter(|second| *second < 60)?;
    Some(Clock { hour: u8::try_from(hour).ok()?, minute: u8::try_from(minute).ok()?, second, nanos })
}

/// Parses `2026-11-15`.
fn date_of(text: &str) -> Option<Day> {
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || year.len() != 4 {
        return None;
    }
    let small = |text| number(text, 2).and_then(|number| u8::try_from(number).ok());
    Some(Day { year: i32::try_from(number(year, 4)?).ok()?, month: small(month)?, day: small(day)? })
}

/// Separates the offset from UTC, in seconds, at the end of a time: `Z`, `+01:00`, `-0330`.
fn offset(text: &str) -> Option<(&str, Option<i32>)> {
    if let Some(time) = text.strip_suffix('z') {
        return Some((time.trim_end(), Some(0)));
    }
    let Some(at) = text.find(['+', '-']) else { return Some((text, None)) };
    let digits = text[at + 1..].replace(':', "");
    let (hours, minutes) = match digits.len() {
        2 => (number(&digits, 2)?, 0),
        4 => (number(digits.get(..2)?, 2)?, number(digits.get(2..)?, 2)?),
        _ => return None,
    };
    let seconds = i32::try_from(hours * 3600 + minutes * 60).ok().filter(|_| hours < 24 && minutes < 60)?;
    Some((text[..at].trim_end(), Some(if text[at..].starts_with('-') { -seconds } else { seconds })))
}

/// Parses a number of at most this many digits.
fn number(text: &str, digits: usize) -> Option<u32> {
    let is_number = (1..=digits).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_time(text: &str, now: &str) -> Option<String> {
        let zone = Zone::of_rule("CET-1CEST,M3.5.0,M10.5.0/3");
        let stamp = parse_at(text, humantime::parse_rfc3339(now).unwrap(), &zone)?.stamp();
        Some(String::from_utf8(stamp.0.to_vec()).unwrap())
    }

    /// Parses at one o'clock in the night of the 16th of November, local time.
    fn at(text: &str) -> String {
        at_time(text, "2026-11-16T00:00:00Z").unwrap_or_else(|| panic!("{text}")).replace(".000000Z", "Z")
    }

    #[test]
    fn u07_since_accepts_a_duration() {
        assert_eq!(at("10m"), "2026-11-15T23:50:00Z");
        assert_eq!(at("1h 30m"), "2026-11-15T22:30:00Z");
        assert_eq!(at("2 hours ago"), "2026-11-15T22:00:00Z");
        assert_eq!(at("1000y"), "1970-01-01T00:00:00Z");
        assert_eq!(at("now"), "2026-11-16T00:00:00Z");
    }

    #[test]
    fn u07_since_accepts_the_last_time_of_day() {
        assert_eq!(at("00:30"), "2026-11-15T23:30:00Z", "half an hour ago");
        assert_eq!(at("22:00"), "2026-11-15T21:00:00Z", "yesterday, because it is not yet 22:00");
        assert_eq!(at("9:05:07.25"), "2026-11-15T08:05:07.250000Z");
    }

    #[test]
    fn u07_since_accepts_days_and_dates_in_local_time() {
        assert_eq!(at("today"), "2026-11-15T23:00:00Z");
        assert_eq!(at("Yesterday"), "2026-11-14T23:00:00Z");
        assert_eq!(at("yesterday 22:00"), "2026-11-15T21:00:00Z");
        assert_eq!(at("2026-11-15"), "2026-11-14T23:00:00Z");
        assert_eq!(at("2026-07-01 12:30"), "2026-07-01T10:30:00Z", "it is summer");
        assert_eq!(at("2026-11-15T12:30:00.5"), "2026-11-15T11:30:00.500000Z");
    }

    #[test]
    fn u07_since_accepts_a_zone() {
        assert_eq!(at("2026-11-15T12:30:00Z"), "2026-11-15T12:30:00Z");
        assert_eq!(at("2026-11-15 12:30 +02:00"), "2026-11-15T10:30:00Z");
        assert_eq!(at("2026-11-15T12:30:00-0330"), "2026-11-15T16:00:00Z");
        assert_eq!(at("2026-11-15t12:30z"), "2026-11-15T12:30:00Z");
    }

    #[test]
    fn invalid_time_is_rejected() {
        let wrong = ["", "soon", "10", "2026-13-01", "2026-02-30", "-5m", "2026-11-15T12", "24:00", "12:60", "1:2:3:4"];
        for text in wrong.into_iter().chain(["12:00:61", "today today", "2026-11-15 12:00 +99", "26-11-15", "ago", "t"])
        {
            assert_eq!(at_time(text, "2026-11-16T00:00:00Z"), None, "{text}");
        }
        assert!(parse("soon").unwrap_err().contains("22:00"));
    }

    #[test]
    fn u07_end_of_a_range_is_after_its_beginning() {
        let parse = |text| parse_at(text, UNIX_EPOCH + 30 * DAY, &Zone::utc());
        let range = |since, until| parse(until).unwrap().end_after(parse(since)).map(|it| it.time);
        assert_eq!(range("23:00", "1:00"), Some(UNIX_EPOCH + 30 * DAY + Duration::from_secs(3600)));
        assert_eq!(range("1:00", "2:00"), Some(UNIX_EPOCH + 29 * DAY + Duration::from_secs(7200)));
        assert_eq!(range("now", "yesterday"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_time_argument_is_parsed_or_rejected(text in ".{0,40}", shape in "[0-9:tz +.-]{0,30}") {
            let _ = (parse(&text), parse(&shape), parse(&format!("2026-11-15{shape}")));
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
