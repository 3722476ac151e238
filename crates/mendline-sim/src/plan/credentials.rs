//! Renewable credentials of simulated servers.

use std::time::Duration;

use mendline_core::Config;
use mendline_core::config::CredentialKind;

use super::ScheduledFault;
use crate::fault;
use crate::rng::Rng;

/// Gives servers over HTTP renewable credentials, and adds faults of them.
pub(super) fn choose(
    config: &mut Config,
    over_http: &[bool],
    faulty_upstreams: usize,
    scheduled_faults: &mut Vec<ScheduledFault>,
    fault_phase: Duration,
    rng: &mut Rng,
) {
    if !rng.percent(20) {
        return;
    }
    let millis = fault_phase.as_millis() as u64;
    for upstream in (0..faulty_upstreams).filter(|index| over_http[*index]) {
        config.upstreams[upstream].credential = *rng.pick(&[CredentialKind::Login, CredentialKind::Source]);
        for _ in 0..rng.between(1, 3) {
            let (at, lasts) = (rng.millis(0, millis * 2 / 3), rng.millis(200, millis));
            scheduled_faults.push(ScheduledFault { fault: *rng.pick(fault::CREDENTIALS_HTTP), upstream, at, lasts });
        }
    }
}
