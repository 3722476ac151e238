//! What a person may choose about mending: the flags of `mendline run` that become policies.
//!
//! Each flag has one meaning and one range, and its complaint says both and gives an example. What single flags cannot know,
//! that two of them contradict each other, is said by [`Choices::apply`]. What is not chosen keeps its default.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use clap::Args;
use mendline::decisions::UpstreamConfig;
use mendline::decisions::config::{AutoReconnect, KeepAlive, Reconnect, Startup, Transport};
use mendline::decisions::policy::effect::Effect;

/// Everything that may be chosen.
#[derive(Args)]
pub(crate) struct Choices {
    #[command(flatten)]
    reconnecting: Reconnecting,
    #[command(flatten)]
    calls: Calls,
    #[command(flatten)]
    waiting: Waiting,
    #[command(flatten)]
    starting: Starting,
}

#[derive(Args)]
#[command(next_help_heading = "Reconnecting")]
struct Reconnecting {
    /// Never reconnect by itself: a lost server is tried once when the next call needs it
    #[arg(long, conflicts_with_all = ["max_retries", "initial_retry_delay", "max_retry_delay", "backoff_multiplier"])]
    no_reconnect: bool,

    /// Tries before a lost server is only looked at now and then; -1: no end, 0: as --no-reconnect [default: 10, but not
    /// before two minutes have passed]
    #[arg(long, value_name = "N", value_parser = retries, allow_negative_numbers = true)]
    max_retries: Option<Retries>,

    /// The wait before the first try; half of every wait is chance, so that many clients do not come at once [default: up
    /// to 200ms]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    initial_retry_delay: Option<Duration>,

    /// The longest wait between two tries [default: 30s; 5s at most while a call waits]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    max_retry_delay: Option<Duration>,

    /// How many times longer each wait is than the one before [default: 2]
    #[arg(long, value_name = "X", value_parser = multiplier, allow_negative_numbers = true)]
    backoff_multiplier: Option<f64>,

    /// Tell the client about it: as progress of calls that wait, and as log messages if it asked for them
    #[arg(long)]
    tell_client: bool,

    /// An idle server is asked whether it is there this often, and replaced if it misses twice; off: never [default: 30s]
    #[arg(long, value_name = "DURATION|off", value_parser = keep_alive)]
    keep_alive: Option<Interval>,

    /// How long it has to answer that [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    keep_alive_timeout: Option<Duration>,
}

#[derive(Args)]
#[command(next_help_heading = "Calls")]
struct Calls {
    /// How often a call may be sent in all, when it is safe to send it again [default: 3]
    #[arg(long, value_name = "N", value_parser = attempts, allow_negative_numbers = true)]
    max_attempts: Option<u32>,

    /// How often a response from a URL that broke off is asked for again without anything new in it [default: 10]
    #[arg(long, value_name = "N", value_parser = resumptions, allow_negative_numbers = true)]
    resume_attempts: Option<u32>,

    /// What a tool does, whatever its server says: read, idempotent (both may be called again when nobody knows whether
    /// they ran) or unsafe (never); may be given several times
    #[arg(long, value_name = "TOOL=EFFECT", value_parser = effect)]
    effect: Vec<(String, Effect)>,

    /// Do not believe what the server says about its tools: all are unsafe but those named by --effect
    #[arg(long)]
    no_trust_hints: bool,

    /// How many calls may be with the server at once; others wait [default: 256]
    #[arg(long, value_name = "N", value_parser = in_flight, allow_negative_numbers = true)]
    max_in_flight: Option<usize>,

    /// How many calls may wait; others are refused at once [default: 1024]
    #[arg(long, value_name = "N", value_parser = waiting, allow_negative_numbers = true)]
    max_waiting: Option<usize>,
}

#[derive(Args)]
#[command(next_help_heading = "Time")]
struct Waiting {
    /// How long a call may take, counted from its arrival or its last progress [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    call_timeout: Option<Duration>,

    /// How long a call may take in all, whatever progress it reports [default: 30m]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    total_timeout: Option<Duration>,

    /// How long a call waits for a server that is not there; most clients give up after a minute [default: 45s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    recovery_timeout: Option<Duration>,

