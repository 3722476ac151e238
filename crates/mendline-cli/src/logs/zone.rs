//! The time zone of this machine: times that a user writes and reads on a terminal are local, those in files are UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tz::{DateTime, TimeZone, UtcDateTime};

/// A time zone.
pub(super) struct Zone(TimeZone);

/// A day of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Day {
    pub(super) year: i32,
    pub(super) month: u8,
    pub(super) day: u8,
}

/// A time of day, with a fraction of a second in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock {
    pub(super) hour: u8,
    pub(super) minute: u8,
    pub(super) second: u8,
    pub(super) nanos: u32,
}

impl Zone {
    /// Returns the zone of TZ, else that of the machine. A zone that cannot be read counts as UTC.
    pub(super) fn local() -> Zone {
        let zone = match std::env::var("TZ") {
            Ok(name) if !name.is_empty() => TimeZone::from_posix_tz(&name),
            // An empty variable means UTC.
            Ok(_) => return Zone::utc(),
            Err(_) => TimeZone::local(),
        };
        zone.map_or_else(|_| Zone::utc(), Zone)
    }

    pub(super) fn utc() -> Zone {
        Zone(TimeZone::utc())
    }

    /// Returns the zone with this offset from UTC in seconds.
    pub(super) fn fixed(offset: i32) -> Option<Zone> {
        TimeZone::fixed(offset).ok().map(Zone)
    }

    #[cfg(test)]
    pub(super) fn of_rule(rule: &str) -> Zone {
        Zone(TimeZone::from_posix_tz(rule).unwrap())
    }

    /// Formats a time as `2026-11-15 22:06:35.593`.
    pub(super) fn format(&self, time: SystemTime) -> Option<String> {
        let it = self.at(time)?;
        let (date, millis) =
            (format!("{:04}-{:02}-{:02}", it.year(), it.month(), it.month_day()), it.nanoseconds() / 1_000_000);
        Some(format!("{date} {:02}:{:02}:{:02}.{millis:03}", it.hour(), it.minute(), it.second()))
    }

    /// Returns the day of a time.
    pub(super) fn day(&self, time: SystemTime) -> Option<Day> {
        self.at(time).map(|it| Day { year: it.year(), month: it.month(), day: it.month_day() })
    }

    /// Returns the time of a clock on a day. A time that occurs twice is the first one, and a time that the change to
    /// summer time skips is the time of the change.
    pub(super) fn time(&self, day: Day, clock: Clock) -> Option<SystemTime> {
        let Clock { hour, minute, second, nanos } = clock;
        let found = DateTime::find(day.year, day.month, day.day, hour, minute, second, nanos, self.0.as_ref());
        let found = found.ok()?.earliest()?;
        let seconds = u64::try_from(found.unix_time()).unwrap_or(0);
        UNIX_EPOCH.checked_add(Duration::new(seconds, found.nanoseconds()))
    }

    fn at(&self, time: SystemTime) -> Option<DateTime> {
        let since = time.duration_since(UNIX_EPOCH).ok()?;
        let seconds = i64::try_from(since.as_secs()).ok()?;
        UtcDateTime::from_timespec(seconds, since.subsec_nanos()).ok()?.project(self.0.as_ref()).ok()
    }
}

impl Day {
    /// Returns the day before.
    pub(super) fn before(self) -> Option<Day> {
        let noon = Zone::utc().time(self, Clock { hour: 12, ..Clock::default() })?;
        Zone::utc().day(noon.checked_sub(Duration::from_secs(24 * 60 * 60))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn berlin() -> Zone {
        Zone::of_rule("CET-1CEST,M3.5.0,M10.5.0/3")
    }

    fn at(text: &str) -> SystemTime {
        humantime::parse_rfc3339(text).unwrap()
    }

    #[test]
    fn time_is_formatted_in_winter_and_summer() {
        assert_eq!(berlin().format(at("2026-01-15T21:06:35.593999Z")).unwrap(), "2026-01-15 22:06:35.593");
        assert_eq!(berlin().format(at("2026-07-31T23:00:00Z")).unwrap(), "2026-08-01 01:00:00.000");
    }

    #[test]
    fn local_time_is_found_also_around_changes() {
        let day = |month, day| Day { year: 2026, month, day };
        let clock = |hour, minute| Clock { hour, minute, ..Clock::default() };
        assert_eq!(berlin().time(day(1, 15), clock(22, 6)), Some(at("2026-01-15T21:06:00Z")));
        assert_eq!(berlin().time(day(3, 29), clock(2, 30)), Some(at("2026-03-29T01:00:00Z")), "it is skipped");
        assert_eq!(berlin().time(day(10, 25), clock(2, 30)), Some(at("2026-10-25T00:30:00Z")), "it occurs twice");
        assert_eq!(berlin().time(day(2, 30), clock(0, 0)), None);
        assert_eq!(day(3, 1).before(), Some(day(2, 28)));
    }
}
