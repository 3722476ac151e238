//! I21: pauses and rate limits are respected.
//!
//! After the engine receives `Retry-After`, no client request is sent until the pause is over, or for five minutes.
//! With a rate limit, no interval has more requests than the burst and the rate allow, retries included. That is
//! checked over HTTP only, where a request is sent at once (a child that does not read receives its requests later).
//! Requests that are repeated as part of a handshake do not count.
//!
//! While `notifications/initialized` is in transit nothing else is sent; the waiting requests follow once it was
//! accepted.

use std::collections::VecDeque;

use mendline_core::config::{RateLimit, Transport};
use mendline_core::port::ExchangeId;
use mendline_core::{Config, Moment, defaults};
use mendline_wire::Method;

use super::Check;
use crate::fact::{Fact, Report, Via};
use crate::oracle::Oracle;

/// Number of requests that are kept for comparison.
const MEMORY: usize = 300;

struct Upstream {
    paused_until: Moment,
    /// The time of the last request for a pause. What the engine sends at that very time may come before it.
    announced: Option<Moment>,
    limit: Option<RateLimit>,
    sent: VecDeque<Moment>,
    handshake: Option<ExchangeId>,
    /// The time at which requests that waited for a handshake were sent.
    released: Option<Moment>,
}

/// The recent requests of each upstream.
pub(super) struct Paced {
    upstreams: Vec<Upstream>,
}

impl Paced {
    pub(super) fn new(config: &Config) -> Paced {
        let upstream = |it: &mendline_core::UpstreamConfig| Upstream {
            paused_until: Moment::ZERO,
            announced: None,
            limit: it.rate_limit.filter(|_| it.transport != Transport::Child),
            sent: VecDeque::new(),
            handshake: None,
            released: None,
        };
        Paced { upstreams: config.upstreams.iter().map(upstream).collect() }
    }
}

impl Upstream {
    fn send(&mut self, now: Moment) -> Result<(), String> {
        if now < self.paused_until && self.announced != Some(now) {
            let left = self.paused_until - now;
            return Err(format!("a request was sent although the pause lasts another {left:?}"));
        }
        let Some(RateLimit { burst, per_second }) = self.limit else { return Ok(()) };
        if self.released == Some(now) {
            return Ok(());
        }
        self.sent.push_back(now);
        while self.sent.len() > MEMORY {
            self.sent.pop_front();
        }
        for (index, from) in self.sent.iter().enumerate() {
            let (count, time) = (self.sent.len() - index, now - *from);
            if count as f64 > f64::from(burst) + per_second * time.as_secs_f64() + 1e-3 {
                return Err(format!(
                    "{count} requests within {time:?}; the limit is a burst of {burst} and {per_second} per second"
                ));
            }
        }
        Ok(())
    }
}

impl Check for Paced {
    fn name(&self) -> &'static str {
        "I21 paced"
    }

    fn see(&mut self, fact: &Fact<'_>, now: Moment, oracle: &Oracle) -> Result<(), String> {
        match fact {
            Fact::RetryAfter { upstream, wait } => {
                let it = &mut self.upstreams[*upstream];
                it.announced = Some(now);
                it.paused_until = it.paused_until.max(now + (*wait).min(defaults::PAUSE_CAP));
            }
            Fact::HandedOut { by: Via::Exchange(upstream, exchange), message, .. }
                if message.method() == Method::Initialized =>
            {
                self.upstreams[*upstream].handshake = Some(*exchange);
            }
            Fact::Reported { upstream, exchange, report: Report::Head(_) | Report::End } => {
                let it = &mut self.upstreams[*upstream];
                if it.handshake == Some(*exchange) {
                    (it.handshake, it.released) = (None, Some(now));
                    it.sent.clear();
                }
            }
            Fact::HandedOut { by, key: Some(key), .. }
                if !oracle.of(*key).is_replayed_state() && !oracle.may_be_read_again(*key) =>
            {
                return self.upstreams[by.upstream()].send(now);
            }
            // The clock of the engine advances by this.
            Fact::ConnectivityChanged(later) => {
                for it in &mut self.upstreams {
                    it.paused_until = Moment(it.paused_until.0.saturating_sub(later.as_nanos() as u64));
                    it.sent.clear();
                }
            }
            _ => {}
        }
        Ok(())
    }
}
