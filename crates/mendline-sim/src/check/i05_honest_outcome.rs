//! I5: what Mendline says about a call is true.
//!
//! `not_sent` and `refused` mean that it did not run and never will: no child can have had all of it, neither before the
//! answer nor after. `unknown` means that one can have had all of it: saying so of a call that never left the house frightens
//! people for nothing, and hides that it could have been sent again. `answered` means that a server wrote an answer.
//! The number of attempts is the number of times that a child can have had all of it. Saying that a call may be tried again
//! is only honest when a second run does no harm.
//!
//! How many bytes a pipe accepted is reported with the child's end and not before. So a call that was handed out to a child
//! which still lives may be called unknown, and counted as an attempt, although the pipe has not accepted all of it.

use std::collections::BTreeMap;

use mendline_core::{LinkId, Moment};

use super::Check;
use crate::fact::Fact;
use crate::oracle::{Effect, Failure, Key, Oracle, Verdict};

/// Remembers which calls are out at children whose end is not known.
#[derive(Default)]
pub(super) struct HonestOutcome {
    out: BTreeMap<Key, (LinkId, u32)>,
}

/// `in_doubt` is 1 while a copy is out of which nobody can know how much was accepted.
fn judge(failure: &Failure, key: Key, in_doubt: u32, oracle: &Oracle) -> Result<(), String> {
    let record = oracle.of(key);
    let (id, what) = (&record.id, record.what);
    let says = &failure.outcome;
    match says.as_str() {
        "not_sent" | "refused" if record.whole > 0 || record.runs > 0 => {
            return Err(format!(
                "{id} ({what}) was answered {says}, but a child can have had it {} times and ran it {} times",
                record.whole, record.runs
            ));
        }
        "unknown" if record.whole + in_doubt == 0 => {
            return Err(format!("{id} ({what}) was answered unknown, but no child can have had all of it"));
        }
        "not_sent" | "refused" | "unknown" | "answered" => {}
        other => return Err(format!("{id} ({what}) was answered with the outcome {other:?}, which is none")),
    }
    if says == "unknown" && record.effect == Effect::Unsafe && failure.retryable == Some(true) {
        return Err(format!("{id} ({what}) may have run and must not run twice, but was called retryable"));
    }
    let attempts = u64::from(record.whole)..=u64::from(record.whole + in_doubt);
    if !failure.attempts.is_some_and(|said| attempts.contains(&said)) && !record.is_replayed_state() {
        return Err(format!(
            "{id} ({what}) is said to have had {:?} attempts, but had {}",
            failure.attempts, record.whole
        ));
    }
    Ok(())
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
            Fact::Handed { link, key: Some(key), .. } => {
                self.out.insert(*key, (*link, oracle.of(*key).whole));
                Ok(())
            }
            Fact::Exited(link) => {
                // A client that is behind may have been answered before the end was known, and read it only later.
                let is_behind =
                    |key: &Key| oracle.readers.get(&oracle.of(*key).client).is_some_and(|reader| reader.behind);
                self.out.retain(|key, (at, _)| at != link || is_behind(key));
                Ok(())
            }
            Fact::Answered { key, verdict: Verdict::Failed(failure), .. } => {
                let in_doubt = match self.out.get(key) {
                    Some((_, before)) if oracle.of(*key).whole == *before => 1,
                    _ => 0,
                };
                judge(failure, *key, in_doubt, oracle)
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
