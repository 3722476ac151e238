//! The job of an admitted request: a few steps, each after a delay.
//!
//! The position of the effect among the steps is random, because a real server may write its file before or after the
//! pause in which it is killed.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use mendline_wire::{Id, Message, Method};

use super::{Action, ReplyStream, Server, encode};
use crate::oracle::Key;
use crate::rng::Rng;
use crate::server_faults::ServerFaults;

/// One step of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Run,
    Progress,
    ServerRequest,
    Notice,
    Reply,
    /// Waits until the fault ends, then replies.
    Hang,
}

/// A request in progress.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: Id,
    pub(super) key: Option<Key>,
    pub(super) method: Method,
    pub(super) reply_to: ReplyStream,
    pub(super) token: Option<Bytes>,
    pub(super) steps: VecDeque<(Duration, Step)>,
    pub(super) progress: u32,
    /// It is held back until the fault ends.
    pub(super) held: bool,
    /// It fails with an internal error.
    pub(super) fails: bool,
    /// It fails with an error about a session of the tool, not of MCP.
    pub(super) names_session: bool,
    /// It ends with `input_required`, and another request continues it.
    pub(super) needs_input: bool,
}

/// Returns whether a method sets session state.
fn is_state(method: Method) -> bool {
    matches!(
        method,
        Method::LoggingSetLevel
            | Method::ResourcesSubscribe
            | Method::ResourcesUnsubscribe
            | Method::SubscriptionsListen
            | Method::Ping
    )
}

impl Server {
    pub(super) fn begin(
        &mut self,
        message: &Message,
        id: Id,
        key: Option<Key>,
        reply_to: ReplyStream,
        faults: &ServerFaults,
    ) {
        self.record_state(message);
        if message.method() == Method::SubscriptionsListen {
            self.actions.push(Action::Write(reply_to.stream, encode::acknowledged(&id)));
        }
        let token = message.progress_token().map(|span| Bytes::copy_from_slice(message.slice(span)));
        let steps = self.script(message, token.is_some(), reply_to, faults);
        let listens = message.method() == Method::SubscriptionsListen;
        // A subscription stays open until its client closes it, so it is never held back.
        let held = !listens && (!faults.answer_delay.is_zero() || steps.iter().any(|(_, step)| *step == Step::Hang));
        let may_fail = message.method() != Method::Initialize && !is_state(message.method());
        let fails = may_fail && faults.internal_errors > 0 && self.rng.percent(faults.internal_errors);
        let is_call = message.method() == Method::ToolsCall;
        let names_session = is_call && faults.session_errors > 0 && self.rng.percent(faults.session_errors);
        let asks_back = message.method() == Method::ToolsCall && message.find(&["requestState"]).is_none();
        let needs_input = faults.needs_input && asks_back && self.rules.is_stateless() && self.rng.percent(50);
        let mut first = steps.front().map_or(Duration::ZERO, |(wait, _)| *wait);
        if faults.needs_input && message.find(&["requestState"]).is_some() {
            // The continuation takes some time, so that it is interrupted in some runs.
            first += self.rng.millis(0, 1_500);
        }
        let name = self.next_job;
        self.next_job += 1;
        self.jobs.insert(
            name,
            Job {
                id,
                key,
                method: message.method(),
                reply_to,
                token,
                steps,
                progress: 0,
                held,
                fails,
                names_session,
                needs_input,
            },
        );
        self.actions.push(Action::Continue(name, first));
    }

