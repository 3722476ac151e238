//! The history of calls that fail or are retried.
//!
//! Most calls succeed, and their log lines would hide the others. A call that fails or is sent twice is logged from its
//! arrival on. So this module keeps the times of the arrival and of the last attempt of every open call, in a slot that
//! its server and its number select. When a call fails or is retried, both are written with that event, and every later
//! event of the call is logged.

use mendline_core::event::{Answered, ToolName};
use mendline_core::{ClientId, Event, UpstreamId};
use mendline_wire::Method;

use crate::observe::log::LogLevel;

/// The number of slots of a server. A call whose slot a later call takes has no history; its failure is logged without it.
const SLOTS: usize = 4096;

/// The events of a call before its first logged event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Before {
    pub(super) client: ClientId,
    pub(super) method: Method,
    pub(super) tool: Option<ToolName>,
    /// The time of its arrival, in microseconds since 1970.
    pub(super) accepted: u64,
    /// The last attempt that started.
    pub(super) sent: Option<Sent>,
}

/// The start of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// Its time, in microseconds since 1970.
    pub(super) at: u64,
    pub(super) attempt: u32,
    /// The id of the request on the wire.
    pub(super) number: u64,
}

#[derive(Clone)]
struct OpenCall {
    call: u64,
    before: Before,
    /// Its events are logged from now on.
    is_logged: bool,
}

/// The calls that are open.
#[derive(Default)]
pub(super) struct OpenCalls {
    /// The slots of each server.
    open: Vec<Vec<Option<OpenCall>>>,
}

impl OpenCalls {
    /// Returns the level at which an event of a call is logged, if it is, and the earlier events that were not logged.
    pub(super) fn observe(
        &mut self,
        event: &Event,
        level: LogLevel,
        at: u64,
    ) -> Option<(LogLevel, Option<Box<Before>>)> {
        match event {
            Event::CallAccepted { upstream, call, client, method, tool, .. } => {
                let (client, method, tool) = (*client, *method, tool.clone());
                let before = Before { client, method, tool, accepted: at, sent: None };
                self.open(*upstream, *call, before);
                None
            }
            Event::AttemptStarted { upstream, call, attempt, number } => {
                let open_call = self.find(*upstream, *call)?.as_mut()?;
                if open_call.is_logged {
                    return Some((LogLevel::Info, None));
                }
                open_call.before.sent = Some(Sent { at, attempt: *attempt, number: *number });
                None
            }
            Event::CallAnswered { upstream, call, result, .. } => match self.find(*upstream, *call)?.take() {
                Some(open_call) if open_call.is_logged => Some((LogLevel::Info, None)),
                Some(open_call) if *result != Answered::Ok => Some((LogLevel::Info, Some(Box::new(open_call.before)))),
                _ => None,
            },
            Event::AttemptEnded { upstream, call, .. }
            | Event::CallRetried { upstream, call, .. }
            | Event::VerdictAwaited { upstream, call, .. }
            | Event::HintsAwaited { upstream, call, .. }
            | Event::CallSilent { upstream, call, .. }
            | Event::SilenceEnded { upstream, call, .. }
            | Event::RetryRefused { upstream, call, .. }
            | Event::ResponseResumed { upstream, call, .. } => {
                let unlogged = self.find(*upstream, *call).and_then(Option::as_mut).filter(|it| !it.is_logged);
                let before = unlogged.map(|open_call| {
                    open_call.is_logged = true;
                    Box::new(open_call.before.clone())
                });
                Some((level.min(LogLevel::Info), before))
            }
            Event::RateLimited { upstream, call, .. } => {
                let is_logged = self.find(*upstream, *call)?.as_ref()?.is_logged;
                is_logged.then_some((LogLevel::Info, None))
            }
            Event::CallFailed { upstream, call, .. }
            | Event::CallCancelled { upstream, call, .. }
            | Event::CallAbandoned { upstream, call, .. } => {
                let open_call = self.find(*upstream, *call).and_then(Option::take).filter(|it| !it.is_logged);
                Some((level.min(LogLevel::Info), open_call.map(|open_call| Box::new(open_call.before))))
            }
            _ => (level <= LogLevel::Info).then_some((level, None)),
        }
    }

    fn open(&mut self, upstream: UpstreamId, call: u64, before: Before) {
        let (server, slot) = (usize::from(upstream.0), slot(call));
        if server >= self.open.len() {
            self.open.resize(server + 1, Vec::new());
        }
        let open = &mut self.open[server];
        if slot >= open.len() {
            open.resize(slot + 1, None);
        }
        open[slot] = Some(OpenCall { call, before, is_logged: false });
    }

