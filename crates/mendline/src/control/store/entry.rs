//! The status of one server: the fold of the events of its upstreams, and the start times of its durations.
//!
//! A server of a gateway may have several upstreams: its base, and further processes or sessions, its members. The
//! counts of all of them are summed. The state of the server is that of its base while the base has clients, else the
//! worst of the members that have clients; without any client, it is that of the base.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mendline_core::config::{self, Dialect, RateLimit, Transport};
use mendline_core::event::{Answered, Over};
use mendline_core::metrics::{LinkFold, UpstreamMetrics};
use mendline_core::policy::breaker;
use mendline_core::status::{BreakerStatus, Counts, SilentCall, UpstreamStatus};
use mendline_core::{Event, LinkState, UpstreamConfig, UpstreamId};
use mendline_wire::Method;

use super::times::Times;
use crate::control::snapshot::{
    Breaker, BreakerState, Calls, Connection, Credential, CredentialKind, Facts, LastCall, LastError, Latency, Limit,
    Lists, Outcomes, Rate, Server, State, StateKind, ToolBreaker, TransportKind,
};
use crate::driver::At;
use crate::metrics::{self, Sample, ServerMetrics};
use crate::observe::escaped::Escaped;
use crate::observe::redact::Redactor;

/// The limit of texts from peers, in characters.
const TEXT_LIMIT: usize = 300;

/// The status of one server.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    target: String,
    transport: TransportKind,
    rate_limit: Option<RateLimit>,
    credential: Option<CredentialKind>,
    /// The state of the base, and the counts of all upstreams.
    pub(super) status: UpstreamStatus,
    times: Times,
    /// The number of clients of the base.
    clients: usize,
    pub(super) metrics: UpstreamMetrics,
    /// The kind of its state, and the time of the last change.
    pub(super) kind: StateKind,
    since: Duration,
    /// The time at which the current incident first parked it.
    parked_since: Option<Duration>,
    /// The times at which the silence of calls began; some of the calls may have ended.
    silent_since: BTreeMap<u64, Duration>,
    /// Its processes or sessions besides the first.
    members: BTreeMap<UpstreamId, Member>,
    /// The result of the last tool call, and its time.
    last_call: Option<(bool, Duration)>,
    /// The time at which the server last answered with a list.
    list_read_at: Option<Duration>,
}

/// One more process or session of a server.
#[derive(Debug)]
struct Member {
    /// Its state; the counts are in the status of the server.
    status: UpstreamStatus,
    times: Times,
    link: LinkFold,
    /// The number of its clients.
    clients: usize,
}

impl Entry {
    pub(super) fn new(config: &UpstreamConfig, now: Duration) -> Entry {
        Entry {
            name: config.name.clone(),
            target: config.place.clone(),
            transport: match config.transport {
                Transport::Child => TransportKind::Child,
                Transport::Http(Dialect::Sse) => TransportKind::Sse,
                Transport::Http(Dialect::Auto | Dialect::Streamable) => TransportKind::Http,
            },
            rate_limit: config.rate_limit,
            credential: match config.credential {
                config::CredentialKind::Fixed => None,
                config::CredentialKind::Source => Some(CredentialKind::Source),
                config::CredentialKind::Login => Some(CredentialKind::Login),
            },
            status: UpstreamStatus::default(),
            times: Times::new(now),
            clients: 0,
            metrics: UpstreamMetrics::default(),
            kind: StateKind::Idle,
            since: now,
            parked_since: None,
            silent_since: BTreeMap::new(),
            members: BTreeMap::new(),
            last_call: None,
            list_read_at: None,
        }
    }

    /// Adds a process or session.
    pub(super) fn add_member(&mut self, upstream: UpstreamId, now: Duration) {
        let status = UpstreamStatus::default();
        self.members.insert(upstream, Member { status, times: Times::new(now), link: LinkFold::default(), clients: 0 });
    }

    /// Removes a process or session. Its counts stay.
    pub(super) fn remove_member(&mut self, upstream: UpstreamId) {
        self.members.remove(&upstream);
    }

