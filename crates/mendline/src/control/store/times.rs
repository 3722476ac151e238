//! The start times of the durations in the state of one upstream.

use std::collections::BTreeMap;
use std::time::Duration;

use mendline_core::status::{BreakerStatus, UpstreamStatus};
use mendline_core::{Event, LinkState};

use super::entry::remaining;

/// The start times of the durations in the state of one upstream.
#[derive(Debug)]
pub(super) struct Times {
    /// The times at which the next dial was planned and the last pause started.
    pub(super) dial_planned_at: Duration,
    pub(super) paused_at: Duration,
    /// The times at which open breakers opened: the server's (`None`) and those of tools.
    opened_at: BTreeMap<Option<String>, Duration>,
    pub(super) last_error_at: Duration,
}

impl Times {
    pub(super) fn new(now: Duration) -> Times {
        Times { dial_planned_at: now, paused_at: now, opened_at: BTreeMap::new(), last_error_at: now }
    }

    /// Notes the times that later snapshots need. The status has the event already.
    pub(super) fn note(&mut self, event: &Event, status: &UpstreamStatus, now: Duration) {
        match event {
            Event::DialPlanned { .. } => self.dial_planned_at = now,
            Event::Paused { .. } => self.paused_at = now,
            Event::BreakerOpened { tool, .. } => drop(self.opened_at.insert(tool.clone(), now)),
            Event::BreakerClosed { tool, .. } => drop(self.opened_at.remove(tool)),
            // A repeated reason is a new error. A change that the operator requested is no error.
            Event::LinkStateChanged { to: LinkState::Waiting | LinkState::Parked, why, .. }
                if status.last_error.as_ref().map(|error| &error.why) == why.as_ref() =>
            {
                self.last_error_at = now;
            }
            Event::DialFailed { .. }
            | Event::ReconnectDisabled { .. }
            | Event::LoginRequired { .. }
            | Event::CallFailed { .. } => self.last_error_at = now,
            _ => {}
        }
    }

    /// The time until an open breaker may be probed, in milliseconds.
    pub(super) fn to_probe(&self, tool: Option<&str>, held: &BreakerStatus, now: Duration) -> Option<u64> {
        let (open_for, _) = held.open_for.as_ref()?;
        let opened_at = self.opened_at.get(&tool.map(str::to_owned)).copied().unwrap_or(now);
        Some(remaining(*open_for, opened_at, now))
    }
}