    /// Returns the slot of this call, if it holds this call.
    fn find(&mut self, upstream: UpstreamId, call: u64) -> Option<&mut Option<OpenCall>> {
        let found = self.open.get_mut(usize::from(upstream.0))?.get_mut(slot(call))?;
        found.as_ref().is_some_and(|it| it.call == call).then_some(found)
    }
}

fn slot(call: u64) -> usize {
    (call % SLOTS as u64) as usize
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mendline_core::Outcome;
    use mendline_core::reason::Reason;

    use super::*;

    const NOTES: UpstreamId = UpstreamId(2);
    const FILES: UpstreamId = UpstreamId(1);

    /// Returns what is logged of these events, which are one microsecond apart.
    fn logged(events: &[Event]) -> Vec<(usize, LogLevel, Option<Before>)> {
        let mut open_calls = OpenCalls::default();
        let logged = events.iter().enumerate().filter_map(|(at, event)| {
            let (level, before) = open_calls.observe(event, LogLevel::from(event.level()), at as u64)?;
            Some((at, level, before.map(|before| *before)))
        });
        logged.collect()
    }

    fn before(accepted: u64) -> Before {
        Before { client: ClientId(1), method: Method::ToolsCall, tool: None, accepted, sent: None }
    }

    fn accepted(call: u64) -> Event {
        accepted_by(NOTES, call)
    }

    fn accepted_by(upstream: UpstreamId, call: u64) -> Event {
        Event::CallAccepted { upstream, call, client: ClientId(1), method: Method::ToolsCall, tool: None, trace: None }
    }

    fn sent(call: u64, attempt: u32) -> Event {
        Event::AttemptStarted { upstream: NOTES, call, attempt, number: 65_536 + u64::from(attempt) }
    }

    fn answered(call: u64, error: bool) -> Event {
        Event::CallAnswered {
            upstream: NOTES,
            call,
            method: Method::ToolsCall,
            tool: None,
            attempts: 1,
            result: if error { Answered::ToolError } else { Answered::Ok },
            took: Duration::ZERO,
            attempt_took: Duration::ZERO,
        }
    }

    fn retried(call: u64) -> Event {
        Event::CallRetried {
            upstream: NOTES,
            call,
            method: Method::ToolsCall,
            tool: None,
            attempt: 2,
            most: 3,
            outcome: Outcome::Unknown,
            rule: mendline_core::policy::rule::Rule::MayRepeat,
            why: Reason::ConnectionEnded,
            was_out: true,
        }
    }

    #[test]
    fn call_that_succeeds_is_not_logged() {
        assert_eq!(logged(&[accepted(1), sent(1, 1), answered(1, false)]), []);
    }

    #[test]
    fn retried_call_is_logged_from_its_beginning() {
        let before = Before { sent: Some(Sent { at: 1, attempt: 1, number: 65_537 }), ..before(0) };
        let events = [accepted(1), sent(1, 1), retried(1), sent(1, 2), retried(1), sent(1, 3), answered(1, false)];
        let expected = [
            (2, LogLevel::Warn, Some(before)),
            (3, LogLevel::Info, None),
            (4, LogLevel::Warn, None),
            (5, LogLevel::Info, None),
            (6, LogLevel::Info, None),
        ];
        assert_eq!(logged(&events), expected);
    }

    #[test]
    fn errors_and_cancelled_calls_are_logged_with_their_history() {
        assert_eq!(logged(&[accepted(1), answered(1, true)]), [(1, LogLevel::Info, Some(before(0)))]);
        let cancelled = Event::CallCancelled { upstream: NOTES, call: 2, sent: false, was_out: false };
        assert_eq!(logged(&[accepted(1), accepted(2), cancelled]), [(2, LogLevel::Info, Some(before(1)))]);
    }

    #[test]
    fn calls_of_two_servers_with_same_number_have_own_histories() {
        let other = Event::CallCancelled { upstream: FILES, call: 1, sent: false, was_out: false };
        let logged = logged(&[accepted(1), accepted_by(FILES, 1), retried(1), other]);
        let expected = [(2, LogLevel::Warn, Some(before(0))), (3, LogLevel::Info, Some(before(1)))];
        assert_eq!(logged, expected);
    }

    #[test]
    fn later_call_in_the_same_slot_has_its_own_history() {
        let again = 1 + SLOTS as u64;
        let events = [accepted(1), sent(1, 1), answered(1, false), accepted(again), retried(1), retried(again)];
        assert_eq!(logged(&events), [(4, LogLevel::Warn, None), (5, LogLevel::Warn, Some(before(3)))]);
    }
}
