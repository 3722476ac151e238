//! Snapshots as text for people.

use std::time::Duration;

use super::snapshot::{Breaker, BreakerState, Limit, Lists, Outcomes, Server, State, StateKind};

/// The severity of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// No problem.
    Healthy,
    /// A state that ends without intervention, or that the operator requested.
    Transient,
    /// A state that needs the operator.
    Unhealthy,
}

impl StateKind {
    /// Returns the severity of this state.
    pub fn severity(self) -> Severity {
        match self {
            StateKind::Ready | StateKind::Idle => Severity::Healthy,
            StateKind::Starting | StateKind::Reconnecting | StateKind::Stopping | StateKind::Isolated => {
                Severity::Transient
            }
            StateKind::NeedsLogin | StateKind::Parked => Severity::Unhealthy,
        }
    }

    /// Returns the stable name for metrics.
    pub fn name(self) -> &'static str {
        match self {
            StateKind::NeedsLogin => "needs_login",
            state => state.word(),
        }
    }

    /// Returns the name of this state.
    pub fn word(self) -> &'static str {
        match self {
            StateKind::Ready => "ready",
            StateKind::Idle => "idle",
            StateKind::Starting => "starting",
            StateKind::Reconnecting => "reconnecting",
            StateKind::Stopping => "stopping",
            StateKind::Isolated => "isolated",
            StateKind::NeedsLogin => "needs login",
            StateKind::Parked => "parked",
        }
    }
}

impl State {
    /// Returns a short text: `ready 2 h`, `reconnecting 3/10, next in 4 s`, `parked: connection refused`.
    pub fn words(&self) -> String {
        let word = self.kind.word();
        match self.kind {
            StateKind::Ready | StateKind::Starting | StateKind::Isolated | StateKind::Stopping | StateKind::Idle => {
                format!("{word} {}", span_ms(self.for_ms))
            }
            StateKind::Reconnecting => {
                let count = match (self.attempt, self.attempts) {
                    (Some(attempt), Some(most)) => format!(" {attempt}/{most}"),
                    (Some(attempt), None) => format!(" {attempt}"),
                    (None, _) => String::new(),
                };
                match self.next_in_ms {
                    Some(next) => format!("{word}{count}, next in {}", span_ms(next)),
                    None => format!("{word}{count}, trying"),
                }
            }
            StateKind::Parked | StateKind::NeedsLogin => match &self.why {
                Some(why) => format!("{word}: {why}"),
                None => word.to_owned(),
            },
        }
    }
}

impl Server {
    /// Returns the silent calls in words, if there are any.
    pub fn silence(&self) -> Option<String> {
        let (silent_for, call) = (span_ms(self.silent_for_ms?), self.silent_call.as_deref().unwrap_or_default());
        Some(match self.silent_calls {
            0 => return None,
            1 => format!("1 call has had no answer for {silent_for}: {call}"),
            several => format!("{several} calls have had no answer, the oldest for {silent_for}: {call}"),
        })
    }
}

impl Lists {
    /// Returns the changes in words, if there were any: `2 changed, 14 changes hidden`.
    pub fn words(&self) -> Option<String> {
        let Lists { changed, changes_hidden } = *self;
        let hidden = match changes_hidden {
            0 => String::new(),
            1 => ", 1 change hidden".to_owned(),
            several => format!(", {several} changes hidden"),
        };
        (changed + changes_hidden > 0).then(|| format!("{changed} changed{hidden}"))
    }
}

impl Outcomes {
    /// Returns the outcomes in words: `9 ok, 2 tool errors, 1 failed`. The same words and numbers are used everywhere.
    pub fn words(&self) -> String {
        let counted = [
            (self.tool_errors, "tool error", "tool errors"),
            (self.errors, "error", "errors"),
            (self.failed, "failed", "failed"),
            (self.unknown, "unknown", "unknown"),
            (self.rejected, "rejected", "rejected"),
        ];
        let mut words = format!("{} ok", self.ok);
        for (count, one, many) in counted.into_iter().filter(|(count, ..)| *count > 0) {
            words.push_str(&format!(", {count} {}", if count == 1 { one } else { many }));
        }
        words
    }
}

