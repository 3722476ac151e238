//! Parsers of flag values. Each accepts one range, and its error names the range and an example.

use std::ops::RangeInclusive;
use std::time::Duration;

use mendline::decisions::config::RateLimit;
use mendline::decisions::policy::effect::Effect;
use mendline_config::keys::LONGEST;

/// Number of reconnect attempts; `None`: unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Retries(pub(super) Option<u32>);

/// Interval of pings on an idle connection; `None`: never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval(pub(super) Option<Duration>);

/// The shortest duration, as in the configuration file.
const SHORTEST: Duration = Duration::from_millis(1);

/// Parses a duration with its unit, from 1 ms up to the limit of the configuration file.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    const EXAMPLES: &str = "for example 30s, 5m or 1h30m";
    match humantime::parse_duration(text) {
        Ok(duration) if duration.is_zero() => Err(format!("must be longer than zero, {EXAMPLES}")),
        Ok(duration) if duration < SHORTEST => Err(format!("must be at least {}, {EXAMPLES}", shown(SHORTEST))),
        Ok(duration) if duration > LONGEST => Err(format!("must be at most {}, {EXAMPLES}", shown(LONGEST))),
        Ok(duration) => Ok(duration),
        Err(_) => Err(format!("must be a number with its unit, {EXAMPLES}")),
    }
}

pub(super) fn keep_alive(text: &str) -> Result<Interval, String> {
    const LEAST: Duration = Duration::from_secs(1);
    if text.eq_ignore_ascii_case("off") {
        return Ok(Interval(None));
    }
    match humantime::parse_duration(text) {
        Ok(interval) if (LEAST..=LONGEST).contains(&interval) => Ok(Interval(Some(interval))),
        _ => {
            let longest = shown(LONGEST);
            Err(format!(
                "must be off or a duration of at least 1s and at most {longest} with its unit, for example 30s"
            ))
        }
    }
}

pub(super) fn retries(text: &str) -> Result<Retries, String> {
    const MOST: u32 = 1_000_000;
    match text.parse::<i64>() {
        Ok(-1) => Ok(Retries(None)),
        Ok(number) if (0..=i64::from(MOST)).contains(&number) => Ok(Retries(u32::try_from(number).ok())),
        _ => Err(format!("must be a whole number from -1 (unlimited) to {MOST}, for example 5")),
    }
}

pub(super) fn multiplier(text: &str) -> Result<f64, String> {
    const MOST: f64 = 1000.0;
    match text.parse::<f64>() {
        Ok(number) if (1.0..=MOST).contains(&number) => Ok(number),
        _ => Err(format!("must be a number from 1 (every delay is as long as the first) to {MOST}, for example 1.5")),
    }
}

pub(super) fn attempts(text: &str) -> Result<u32, String> {
    whole(text, 1..=10, 3)
}

pub(super) fn resumptions(text: &str) -> Result<u32, String> {
    whole(text, 0..=1000, 10)
}

pub(super) fn resumptions_in_total(text: &str) -> Result<u32, String> {
    whole(text, 0..=100_000, 100)
}

pub(super) fn in_flight(text: &str) -> Result<usize, String> {
    whole(text, 1..=32_767, 16).map(|number| number as usize)
}

pub(super) fn waiting(text: &str) -> Result<usize, String> {
    whole(text, 1..=32_768, 100).map(|number| number as usize)
}

fn whole(text: &str, range: RangeInclusive<u32>, example: u32) -> Result<u32, String> {
    text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
        format!("must be a whole number from {} to {}, for example {example}", range.start(), range.end())
    })
}

pub(super) fn effect(text: &str) -> Result<(String, Effect), String> {
    let complaint = || "must be TOOL=EFFECT (read, idempotent or unsafe), for example search=read".to_owned();
    // A tool's name may contain `=`.
    let (tool, word) = text.rsplit_once('=').filter(|(tool, _)| !tool.is_empty()).ok_or_else(complaint)?;
    let effect = match word {
        "read" => Effect::Read,
        "idempotent" => Effect::Idempotent,
        "unsafe" => Effect::Unsafe,
        _ => return Err(complaint()),
    };
    Ok((tool.to_owned(), effect))
}

pub(super) fn threshold(text: &str) -> Result<u32, String> {
    whole(text, 1..=1000, 5)
}

pub(super) fn tool_timeout(text: &str) -> Result<(String, Duration), String> {
    let complaint = || "must be TOOL=DURATION, for example search=30s".to_owned();
    let (tool, time) = text.rsplit_once('=').filter(|(tool, _)| !tool.is_empty()).ok_or_else(complaint)?;
    duration(time).map(|time| (tool.to_owned(), time)).map_err(|_| complaint())
}

/// Parses `10/s`, `30/m`, `100/h`; after a colon the burst, by default the calls of one second.
pub(super) fn rate_limit(text: &str) -> Result<RateLimit, String> {
    const MOST: f64 = 100_000.0;
    let complaint = || {
        "must be a number of calls per s, m or h, from 1/h to 100000/s, and after a colon the burst (1 to 100000), \
         for example 10/s or 30/m:5"
            .to_owned()
    };
    let (rate, burst) = match text.split_once(':') {
        Some((rate, burst)) => (rate, Some(whole(burst, 1..=100_000, 5).map_err(|_| complaint())?)),
        None => (text, None),
    };
    let (number, unit) = rate.split_once('/').unwrap_or((rate, "s"));
    let seconds = match unit {
        "s" | "sec" | "second" => 1.0,
        "m" | "min" | "minute" => 60.0,
        "h" | "hour" => 3_600.0,
        _ => return Err(complaint()),
    };
    let per_second = number.parse::<f64>().map_err(|_| complaint())? / seconds;
    if !(1.0 / 3_600.0..=MOST).contains(&per_second) {
        return Err(complaint());
    }
    let burst = burst.unwrap_or_else(|| per_second.ceil() as u32);
    Ok(RateLimit { burst, per_second })
}

pub(super) fn shown(duration: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(duration)
}
