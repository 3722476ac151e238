//! I4: attempts per call do not exceed the limit at its arrival, and incidents that cause retries are rare.
//!
//! An attempt is a request that a pipe or a connection accepted completely and that the server did not refuse. Requests
//! that Mendline repeats as part of a handshake are not attempts.
//!
//! A call is sent again because of an incident: its own failure, a lost link or session, a verdict about the server. An
//! incident can affect many calls. Per upstream their number may not exceed a tenth of the calls, plus 10, plus one per
//! six seconds; the time in which the machine was suspended counts, because the clock of the engine includes it.

use std::collections::BTreeSet;
use std::time::Duration;

use mendline_core::config::Transport;
use mendline_core::{Config, Moment, defaults};

use super::Check;
use crate::fact::Fact;
use crate::machine::EventKind;
use crate::oracle::Oracle;
use crate::server;

#[derive(Clone, Default)]
struct Traffic {
    calls: u64,
    incidents: u64,
    /// An incident that can affect several calls has begun, and no call was sent again for it yet.
    is_new: bool,
    /// An unreadable answer leads to a verdict about the server.
    over_http: bool,
    /// The calls that were reported as silent, and the time at which one of them was last counted.
    silent: BTreeSet<u64>,
    silence: Option<Moment>,
}

/// Counters per upstream.
pub(super) struct BoundedAttempts {
    traffic: Vec<Traffic>,
    /// Total suspended time.
    slept: Duration,
}

impl BoundedAttempts {
    pub(super) fn new(config: &Config) -> BoundedAttempts {
        let traffic = config.upstreams.iter().map(|upstream| Traffic {
            is_new: true,
            over_http: upstream.transport != Transport::Child,
            ..Traffic::default()
        });
        BoundedAttempts { traffic: traffic.collect(), slept: Duration::ZERO }
    }

    fn see_event(
        &mut self,
        upstream: usize,
        kind: &EventKind,
        reason: Option<&str>,
        now: Moment,
    ) -> Result<(), String> {
        let Some(traffic) = self.traffic.get_mut(upstream) else { return Ok(()) };
        match kind {
            EventKind::Verdict | EventKind::Moved("Up" | "Draining", "Waiting" | "Parked" | "Idle") => {
                traffic.is_new = true;
            }
            EventKind::Silent(call) => {
                traffic.silent.insert(*call);
            }
            // Calls that become silent within one limit of silence are one incident.
            EventKind::Retried(call, _)
                if reason == Some("timed_out")
                    && traffic.silent.remove(call)
                    && traffic.silence.is_some_and(|last| now - last < defaults::SILENCE) => {}
            // Refused calls are sent again once, and pauses pace them.
            EventKind::Retried(..) if matches!(reason, Some("session_lost")) => {}
            EventKind::Retried(_, own)
                if (*own && !(traffic.over_http && reason == Some("unreadable")))
                    || std::mem::take(&mut traffic.is_new) =>
            {
                traffic.incidents += 1;
                if reason == Some("timed_out") {
                    traffic.silence = Some(now);
                }
                let grown = (now.since(Moment::ZERO) + self.slept).as_secs() / Duration::from_secs(6).as_secs();
                let allowed = traffic.calls / 10 + 11 + grown;
                if traffic.incidents > allowed {
                    return Err(format!(
                        "{} incidents for {} calls, {allowed} are allowed",
                        traffic.incidents, traffic.calls
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Check for BoundedAttempts {
    fn name(&self) -> &'static str {
        "I4 bounded attempts"
    }

    fn see(&mut self, fact: &Fact<'_>, now: Moment, oracle: &Oracle) -> Result<(), String> {
        if let Fact::Emitted(event) = fact
            && let Some(upstream) = event.upstream
        {
            return self.see_event(upstream, &event.kind, event.reason, now);
        }
        if let Fact::ConnectivityChanged(later) = fact {
            self.slept += *later;
        }
        let Fact::Accepted { key, .. } = fact else { return Ok(()) };
        let record = oracle.of(*key);
        if record.is_replayed_state() || oracle.may_be_read_again(*key) {
            return Ok(());
        }
        let limit = record.terms.map_or(0, |terms| terms.attempts);
        let attempts = record.possibly_run() - record.overloaded;
        // A bridge without its server is not an available server; its answers cost no attempt until it is replaced.
        let bridge_lost = record.replies.iter().filter(|reply| server::is_of_lost_bridge(reply)).count();
        let free = if limit > 1 { bridge_lost.min(defaults::DEAD_CONNECTION_ANSWERS as usize) } else { 0 };
        if attempts > limit + free as u32 {
            return Err(format!("{} ({}) was sent {attempts} times, {limit} are allowed", record.id, record.what));
        }
        self.traffic[record.upstream].calls += u64::from(record.whole == 1);
        Ok(())
    }
}