impl BreakerState {
    /// Returns the name of this state.
    pub fn word(self) -> &'static str {
        match self {
            BreakerState::Closed => "closed",
            BreakerState::Open => "open",
            BreakerState::HalfOpen => "half open",
            BreakerState::Isolated => "isolated",
        }
    }
}

impl Breaker {
    /// Returns a short text: `closed`, `open 12 s`, `2 tools open`.
    pub fn words(&self) -> String {
        match (self.state, self.tries_in_ms, self.tools.as_slice()) {
            (BreakerState::Open, Some(wait), _) => format!("open {}", span_ms(wait)),
            (BreakerState::Closed, _, [one]) => format!("{} {}", one.tool, one.state.word()),
            (BreakerState::Closed, _, [_, ..]) => format!("{} tools open", self.tools.len()),
            (state, ..) => state.word().to_owned(),
        }
    }
}

impl Limit {
    /// Returns a short text: `10/s`, `paused 3 s`; empty without a limit.
    pub fn words(&self) -> String {
        match (self.paused_ms, self.rate) {
            (Some(left), _) => format!("paused {}", span_ms(left)),
            (None, Some(rate)) => format!("{}/s", rate.per_second),
            (None, None) => String::new(),
        }
    }
}

/// Formats a duration in its largest unit.
pub fn span(time: Duration) -> String {
    span_ms(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// Formats milliseconds in their largest unit.
pub fn span_ms(millis: u64) -> String {
    const SECOND: u64 = 1_000;
    const MINUTE: u64 = 60 * SECOND;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    match millis {
        0..SECOND => format!("{millis} ms"),
        SECOND..MINUTE => format!("{} s", millis / SECOND),
        MINUTE..HOUR => format!("{} min", millis / MINUTE),
        HOUR..DAY => format!("{} h", millis / HOUR),
        _ => format!("{} d", millis / DAY),
    }
}

/// Formats the latency of a call: `420 µs`, `1.2 ms`, `80 ms`, `4.2 s`.
pub fn took_us(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..10_000 => format!("{}.{} ms", micros / 1_000, micros / 100 % 10),
        10_000..1_000_000 => format!("{} ms", micros / 1_000),
        1_000_000..10_000_000 => format!("{}.{} s", micros / 1_000_000, micros / 100_000 % 10),
        _ => span_ms(micros / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(kind: StateKind) -> State {
        State { kind, for_ms: 7_200_000, why: None, reason: None, attempt: None, attempts: None, next_in_ms: None }
    }

    #[test]
    fn states_are_formatted_with_times_attempts_and_reasons() {
        assert_eq!(state(StateKind::Ready).words(), "ready 2 h");
        let lost =
            State { attempt: Some(3), attempts: Some(10), next_in_ms: Some(4_200), ..state(StateKind::Reconnecting) };
        assert_eq!(lost.words(), "reconnecting 3/10, next in 4 s");
        assert_eq!(State { attempts: None, next_in_ms: None, ..lost }.words(), "reconnecting 3, trying");
        let parked = State { why: Some("connection refused".to_owned()), ..state(StateKind::Parked) };
        assert_eq!(parked.words(), "parked: connection refused");
    }

    #[test]
    fn durations_are_formatted_in_their_largest_unit() {
        let spans: Vec<String> = [999, 59_999, 60_000, 3_599_999, 86_399_999, 86_400_000].map(span_ms).into();
        assert_eq!(spans, ["999 ms", "59 s", "1 min", "59 min", "23 h", "1 d"]);
        let took: Vec<String> = [7, 1_250, 80_400, 4_260_000, 61_000_000].map(took_us).into();
        assert_eq!(took, ["7 µs", "1.2 ms", "80 ms", "4.2 s", "1 min"]);
    }
}
