//! The faults of a plan and their times.

use std::time::Duration;

use super::features::Features;
use super::{HTTP, Pair, ScheduledFault};
use crate::fault::{self, Fault};
use crate::rng::Rng;
use crate::server::Era;

pub(super) fn scheduled_faults(
    faulty_upstreams: usize,
    over_http: &[bool],
    fault_phase: Duration,
    rng: &mut Rng,
) -> Vec<ScheduledFault> {
    let count = *rng.pick(&[0, 1, 1, 2, 2, 3, 5]);
    let mut scheduled_faults: Vec<ScheduledFault> = Vec::new();
    let mut http_rng = rng.fork(HTTP);
    for _ in 0..count {
        let fault = pick_fault(fault::CHILD, rng);
        let upstream = rng.below(faulty_upstreams as u64) as usize;
        let fault = if over_http[upstream] { pick_http_fault(&mut http_rng) } else { fault };
        let at = rng.millis(0, fault_phase.as_millis() as u64 * 9 / 10);
        // Some faults are active from the beginning, so that handshakes fail too.
        let at = if over_http[upstream] && http_rng.percent(20) { Duration::ZERO } else { at };
        let lasts = rng.millis(20, (fault_phase.as_millis() as u64).min(60_000));
        scheduled_faults.push(ScheduledFault { fault, upstream, at, lasts });
    }
    scheduled_faults
}

fn pick_fault(among: &[&'static dyn Fault], rng: &mut Rng) -> &'static dyn Fault {
    let fault = *rng.pick(among);
    // Most faults that disconnect the client are drawn again, because nothing is tested after them.
    if fault.ends_client() && rng.percent(60) { *rng.pick(among) } else { fault }
}

/// Picks mostly faults that only HTTP servers have.
fn pick_http_fault(rng: &mut Rng) -> &'static dyn Fault {
    if rng.percent(80) { *rng.pick(fault::HTTP_ONLY) } else { pick_fault(fault::HTTP_SHARED, rng) }
}

impl Features {
    /// Adds the faults of the subjects that a world has.
    pub(super) fn add_faults(
        &mut self,
        pairs: &[Pair],
        faulty_upstreams: usize,
        fault_phase: Duration,
        scheduled_faults: &mut Vec<ScheduledFault>,
    ) {
        let over_http = |upstream: usize| pairs[upstream].host.site.is_some();
        if let Some(rng) = &mut self.recovery {
            for scheduled in &mut *scheduled_faults {
                if rng.percent(60) {
                    let among =
                        if over_http(scheduled.upstream) { fault::RECOVERY_HTTP } else { fault::RECOVERY_CHILD };
                    scheduled.fault = *rng.pick(among);
                }
                // Only modern servers answer `input_required`, so this fault would be too rare.
                let asks_back = pairs[scheduled.upstream].host.era == Era::Modern && rng.fork(71).percent(12);
                if let (true, Some(fault)) = (asks_back, fault::by_name("m71_input_required_across_reconnect")) {
                    scheduled.fault = fault;
                }
            }
        }
        if let Some(rng) = &mut self.limits {
            // These faults are added, so that all other faults also occur with limits.
            for index in 0..scheduled_faults.len() {
                if rng.percent(60) {
                    let ScheduledFault { upstream, at, lasts, .. } = scheduled_faults[index];
                    let among = if over_http(upstream) { fault::LIMITS_HTTP } else { fault::LIMITS_CHILD };
                    scheduled_faults.push(ScheduledFault { fault: *rng.pick(among), upstream, at, lasts });
                }
            }
        }
        if let Some(rng) = &mut self.silence {
            for _ in 0..rng.between(1, 2) {
                let upstream = rng.below(faulty_upstreams as u64) as usize;
                let among = if over_http(upstream) { fault::SILENT_HTTP } else { fault::SILENT_CHILD };
                let (at, lasts) = (rng.millis(100, 60_000), rng.millis(40_000, 120_000));
                scheduled_faults.push(ScheduledFault { fault: *rng.pick(among), upstream, at, lasts });
            }
        }
        if let Some(rng) = &mut self.startup
            && rng.percent(60)
        {
            let upstream = rng.below(faulty_upstreams as u64) as usize;
            scheduled_faults.extend(fault_at_start(upstream, over_http(upstream), fault_phase, rng));
        }
    }
}

/// Draws a fault by which a server is not up when its client connects.
fn fault_at_start(upstream: usize, over_http: bool, fault_phase: Duration, rng: &mut Rng) -> Option<ScheduledFault> {
    let names: &[&str] = match over_http {
        true => &["n05_connect_refused", "n06_connect_blackhole", "n08_tls_stall"],
        false => &["p56_slow_start", "p56_slow_start", "p61_spawn_eagain", "p57_stopped"],
    };
    let lasts = rng.millis(500, (fault_phase.as_millis() as u64).min(40_000));
    let fault = fault::by_name(names[rng.below(names.len() as u64) as usize])?;
    Some(ScheduledFault { fault, upstream, at: Duration::ZERO, lasts })
}
