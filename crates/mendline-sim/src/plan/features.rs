//! Subjects that only some worlds have: recovery, limits, startup, silent calls and policies of tools.
//!
//! Each has its own generator, so that the addition of one does not change the others.

use std::time::Duration;

use mendline_core::UpstreamConfig;

use super::policies::{choose_limits, choose_recovery_policies, choose_tool_policies, start_at_once};
use super::{LIMITS, Pair, RECOVERY_POLICIES, SILENCE, STARTUP, TOOL_POLICIES};
use crate::rng::Rng;

/// The generators of the subjects that a world has.
pub(super) struct Features {
    /// Recovery policies, clients with session state, and faults that require recovery.
    pub(super) recovery: Option<Rng>,
    /// Breakers, rate limits and tool timeouts, and faults that make a server unhealthy or overloaded.
    pub(super) limits: Option<Rng>,
    /// Upstreams that answer the handshake before their server is up.
    pub(super) startup: Option<Rng>,
    /// Time for silent calls, and faults that cause them.
    pub(super) silence: Option<Rng>,
    /// Limits of tools and rules for statuses.
    tools: Option<Rng>,
}

impl Features {
    /// Draws the subjects of a world.
    pub(super) fn draw(rng: &Rng) -> Features {
        let drawn = |label, percent| {
            let mut rng = rng.fork(label);
            rng.percent(percent).then_some(rng)
        };
        Features {
            recovery: drawn(RECOVERY_POLICIES, 65),
            limits: drawn(LIMITS, 45),
            startup: drawn(STARTUP, 25),
            silence: drawn(SILENCE, 12),
            tools: drawn(TOOL_POLICIES, 20),
        }
    }

    /// Configures one upstream.
    pub(super) fn configure(
        &mut self,
        index: usize,
        has_no_faults: bool,
        upstream: &mut UpstreamConfig,
        pair: &mut Pair,
    ) {
        let label = index as u64;
        if let Some(rng) = &self.recovery {
            pair.workload.varied = true;
            if !has_no_faults {
                choose_recovery_policies(upstream, &mut rng.fork(label));
            }
        }
        if !has_no_faults {
            choose_limits(upstream, self.limits.as_ref().map(|rng| rng.fork(label)));
        }
        if upstream.rate_limit.is_some() {
            // Calls that wait for a slot until their deadline would never be served.
            let least = Duration::from_secs(3).min(upstream.timeouts.call);
            for tool in upstream.tools.values_mut() {
                tool.timeout = tool.timeout.map(|timeout| timeout.max(least));
            }
        }
        if let Some(rng) = &mut self.silence {
            if let Some(site) = &mut pair.host.site {
                site.comments = rng.fork(200 + label).percent(50);
            }
            if !has_no_faults {
                let call = Duration::from_secs(*rng.pick(&[40, 60, 60, 300]));
                upstream.timeouts.call = call;
                upstream.timeouts.total = call * *rng.pick(&[2, 6]);
            }
        }
        if let Some(rng) = self.tools.as_ref().filter(|_| !has_no_faults) {
            choose_tool_policies(upstream, pair, &mut rng.fork(label));
        }
        if let Some(rng) = &self.startup {
            start_at_once(upstream, pair, &mut rng.fork(label));
        }
    }
}
