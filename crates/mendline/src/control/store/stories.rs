//! The stories of calls: those that are open, the last that had trouble, and a few healthy ones.
//!
//! A healthy call costs two writes to a slot and allocates nothing: its story is made only when it is requested, or when
//! an attempt is lost or its server changes its condition. All numbers are bounded.

use std::collections::VecDeque;

use mendline_core::event::ToolName;
use mendline_core::story::{self, Step, Story};
use mendline_core::{ClientId, Event, UpstreamId};
use mendline_wire::Method;

/// The number of slots for open calls. A call whose slots others hold takes that of an older one.
const SLOTS: usize = 256;

/// The number of slots that a call may use.
const PROBED: usize = 4;

/// The number of finished calls with trouble.
const TROUBLED: usize = 256;

/// The number of finished healthy calls.
const HEALTHY: usize = 32;

/// The number of stderr lines of one server.
const STDERR_LINES: usize = 20;

/// The limit of a stderr line, in bytes.
const STDERR_BYTES: usize = 1024;

/// The stories of one process.
#[derive(Debug, Default)]
pub(super) struct Stories {
    open: Vec<Option<Open>>,
    troubled: VecDeque<Story>,
    healthy: VecDeque<(Open, Step)>,
    servers: Vec<ServerLog>,
}

/// An open call.
#[derive(Debug)]
struct Open {
    upstream: UpstreamId,
    call: u64,
    client: ClientId,
    method: Method,
    tool: Option<ToolName>,
    accepted_at: u64,
    /// The time, the number and the wire number of its first attempt.
    sent: Option<(u64, u32, u64)>,
    /// Its story, if it is not told by the members above.
    story: Option<Box<Story>>,
}

/// What is kept about one upstream.
#[derive(Debug, Default)]
struct ServerLog {
    /// The last change of its link, if calls wait because of it.
    away: Option<Step>,
    /// Its last stderr lines, with their times.
    stderr: VecDeque<(u64, Box<[u8]>)>,
}

impl Open {
    fn story(&self) -> Story {
        if let Some(story) = &self.story {
            return (**story).clone();
        }
        let &Open { upstream, call, client, method, accepted_at, .. } = self;
        let accepted = Event::CallAccepted { upstream, call, client, method, tool: self.tool.clone(), trace: None };
        let begun = Story::begin(&accepted, accepted_at);
        // It is the event that begins a story.
        let mut story = begun.unwrap_or_else(|| unreachable!("an accepted call begins a story"));
        if let Some((at, attempt, number)) = self.sent {
            story.apply(&Event::AttemptStarted { upstream, call, attempt, number }, at);
        }
        story
    }

    fn apply(&mut self, event: &Event, at: u64) {
        if self.story.is_none() {
            self.story = Some(Box::new(self.story()));
        }
        if let Some(story) = &mut self.story {
            story.apply(event, at);
        }
    }
}

impl Stories {
    /// Applies an event at this time, in microseconds since 1970.
    pub(super) fn apply(&mut self, event: &Event, at: u64) {
        match event {
            Event::CallAccepted { upstream, call, client, method, tool, .. } => {
                let (upstream, call, client, method, tool) = (*upstream, *call, *client, *method, tool.clone());
                let mut open = Open { upstream, call, client, method, tool, accepted_at: at, sent: None, story: None };
                if let Some(away) = self.servers.get(usize::from(upstream.0)).and_then(|server| server.away.as_ref()) {
                    let mut story = open.story();
                    story.note_before(away);
                    open.story = Some(Box::new(story));
                }
                self.open(open);
            }
            Event::AttemptStarted { upstream, call, attempt, number } => {
                let Some(slot) = self.find(*upstream, *call) else { return };
                let Some(open) = &mut self.open[slot] else { return };
                if open.story.is_none() && open.sent.is_none() {
                    open.sent = Some((at, *attempt, *number));
                } else {
                    open.apply(event, at);
                }
            }
            Event::CallRejected { .. } => self.troubled.extend(Story::begin(event, at)),
            _ if event.call().is_some() => self.apply_to_call(event, at),
            _ if story::is_about_condition(event) => self.apply_to_server(event, at),
            _ => {}
        }
        if self.troubled.len() > TROUBLED {
            self.troubled.pop_front();
        }
    }