    /// Applies an event of one of its upstreams.
    pub(super) fn apply(&mut self, upstream: UpstreamId, event: &Event, at: At) {
        match self.members.get_mut(&upstream) {
            Some(member) => {
                self.status.apply_of_member(&mut member.status, event);
                self.metrics.apply_of_member(&mut member.link, event, at.moment);
            }
            None => {
                self.status.apply(event);
                self.metrics.apply(event, at.moment);
            }
        }
        self.note_call(event, at);
    }

    /// The number of clients of one of its upstreams.
    pub(super) fn clients(&mut self, upstream: UpstreamId) -> &mut usize {
        self.members.get_mut(&upstream).map_or(&mut self.clients, |member| &mut member.clients)
    }

    /// The upstream whose state is that of the server.
    fn shown(&self) -> (&UpstreamStatus, &Times) {
        let used = self.members.values().filter(|member| self.clients == 0 && member.clients > 0);
        // The first of equals, so that the state does not change without a reason.
        let worst = used.rev().max_by_key(|member| kind_of(&member.status, false));
        worst.map_or((&self.status, &self.times), |member| (&member.status, &member.times))
    }

    /// Notes the result of a call. The time is that of the event, so that a call costs no look at the clock.
    fn note_call(&mut self, event: &Event, at: At) {
        let now = Duration::from_micros(at.unix_micros);
        match event {
            Event::CallAnswered { method: Method::ToolsCall, result, .. } => {
                self.last_call = Some((matches!(result, Answered::Ok | Answered::ToolError), now));
            }
            Event::CallAnswered { method, result: Answered::Ok, .. } if is_list(*method) => {
                self.list_read_at = Some(now);
            }
            Event::CallFailed { method: Method::ToolsCall, .. } => self.last_call = Some((false, now)),
            _ => {}
        }
    }

    /// The five facts that tell a server that works from one that only runs.
    fn facts(&self) -> Facts {
        let (status, _) = self.shown();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ago = |at: Duration| millis(now.saturating_sub(at));
        let process = match (status.link, self.transport) {
            (LinkState::Up, TransportKind::Child) => "running",
            (LinkState::Up, _) => "connected",
            (LinkState::Dialing | LinkState::Draining, _) => "starting",
            (LinkState::Idle, _) => "idle",
            (LinkState::Waiting | LinkState::Parked, _) => "lost",
        };
        Facts {
            process: process.to_owned(),
            session: if status.ready { "ready" } else { "none" }.to_owned(),
            list_age_ms: self.list_read_at.map(ago),
            last_call: self.last_call.map(|(is_ok, at)| LastCall { ok: is_ok, ago_ms: ago(at) }),
            credential: match (&status.needs_login, &status.credential) {
                (Some(_), _) => "needs login",
                (None, Some(credential)) => credential.state.name(),
                (None, None) => "current",
            }
            .to_owned(),
        }
    }

    /// Notes the times that later snapshots need.
    pub(super) fn note_time(&mut self, upstream: UpstreamId, event: &Event, is_stopping: bool, now: Duration) {
        match self.members.get_mut(&upstream) {
            Some(member) => member.times.note(event, &member.status, now),
            None => self.times.note(event, &self.status, now),
        }
        match event {
            Event::CallSilent { call, silent_for, .. } => {
                self.silent_since.retain(|call, _| self.status.silent.contains_key(call));
                self.silent_since.insert(*call, now.saturating_sub(*silent_for));
            }
            Event::Reconfigured { rate_limit, place, .. } => {
                self.rate_limit = *rate_limit;
                self.target.clone_from(place);
            }
            _ => {}
        }
        self.note_kind(is_stopping, now);
    }

