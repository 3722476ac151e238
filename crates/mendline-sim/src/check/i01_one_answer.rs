//! I1: exactly one response per request, with its id exactly as written, unless it was cancelled or the client left.
//!
//! A client knows an answer by its id, so a second answer, an answer under an altered id and an answer to nothing look alike:
//! each is a response that nobody waits for. The missing answer shows at the end, when everything is over and a request is
//! still open although its client would have read on. The answer in time is I2's business.

use mendline_core::Moment;

use super::Check;
use crate::fact::Fact;
use crate::oracle::Oracle;

/// Keeps nothing: the oracle counts answers.
pub(super) struct OneAnswer;

impl Check for OneAnswer {
    fn name(&self) -> &'static str {
        "I1 one answer"
    }

    fn see(&mut self, fact: &Fact<'_>, _: Moment, oracle: &Oracle) -> Result<(), String> {
        match fact {
            Fact::Surplus { client, message } => Err(format!(
                "client {} read a response that it does not wait for: {}",
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