    /// How long a new session may take to be greeted [default: 1m for a command, which may have to be downloaded; 10s for
    /// a URL]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    handshake_timeout: Option<Duration>,
}

#[derive(Args)]
#[command(next_help_heading = "Starting")]
struct Starting {
    /// What the client's greeting waits for: at-once answers it, and the lists, from what was last known of the server while
    /// it starts, and without that after three seconds; wait leaves it to the server, however long it takes [default:
    /// at-once]
    #[arg(long, value_name = "at-once|wait", value_enum, hide_possible_values = true)]
    startup: Option<StartupFlag>,

    /// Keep nothing of what the server says of itself, neither for the next time nor for while it is away
    #[arg(long)]
    no_catalogue: bool,
}

/// What a client's greeting waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum StartupFlag {
    AtOnce,
    Wait,
}

impl Choices {
    /// Makes policies of what was chosen, or says what cannot be. What is not chosen stays as it was: a flag wins over the
    /// configuration file, which wins over the defaults.
    pub(crate) fn apply(&self, upstream: &mut UpstreamConfig) -> Result<(), String> {
        upstream.reconnect = self.reconnecting.policy(&upstream.reconnect)?;
        upstream.keep_alive = self.reconnecting.keep_alive(upstream.keep_alive)?;
        self.calls.apply(upstream)?;
        self.starting.apply(upstream);
        self.waiting.apply(upstream)
    }
}

impl Reconnecting {
    fn policy(&self, before: &Reconnect) -> Result<Reconnect, String> {
        let delays = [
            ("--initial-retry-delay", self.initial_retry_delay.is_some()),
            ("--max-retry-delay", self.max_retry_delay.is_some()),
            ("--backoff-multiplier", self.backoff_multiplier.is_some()),
        ];
        if let (Some(Retries(Some(0))), Some((flag, _))) = (self.max_retries, delays.iter().find(|(_, given)| *given)) {
            return Err(format!("{flag} has no meaning with --max-retries 0: nothing is tried by itself"));
        }
        let said = AutoReconnect {
            enabled: self.no_reconnect.then_some(false),
            max_retries: self.max_retries.map(|Retries(most)| most),
            initial_retry_delay: self.initial_retry_delay,
            max_retry_delay: self.max_retry_delay,
            backoff_multiplier: self.backoff_multiplier,
            silent: self.tell_client.then_some(false),
        };
        let policy = said.over(before.clone());
        match self.initial_retry_delay {
            Some(initial) if initial > policy.cap_idle => Err(format!(
                "--initial-retry-delay {} is longer than the longest wait, {}; raise --max-retry-delay",
                shown(initial),
                shown(policy.cap_idle)
            )),
            _ => Ok(policy),
        }
    }

    fn keep_alive(&self, before: Option<KeepAlive>) -> Result<Option<KeepAlive>, String> {
        if self.keep_alive.is_none() && self.keep_alive_timeout.is_none() {
            return Ok(before);
        }
        let mut policy = before.unwrap_or_default();
        match self.keep_alive {
            Some(Interval(None)) if self.keep_alive_timeout.is_some() => {
                return Err("--keep-alive-timeout has no meaning with --keep-alive off: nothing is asked".to_owned());
            }
            Some(Interval(None)) => return Ok(None),
            Some(Interval(Some(interval))) => policy.interval = interval,
            None => {}
        }
        policy.timeout = self.keep_alive_timeout.unwrap_or(policy.timeout);
        Ok(Some(policy))
    }
}

impl Calls {
    fn apply(&self, upstream: &mut UpstreamConfig) -> Result<(), String> {
        if self.resume_attempts.is_some() && upstream.transport == Transport::Child {
            return Err("--resume-attempts is for servers at a URL; a command's answers cannot be resumed".to_owned());
        }
        let mut effects = BTreeMap::new();
        for (tool, effect) in &self.effect {
            if effects.insert(tool.clone(), *effect).is_some_and(|before| before != *effect) {
                return Err(format!("--effect says two different things about {tool:?}"));
            }
        }
        for (tool, effect) in effects {
            upstream.tools.entry(tool).or_default().effect = Some(effect);
        }
        upstream.trust_hints &= !self.no_trust_hints;
        upstream.retry.attempts = self.max_attempts.unwrap_or(upstream.retry.attempts);
        upstream.resume_attempts = self.resume_attempts.unwrap_or(upstream.resume_attempts);
        upstream.limits.in_flight = self.max_in_flight.unwrap_or(upstream.limits.in_flight);
        upstream.limits.waiting = self.max_waiting.unwrap_or(upstream.limits.waiting);
        Ok(())
    }
}