    /// Notes the kind of the state, and the time of its change.
    pub(super) fn note_kind(&mut self, is_stopping: bool, now: Duration) {
        let kind = kind_of(self.shown().0, is_stopping);
        if kind != self.kind {
            (self.kind, self.since) = (kind, now);
            match kind {
                // An attempt of a parked server does not make it young again.
                StateKind::Parked => self.since = *self.parked_since.get_or_insert(now),
                StateKind::Starting | StateKind::Reconnecting => {}
                _ => self.parked_since = None,
            }
        }
    }

    fn credential(&self, redactor: &Redactor) -> Option<Credential> {
        let kind = self.credential?;
        let known = self.status.credential.clone().unwrap_or_default();
        let why = known.why.map(|why| shown(&why.to_string(), redactor));
        let state = known.state.name().to_owned();
        Some(Credential { kind, state, renewals: known.renewals, failures: known.failures, why })
    }

    /// Returns the metrics of the server.
    pub(super) fn samples(&self, redactor: &Redactor) -> Vec<Sample> {
        let server = ServerMetrics {
            name: &self.name,
            state: self.kind.name(),
            is_up: matches!(self.kind, StateKind::Ready | StateKind::Idle),
            state_of: self.shown().0,
            counts: &self.status,
            metrics: &self.metrics,
        };
        metrics::of_server(&server, redactor)
    }

    /// Returns the current state of the server.
    pub(super) fn snapshot(&self, now: Duration, redactor: &Redactor) -> Server {
        let (state, times) = self.shown();
        let status = &self.status;
        let percentile = |share| status.latency.as_ref()?.per_mille(share).map(micros);
        let silent = status.silent.iter().filter_map(|(call, it)| Some((*self.silent_since.get(call)?, it)));
        let silent = silent.min_by_key(|(since, _)| *since);
        let name = |it: &SilentCall| match &it.tool {
            Some(tool) => shown(tool.as_str(), redactor),
            None => it.method.name().unwrap_or("another method").to_owned(),
        };
        Server {
            name: self.name.clone(),
            transport: match state.over {
                Some(Over::Sse) => TransportKind::Sse,
                Some(Over::Http) => TransportKind::Http,
                Some(Over::Child(_)) | None => self.transport,
            },
            target: shown(&self.target, redactor),
            state: self.state(now, redactor),
            breaker: breaker_of(state, times, now, redactor),
            limit: Limit {
                rate: self.rate_limit.map(|rate| Rate { burst: rate.burst, per_second: rate.per_second }),
                paused_ms: state.pause.map(|pause| remaining(pause, times.paused_at, now)),
                slowed: status.slowed,
            },
            in_flight: status.out,
            waiting: status.open.saturating_sub(status.out),
            silent_calls: status.silent.len() as u64,
            silent_for_ms: silent.map(|(since, _)| millis(now.saturating_sub(since))),
            silent_call: silent.map(|(_, it)| name(it)),
            calls: Calls {
                tools: outcomes(&status.tool_calls),
                other: outcomes(&status.other_calls),
                retried: status.retried,
                retries_refused: status.retries_refused,
                resumed: status.resumed,
                cancelled: status.cancelled,
                answered_early: status.early,
            },
            lists: Lists { changed: status.lists_changed, changes_hidden: status.list_changes_hidden },
            latency: Latency {
                count: status.latency.as_ref().map_or(0, |latency| latency.count()),
                p50_us: percentile(500),
                p95_us: percentile(950),
                p99_us: percentile(990),
            },
            connection: Connection {
                dials: status.dials,
                dials_failed: status.dials_failed,
                losses: status.losses,
                took_ms: state.took.map(millis),
                child: state.child(),
            },
            last_error: state.last_error.as_ref().map(|error| LastError {
                what: shown(&error.to_string(), redactor),
                ago_ms: millis(now.saturating_sub(times.last_error_at)),
            }),
            credential: self.credential(redactor),
            sessions: self.members.len() as u64,
            facts: self.facts(),
        }
    }