    fn apply_to_call(&mut self, event: &Event, at: u64) {
        let (Some(upstream), Some(call)) = (event.upstream(), event.call()) else { return };
        let Some(slot) = self.find(upstream, call) else { return };
        let is_over = event.ends_call();
        match &mut self.open[slot] {
            Some(open) if open.story.is_some() || !is_over || story::is_trouble(event) => open.apply(event, at),
            _ => {}
        }
        if !is_over {
            return;
        }
        let Some(open) = self.open[slot].take() else { return };
        match open.story {
            Some(story) if story.is_troubled() => self.troubled.push_back(*story),
            _ => {
                if self.healthy.len() == HEALTHY {
                    self.healthy.pop_front();
                }
                self.healthy.push_back((open, Step { at, event: event.clone() }));
            }
        }
    }

    fn apply_to_server(&mut self, event: &Event, at: u64) {
        let upstream = event.upstream();
        for open in self.open.iter_mut().flatten().filter(|open| upstream.is_none_or(|it| it == open.upstream)) {
            open.apply(event, at);
        }
        if let (Some(upstream), Some(waits)) = (upstream, story::makes_calls_wait(event)) {
            self.server(upstream).away = waits.then(|| Step { at, event: event.clone() });
        }
    }

    /// Keeps a line of the stderr of a server.
    pub(super) fn note_stderr(&mut self, base: UpstreamId, line: &[u8], at: u64) {
        let server = self.server(base);
        if server.stderr.len() == STDERR_LINES {
            server.stderr.pop_front();
        }
        server.stderr.push_back((at, line[..line.len().min(STDERR_BYTES)].into()));
    }

    /// Returns the last lines of the stderr of a server, with their times.
    pub(super) fn stderr(&self, base: UpstreamId) -> impl Iterator<Item = (u64, &[u8])> {
        let server = self.servers.get(usize::from(base.0));
        server.into_iter().flat_map(|server| server.stderr.iter().map(|(at, line)| (*at, &**line)))
    }

    /// Removes what is known about an upstream that is removed: its number can be used again.
    pub(super) fn forget(&mut self, upstream: UpstreamId) {
        if let Some(server) = self.servers.get_mut(usize::from(upstream.0)) {
            *server = ServerLog::default();
        }
    }

    /// Returns all known stories, the newest first.
    pub(super) fn all(&self) -> Vec<Story> {
        let healthy = self.healthy.iter().map(|(open, end)| {
            let mut story = open.story();
            story.apply(&end.event, end.at);
            story
        });
        let open = self.open.iter().flatten().map(Open::story);
        let mut all: Vec<Story> = self.troubled.iter().cloned().chain(healthy).chain(open).collect();
        all.sort_by_key(|story| std::cmp::Reverse(story.last_at()));
        all
    }

    fn open(&mut self, open: Open) {
        let first = slot(open.upstream, open.call);
        if self.open.is_empty() {
            self.open.resize_with(SLOTS, || None);
        }
        let mut places = (0..PROBED).map(|step| (first + step) % SLOTS);
        let free = places.find(|place| self.open[*place].is_none());
        self.open[free.unwrap_or(first)] = Some(open);
    }

    fn find(&self, upstream: UpstreamId, call: u64) -> Option<usize> {
        let first = slot(upstream, call);
        let is_its = |open: &Option<Open>| open.as_ref().is_some_and(|it| it.call == call && it.upstream == upstream);
        (0..PROBED).map(|step| (first + step) % SLOTS).find(|place| self.open.get(*place).is_some_and(is_its))
    }

    fn server(&mut self, upstream: UpstreamId) -> &mut ServerLog {
        let at = usize::from(upstream.0);
        if at >= self.servers.len() {
            self.servers.resize_with(at + 1, ServerLog::default);
        }
        &mut self.servers[at]
    }
}

