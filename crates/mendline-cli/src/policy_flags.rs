//! The flags of `mendline run` that set policies, by subject.
//!
//! Each flag accepts one range of values, and its error names the range and an example (see [`values`]).
//! [`PolicyFlags::apply`] reports flags that contradict each other. A policy without a flag keeps its value.

mod calls;
mod protection;
mod reconnect;
mod startup;
mod timeouts;
mod values;

use clap::Args;
use mendline::decisions::UpstreamConfig;
use mendline_config::{Environment, PolicySet};

use self::calls::CallFlags;
use self::protection::ProtectionFlags;
use self::reconnect::ReconnectFlags;
use self::startup::StartupFlags;
use self::timeouts::TimeoutFlags;
pub(crate) use self::values::duration;

/// All policy flags.
#[derive(Args)]
pub(crate) struct PolicyFlags {
    #[command(flatten)]
    reconnect: ReconnectFlags,
    #[command(flatten)]
    calls: CallFlags,
    #[command(flatten)]
    protection: ProtectionFlags,
    #[command(flatten)]
    timeouts: TimeoutFlags,
    #[command(flatten)]
    startup: StartupFlags,

    /// Any policy of the configuration file, by its key: timeouts.call=2m, circuitBreaker.window=1m; may be repeated.
    /// The other flags override it
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Any policy")]
    policy: Vec<String>,
}

impl PolicyFlags {
    /// Applies the flags to a server's policies, or reports a contradiction. A flag wins over the configuration file,
    /// which wins over the defaults.
    pub(crate) fn apply(&self, upstream: &mut UpstreamConfig) -> Result<(), String> {
        self.by_key()?.apply(upstream);
        upstream.reconnect = self.reconnect.policy(&upstream.reconnect)?;
        upstream.keep_alive = self.reconnect.keep_alive(upstream.keep_alive)?;
        self.calls.apply(upstream)?;
        self.protection.apply(upstream);
        self.startup.apply(upstream);
        self.timeouts.apply(upstream)
    }