    fn state(&self, now: Duration, redactor: &Redactor) -> State {
        let (status, times) = self.shown();
        let is_lost = matches!(self.kind, StateKind::Reconnecting | StateKind::Parked);
        let redial = status.redial.filter(|_| is_lost);
        let waits = matches!(status.link, LinkState::Waiting | LinkState::Parked);
        let why = match self.kind {
            StateKind::Reconnecting | StateKind::Parked => status.last_loss.as_ref(),
            StateKind::NeedsLogin => status.needs_login.as_ref(),
            StateKind::Idle if status.lost => status.last_error.as_ref().map(|error| &error.why),
            _ => None,
        };
        State {
            kind: self.kind,
            for_ms: millis(now.saturating_sub(self.since)),
            why: why.map(|why| shown(&why.to_string(), redactor)),
            reason: why.map(|why| why.name().to_owned()),
            attempt: redial.map(|redial| redial.attempt),
            attempts: redial.and_then(|redial| redial.most),
            next_in_ms: redial.filter(|_| waits).map(|redial| remaining(redial.wait, times.dial_planned_at, now)),
        }
    }
}

/// Returns the breakers of an upstream.
fn breaker_of(status: &UpstreamStatus, times: &Times, now: Duration, redactor: &Redactor) -> Breaker {
    let tool = |(tool, held): (&String, &BreakerStatus)| ToolBreaker {
        tool: shown(tool, redactor),
        state: breaker_state(times, Some(tool), held, now),
        tries_in_ms: times.to_probe(Some(tool), held, now),
        why: why(held, redactor),
    };
    Breaker {
        state: breaker_state(times, None, &status.breaker, now),
        tries_in_ms: times.to_probe(None, &status.breaker, now),
        why: why(&status.breaker, redactor),
        tools: status.tools.iter().map(tool).collect(),
    }
}

/// Returns the state of a breaker. An open breaker whose time is over is half open: the next call probes it. The
/// engine emits the event only when that call comes.
fn breaker_state(times: &Times, tool: Option<&str>, held: &BreakerStatus, now: Duration) -> BreakerState {
    match state(held.state) {
        BreakerState::Open if times.to_probe(tool, held, now) == Some(0) => BreakerState::HalfOpen,
        state => state,
    }
}

fn is_list(method: Method) -> bool {
    use Method::{PromptsList, ResourcesList, ResourcesTemplatesList, ToolsList};
    matches!(method, ToolsList | PromptsList | ResourcesList | ResourcesTemplatesList)
}

/// Returns the kind of a server's state.
fn kind_of(status: &UpstreamStatus, is_stopping: bool) -> StateKind {
    match status.link {
        LinkState::Idle | LinkState::Draining if is_stopping => StateKind::Stopping,
        _ if status.breaker.state == breaker::BreakerState::Isolated => StateKind::Isolated,
        _ if status.needs_login.is_some() => StateKind::NeedsLogin,
        LinkState::Idle => StateKind::Idle,
        LinkState::Parked => StateKind::Parked,
        LinkState::Up if status.ready => StateKind::Ready,
        // It is connected but has not responded; perhaps no request was sent yet.
        LinkState::Up => StateKind::Starting,
        LinkState::Dialing if !status.lost => StateKind::Starting,
        LinkState::Dialing | LinkState::Waiting | LinkState::Draining => StateKind::Reconnecting,
    }
}

fn state(state: breaker::BreakerState) -> BreakerState {
    match state {
        breaker::BreakerState::Closed => BreakerState::Closed,
        breaker::BreakerState::Open => BreakerState::Open,
        breaker::BreakerState::HalfOpen => BreakerState::HalfOpen,
        breaker::BreakerState::Isolated => BreakerState::Isolated,
    }
}

fn outcomes(counts: &Counts) -> Outcomes {
    let Counts { ok, tool_errors, errors, failed, unknown, rejected } = *counts;
    Outcomes { ok, tool_errors, errors, failed, unknown, rejected }
}

fn why(held: &BreakerStatus, redactor: &Redactor) -> Option<String> {
    held.open_for.as_ref().map(|(_, why)| shown(&why.to_string(), redactor))
}

