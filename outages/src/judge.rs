//! The judgement of a cell: the demands of `PROMISE.md` on recovery, compared with the facts.
//!
//! A pure function from facts to misses, so that each demand can be tested without a server. A miss of time alone can
//! come from a busy machine, so that the cell is repeated alone before it counts.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::cell::{Cell, Situation};
use crate::command_server;
use crate::form::{Form, HINT};
use crate::observed::{Answer, AnswerResult, Call, Kind, Observed};

/// The longest time from the end of an outage to the first success, without the handshake.
pub(crate) const RECOVERY: Duration = Duration::from_millis(2_500);
/// One handshake, over loopback or with the start of a small process.
pub(crate) const HANDSHAKE: Duration = Duration::from_millis(500);
/// The recovery from silence, whose end only a new handshake shows.
const SILENCE_RECOVERY: Duration = Duration::from_millis(12_500);
/// A silent read is answered this long after it was sent …
const SILENT_READ: Duration = Duration::from_secs(38);
/// … or this long after the end, whichever is later.
const SILENT_READ_AFTER_END: Duration = Duration::from_millis(7_500);
/// The deadline of calls in cells of silence, with the tolerance of invariant I2 and of this program.
const SILENT_DEADLINE: Duration = Duration::from_millis(46_000);
/// What a pause may exceed the hint of the server by.
const AFTER_HINT: Duration = Duration::from_millis(500);
/// The handshake of a command that has come up before, and of one that has not.
const COMMAND_HANDSHAKE: Duration = Duration::from_secs(10);
const FIRST_COMMAND_HANDSHAKE: Duration = Duration::from_secs(60);
/// The handshake over HTTP.
const HTTP_HANDSHAKE: Duration = Duration::from_secs(10);
/// A provisional handshake comes this long after the first failure …
const GRACE_AFTER_FAILURE: Duration = Duration::from_secs(3);
/// … or this long after the start while there is none.
const GRACE_WITHOUT_FAILURE: Duration = Duration::from_secs(20);
/// An answer from the catalogue, and the start of the process.
const AT_ONCE: Duration = Duration::from_secs(1);
/// The start of the process, which is part of the measured time.
const PROCESS_START: Duration = Duration::from_millis(1_000);
/// Timers may fire this much early, as seen from here.
const EARLY: Duration = Duration::from_millis(150);
/// The waiting of any call for recovery.
pub(crate) const WAITING: Duration = Duration::from_secs(45);
/// Attempts of a call that an available server received.
const ATTEMPTS: u64 = 3;
/// The dials while a server is not ready: a burst, then one in two seconds.
const BURST: u64 = 6;
/// Dials beside the burst: calls that were sent before the verdict, each on its own connection.
const BEFORE_VERDICT: u64 = 4;
/// A refusal this close to the end can be followed by a probe that finds the server available.
const VERDICT: Duration = Duration::from_millis(600);
/// The time from the first failure to the verdict: one probe, at most one a second, and the work of this program.
const KNOWN_AWAY: Duration = Duration::from_secs(2);
/// The shortest pause after 429.
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);
/// A pause may look this much shorter from here, because the client counts it from another moment.
const PAUSE_TOLERANCE: Duration = Duration::from_millis(50);
/// Requests that cross a refusal on their way.
const CROSSING: Duration = Duration::from_millis(100);

/// A demand that was not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Miss {
    pub(crate) demanded: String,
    pub(crate) seen: String,
    /// True if only the time was missed.
    pub(crate) is_time: bool,
}

impl Miss {
    pub(crate) fn new(demanded: impl Into<String>, seen: impl Into<String>) -> Miss {
        Miss { demanded: demanded.into(), seen: seen.into(), is_time: false }
    }

    /// The cell could not be played.
    pub(crate) fn setup(why: &str) -> Miss {
        Miss::new("the cell can be played", why)
    }

    pub(crate) fn late(demanded: impl Into<String>, seen: impl Into<String>) -> Miss {
        Miss { is_time: true, ..Miss::new(demanded, seen) }
    }
}

