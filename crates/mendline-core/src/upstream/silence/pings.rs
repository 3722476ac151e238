//! The pings on behalf of silent calls, and the durations of slow tools.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cx::{Alarm, Cx};
use crate::defaults;
use crate::event::ToolName;
use crate::moment::Moment;
use crate::port::UpstreamId;
use crate::timers::TimerId;

/// The pings on behalf of silent calls, and the durations of slow tools.
#[derive(Debug, Default)]
pub struct Silence {
    timer: Option<TimerId>,
    /// Pings without an answer in a row.
    missed: u32,
    /// The time at which the retry budget was charged for the silent calls.
    charged: Option<Moment>,
    /// The longest answers of tools that are slower than half of the usual limit.
    longest: BTreeMap<ToolName, Duration>,
}

impl Silence {
    /// Records the duration of an answered attempt.
    pub fn note_answer(&mut self, tool: Option<&ToolName>, took: Duration) {
        if took * 2 < defaults::SILENCE {
            return;
        }
        if let Some(tool) = tool
            && (self.longest.contains_key(tool) || self.longest.len() < defaults::TOOL_BREAKERS)
        {
            let longest = self.longest.entry(tool.clone()).or_default();
            *longest = took.max(*longest);
        }
    }

    /// The time after which a call of this tool is silent.
    pub fn limit(&self, tool: Option<&ToolName>) -> Duration {
        if self.longest.is_empty() {
            return defaults::SILENCE;
        }
        let longest = tool.and_then(|tool| self.longest.get(tool)).copied().unwrap_or_default();
        defaults::SILENCE.max(longest * 2)
    }

    /// Returns whether another ping is planned.
    pub fn is_planned(&self) -> bool {
        self.timer.is_some()
    }

    /// Plans another ping, unless one is planned. The waits grow while no ping is answered.
    pub fn plan_ping(&mut self, upstream: UpstreamId, cx: &mut Cx<'_>) {
        if self.timer.is_none() {
            let wait = (defaults::SILENCE_PING * 2u32.saturating_pow(self.missed.min(8))).min(defaults::SILENCE);
            self.missed += 1;
            self.timer = cx.wake_in(wait, Alarm::Silence(upstream));
        }
    }

    /// Records that its timer has fired.
    pub fn note_timer(&mut self) {
        self.timer = None;
    }

    /// Records an answered ping.
    pub fn note_pong(&mut self) {
        self.missed = 0;
    }

    /// Pays for the calls that became silent within one limit of silence: they are one incident. `charge` pays for an
    /// incident. Returns whether it is paid for.
    pub fn charge(&mut self, now: Moment, charge: impl FnOnce() -> bool) -> bool {
        let is_charged = self.charged.is_some_and(|charged| now.since(charged) < defaults::SILENCE);
        if !is_charged && charge() {
            self.charged = Some(now);
            return true;
        }
        is_charged
    }
}