    /// Draws the steps of a job.
    fn script(
        &mut self,
        message: &Message,
        has_token: bool,
        reply_to: ReplyStream,
        faults: &ServerFaults,
    ) -> VecDeque<(Duration, Step)> {
        let (low, high) = self.profile.work;
        let is_list = matches!(message.method(), Method::ToolsList | Method::PromptsList | Method::ResourcesList);
        let is_call = message.method() == Method::ToolsCall;
        let mut steps = VecDeque::new();
        let share = |rng: &mut Rng, of: u64| rng.millis(low, high) * faults.slowdown / of as u32;
        if reply_to.allows_interim && has_token && self.rng.percent(self.profile.progress) {
            for _ in 0..self.rng.between(1, 4) {
                steps.push_back((share(&mut self.rng, 4), Step::Progress));
            }
        }
        if reply_to.allows_interim
            && is_call
            && self.rules.may_send_requests()
            && self.rng.percent(self.profile.server_requests)
        {
            steps.push_back((share(&mut self.rng, 2), Step::ServerRequest));
        }
        if self.rules.may_notify() && self.rng.percent(self.profile.notices) {
            steps.push_back((share(&mut self.rng, 2), Step::Notice));
        }
        let index = self.rng.below(steps.len() as u64 + 1) as usize;
        steps.insert(index, (share(&mut self.rng, 2), Step::Run));
        if (is_list && faults.lists_hang)
            || (is_call && faults.calls_hang)
            || (is_call && faults.read_note_hangs && message.get_str(&["name"]).as_deref() == Some("read_note"))
            || message.method() == Method::SubscriptionsListen
        {
            steps.push_back((Duration::ZERO, Step::Hang));
        } else if is_call && faults.progress_forever.is_some() && has_token {
            steps.push_back((Duration::ZERO, Step::Progress));
            steps.push_back((Duration::ZERO, Step::Hang));
        } else {
            steps.push_back((share(&mut self.rng, 1) + faults.answer_delay, Step::Reply));
        }
        steps
    }

    pub(super) fn step(&mut self, name: u32, faults: &ServerFaults) {
        let Some(job) = self.jobs.get_mut(&name) else { return };
        let Some((_, step)) = job.steps.pop_front() else { return };
        let (key, reply_to, token) = (job.key, job.reply_to, job.token.clone());
        match step {
            Step::Run => self.actions.extend(key.map(Action::Run)),
            Step::Progress => {
                job.progress += 1;
                let so_far = job.progress;
                let stamp = self.stamp();
                if let Some(token) = token {
                    let line = encode::progress(&token, so_far, key, stamp);
                    self.actions.push(Action::Write(reply_to.stream, line));
                }
            }
            Step::ServerRequest => {
                self.send_request(name, reply_to);
                return;
            }
            Step::Notice => self.notice(reply_to.stream),
            Step::Hang => {
                let Some(job) = self.jobs.get_mut(&name) else { return };
                job.steps.push_front((Duration::ZERO, Step::Hang));
                if let Some(interval) = faults.progress_forever.filter(|_| job.token.is_some()) {
                    job.steps.push_front((Duration::ZERO, Step::Progress));
                    self.actions.push(Action::Continue(name, interval));
                }
                return;
            }
            Step::Reply => {
                let Some(mut job) = self.jobs.remove(&name) else { return };
                let stamp = self.stamp();
                if job.fails {
                    let body = encode::error(-32603, "database is locked", stamp);
                    return self.answer(&job.id, job.key, reply_to, ("error", body), self.profile.odd, faults);
                }
                if job.names_session {
                    let (code, text) = *self.rng.pick(&[
                        (-32602, "session expired: sign in to the ticket system again"),
                        (-32000, "the browser session is not initialized"),
                        (-32001, "Session not found"),
                    ]);
                    let body = encode::error(code, text, stamp);
                    return self.answer(&job.id, job.key, reply_to, ("error", body), self.profile.odd, faults);
                }
                let body = if job.needs_input {
                    encode::input_required(job.key, stamp)
                } else {
                    encode::result(job.method, job.key, stamp, &self.profile, &mut self.rng)
                };
                self.answer(&job.id, job.key, reply_to, ("result", body), self.profile.odd, faults);
                if faults.malformed_json {
                    // The client could not read the answer. It is repeated when the fault ends.
                    job.held = true;
                    self.jobs.insert(name, job);
                }
                return;
            }
        }
        if let Some((wait, _)) = self.jobs.get(&name).and_then(|job| job.steps.front()) {
            self.actions.push(Action::Continue(name, *wait));
        }
    }

    fn send_request(&mut self, job: u32, reply_to: ReplyStream) {
        if self.client_gone {
            self.actions.push(Action::Continue(job, Duration::from_micros(50)));
            return;
        }
        self.requests_sent += 1;
        let nonce = self.requests_sent;
        let id = if self.rng.percent(50) { format!("\"s-{nonce}\"") } else { nonce.to_string() };
        let stamp = self.stamp();
        let line = encode::server_request(&id, nonce + (self.dial << 16), stamp, &mut self.rng);
        self.open_requests.insert(Id::from_raw(id.as_bytes()), (job, nonce));
        self.actions.push(Action::Request(reply_to.stream, line));
    }
}
