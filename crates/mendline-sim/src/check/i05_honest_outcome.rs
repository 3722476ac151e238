//! I5: what Mendline says about a call is true.
//!
//! `not_sent` and `refused` mean that it did not run and never will: no server can have had all of it, neither before the
//! answer nor after; or, for `refused`, every server that had it said that it turned it away. `unknown` means that one can
//! have had all of it, or that it was told that its session is lost and nothing confirmed that: saying so of a call that never left the house, or that was turned away each time, frightens people
//! for nothing, and hides that it could have been sent again. `answered` means that a server wrote an answer. The number of
//! attempts is the number of times that a server can have had all of it. Saying that a call may be tried again is only honest
//! when a second run does no harm.
//!
//! How many bytes a pipe or a cable accepted is reported with the end of the child or of the exchange and not before. So a
//! call that was handed out over one which still lives may be called unknown, and counted as an attempt, although not all of
//! it has been accepted.

use std::collections::BTreeMap;

use mendline_core::Moment;
use mendline_core::port::ExchangeId;

use super::Check;
use crate::fact::{Fact, Report, Via};
use crate::machine::EngineOutput;
use crate::oracle::{Effect, Failure, Key, Oracle, Verdict};

/// Remembers which calls are out over ways whose end is not known.
#[derive(Default)]
pub(super) struct HonestOutcome {
    out: BTreeMap<Key, (Via, u32)>,
    /// What is to go out over an exchange that has no connection yet: nobody can have had any of it.
    unconnected: BTreeMap<ExchangeId, Key>,
    /// How many copies were given up before anybody knew how much of them had been accepted.
    given_up: BTreeMap<Key, u32>,
    /// Ways that are over since this step began: what was decided in the same instant may not have known yet.
    ended: Vec<Via>,
}

/// `in_doubt` is how many copies there are of which nobody can know how much was accepted.
fn judge(failure: &Failure, key: Key, in_doubt: u32, oracle: &Oracle) -> Result<(), String> {
    let record = oracle.of(key);
    let (id, what) = (&record.id, record.what);
    let outcome = &failure.outcome;
    match outcome.as_str() {
        "not_sent" if record.whole > 0 || record.runs > 0 => {
            return Err(format!(
                "{id} ({what}) was answered {outcome}, but a server can have had it {} times and ran it {} times",
                record.whole, record.runs
            ));
        }
        "refused" if record.possibly_run() > 0 || record.runs > 0 => {
            return Err(format!(
                "{id} ({what}) was answered {outcome}, but it was turned away {} of {} times and ran {} times",
                record.refused, record.whole, record.runs
            ));
        }
        "refused" if record.refused == 0 => {
            return Err(format!("{id} ({what}) was answered {outcome}, but nobody turned it away"));
        }
        "unknown" if record.possibly_run() + in_doubt + record.reported_session_lost == 0 => {
            return Err(format!("{id} ({what}) was answered unknown, but no server can have had all of it"));
        }
        "not_sent" | "refused" | "unknown" | "answered" => {}
        other => return Err(format!("{id} ({what}) was answered with the outcome {other:?}, which is none")),
    }
    if outcome == "unknown" && record.effect == Effect::Unsafe && failure.retryable == Some(true) {
        return Err(format!("{id} ({what}) may have run and must not run twice, but was called retryable"));
    }
    let attempts = u64::from(record.whole)..=u64::from(record.whole + in_doubt);
    if !failure.attempts.is_some_and(|count| attempts.contains(&count)) && !record.is_replayed_state() {
        return Err(format!(
            "{id} ({what}) is said to have had {:?} attempts, but had {}",
            failure.attempts, record.whole
        ));
    }
    Ok(())
}

impl HonestOutcome {
    fn over(&mut self, via: Via, oracle: &Oracle) -> Result<(), String> {
        // A client that is behind may have been answered before the end was known, and read it only later.
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
            // A run after the answer makes a liar of an answer that was true when it was given.
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
