//! I5: the reported outcome of a call is correct.
//!
//! `not_sent` and `refused` mean that the call did not run and never will: no server can have received all of it,
//! before or after the answer; for `refused`, every server that received it rejected it. `unknown` means that a server
//! can have received all of it, or that an unconfirmed lost session was reported. It must not be used for a call that
//! was never sent or that was always rejected, because that call could be sent again. `answered` means that a server
//! wrote an answer. The number of attempts is the number of times that a server can have received all of the call. A
//! call may be called retryable only if a second execution does no harm.
//!
//! The number of accepted bytes is reported only with the end of the child or of the exchange. A call on a live child
//! or exchange may therefore be called unknown, and counted as an attempt, although not all of it is accepted.

use std::collections::BTreeMap;

use mendline_core::Moment;
use mendline_core::port::ExchangeId;

use super::Check;
use crate::fact::{Fact, Report, Via};
use crate::machine::EngineOutput;
use crate::oracle::{Effect, Failure, Key, Oracle, Verdict};

/// The calls on children and exchanges that have not ended.
#[derive(Default)]
pub(super) struct HonestOutcome {
    out: BTreeMap<Key, (Via, u32)>,
    /// Calls on exchanges that are not connected yet; no server can have received them.
    unconnected: BTreeMap<ExchangeId, Key>,
    /// Number of copies that were aborted before the number of accepted bytes was known.
    given_up: BTreeMap<Key, u32>,
    /// Children and exchanges that ended in this step; a decision at the same time may not know it yet.
    ended: Vec<Via>,
}

/// Checks a failure. `in_doubt` is the number of copies whose accepted bytes are unknown.
fn judge(failure: &Failure, key: Key, in_doubt: u32, oracle: &Oracle) -> Result<(), String> {
    let record = oracle.of(key);
    let (id, what) = (&record.id, record.what);
    let outcome = &failure.outcome;
    match outcome.as_str() {
        "not_sent" if record.whole > 0 || record.runs > 0 => {
            return Err(format!(
                "{id} ({what}) was answered {outcome}, but a server can have received it {} times and ran it {} times",
                record.whole, record.runs
            ));
        }
        "refused" if record.possibly_run() > record.harmless || record.runs > 0 => {
            return Err(format!(
                "{id} ({what}) was answered {outcome}, but it was rejected {} of {} times and ran {} times",
                record.refused, record.whole, record.runs
            ));
        }
        "refused" if record.refused + record.harmless == 0 => {
            return Err(format!("{id} ({what}) was answered {outcome}, but no server rejected it"));
        }
        "unknown" if record.possibly_run() + in_doubt + record.reported_session_lost == 0 => {
            return Err(format!("{id} ({what}) was answered unknown, but no server can have received all of it"));
        }
        "not_sent" | "refused" | "unknown" | "answered" => {}
        other => return Err(format!("{id} ({what}) was answered with the outcome {other:?}, which does not exist")),
    }
    if outcome == "unknown" && record.effect == Effect::Unsafe && failure.retryable == Some(true) {
        return Err(format!("{id} ({what}) may have run and must not run twice, but was called retryable"));
    }
    let attempts = u64::from(record.whole)..=u64::from(record.whole + in_doubt);
    if !failure.attempts.is_some_and(|count| attempts.contains(&count)) && !record.is_replayed_state() {
        return Err(format!(
            "{id} ({what}) is reported with {:?} attempts, but had {}",
            failure.attempts, record.whole
        ));
    }
    Ok(())
}

impl HonestOutcome {
    fn over(&mut self, via: Via, oracle: &Oracle) -> Result<(), String> {
        // A client with unread messages may have been answered before the end was known.
        let is_behind = |key: &Key| oracle.readers.get(&oracle.of(*key).client).is_some_and(|reader| reader.behind);
        self.out.retain(|key, (by, _)| *by != via || is_behind(key));
        Ok(())
    }
}

impl Check for HonestOutcome {
    fn name(&self) -> &'static str {
        "I5 honest outcome"
    }

    fn see(&mut self, fact: &Fact<'_>, _: Moment, oracle: &Oracle) -> Result<(), String> {
        match fact {
            Fact::Answered { key, .. } | Fact::Accepted { key, .. } | Fact::Ran { key, .. } if oracle.of(*key).twin => {
                Ok(())
            }
            Fact::HandedOut { by: Via::Exchange(_, exchange), key: Some(key), .. } => {
                self.out.remove(key);
                self.unconnected.insert(*exchange, *key);
                Ok(())
            }
            Fact::Reported { upstream, exchange, report: Report::Reached } => {
                if let Some(key) = self.unconnected.remove(exchange) {
                    self.out.insert(key, (Via::Exchange(*upstream, *exchange), oracle.of(key).whole));
                }
                Ok(())
            }
            Fact::Requested(EngineOutput::Abort(exchange)) => {
                let is_meant = |via: &Via| matches!(via, Via::Exchange(_, it) if it == exchange);
                let found = self.out.iter().find(|(_, (via, _))| is_meant(via)).map(|(key, (_, whole))| (*key, *whole));
                if let Some((key, whole)) = found {
                    self.out.remove(&key);
                    *self.given_up.entry(key).or_default() += u32::from(oracle.of(key).whole == whole);
                }
                Ok(())
            }
            Fact::HandedOut { by, key: Some(key), .. } => {
                self.out.insert(*key, (*by, oracle.of(*key).whole));
                Ok(())
            }
            Fact::Exited(link) => self.over(Via::Child(*link), oracle),
            Fact::Reported { upstream, exchange, report: Report::End } => {
                self.ended.push(Via::Exchange(*upstream, *exchange));
                Ok(())
            }
            Fact::Settled { .. } => {
                std::mem::take(&mut self.ended).into_iter().try_for_each(|via| self.over(via, oracle))
            }
            Fact::Answered { key, verdict: Verdict::Failed(failure), .. } => {
                let in_doubt = match self.out.get(key) {
                    Some((_, before)) if oracle.of(*key).whole == *before => 1,
                    _ => 0,
                };
                judge(failure, *key, in_doubt + self.given_up.get(key).unwrap_or(&0), oracle)
            }
            // An execution after the answer makes the answer wrong.
            Fact::Accepted { key, .. } | Fact::Ran { key, .. } => match &oracle.of(*key).verdict {
                Some(Verdict::Failed(failure)) if failure.outcome == "not_sent" => {
                    Err(format!("{} was answered not_sent, and was sent after that", oracle.of(*key).id))
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}
