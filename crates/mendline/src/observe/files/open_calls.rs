//! The stories of single calls, for those that go wrong.
//!
//! Thousands of calls go well, and nobody wants to read that each was accepted, sent and answered. But of the one that was
//! sent twice or failed, all of it is of interest, from the beginning. So for every open call we remember when it came and
//! when it was sent: two numbers in a place that is found without a search, since calls are numbered by their place. When a
//! call goes wrong, that is written with the event that says so, and from then on everything that happens to this call.

use mendline_core::{Event, UpstreamId};
use mendline_wire::Method;

use crate::observe::log::LogLevel;

/// A call's number ends with its place.
const PLACE_BITS: u32 = 16;

/// Calls beyond this place are not remembered; their failures are told all the same.
const MOST: usize = 4096;

/// What came before an event in the story of its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Before {
    pub(super) method: Method,
    /// When it came, in microseconds since 1970.
    pub(super) accepted: u64,
    /// When it was sent, and as which attempt.
    pub(super) sent: Option<Sent>,
}

/// That an attempt was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// When, in microseconds since 1970.
    pub(super) at: u64,
    pub(super) attempt: u32,
    /// What the server knows it by.
    pub(super) number: u64,
}

#[derive(Clone, Copy)]
struct OpenCall {
    upstream: UpstreamId,
    call: u64,
    before: Before,
    /// It is told as it goes on.
    is_told: bool,
}

/// The calls that are open.
#[derive(Default)]
pub(super) struct OpenCalls {
    open: Vec<Option<OpenCall>>,
}

impl OpenCalls {
    /// Whether what happened to a call is to be told, how loud, and what came before it that was not told yet.
    pub(super) fn hear(
        &mut self,
        event: &Event,
        level: LogLevel,
        now: impl Fn() -> u64,
    ) -> Option<(LogLevel, Option<Box<Before>>)> {
        match *event {
            Event::CallAccepted { upstream, call, method } => {
                self.open(upstream, call, Before { method, accepted: now(), sent: None });
                None
            }
            Event::CallSent { upstream, call, attempt, number } => {
                let open_call = self.find(upstream, call)?.as_mut()?;
                if open_call.is_told {
                    return Some((LogLevel::Info, None));
                }
                open_call.before.sent = Some(Sent { at: now(), attempt, number });
                // Its messages bear another number than its story from now on, and only this line says so.
                (number != call).then(|| {
                    open_call.is_told = true;
                    (LogLevel::Info, Some(Box::new(Before { sent: None, ..open_call.before })))
                })
            }
            Event::CallAnswered { upstream, call, error, .. } => match self.find(upstream, call)?.take() {
                Some(open_call) if open_call.is_told => Some((LogLevel::Info, None)),
                Some(open_call) if error => Some((LogLevel::Info, Some(Box::new(open_call.before)))),
                _ => None,
            },
            Event::CallRetried { upstream, call, .. } => {
                let untold = self.find(upstream, call).and_then(Option::as_mut).filter(|open_call| !open_call.is_told);
                let before = untold.map(|open_call| {
                    open_call.is_told = true;
                    Box::new(open_call.before)
                });
                Some((level.min(LogLevel::Info), before))
            }
            Event::RateLimited { upstream, call, .. } => {
                let is_told = self.find(upstream, call)?.as_ref()?.is_told;
                is_told.then_some((LogLevel::Info, None))
            }
            Event::CallFailed { upstream, call, .. }
            | Event::CallCancelled { upstream, call, .. }
            | Event::CallAbandoned { upstream, call, .. } => {
                let open_call = self.find(upstream, call).and_then(Option::take).filter(|open_call| !open_call.is_told);
                Some((level.min(LogLevel::Info), open_call.map(|open_call| Box::new(open_call.before))))
            }
            _ => (level <= LogLevel::Info).then_some((level, None)),
        }
    }

    fn open(&mut self, upstream: UpstreamId, call: u64, before: Before) {
        let place = place(call);
        if place >= MOST {
            return;
        }
        if place >= self.open.len() {
            self.open.resize(place + 1, None);
        }
        self.open[place] = Some(OpenCall { upstream, call, before, is_told: false });
    }

