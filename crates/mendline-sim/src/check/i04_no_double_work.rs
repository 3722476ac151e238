//! I4: a call is not sent once more while bytes of its response arrive.
//!
//! The time in which the machine was suspended counts as silence, because the clock of the engine includes it: nothing
//! came in that time, and the suspend may have cost the connection.

use std::collections::BTreeMap;
use std::time::Duration;

use mendline_core::port::ExchangeId;
use mendline_core::{Moment, defaults};
use mendline_wire::Kind;

use super::Check;
use crate::fact::{Fact, Report, Via};
use crate::machine::EngineOutput;
use crate::oracle::{Key, Oracle};

/// The open exchanges that carry a call, with the time of the last byte of their response on the clock of the engine.
#[derive(Default)]
pub(super) struct NoDoubleWork {
    open: BTreeMap<ExchangeId, (Key, Option<Moment>)>,
    /// Total suspended time.
    slept: Duration,
}

impl Check for NoDoubleWork {
    fn name(&self) -> &'static str {
        "I4 no double work"
    }

    fn see(&mut self, fact: &Fact<'_>, now: Moment, oracle: &Oracle) -> Result<(), String> {
        let now = now + self.slept;
        match fact {
            Fact::ConnectivityChanged(slept) => self.slept += *slept,
            Fact::HandedOut { by: Via::Exchange(_, exchange), key: Some(key), .. } => {
                let record = oracle.of(*key);
                // Internal requests repeat the state of the session and read lists again.
                if record.is_replayed_state() || oracle.may_be_read_again(*key) {
                    return Ok(());
                }
                let arrives = |last: Option<Moment>| last.is_some_and(|last| now.since(last) < defaults::SILENCE);
                if self.open.values().any(|(other, last)| other == key && arrives(*last)) {
                    return Err(format!("{} ({}) was sent again while its response arrived", record.id, record.what));
                }
                self.open.insert(*exchange, (*key, None));
            }
            Fact::Reported { exchange, report: Report::End, .. } | Fact::Requested(EngineOutput::Abort(exchange)) => {
                self.open.remove(exchange);
            }
            // A response that is complete does not arrive any more: it was an error after which the call is sent again.
            Fact::Received { by: Via::Exchange(_, exchange), message: Some(message) }
                if matches!(message.kind(), Kind::Result | Kind::Error) =>
            {
                self.open.remove(exchange);
            }
            Fact::Reported { exchange, report: Report::Head(_) | Report::Bytes | Report::Event(_), .. } => {
                if let Some((_, last)) = self.open.get_mut(exchange) {
                    *last = Some(now);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
