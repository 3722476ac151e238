//! The checks of the invariants, one file each.
//!
//! A check receives every fact in order and reports when an invariant is broken. It keeps its own state and knows
//! nothing of the engine. Safety is checked at every fact. Liveness is checked at the end of its bound (`Overdue`,
//! `StillDown`, `NeverFinished`) or at the end of the world.

mod i01_one_answer;
mod i02_in_time;
mod i03_no_second_effect;
mod i04_bounded_attempts;
mod i04_no_double_work;
mod i05_honest_outcome;
mod i06_alive;
mod i06_alive_frozen;
mod i07_dial_rate;
mod i07_http_rate;
mod i07_ping_rate;
mod i07_redial_limit;
mod i08_order;
mod i09_bounded;
mod i09_tool_limits;
mod i10_isolation;
mod i11_transparency;
mod i16_one_truth;
mod i17_clean_end;
mod i18_true_to_the_era;
mod i19_brought_back;
mod i20_breaker;
mod i21_paced;
mod i22_up_at_once;
mod i23_one_renewal;
mod port_contract;
mod port_contract_http;

use std::fmt;

use mendline_core::{Config, Moment};
use mendline_wire::Method;

use crate::fact::Fact;
use crate::machine::{EngineEvent, EventKind};
use crate::oracle::Oracle;

pub use i17_clean_end::BOUND as END_BOUND;

/// A check of one invariant.
pub trait Check {
    /// Returns the name of the invariant.
    fn name(&self) -> &'static str;
    /// Processes a fact. The error describes the violation.
    fn see(&mut self, fact: &Fact<'_>, now: Moment, oracle: &Oracle) -> Result<(), String>;
    /// Processes the end of the world.
    fn end(&mut self, now: Moment, oracle: &Oracle) -> Result<(), String> {
        let _ = (now, oracle);
        Ok(())
    }
}

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub invariant: &'static str,
    /// The time.
    pub at: Moment,
    /// The description.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.invariant, self.at, self.text)
    }
}

/// Returns whether this is a notification that a list has changed.
pub(crate) fn is_list_change(method: Method) -> bool {
    matches!(method, Method::ToolsListChanged | Method::PromptsListChanged | Method::ResourcesListChanged)
}

/// Returns whether the server has answered a request of a client. The answer to a call that is sent again because of its
/// error proves that the server is healthy, like one that the client receives.
pub(crate) fn is_answer(event: &EngineEvent) -> bool {
    match event.kind {
        EventKind::Answered(_) | EventKind::AnsweredWithError(_) => true,
        EventKind::Retried(..) => event.reason == Some("error_answer"),
        _ => false,
    }
}

/// Creates all checks of a world. (I15 compares two worlds and is in `run.rs`.)
pub fn all(config: &Config) -> Vec<Box<dyn Check>> {
    let upstreams = config.upstreams.len();
    vec![
        Box::new(i01_one_answer::OneAnswer),
        Box::new(i02_in_time::InTime),
        Box::new(i03_no_second_effect::NoSecondEffect),
        Box::new(i04_bounded_attempts::BoundedAttempts::new(config)),
        Box::new(i04_no_double_work::NoDoubleWork::default()),
        Box::new(i05_honest_outcome::HonestOutcome::default()),
        Box::new(i06_alive::Alive::new(upstreams)),
        Box::new(i06_alive_frozen::AliveFrozen::new(config)),
        Box::new(i07_dial_rate::DialRate::new(config)),
        Box::new(i07_http_rate::HttpRate::new(config)),
        Box::new(i07_ping_rate::PingRate::new(config)),
        Box::new(i07_redial_limit::RedialLimit::new(config)),
        Box::new(i08_order::Order::new(upstreams)),
        Box::new(i09_bounded::Bounded::new(config)),
        Box::new(i09_tool_limits::ToolLimits::new(config)),
        Box::new(i10_isolation::Isolation::default()),
        Box::new(i11_transparency::Transparency),
        Box::new(i16_one_truth::OneTruth::new(config)),
        Box::new(i17_clean_end::CleanEnd::default()),
        Box::new(i18_true_to_the_era::TrueToTheEra::default()),
        Box::new(i19_brought_back::BroughtBack::default()),
        Box::new(i20_breaker::BreakerRules::new(config)),
        Box::new(i21_paced::Paced::new(config)),
        Box::new(i22_up_at_once::UpAtOnce::new(config)),
        Box::new(i23_one_renewal::OneRenewal::new(config)),
        Box::new(port_contract::PortContract::new(upstreams)),
        Box::new(port_contract_http::PortContractHttp::default()),
    ]
}