fn slot(upstream: UpstreamId, call: u64) -> usize {
    // Calls of one server have successive numbers; those of servers begin at different slots.
    (call.wrapping_add(u64::from(upstream.0) * 37) % SLOTS as u64) as usize
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mendline_core::event::Answered;
    use mendline_core::reason::{Reason, RefusalReason};
    use mendline_core::words::Cause;
    use mendline_core::{Evidence, LinkState};

    use super::*;

    const NOTES: UpstreamId = UpstreamId(1);

    fn accepted(call: u64) -> Event {
        let (client, method) = (ClientId(1), Method::ToolsCall);
        Event::CallAccepted { upstream: NOTES, call, client, method, tool: Some(ToolName::new("read")), trace: None }
    }

    fn started(call: u64, attempt: u32) -> Event {
        Event::AttemptStarted { upstream: NOTES, call, attempt, number: call }
    }

    fn ended(call: u64) -> Event {
        let (evidence, why) = (Evidence::SILENCE, Reason::ConnectionEnded);
        Event::AttemptEnded {
            upstream: NOTES,
            call,
            tool: None,
            attempt: 1,
            outcome: evidence.outcome(),
            evidence,
            why,
        }
    }

    fn answered(call: u64) -> Event {
        let took = Duration::from_millis(2);
        Event::CallAnswered {
            upstream: NOTES,
            call,
            method: Method::ToolsCall,
            tool: None,
            attempts: 1,
            result: Answered::Ok,
            took,
            attempt_took: took,
        }
    }

    fn moved(to: LinkState) -> Event {
        Event::LinkStateChanged {
            upstream: NOTES,
            from: LinkState::Dialing,
            to,
            why: None,
            over: None,
            repeated: false,
        }
    }

    fn stories(events: &[Event]) -> Stories {
        let mut stories = Stories::default();
        for (at, event) in (0..).zip(events) {
            stories.apply(event, at);
        }
        stories
    }

    fn names(story: &Story) -> Vec<&'static str> {
        story.steps.iter().chain(&story.end).map(|step| step.event.name()).collect()
    }

    #[test]
    fn healthy_call_is_told_from_its_slot() {
        let all = stories(&[accepted(1), started(1, 1), answered(1)]).all();
        assert_eq!(names(&all[0]), ["attempt_started", "call_answered"]);
        assert!(!all[0].is_troubled() && all.len() == 1);
    }

    #[test]
    fn lost_attempt_is_told_with_the_attempt_before_it() {
        let all = stories(&[accepted(1), started(1, 1), ended(1), started(1, 2), answered(1)]).all();
        assert_eq!(names(&all[0]), ["attempt_started", "attempt_ended", "attempt_started", "call_answered"]);
        assert!(all[0].is_troubled());
    }

    #[test]
    fn call_to_a_lost_server_begins_with_its_state() {
        let events = [moved(LinkState::Waiting), accepted(1), moved(LinkState::Up), started(1, 1), answered(1)];
        let all = stories(&events).all();
        assert_eq!(names(&all[0]), ["link_state_changed", "link_state_changed", "attempt_started", "call_answered"]);
        assert!(!all[0].is_troubled());
    }

    #[test]
    fn open_call_is_known_and_newest_comes_first() {
        let all = stories(&[accepted(1), started(1, 1), answered(1), accepted(2)]).all();
        assert_eq!(all.iter().map(|story| story.call).collect::<Vec<_>>(), [Some(2), Some(1)]);
        assert!(all[0].end.is_none());
    }

    #[test]
    fn rejected_call_is_kept_without_a_number() {
        let rejected = Event::CallRejected {
            upstream: NOTES,
            client: ClientId(1),
            method: Method::ToolsCall,
            tool: None,
            cause: Cause::Overloaded,
            why: Reason::Refusal(RefusalReason::Overloaded),
        };
        let all = stories(&[rejected]).all();
        assert_eq!((all[0].call, names(&all[0])), (None, vec!["call_rejected"]));
    }

    #[test]
    fn numbers_of_stories_and_lines_are_bounded() {
        let mut stories = Stories::default();
        for call in 0..1000 {
            stories.apply(&accepted(call), call);
            stories.apply(&started(call, 1), call);
            if call % 2 == 0 {
                stories.apply(&ended(call), call);
            }
            stories.apply(&answered(call), call);
            stories.note_stderr(NOTES, &[b'x'; 5000], call);
        }
        assert_eq!((stories.troubled.len(), stories.healthy.len()), (TROUBLED, HEALTHY));
        for call in 2000..4000 {
            stories.apply(&accepted(call), call);
        }
        assert_eq!(stories.open.iter().flatten().count(), SLOTS);
        let lines: Vec<_> = stories.stderr(NOTES).collect();
        assert_eq!((lines.len(), lines[0].0, lines[0].1.len()), (STDERR_LINES, 980, STDERR_BYTES));
    }
}