impl Starting {
    fn apply(&self, upstream: &mut UpstreamConfig) {
        upstream.catalogue.cache &= !self.no_catalogue;
        upstream.catalogue.startup = match self.startup {
            Some(StartupFlag::AtOnce) => Startup::AtOnce,
            Some(StartupFlag::Wait) => Startup::Wait,
            None => upstream.catalogue.startup,
        };
    }
}

impl Waiting {
    fn apply(&self, upstream: &mut UpstreamConfig) -> Result<(), String> {
        let timeouts = &mut upstream.timeouts;
        match (self.call_timeout, self.total_timeout) {
            (Some(call), Some(total)) if call > total => {
                return Err(format!(
                    "--call-timeout {} is longer than --total-timeout {}, which no call may exceed",
                    shown(call),
                    shown(total)
                ));
            }
            // Who chooses only one of them means it: the other gives way.
            (Some(call), total) => {
                timeouts.call = call;
                timeouts.total = total.unwrap_or(timeouts.total.max(call));
            }
            (None, Some(total)) => {
                timeouts.total = total;
                timeouts.call = timeouts.call.min(total);
            }
            (None, None) => {}
        }
        timeouts.recovery = self.recovery_timeout.unwrap_or(timeouts.recovery);
        timeouts.handshake = self.handshake_timeout.unwrap_or(timeouts.handshake);
        Ok(())
    }
}

/// How many tries; `None`: no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Retries(Option<u32>);

/// How often an idle line is tested; `None`: never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval(Option<Duration>);

/// A duration with its unit, longer than nothing.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    const EXAMPLES: &str = "for example 30s, 5m or 1h30m";
    match humantime::parse_duration(text) {
        Ok(duration) if duration.is_zero() => Err(format!("must be longer than nothing, {EXAMPLES}")),
        Ok(duration) => Ok(duration),
        Err(_) => Err(format!("must be a number with its unit, {EXAMPLES}")),
    }
}

fn keep_alive(text: &str) -> Result<Interval, String> {
    const LEAST: Duration = Duration::from_secs(1);
    if text.eq_ignore_ascii_case("off") {
        return Ok(Interval(None));
    }
    match humantime::parse_duration(text) {
        Ok(interval) if interval >= LEAST => Ok(Interval(Some(interval))),
        _ => Err("must be off or a duration of at least 1s with its unit, for example 30s".to_owned()),
    }
}

fn retries(text: &str) -> Result<Retries, String> {
    const MOST: u32 = 1_000_000;
    match text.parse::<i64>() {
        Ok(-1) => Ok(Retries(None)),
        Ok(number) if (0..=i64::from(MOST)).contains(&number) => Ok(Retries(u32::try_from(number).ok())),
        _ => Err(format!("must be a whole number from -1 (no end) to {MOST}, for example 5")),
    }
}

fn multiplier(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 1.0 => Ok(number),
        _ => Err("must be a number from 1 (every wait is as long as the first) upwards, for example 1.5".to_owned()),
    }
}

fn attempts(text: &str) -> Result<u32, String> {
    whole(text, 1..=10, 3)
}

fn resumptions(text: &str) -> Result<u32, String> {
    whole(text, 0..=1000, 10)
}

fn in_flight(text: &str) -> Result<usize, String> {
    whole(text, 1..=32_767, 16).map(|number| number as usize)
}

fn waiting(text: &str) -> Result<usize, String> {
    whole(text, 1..=32_768, 100).map(|number| number as usize)
}

fn whole(text: &str, range: RangeInclusive<u32>, example: u32) -> Result<u32, String> {
    text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
        format!("must be a whole number from {} to {}, for example {example}", range.start(), range.end())
    })
}

