//! The targets of Mendline.
//!
//! Times are ratios to a relay of the same run, because ratios hold on any machine: over stdio to the byte relay, over
//! HTTP to the relay on the same libraries (`docs/adr/0008-http-benchmark-baseline.md`). Memory and start are absolute,
//! because users notice them. A target that was not measured is not reached.
//!
//! CPU time per call has two targets for both transports. With all processes on one processor, each message costs its own system calls, and
//! waking another processor costs nothing. With many calls in flight, the relay moves several messages per system call,
//! so that Mendline's work per message has the largest weight. One call at a time has a target over HTTP, where each call
//! needs the most work of its own, and a large result one over stdio, where the relay only copies it.

use serde_json::{Value, json};

use super::contender::MENDLINE;
use super::figure::{BIG_P50, CALLS, CPU_BUSY, CPU_LONE, CPU_TOGETHER, FIRST_ANSWER, P50, PSS_AT_REST};
use super::round::{Rounds, Spread};
use crate::plan::Over;

/// A target.
pub(crate) struct Target {
    pub(crate) what: &'static str,
    key: &'static str,
    measure: Measure,
    pub(crate) bound: Bound,
    pub(crate) unit: &'static str,
    /// The divisor that converts the measured number into the unit.
    per: f64,
    /// The only transport that has this target, if there is one.
    only: Option<Over>,
}

/// The computation of the judged number.
enum Measure {
    BeyondDirectAgainstFloor,
    AgainstFloor,
    BeyondDirect,
    AsItIs,
}

#[derive(Clone, Copy)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

const TARGETS: [Target; 8] = [
    times("added p50 of a call", P50, Measure::BeyondDirectAgainstFloor, Bound::AtMost(1.5)),
    times("calls/s, 32 in flight", CALLS, Measure::AgainstFloor, Bound::AtLeast(0.7)),
    times("CPU per call, all on one core", CPU_TOGETHER, Measure::AgainstFloor, Bound::AtMost(2.0)),
    times("CPU per call, 32 in flight", CPU_BUSY, Measure::AgainstFloor, Bound::AtMost(2.0)),
    times("CPU per call, one at a time", CPU_LONE, Measure::AgainstFloor, Bound::AtMost(1.3)).only(Over::Http),
    times("1 MiB result p50", BIG_P50, Measure::AgainstFloor, Bound::AtMost(1.5)).only(Over::Stdio),
    Target {
        what: "memory at rest (PSS)",
        key: PSS_AT_REST,
        measure: Measure::AsItIs,
        bound: Bound::AtMost(8.0),
        unit: "MiB",
        per: 1024.0,
        only: None,
    },
    Target {
        what: "first answer beyond direct",
        key: FIRST_ANSWER,
        measure: Measure::BeyondDirect,
        bound: Bound::AtMost(15.0),
        unit: "ms",
        per: 1000.0,
        only: None,
    },
];

/// A target and its measured value.
pub(crate) struct Verdict {
    pub(crate) target: &'static Target,
    /// In the unit of the target.
    pub(crate) measured: Option<Spread>,
}

/// Compares Mendline with all its targets over a transport. Ratios refer to `floor`.
pub(crate) fn judge(rounds: &Rounds, over: Over, floor: &str) -> Vec<Verdict> {
    let targets = const { &TARGETS }.iter().filter(|target| target.only.is_none_or(|only| only == over));
    targets.map(|target| Verdict { target, measured: target.measured(rounds, floor) }).collect()
}

/// Returns the ratios to another relay, for information.
pub(crate) fn ratios(rounds: &Rounds, over: Over, other: &str) -> Vec<Verdict> {
    let is_ratio = |verdict: &Verdict| !matches!(verdict.target.measure, Measure::BeyondDirect | Measure::AsItIs);
    judge(rounds, over, other).into_iter().filter(is_ratio).collect()
}

impl Target {
    /// Restricts the target to one transport.
    const fn only(self, over: Over) -> Target {
        Target { only: Some(over), ..self }
    }

    fn measured(&self, rounds: &Rounds, floor: &str) -> Option<Spread> {
        let raw = match self.measure {
            Measure::BeyondDirectAgainstFloor => rounds.beyond_direct_against(floor, MENDLINE, self.key),
            Measure::AgainstFloor => rounds.against(floor, MENDLINE, self.key),
            Measure::BeyondDirect => rounds.beyond_direct(MENDLINE, self.key),
            Measure::AsItIs => rounds.of(MENDLINE, self.key),
        }?;
        Some(Spread { median: raw.median / self.per, least: raw.least / self.per, most: raw.most / self.per })
    }
}

