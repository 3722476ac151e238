//! The contract of `port.rs` for HTTP exchanges, checked for both sides.
//!
//! The shell reports at most one `Reached`, one head, events or a body only after it, exactly one end, and nothing
//! after that. The engine uses an id once, sends a body with POST only, and aborts an exchange at most once and not
//! after its end. The simulated shell must keep its half as well.

use std::collections::BTreeMap;

use mendline_core::Moment;
use mendline_core::port::{ExchangeId, Verb};

use super::Check;
use crate::fact::{Fact, Report};
use crate::machine::EngineOutput;
use crate::oracle::Oracle;

#[derive(Default)]
struct Course {
    reached: bool,
    head: bool,
    body: bool,
    given_up: bool,
}

/// The open exchanges and their reports.
#[derive(Default)]
pub(super) struct PortContractHttp {
    open: BTreeMap<ExchangeId, Course>,
    over: BTreeMap<ExchangeId, Moment>,
}

impl PortContractHttp {
    fn report(&mut self, exchange: ExchangeId, report: Report, now: Moment) -> Result<(), String> {
        let Some(course) = self.open.get_mut(&exchange) else {
            return Err(format!("the shell reported {report:?} for exchange {}, which is not open", exchange.0));
        };
        let is_allowed = match report {
            Report::Reached => !std::mem::replace(&mut course.reached, true) && !course.head,
            Report::Head(_) => !std::mem::replace(&mut course.head, true) && course.reached,
            Report::Bytes | Report::Event(_) => course.head && !course.body && !course.given_up,
            Report::Body => course.head && !std::mem::replace(&mut course.body, true) && !course.given_up,
            Report::End => {
                self.open.remove(&exchange);
                self.over.insert(exchange, now);
                true
            }
        };
        if is_allowed {
            Ok(())
        } else {
            Err(format!("the shell reported {report:?} for exchange {} out of order", exchange.0))
        }
    }
}

impl Check for PortContractHttp {
    fn name(&self) -> &'static str {
        "port contract, HTTP"
    }

    fn see(&mut self, fact: &Fact<'_>, now: Moment, _: &Oracle) -> Result<(), String> {
        match fact {
            Fact::Requested(EngineOutput::Exchange(exchange, _, request)) => {
                if self.over.contains_key(exchange) || self.open.insert(*exchange, Course::default()).is_some() {
                    return Err(format!("the id of exchange {} was used before", exchange.0));
                }
                if (request.verb == Verb::Post) != request.body.is_some() {
                    return Err(format!("a {:?} with a body or a POST without: exchange {}", request.verb, exchange.0));
                }
                Ok(())
            }
            Fact::Requested(EngineOutput::Abort(exchange)) => {
                let before = self.open.get_mut(exchange).map(|course| std::mem::replace(&mut course.given_up, true));
                match before {
                    Some(false) => Ok(()),
                    Some(true) => Err(format!("exchange {} was aborted twice", exchange.0)),
                    // Abort and end may cross at the same time.
                    None if self.over.get(exchange) == Some(&now) => Ok(()),
                    None => Err(format!("exchange {} was aborted, but is not open", exchange.0)),
                }
            }
            Fact::Reported { exchange, report, .. } => self.report(*exchange, *report, now),
            _ => Ok(()),
        }
    }

    fn end(&mut self, _: Moment, _: &Oracle) -> Result<(), String> {
        match self.open.iter().find(|(_, course)| course.given_up) {
            Some((exchange, _)) => Err(format!("exchange {} was aborted and never ended", exchange.0)),
            None => Ok(()),
        }
    }
}