fn effect(text: &str) -> Result<(String, Effect), String> {
    let complaint =
        || "must be a tool and what it does (read, idempotent or unsafe), for example search=read".to_owned();
    // Nobody promises that a tool's name has no `=` in it.
    let (tool, word) = text.rsplit_once('=').filter(|(tool, _)| !tool.is_empty()).ok_or_else(complaint)?;
    let effect = match word {
        "read" => Effect::Read,
        "idempotent" => Effect::Idempotent,
        "unsafe" => Effect::Unsafe,
        _ => return Err(complaint()),
    };
    Ok((tool.to_owned(), effect))
}

fn shown(duration: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(duration)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use mendline::decisions::config::Dialect;
    use mendline::decisions::defaults;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        choices: Choices,
    }

    /// The policies of a server at a URL after these flags.
    fn chosen(flags: &str) -> Result<UpstreamConfig, String> {
        let line = Line::try_parse_from(std::iter::once("test").chain(flags.split_whitespace()))
            .map_err(|error| error.to_string())?;
        let mut upstream = UpstreamConfig::http("notes", "http://notes.test", Dialect::Auto);
        line.choices.apply(&mut upstream).map(|()| upstream)
    }

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn what_is_not_chosen_keeps_its_default() {
        let (untouched, chosen) =
            (UpstreamConfig::http("notes", "http://notes.test", Dialect::Auto), chosen("").unwrap());
        assert_eq!(format!("{chosen:?}"), format!("{untouched:?}"));
    }

    #[test]
    fn every_choice_arrives_where_it_is_meant() {
        let upstream = chosen(
            "--max-retries 7 --initial-retry-delay 2s --max-retry-delay 20s --backoff-multiplier 1.5 --tell-client \
             --keep-alive 15s --keep-alive-timeout 4s --max-attempts 5 --resume-attempts 2 --no-trust-hints \
             --effect a=read --effect b=c=unsafe --max-in-flight 9 --max-waiting 11 \
             --call-timeout 1m --total-timeout 3m --recovery-timeout 20s --handshake-timeout 7s \
             --startup wait --no-catalogue",
        )
        .unwrap();
        let policy = &upstream.reconnect;
        assert_eq!((policy.attempts, policy.patience, policy.first), (7, Duration::ZERO, None));
        assert_eq!((policy.initial, policy.multiplier, policy.silent), (seconds(2), 1.5, false));
        assert_eq!((policy.cap_idle, policy.cap_called), (seconds(20), defaults::RECONNECT_CAP_CALLED));
        assert_eq!(upstream.keep_alive, Some(KeepAlive { interval: seconds(15), timeout: seconds(4) }));
        assert_eq!((upstream.retry.attempts, upstream.resume_attempts, upstream.trust_hints), (5, 2, false));
        let effects = [("a".to_owned(), Effect::Read), ("b=c".to_owned(), Effect::Unsafe)];
        let told = upstream.tools.into_iter().filter_map(|(tool, policy)| Some((tool, policy.effect?)));
        assert_eq!(told.collect::<BTreeMap<_, _>>(), BTreeMap::from(effects));
        assert_eq!((upstream.limits.in_flight, upstream.limits.waiting), (9, 11));
        assert_eq!((upstream.catalogue.cache, upstream.catalogue.startup), (false, Startup::Wait));
        let timeouts = &upstream.timeouts;
        assert_eq!((timeouts.call, timeouts.total), (seconds(60), seconds(180)));
        assert_eq!((timeouts.recovery, timeouts.handshake), (seconds(20), seconds(7)));
    }

    #[test]
    fn what_is_not_chosen_stays_as_the_file_has_it() {
        let mut upstream = UpstreamConfig::http("notes", "http://notes.test", Dialect::Auto);
        upstream.reconnect.attempts = 4;
        upstream.keep_alive = None;
        upstream.trust_hints = false;
        upstream.tools.entry("a".to_owned()).or_default().timeout = Some(seconds(9));
        let line = Line::try_parse_from(["test", "--effect", "a=read", "--backoff-multiplier", "3"]).unwrap();
        line.choices.apply(&mut upstream).unwrap();
        assert_eq!((upstream.reconnect.attempts, upstream.reconnect.multiplier), (4, 3.0));
        assert_eq!((upstream.keep_alive, upstream.trust_hints), (None, false));
        let tool = upstream.tools["a"];
        assert_eq!((tool.effect, tool.timeout), (Some(Effect::Read), Some(seconds(9))));
    }

    #[test]
    fn not_reconnecting_has_two_names_and_no_end_has_one() {
        assert!(!chosen("--no-reconnect").unwrap().reconnect.is_by_itself());
        assert!(!chosen("--max-retries 0").unwrap().reconnect.is_by_itself());
        assert_eq!(chosen("--max-retries -1").unwrap().reconnect.attempts, u32::MAX);
        assert_eq!(chosen("--max-retries=-1").unwrap().reconnect.attempts, u32::MAX);
    }

    #[test]
    fn keep_alive_can_be_turned_off() {
        assert_eq!(chosen("--keep-alive off").unwrap().keep_alive, None);
        let only_patience = chosen("--keep-alive-timeout 3s").unwrap().keep_alive;
        assert_eq!(only_patience, Some(KeepAlive { interval: defaults::KEEP_ALIVE, timeout: seconds(3) }));
    }

    #[test]
    fn of_two_timeouts_the_one_that_is_not_chosen_gives_way() {
        let timeouts = chosen("--call-timeout 1h").unwrap().timeouts;
        assert_eq!((timeouts.call, timeouts.total), (seconds(3600), seconds(3600)));
        let timeouts = chosen("--total-timeout 1m").unwrap().timeouts;
        assert_eq!((timeouts.call, timeouts.total), (seconds(60), seconds(60)));
    }

    #[test]
    fn a_value_out_of_range_is_refused_with_the_range_and_an_example() {
        for (flags, range, example) in [
            ("--max-retries -2", "-1 (no end) to 1000000", "5"),
            ("--max-retries 1000001", "-1 (no end) to 1000000", "5"),
            ("--backoff-multiplier 0.9", "from 1", "1.5"),
            ("--backoff-multiplier inf", "from 1", "1.5"),
            ("--backoff-multiplier NaN", "from 1", "1.5"),
            ("--keep-alive 999ms", "at least 1s", "30s"),
            ("--max-attempts 0", "1 to 10", "3"),
            ("--max-attempts 11", "1 to 10", "3"),
            ("--resume-attempts -1", "0 to 1000", "10"),
            ("--max-in-flight 0", "1 to 32767", "16"),
            ("--max-in-flight 32768", "1 to 32767", "16"),
            ("--max-waiting 0", "1 to 32768", "100"),
            ("--initial-retry-delay 0s", "longer than nothing", "30s"),
            ("--effect search", "read, idempotent or unsafe", "search=read"),
            ("--effect =read", "read, idempotent or unsafe", "search=read"),
            ("--effect search=safe", "read, idempotent or unsafe", "search=read"),
        ] {
            let complaint = chosen(flags).expect_err(flags);
            assert!(complaint.contains(range), "{flags}: {complaint}");
            assert!(complaint.contains(&format!("for example {example}")), "{flags}: {complaint}");
        }
    }

    #[test]
    fn choices_that_contradict_each_other_are_said() {
        for (flags, words) in [
            ("--no-reconnect --max-retries 5", "cannot be used with"),
            ("--no-reconnect --initial-retry-delay 1s", "cannot be used with"),
            ("--max-retries 0 --backoff-multiplier 3", "no meaning with --max-retries 0"),
            ("--initial-retry-delay 1m", "longer than the longest wait, 30s"),
            ("--initial-retry-delay 3s --max-retry-delay 2s", "longer than the longest wait, 2s"),
            ("--keep-alive off --keep-alive-timeout 3s", "no meaning with --keep-alive off"),
            ("--call-timeout 2m --total-timeout 1m", "longer than --total-timeout 1m"),
            ("--effect a=read --effect a=unsafe", "two different things about \"a\""),
        ] {
            let complaint = chosen(flags).expect_err(flags);
            assert!(complaint.contains(words), "{flags}: {complaint}");
        }
        assert!(chosen("--effect a=read --effect a=read").is_ok());
        assert!(chosen("--initial-retry-delay 1m --max-retry-delay 2m").is_ok());
    }

    #[test]
    fn a_duration_needs_a_unit_and_says_so() {
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert!(duration("5").unwrap_err().contains("for example 30s"));
        assert!(duration("0s").unwrap_err().contains("longer than nothing"));
    }
}
