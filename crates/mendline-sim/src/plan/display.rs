//! The text of a plan, as the log of a seed begins.

use std::fmt;

use mendline_core::config::Startup;
use mendline_core::{Moment, UpstreamConfig};

use super::Plan;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let when = if self.abrupt { " during the faults" } else { "" };
        writeln!(f, "seed {}: faults for {:?}, ends with {:?}{when}", self.seed, self.fault_phase, self.ending)?;
        for (upstream, pair) in self.config.upstreams.iter().zip(&self.pairs) {
            if let Some(site) = &pair.host.site {
                writeln!(
                    f,
                    "  over HTTP: {:?} by {:?}, {}% events, named: {}, {}% polls, notice stream: {}, connects in {:?} ms",
                    site.kind,
                    upstream.transport,
                    site.events,
                    site.names,
                    site.polls,
                    site.has_notice_stream,
                    site.connect
                )?;
            }
            writeln!(
                f,
                "  upstream {} ({:?}): call {:?}, total {:?}, recovery {:?}, limits {} + {}, pipe {} bytes, work {:?} ms, {} work items",
                upstream.name,
                pair.host.era,
                upstream.timeouts.call,
                upstream.timeouts.total,
                upstream.timeouts.recovery,
                upstream.limits.in_flight,
                upstream.limits.waiting,
                pair.host.capacity,
                pair.host.profile.work,
                pair.workload.left,
            )?;
        }
        if self.checks_recovery {
            for upstream in &self.config.upstreams {
                let (attempts, resumes) = (upstream.retry.attempts, upstream.resume_attempts);
                writeln!(
                    f,
                    "  chosen for {}: {:?}, {:?}, {attempts} attempts, {resumes} resumptions, hints: {}, {:?}",
                    upstream.name, upstream.keep_alive, upstream.reconnect, upstream.trust_hints, upstream.tools
                )?;
            }
        }
        for upstream in self.config.upstreams.iter().filter(|it| it.breaker.is_some() || it.rate_limit.is_some()) {
            let (codes, tools) = (&upstream.retry.codes, &upstream.tools);
            let UpstreamConfig { name, breaker, rate_limit, .. } = upstream;
            writeln!(f, "  policies of {name}: {breaker:?}, {rate_limit:?}, {codes:?}, {tools:?}")?;
        }
        for upstream in self.config.upstreams.iter().filter(|it| !it.retry.statuses.is_empty()) {
            writeln!(f, "  rules of {}: {:?}, {:?}", upstream.name, upstream.retry.statuses, upstream.tools)?;
        }
        for (upstream, pair) in self.config.upstreams.iter().zip(&self.pairs) {
            if upstream.catalogue.cache || upstream.catalogue.startup == Startup::Immediate {
                writeln!(f, "  starting {}: {:?}, cached {:?}", upstream.name, upstream.catalogue, pair.catalogue)?;
            }
        }
        for scheduled in &self.scheduled_faults {
            writeln!(
                f,
                "  {} at {} from {} for {:?}",
                scheduled.fault.name(),
                self.config.upstreams[scheduled.upstream].name,
                Moment::ZERO + scheduled.at,
                scheduled.lasts
            )?;
        }
        Ok(())
    }
}