/// Returns every demand that the cell did not meet.
pub(crate) fn judge(cell: &Cell, observed: &Observed) -> Vec<Miss> {
    let judged = Judged { cell, observed };
    let mut misses = Vec::new();
    for call in &observed.calls {
        match call.answers.as_slice() {
            [] => misses.push(Miss::new("every request gets an answer", format!("{}: none", judged.describe(call)))),
            [answer] => misses.extend(judged.call(call, answer)),
            [first, second, ..] => misses.push(Miss::new(
                "every request gets exactly one answer",
                format!("{}: {} answers: {first}; {second}", judged.describe(call), call.answers.len()),
            )),
        }
    }
    if let [first, ..] = observed.strays.as_slice() {
        misses.push(Miss::new("no answer without a request", format!("{} such, first {first}", observed.strays.len())));
    }
    misses.extend(judged.lists());
    misses.extend(judged.recovery());
    misses.extend(judged.dials());
    misses.extend(judged.pauses());
    misses.extend(judged.calls_after_verdict());
    if observed.elsewhere > 0 {
        let seen = format!("{} requests at the other origin", observed.elsewhere);
        misses.push(Miss::new("a redirect to another origin is not followed", seen));
    }
    if observed.exit_code != Some(0) {
        let seen = observed.exit_code.map_or("it did not end".to_owned(), |code| format!("exit code {code}"));
        misses.push(Miss::new("Mendline ends with 0 when its client leaves", seen));
    }
    misses
}

/// Returns the longest time that a call of this cell may take, from the end of the outage or from its sending.
pub(crate) fn longest_limit(cell: &Cell) -> Duration {
    match (cell.form, cell.situation) {
        (Form::Silence, _) => SILENT_DEADLINE,
        (Form::HangsAtStart, Situation::FirstStart) => FIRST_COMMAND_HANDSHAKE + RECOVERY + HANDSHAKE,
        (Form::DiesAtCall, _) => WAITING,
        _ => recovery_limit(cell),
    }
}

/// Returns the longest time from the end of the outage to the first success.
fn recovery_limit(cell: &Cell) -> Duration {
    match cell.form {
        Form::Silence => SILENCE_RECOVERY,
        Form::Status503RetryAfter => (Duration::from_secs(HINT) + AFTER_HINT).max(RECOVERY) + HANDSHAKE,
        // The process that hangs when the outage ends is given up after its handshake timeout.
        Form::HangsAtStart if cell.situation == Situation::FirstStart => longest_limit(cell),
        Form::HangsAtStart => COMMAND_HANDSHAKE + RECOVERY + HANDSHAKE,
        _ => RECOVERY + HANDSHAKE,
    }
}

struct Judged<'a> {
    cell: &'a Cell,
    observed: &'a Observed,
}