impl Bound {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(bound) => value <= bound,
            Self::AtLeast(bound) => value >= bound,
        }
    }
}

impl Verdict {
    pub(crate) fn is_reached(&self) -> bool {
        self.measured.is_some_and(|measured| self.target.bound.holds(measured.median))
    }

    pub(crate) fn to_json(&self) -> Value {
        let (at_most, at_least) = match self.target.bound {
            Bound::AtMost(bound) => (Some(bound), None),
            Bound::AtLeast(bound) => (None, Some(bound)),
        };
        json!({
            "what": self.target.what,
            "unit": self.target.unit,
            "at_most": at_most,
            "at_least": at_least,
            "median": self.measured.map(|measured| measured.median),
            "least": self.measured.map(|measured| measured.least),
            "most": self.measured.map(|measured| measured.most),
            "reached": self.is_reached(),
        })
    }
}

const fn times(what: &'static str, key: &'static str, measure: Measure, bound: Bound) -> Target {
    Target { what, key, measure, bound, unit: "×", per: 1.0, only: None }
}

#[cfg(test)]
mod tests {
    use super::super::contender::{DIRECT, RELAY};
    use super::super::round::Figures;
    use super::*;

    fn figures(p50: f64, calls: f64, cpu: f64, first: f64, pss: f64) -> Figures {
        let memory = (PSS_AT_REST, pss);
        // The bounds of these ratios are 1.3 and 1.5, those of the others 2.
        let alone = [(CPU_LONE, cpu * 1.3 / 2.0), (BIG_P50, cpu * 1.5 / 2.0)];
        [(P50, p50), (CALLS, calls), (CPU_TOGETHER, cpu), (CPU_BUSY, cpu), (FIRST_ANSWER, first), memory]
            .into_iter()
            .chain(alone)
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }

    /// The relay needs 4 µs for a call and for a large result.
    fn relay() -> Figures {
        let mut relay = figures(110.0, 500.0, 4.0, 3_000.0, 2_000.0);
        relay.extend([CPU_LONE, BIG_P50].map(|key| (key.to_owned(), 4.0)));
        relay
    }

    fn reached(over: Over, mendline: Figures) -> Vec<bool> {
        let mut rounds = Rounds::default();
        rounds.add(0, DIRECT, figures(10.0, 900.0, 0.0, 2_000.0, 0.0));
        rounds.add(0, RELAY, relay());
        rounds.add(0, MENDLINE, mendline);
        judge(&rounds, over, RELAY).iter().map(Verdict::is_reached).collect()
    }

    #[test]
    fn target_is_reached_at_its_bound() {
        for over in [Over::Stdio, Over::Http] {
            assert_eq!(reached(over, figures(160.0, 350.0, 8.0, 17_000.0, 8_192.0)), [true; 7]);
        }
    }

    #[test]
    fn target_is_missed_beyond_its_bound() {
        for over in [Over::Stdio, Over::Http] {
            assert_eq!(reached(over, figures(160.1, 349.9, 8.1, 17_001.0, 8_193.0)), [false; 7]);
        }
    }

    #[test]
    fn large_result_is_judged_over_stdio_and_single_call_over_http() {
        let names = |over| -> Vec<&str> {
            judge(&Rounds::default(), over, RELAY).iter().map(|verdict| verdict.target.what).collect()
        };
        let (stdio, http) = (names(Over::Stdio), names(Over::Http));
        assert!(stdio.contains(&"1 MiB result p50") && !http.contains(&"1 MiB result p50"));
        assert!(http.contains(&"CPU per call, one at a time") && !stdio.contains(&"CPU per call, one at a time"));
    }

    #[test]
    fn ratios_returns_only_targets_that_are_ratios() {
        let mut rounds = Rounds::default();
        rounds.add(0, DIRECT, figures(10.0, 900.0, 0.0, 2_000.0, 0.0));
        rounds.add(0, RELAY, figures(60.0, 500.0, 4.0, 3_000.0, 2_000.0));
        rounds.add(0, MENDLINE, figures(110.0, 250.0, 8.0, 3_000.0, 2_000.0));
        let ratios = ratios(&rounds, Over::Http, RELAY);
        let ratios: Vec<_> = ratios.iter().map(|verdict| verdict.measured.unwrap().median).collect();
        assert_eq!(ratios, [2.0, 0.5, 2.0, 2.0, 2.0]);
    }

    #[test]
    fn unmeasured_target_is_not_reached() {
        assert_eq!(reached(Over::Stdio, Figures::new()), [false; 7]);
        assert!(judge(&Rounds::default(), Over::Stdio, RELAY).iter().all(|verdict| !verdict.is_reached()));
    }
}