/// Redacts, escapes and shortens a text.
pub(super) fn shown(text: &str, redactor: &Redactor) -> String {
    let text = Escaped(&redactor.redact(text.as_bytes())).to_string();
    match text.char_indices().nth(TEXT_LIMIT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Returns the rest of a duration that started at `started`, in milliseconds.
pub(super) fn remaining(span: Duration, started: Duration, now: Duration) -> u64 {
    millis(span.saturating_sub(now.saturating_sub(started)))
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use mendline_core::LinkId;
    use mendline_core::event::ToolName;
    use mendline_wire::Method;

    use super::*;

    const UPSTREAM: UpstreamId = UpstreamId(1);

    #[test]
    fn r12_silent_calls_have_an_age_until_they_end() {
        let mut entry = Entry::new(&UpstreamConfig::child("notes", "npx"), Duration::ZERO);
        let mut seen = |event: Event, seconds: u64| {
            entry.status.apply(&event);
            entry.note_time(UPSTREAM, &event, false, Duration::from_secs(seconds));
            let server = entry.snapshot(Duration::from_secs(seconds + 12), &Redactor::default());
            (server.silent_calls, server.silent_for_ms, server.silence())
        };
        let silent = |call, tool: Option<&str>| Event::CallSilent {
            upstream: UPSTREAM,
            call,
            method: if tool.is_some() { Method::ToolsCall } else { Method::ResourcesRead },
            tool: tool.map(ToolName::new),
            silent_for: Duration::from_secs(30),
        };
        let words = |text: &str| Some(text.to_owned());
        let one = "1 call has had no answer for 42 s: create_note";
        assert_eq!(seen(silent(1, Some("create_note")), 100), (1, Some(42_000), words(one)));
        let two = "2 calls have had no answer, the oldest for 52 s: create_note";
        assert_eq!(seen(silent(2, None), 110), (2, Some(52_000), words(two)));
        let ended = Event::SilenceEnded { upstream: UPSTREAM, call: 1, tool: None };
        let one = "1 call has had no answer for 52 s: resources/read";
        assert_eq!(seen(ended, 120), (1, Some(52_000), words(one)));
        seen(Event::AttemptStarted { upstream: UPSTREAM, call: 2, attempt: 1, number: 1 }, 125);
        assert_eq!(seen(Event::CallReturned { upstream: UPSTREAM, call: 2 }, 130), (0, None, None));
    }

    #[test]
    fn t10_age_of_parked_counts_from_the_first_time() {
        let mut entry = Entry::new(&UpstreamConfig::child("notes", "npx"), Duration::ZERO);
        let mut apply = |event: Event, seconds: u64| {
            entry.status.apply(&event);
            entry.note_time(UPSTREAM, &event, false, Duration::from_secs(seconds));
            (entry.kind, entry.since.as_secs())
        };
        let moved = |from, to| {
            let over = (to == LinkState::Up).then_some(Over::Child(7));
            Event::LinkStateChanged { upstream: UPSTREAM, from, to, why: None, over, repeated: false }
        };
        apply(moved(LinkState::Waiting, LinkState::Parked), 100);
        for probe in [160, 220] {
            apply(moved(LinkState::Parked, LinkState::Dialing), probe);
            apply(moved(LinkState::Dialing, LinkState::Up), probe);
            assert_eq!(apply(moved(LinkState::Up, LinkState::Parked), probe + 1), (StateKind::Parked, 100));
        }
        apply(moved(LinkState::Parked, LinkState::Dialing), 280);
        apply(moved(LinkState::Dialing, LinkState::Up), 281);
        let link = LinkId { upstream: UPSTREAM, dial: 1 };
        let ready = Event::UpstreamReady { upstream: UPSTREAM, link, after: Duration::ZERO };
        assert_eq!(apply(ready, 281), (StateKind::Ready, 281));
        apply(moved(LinkState::Up, LinkState::Waiting), 300);
        assert_eq!(
            apply(moved(LinkState::Waiting, LinkState::Parked), 400),
            (StateKind::Parked, 400),
            "a new incident"
        );
    }
}