    /// Returns the policies that are given by their keys.
    pub(crate) fn by_key(&self) -> Result<PolicySet, String> {
        let policies = self.policy.iter().map(String::as_str);
        PolicySet::parse(policies, &Environment::of_process()).map_err(|error| format!("--policy: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use mendline::decisions::config::{Breaker, Dialect, KeepAlive, OpenFor, RateLimit, Startup};
    use mendline::decisions::defaults;
    use mendline::decisions::policy::effect::Effect;
    use std::collections::BTreeMap;

    use std::time::Duration;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        policies: PolicyFlags,
    }

    /// Returns the policies of a server at a URL after these flags.
    fn chosen(flags: &str) -> Result<UpstreamConfig, String> {
        let line = Line::try_parse_from(std::iter::once("test").chain(flags.split_whitespace()))
            .map_err(|error| error.to_string())?;
        let mut upstream = UpstreamConfig::http("notes", "http://notes.test", Dialect::Auto);
        line.policies.apply(&mut upstream).map(|()| upstream)
    }

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn unset_flags_keep_the_defaults() {
        let (untouched, chosen) =
            (UpstreamConfig::http("notes", "http://notes.test", Dialect::Auto), chosen("").unwrap());
        assert_eq!(format!("{chosen:?}"), format!("{untouched:?}"));
    }

    #[test]
    fn every_flag_sets_its_policy() {
        let upstream = chosen(
            "--max-retries 7 --initial-retry-delay 2s --max-retry-delay 20s --backoff-multiplier 1.5 --tell-client \
             --keep-alive 15s --keep-alive-timeout 4s --max-attempts 5 --resume-attempts 2 --no-trust-hints \
             --effect a=read --effect b=c=unsafe --max-in-flight 9 --max-waiting 11 \
             --call-timeout 1m --total-timeout 3m --recovery-timeout 20s --handshake-timeout 7s \
             --call-retry-delay 50ms --max-call-retry-delay 2s --tool-timeout a=30s --tool-timeout c=2m \
             --breaker-threshold 3 --breaker-reset 1m --count-tool-errors --rate-limit 30/m:5 \
             --startup wait --no-catalogue",
        )
        .unwrap();
        let policy = &upstream.reconnect;
        assert_eq!((policy.attempts, policy.first), (7, None));
        // 2 + 3 + 4.5 + 6.75 + 10.125 + 15.1875 + 20 s, less the half that is random.
        assert_eq!(policy.patience, Duration::from_micros(30_781_250));
        assert_eq!((policy.initial, policy.multiplier, policy.silent), (seconds(2), 1.5, false));
        assert_eq!((policy.cap_idle, policy.cap_called), (seconds(20), defaults::RECONNECT_CAP_CALLED));
        assert_eq!(upstream.keep_alive, Some(KeepAlive { interval: seconds(15), timeout: seconds(4) }));
        assert_eq!((upstream.retry.attempts, upstream.resume_attempts, upstream.trust_hints), (5, 2, false));
        let effects = [("a".to_owned(), Effect::Read), ("b=c".to_owned(), Effect::Unsafe)];
        let times = [("a".to_owned(), seconds(30)), ("c".to_owned(), seconds(120))];
        let timed = upstream.tools.clone().into_iter().filter_map(|(tool, policy)| Some((tool, policy.timeout?)));
        assert_eq!(timed.collect::<BTreeMap<_, _>>(), BTreeMap::from(times));
        let told = upstream.tools.into_iter().filter_map(|(tool, policy)| Some((tool, policy.effect?)));
        assert_eq!(told.collect::<BTreeMap<_, _>>(), BTreeMap::from(effects));
        assert_eq!((upstream.limits.in_flight, upstream.limits.waiting), (9, 11));
        assert_eq!((upstream.catalogue.cache, upstream.catalogue.startup), (false, Startup::Wait));
        let timeouts = &upstream.timeouts;
        assert_eq!((timeouts.call, timeouts.total), (seconds(60), seconds(180)));
        assert_eq!((timeouts.recovery, timeouts.handshake), (seconds(20), seconds(7)));
        assert_eq!((upstream.retry.initial, upstream.retry.cap), (Duration::from_millis(50), seconds(2)));
        let breaker = upstream.breaker.expect("a breaker");
        assert_eq!((breaker.failures, breaker.open_for), (3, OpenFor::Exactly(seconds(60))));
        assert!(breaker.count_tool_errors);
        assert_eq!(upstream.rate_limit, Some(RateLimit { burst: 5, per_second: 0.5 }));
    }

    #[test]
    fn u03_policies_by_key_are_set_and_flags_override_them() {
        let upstream = chosen(
            "--policy timeouts.call=2m --call-timeout 3m --policy circuitBreaker.window=1m --policy retry.codes.-7=always",
        )
        .unwrap();
        assert_eq!(upstream.timeouts.call, seconds(180));
        assert_eq!(upstream.breaker.map(|breaker| breaker.window), Some(seconds(60)));
        assert!(upstream.retry.codes.contains_key(&-7), "{:?}", upstream.retry.codes);
        let complaint = chosen("--policy timeouts.cal=2m").unwrap_err();
        assert!(complaint.contains("--policy: unknown key `cal`; did you mean `call`?"), "{complaint}");
    }

    #[test]
    fn unset_flags_keep_the_values_of_the_file() {
        let mut upstream = UpstreamConfig::http("notes", "http://notes.test", Dialect::Auto);
        upstream.reconnect.attempts = 4;
        upstream.keep_alive = None;
        upstream.trust_hints = false;
        upstream.tools.entry("a".to_owned()).or_default().timeout = Some(seconds(9));
        let line = Line::try_parse_from(["test", "--effect", "a=read", "--backoff-multiplier", "3"]).unwrap();
        line.policies.apply(&mut upstream).unwrap();
        assert_eq!((upstream.reconnect.attempts, upstream.reconnect.multiplier), (4, 3.0));
        assert_eq!((upstream.keep_alive, upstream.trust_hints), (None, false));
        let tool = upstream.tools["a"];
        assert_eq!((tool.effect, tool.timeout), (Some(Effect::Read), Some(seconds(9))));
    }

    #[test]
    fn reconnect_can_be_off_or_unlimited() {
        assert!(!chosen("--no-reconnect").unwrap().reconnect.is_by_itself());
        assert!(!chosen("--max-retries 0").unwrap().reconnect.is_by_itself());
        assert_eq!(chosen("--max-retries -1").unwrap().reconnect.attempts, u32::MAX);
        assert_eq!(chosen("--max-retries=-1").unwrap().reconnect.attempts, u32::MAX);
    }

    #[test]
    fn breaker_can_be_turned_off_and_unset_parts_keep_defaults() {
        assert_eq!(chosen("--no-breaker").unwrap().breaker, None);
        let breaker = chosen("--breaker-threshold 8").unwrap().breaker.expect("a breaker");
        assert_eq!(breaker, Breaker { failures: 8, ..Breaker::default() });
    }

    #[test]
    fn rate_is_given_per_second_minute_or_hour() {
        for (flag, burst, per_second) in [
            ("10/s", 10, 10.0),
            ("10", 10, 10.0),
            ("2.5/s", 3, 2.5),
            ("30/m", 1, 0.5),
            ("30/m:5", 5, 0.5),
            ("1/h", 1, 1.0 / 3_600.0),
            ("600/minute:20", 20, 10.0),
        ] {
            let limit = chosen(&format!("--rate-limit {flag}")).unwrap().rate_limit;
            assert_eq!(limit, Some(RateLimit { burst, per_second }), "{flag}");
        }
    }

    #[test]
    fn keep_alive_can_be_turned_off() {
        assert_eq!(chosen("--keep-alive off").unwrap().keep_alive, None);
        let only_patience = chosen("--keep-alive-timeout 3s").unwrap().keep_alive;
        assert_eq!(only_patience, Some(KeepAlive { interval: defaults::KEEP_ALIVE, timeout: seconds(3) }));
    }

    #[test]
    fn unset_timeout_adapts_to_the_given_one() {
        let timeouts = chosen("--call-timeout 1h").unwrap().timeouts;
        assert_eq!((timeouts.call, timeouts.total), (seconds(3600), seconds(3600)));
        let timeouts = chosen("--total-timeout 1m").unwrap().timeouts;
        assert_eq!((timeouts.call, timeouts.total), (seconds(60), seconds(60)));
    }

    #[test]
    fn out_of_range_value_is_rejected_with_range_and_example() {
        for (flags, range, example) in [
            ("--max-retries -2", "-1 (unlimited) to 1000000", "5"),
            ("--max-retries 1000001", "-1 (unlimited) to 1000000", "5"),
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
            ("--initial-retry-delay 0s", "longer than zero", "30s"),
            ("--breaker-threshold 0", "1 to 1000", "5"),
            ("--breaker-threshold 1001", "1 to 1000", "5"),
            ("--breaker-threshold many", "1 to 1000", "5"),
            ("--breaker-reset 0s", "longer than zero", "30s"),
            ("--rate-limit 0/s", "1/h to 100000/s", "10/s"),
            ("--rate-limit -5/s", "1/h to 100000/s", "10/s"),
            ("--rate-limit 1e9/s", "1/h to 100000/s", "10/s"),
            ("--rate-limit NaN/s", "1/h to 100000/s", "10/s"),
            ("--rate-limit 5/d", "1/h to 100000/s", "10/s"),
            ("--rate-limit 5/s:0", "1 to 100000", "10/s"),
            ("--tool-timeout search", "TOOL=DURATION", "search=30s"),
            ("--tool-timeout search=0s", "TOOL=DURATION", "search=30s"),
            ("--tool-timeout =5s", "TOOL=DURATION", "search=30s"),
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
    fn contradicting_flags_are_reported() {
        for (flags, words) in [
            ("--no-reconnect --max-retries 5", "cannot be used with"),
            ("--no-reconnect --initial-retry-delay 1s", "cannot be used with"),
            ("--max-retries 0 --backoff-multiplier 3", "no effect with --max-retries 0"),
            ("--initial-retry-delay 1m", "longer than the longest delay, 30s"),
            ("--initial-retry-delay 3s --max-retry-delay 2s", "longer than the longest delay, 2s"),
            ("--keep-alive off --keep-alive-timeout 3s", "no effect with --keep-alive off"),
            ("--call-timeout 2m --total-timeout 1m", "longer than --total-timeout 1m"),
            ("--no-breaker --breaker-threshold 3", "cannot be used with"),
            ("--no-breaker --count-tool-errors", "cannot be used with"),
            ("--call-retry-delay 10s", "longer than the longest delay, 5s"),
            ("--tool-timeout a=1h", "longer than the limit of a whole call, 30m"),
            ("--tool-timeout a=1s --tool-timeout a=2s", "two different values for \"a\""),
            ("--effect a=read --effect a=unsafe", "two different values for \"a\""),
        ] {
            let complaint = chosen(flags).expect_err(flags);
            assert!(complaint.contains(words), "{flags}: {complaint}");
        }
        assert!(chosen("--effect a=read --effect a=read").is_ok());
        assert!(chosen("--initial-retry-delay 1m --max-retry-delay 2m").is_ok());
    }

    #[test]
    fn duration_without_unit_is_rejected() {
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert!(duration("5").unwrap_err().contains("for example 30s"));
        assert!(duration("0s").unwrap_err().contains("longer than zero"));
    }
}
