//! I1: exactly one response per request, with its id exactly as written, unless it was cancelled or the client
//! disconnected.
//!
//! A client matches answers by their ids, so a second answer, an answer with a changed id and an answer to no request
//! look alike: each is a response that the client does not wait for. A missing answer is detected at the end: a request
//! is still open although its client reads. I2 checks deadlines.

use mendline_core::Moment;

use super::Check;
use crate::fact::Fact;
use crate::oracle::Oracle;

/// Has no state: the oracle counts answers.
pub(super) struct OneAnswer;

impl Check for OneAnswer {
    fn name(&self) -> &'static str {
        "I1 one answer"
    }

    fn see(&mut self, fact: &Fact<'_>, _: Moment, oracle: &Oracle) -> Result<(), String> {
        match fact {
            Fact::Surplus { client, message } => Err(format!(
                "client {} read an answer to no open request: {}",
                client.0,
                String::from_utf8_lossy(message.text())
            )),
            Fact::Answered { key, .. } if oracle.of(*key).answers > 1 => {
                Err(format!("{} was answered {} times", oracle.of(*key).id, oracle.of(*key).answers))
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self, _: Moment, oracle: &Oracle) -> Result<(), String> {
        match oracle.unanswered().next() {
            Some((_, record)) => Err(format!("{} ({}) was never answered", record.id, record.what)),
            None => Ok(()),
        }
    }
}