impl Judged<'_> {
    fn call(&self, call: &Call, answer: &Answer) -> Vec<Miss> {
        let mut misses = match call.kind {
            Kind::Initialize if self.cell.situation.is_start() => self.handshake(call, answer),
            Kind::List if self.cell.situation == Situation::SecondStart => self.cached(call, answer),
            Kind::Initialize | Kind::List | Kind::Read => self.read(call, answer).into_iter().collect(),
            Kind::Unsafe => self.unsafe_call(call, answer),
        };
        let (runs, outcome) = (self.observed.runs(&call.id), answer.outcome());
        if runs > 0 && matches!(outcome, Some("not_sent" | "refused")) {
            let seen = format!("{}: ran {runs} times, {answer}", self.describe(call));
            misses.push(Miss::new("`not_sent` and `refused` are true: the call did not run", seen));
        }
        misses
    }

    /// The lists, which no outage changes.
    fn lists(&self) -> Vec<Miss> {
        let mut misses = Vec::new();
        let lists: BTreeSet<&str> = self.observed.lists().collect();
        if lists.len() > 1 {
            misses.push(Miss::new("tools/list is equal byte for byte", format!("{} different ones", lists.len())));
        }
        // A client without a list is notified when there is one.
        let changes = self.observed.list_changes;
        if changes > 0 && self.cell.situation != Situation::FirstStart {
            misses.push(Miss::new("no list is announced as changed", format!("{changes} notifications")));
        }
        misses
    }

    /// The handshake of a client that starts during the outage.
    fn handshake(&self, call: &Call, answer: &Answer) -> Vec<Miss> {
        if self.cell.situation == Situation::SecondStart {
            return self.cached(call, answer);
        }
        let AnswerResult::Success { server, instructions } = &answer.result else {
            let demanded = "the first handshake is not failed by trouble that can pass";
            return vec![Miss::new(demanded, format!("initialize: {answer}"))];
        };
        let mut misses = Vec::new();
        let took = answer.at.saturating_sub(self.observed.start);
        // The first failure is seen at once, or when the handshake reaches its timeout.
        let provisional = match self.cell.form {
            Form::Silence => HTTP_HANDSHAKE + GRACE_AFTER_FAILURE,
            Form::HangsAtStart => GRACE_WITHOUT_FAILURE,
            _ => GRACE_AFTER_FAILURE,
        };
        let limit = match self.cell.form {
            // This command answers its handshake.
            Form::DiesAtCall => AT_ONCE + PROCESS_START,
            _ => provisional + PROCESS_START,
        };
        if took > limit {
            let demanded = format!("initialize is answered within {}", seconds(limit));
            misses.push(Miss::late(demanded, seconds(took)));
        }
        let is_own = server.as_deref() == Some(self.server_name());
        if !is_own && self.cell.form == Form::DiesAtCall {
            misses.push(Miss::new("the handshake of the server itself", format!("a provisional one: {server:?}")));
        } else if !is_own {
            if took + EARLY < provisional {
                let demanded = format!("a provisional handshake not before {}", seconds(provisional));
                misses.push(Miss::new(demanded, seconds(took)));
            }
            if instructions.as_deref().is_none_or(str::is_empty) {
                misses.push(Miss::new("a provisional handshake says what is wrong in `instructions`", "none"));
            }
        }
        misses
    }

    /// An answer from the catalogue.
    fn cached(&self, call: &Call, answer: &Answer) -> Vec<Miss> {
        let AnswerResult::Success { server, .. } = &answer.result else {
            return vec![Miss::new("the catalogue answers", format!("{}: {answer}", self.describe(call)))];
        };
        let mut misses = Vec::new();
        if call.kind == Kind::Initialize && server.as_deref() != Some(self.server_name()) {
            misses.push(Miss::new("the handshake is that of the catalogue", format!("{server:?}")));
        }
        let limit = if call.kind == Kind::Initialize { AT_ONCE + PROCESS_START } else { AT_ONCE };
        let took = answer.at.saturating_sub(call.sent);
        if took > limit {
            let demanded = format!("the catalogue answers within {}", seconds(limit));
            misses.push(Miss::late(demanded, format!("{}: {}", self.describe(call), seconds(took))));
        }
        misses
    }

    /// A call that may be repeated.
    fn read(&self, call: &Call, answer: &Answer) -> Option<Miss> {
        if !answer.is_success() {
            let dies = self.cell.form == Form::DiesAtCall && call.sent < self.observed.end;
            if !dies {
                return Some(Miss::new("every read succeeds", format!("{}: {answer}", self.describe(call))));
            }
            // The calls of an agent can spend the retry budget; the answer says so.
            let may_be_fewer = self.cell.situation == Situation::Agent && answer.names_retry_budget();
            let attempts = answer.attempts().unwrap_or_default();
            let is_allowed = attempts == ATTEMPTS || (may_be_fewer && (1..ATTEMPTS).contains(&attempts));
            if !is_allowed || self.observed.runs(&call.id) > ATTEMPTS {
                let demanded = "a read that ends its server gets three attempts, then an error";
                let runs = self.observed.runs(&call.id);
                return Some(Miss::new(demanded, format!("{}: ran {runs} times, {answer}", self.describe(call))));
            }
            return None;
        }
        let limit = self.limit(call);
        (answer.at > limit).then(|| {
            let demanded = "the read is answered in time after the end";
            Miss::late(demanded, format!("{}: {answer}; limit {}", self.describe(call), seconds(limit)))
        })
    }

    /// Returns the time by which a call must be answered.
    fn limit(&self, call: &Call) -> Duration {
        let end = self.observed.end;
        if self.cell.form == Form::Silence && !self.cell.situation.is_start() {
            return (call.sent + SILENT_READ).max(end + SILENT_READ_AFTER_END) + HANDSHAKE;
        }
        if self.cell.form == Form::DiesAtCall && call.sent < end {
            return call.sent + WAITING;
        }
        call.sent.max(end) + recovery_limit(self.cell)
    }

    /// A call that must not run twice.
    fn unsafe_call(&self, call: &Call, answer: &Answer) -> Vec<Miss> {
        let (cell, observed) = (self.cell, self.observed);
        let mut misses = Vec::new();
        let runs = observed.runs(&call.id);
        let sends = observed.arrivals_of(&call.id).count();
        let seen = || format!("{}: ran {runs} times, arrived {sends} times, {answer}", self.describe(call));
        if runs > 1 {
            misses.push(Miss::new("an unsafe call runs at most once", seen()));
        }
        // The server had it, and the outage took the answer.
        let was_met = call.in_flight || observed.arrivals_of(&call.id).any(|arrival| arrival.met_outage);
        let is_unknown = was_met && !cell.form.refuses_calls();
        if is_unknown && sends > 1 {
            misses.push(Miss::new("an unsafe call with an unknown outcome is not sent again", seen()));
        }
        match (&answer.result, answer.outcome()) {
            (AnswerResult::Success { .. }, _) => {
                if runs == 0 {
                    misses.push(Miss::new("a call that succeeds has run", seen()));
                } else if is_unknown && answer.at > observed.begin {
                    misses.push(Miss::new("a call whose answer the outage took is `unknown`", seen()));
                } else if answer.at > self.limit(call) {
                    let demanded = "an unsent call is answered in time after the end";
                    misses.push(Miss::late(demanded, format!("{}; limit {}", seen(), seconds(self.limit(call)))));
                }
            }
            (AnswerResult::Failure { .. }, Some("unknown")) => {
                let is_away = self.verdict().is_some_and(|verdict| call.sent > verdict) && call.sent < observed.end;
                if is_away {
                    let demanded = "a call to a server that is known to be away waits for the end and succeeds";
                    misses.push(Miss::late(demanded, seen()));
                } else if !is_unknown && !self.may_be_unknown(call) {
                    misses.push(Miss::new("an unsent call waits for the end of the outage and succeeds", seen()));
                }
                let limit = match cell.form {
                    Form::Silence => call.sent + SILENT_DEADLINE,
                    _ => self.limit(call),
                };
                if answer.at > limit {
                    let demanded = "`unknown` is answered in time";
                    misses.push(Miss::late(demanded, format!("{}; limit {}", seen(), seconds(limit))));
                }
            }
            (AnswerResult::Failure { .. }, Some("refused")) if cell.form.refuses_calls() && runs == 0 => {
                // A refusal just before the end can be followed by a probe after it: then the server is available, and
                // the refusal is the answer.
                let last = observed.arrivals_of(&call.id).filter(|arrival| arrival.met_outage).map(|it| it.at).max();
                if cell.form == Form::Status429 || last.is_none_or(|last| last + VERDICT < observed.end) {
                    misses.push(Miss::late("a refused call waits for the end of the outage and succeeds", seen()));
                }
            }
            (AnswerResult::Failure { .. }, _) if is_unknown => {
                misses.push(Miss::new("a call whose answer the outage took is `unknown`", seen()));
            }
            (AnswerResult::Failure { .. }, _) => {
                misses.push(Miss::new("an unsent call waits for the end of the outage and succeeds", seen()));
            }
        }
        misses
    }

    /// Returns whether a call may be `unknown` although the server has not noted it: the client may have written it to a
    /// connection or a process that ended at the same moment.
    fn may_be_unknown(&self, call: &Call) -> bool {
        let (cell, observed) = (self.cell, self.observed);
        let during = call.sent >= observed.begin && call.sent < observed.end;
        let crosses = call.sent + CROSSING >= observed.begin && call.sent <= observed.begin + CROSSING;
        during && cell.form.ends_new_connections()
            // A silent connection of the pool swallows a call after the end, too.
            || call.sent >= observed.begin && cell.form == Form::Silence && !cell.situation.is_start()
            || crosses && cell.situation == Situation::Agent
            // Every process of this form dies with all calls that it has received.
            || cell.form == Form::DiesAtCall && call.sent < observed.end && observed.runs(&call.id) <= 1
    }

    /// The first success after the end. The handshake of a first start has its own limit.
    fn recovery(&self) -> Option<Miss> {
        if self.cell.situation == Situation::FirstStart {
            return None;
        }
        let end = self.observed.end;
        let reads = self.observed.calls.iter().filter(|call| call.kind == Kind::Read);
        let successes = reads.flat_map(|call| &call.answers).filter(|answer| answer.is_success() && answer.at >= end);
        let limit = recovery_limit(self.cell);
        let demanded = format!("a read succeeds within {} of the end", seconds(limit));
        match successes.map(|answer| answer.at - end).min() {
            None => Some(Miss::new(demanded, "none succeeded")),
            Some(took) if took > limit => Some(Miss::late(demanded, seconds(took))),
            Some(_) => None,
        }
    }

    /// The dials while the server is not ready.
    fn dials(&self) -> Option<Miss> {
        let (cell, observed) = (self.cell, self.observed);
        if cell.form == Form::Silence && !cell.situation.is_start() {
            // A silent call is no evidence that the server is away, so that its pool may grow.
            return None;
        }
        let during = |at: &&Duration| **at >= observed.begin && **at < observed.end;
        let dials = observed.dials.as_ref()?.iter().filter(during).count() as u64;
        let most = BURST + cell.seconds.div_ceil(2) + BEFORE_VERDICT;
        (dials > most).then(|| {
            let demanded = format!("at most {most} dials in {} s (a burst of {BURST}, then 2 s apart)", cell.seconds);
            Miss::new(demanded, dials.to_string())
        })
    }

    /// The pauses that the server asks for.
    fn pauses(&self) -> Option<Miss> {
        let pause = match self.cell.form {
            Form::Status503RetryAfter => Duration::from_secs(HINT),
            Form::Status429 => SHORTEST_PAUSE,
            _ => return None,
        };
        let met: Vec<_> = self.observed.arrivals.iter().filter(|arrival| arrival.met_outage).collect();
        // 503 begins a pause once a probe has met it; until then it only makes the server suspect. 429 begins one at once.
        let begins = met.iter().filter(|arrival| {
            let is_probe = !matches!(arrival.what.as_str(), "tools/call" | "GET" | "DELETE");
            self.cell.form == Form::Status429 || is_probe
        });
        for refused in begins {
            let early = self.observed.arrivals.iter().find(|arrival| {
                arrival.at > refused.at + CROSSING
                    && arrival.at + PAUSE_TOLERANCE < refused.at + pause
                    && arrival.what != "DELETE"
            });
            if let Some(early) = early {
                let demanded = format!("no request for {} after a refusal", seconds(pause));
                let gap = seconds(early.at - refused.at);
                return Some(Miss::new(demanded, format!("{} came {gap} after {}", early.what, refused.what)));
            }
        }
        None
    }

    /// Calls that were sent although the server was known to be away. Only probes look for its end.
    fn calls_after_verdict(&self) -> Option<Miss> {
        let verdict = self.verdict()?;
        let is_call = |what: &str| what == "tools/call";
        let sent = self.observed.arrivals.iter().filter(|it| it.met_outage && is_call(&it.what) && it.at > verdict);
        let count = sent.clone().count();
        let first = sent.map(|it| it.at).min()?;
        let demanded = "no call is sent once the server is known to be away";
        let seen = format!("{count} calls, the first {} after the beginning", seconds(first - self.observed.begin));
        Some(Miss::late(demanded, seen))
    }

    /// Returns the time by which the server must be known to be away, if a call can have shown it.
    fn verdict(&self) -> Option<Duration> {
        let (cell, observed) = (self.cell, self.observed);
        // A silent server is not known to be away, 429 is tried with a call, and the command answers everything else.
        if cell.situation.is_start() || matches!(cell.form, Form::Silence | Form::Status429 | Form::DiesAtCall) {
            return None;
        }
        let failed = |call: &&Call| call.kind != Kind::Initialize && (call.in_flight || call.sent >= observed.begin);
        let first = observed.calls.iter().filter(failed).map(|call| call.sent.max(observed.begin)).min()?;
        Some(first + KNOWN_AWAY)
    }

    fn server_name(&self) -> &'static str {
        if self.cell.form.is_command() { command_server::NAME } else { "mendline-faults" }
    }

    /// Names a call and its time, relative to the outage.
    fn describe(&self, call: &Call) -> String {
        let (begin, end) = (self.observed.begin, self.observed.end);
        let when = if call.in_flight {
            "in flight at the beginning".to_owned()
        } else if call.sent < begin {
            format!("sent {} before the outage", seconds(begin - call.sent))
        } else if call.sent < end {
            format!("sent {} after the beginning", seconds(call.sent - begin))
        } else {
            format!("sent {} after the end", seconds(call.sent - end))
        };
        format!("{} ({when}; end at {})", call.id, seconds(end))
    }
}

pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests;