    /// The place of this call, if its story lies there.
    fn find(&mut self, upstream: UpstreamId, call: u64) -> Option<&mut Option<OpenCall>> {
        let found = self.open.get_mut(place(call))?;
        found
            .as_ref()
            .is_some_and(|open_call| open_call.call == call && open_call.upstream == upstream)
            .then_some(found)
    }
}

fn place(call: u64) -> usize {
    (call & ((1 << PLACE_BITS) - 1)) as usize
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mendline_core::Outcome;

    use super::*;

    const NOTES: UpstreamId = UpstreamId(0);

    /// What is told of these events, which happen a microsecond apart.
    fn told(events: &[Event]) -> Vec<(usize, LogLevel, Option<Before>)> {
        let mut open_calls = OpenCalls::default();
        let told = events.iter().enumerate().filter_map(|(at, event)| {
            let (level, before) = open_calls.hear(event, LogLevel::from(event.level()), || at as u64)?;
            Some((at, level, before.map(|before| *before)))
        });
        told.collect()
    }

    fn accepted(call: u64) -> Event {
        Event::CallAccepted { upstream: NOTES, call, method: Method::ToolsCall }
    }

    fn sent(call: u64, attempt: u32) -> Event {
        Event::CallSent { upstream: NOTES, call, attempt, number: call + (u64::from(attempt - 1) << PLACE_BITS) }
    }

    fn answered(call: u64, error: bool) -> Event {
        let (method, took) = (Method::ToolsCall, Duration::ZERO);
        Event::CallAnswered { upstream: NOTES, call, method, attempts: 1, error, took }
    }

    fn retried(call: u64) -> Event {
        Event::CallRetried { upstream: NOTES, call, attempt: 2, outcome: Outcome::Unknown }
    }

    #[test]
    fn a_call_that_goes_well_is_no_news() {
        assert_eq!(told(&[accepted(1), sent(1, 1), answered(1, false)]), []);
    }

    #[test]
    fn a_call_that_is_sent_again_is_told_from_its_beginning_to_its_end() {
        let before =
            Before { method: Method::ToolsCall, accepted: 0, sent: Some(Sent { at: 1, attempt: 1, number: 1 }) };
        let events = [accepted(1), sent(1, 1), retried(1), sent(1, 2), retried(1), sent(1, 3), answered(1, false)];
        let expected = [
            (2, LogLevel::Warn, Some(before)),
            (3, LogLevel::Info, None),
            (4, LogLevel::Warn, None),
            (5, LogLevel::Info, None),
            (6, LogLevel::Info, None),
        ];
        assert_eq!(told(&events), expected);
    }

    #[test]
    fn a_call_that_did_not_get_there_is_told_when_it_goes_out_under_another_number() {
        let before = Before { method: Method::ToolsCall, accepted: 0, sent: None };
        let again = Event::CallSent { upstream: NOTES, call: 1, attempt: 1, number: 1 << PLACE_BITS | 1 };
        let events = [accepted(1), sent(1, 1), again, answered(1, false)];
        assert_eq!(told(&events), [(2, LogLevel::Info, Some(before)), (3, LogLevel::Info, None)]);
    }

    #[test]
    fn an_error_for_an_answer_and_a_cancelled_call_are_told_with_what_came_before() {
        let before = |at| Some(Before { method: Method::ToolsCall, accepted: at, sent: None });
        assert_eq!(told(&[accepted(1), answered(1, true)]), [(1, LogLevel::Info, before(0))]);
        let cancelled = Event::CallCancelled { upstream: NOTES, call: 2, sent: false, was_out: false };
        assert_eq!(told(&[accepted(1), accepted(2), cancelled]), [(2, LogLevel::Info, before(1))]);
    }

    #[test]
    fn another_call_in_the_same_place_has_its_own_story() {
        let again = 1 << PLACE_BITS | 1;
        let events = [accepted(1), sent(1, 1), answered(1, false), accepted(again), retried(1), retried(again)];
        let before = Before { method: Method::ToolsCall, accepted: 3, sent: None };
        assert_eq!(told(&events), [(4, LogLevel::Warn, None), (5, LogLevel::Warn, Some(before))]);
    }

    #[test]
    fn a_call_at_a_far_place_costs_no_memory() {
        let mut open_calls = OpenCalls::default();
        open_calls.hear(&accepted(60_000), LogLevel::Debug, || 0);
        assert!(open_calls.open.is_empty());
    }
}
