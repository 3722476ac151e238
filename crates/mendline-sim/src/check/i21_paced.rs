//! I21: a server that asks for a pause gets it, and nobody is sent more than was allowed.
//!
//! From the moment in which the engine hears of a pause until it is over, or five minutes have passed, no request of a client
//! goes out. And where a rate was chosen, no stretch of time sees more requests than the burst and the rate allow, second
//! attempts included; that is looked at over HTTP only, where what is handed out is sent at once (a child that does not read
//! gets what it is owed when it does). What is repeated as part of a greeting is not a client's request any more.
//!
//! While `initialized` is on its way nothing else goes out, and what has waited for it goes out when it has been taken.

use std::collections::VecDeque;

use mendline_core::config::{RateLimit, Transport};
use mendline_core::port::ExchangeId;
use mendline_core::{Config, Moment, defaults};
use mendline_wire::Method;

use super::Check;
use crate::fact::{Fact, Report, Via};
use crate::oracle::Oracle;

/// How many requests are looked back upon.
const MEMORY: usize = 300;

struct Upstream {
    paused_until: Moment,
    limit: Option<RateLimit>,
    sent: VecDeque<Moment>,
    handshake: Option<ExchangeId>,
    /// When what waited for a greeting went out.
    released: Option<Moment>,
}

/// What was sent when.
pub(super) struct Paced {
    upstreams: Vec<Upstream>,
}

impl Paced {
    pub(super) fn new(config: &Config) -> Paced {
        let upstream = |it: &mendline_core::UpstreamConfig| Upstream {
            paused_until: Moment::ZERO,
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
        if now < self.paused_until {
            let left = self.paused_until - now;
            return Err(format!("a request was sent although the server wants to be left alone for another {left:?}"));
        }
        let Some(RateLimit { burst, per_second }) = self.limit else { return Ok(()) };
        if self.released == Some(now) {
            return Ok(());
        }
        self.sent.push_back(now);
        while self.sent.len() > MEMORY {
            self.sent.pop_front();
        }
        for (place, from) in self.sent.iter().enumerate() {
            let (count, time) = (self.sent.len() - place, now - *from);
            if count as f64 > f64::from(burst) + per_second * time.as_secs_f64() + 1e-3 {
                return Err(format!("{count} requests within {time:?}, {burst} at once and {per_second} a second may"));
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
            // The engine's clock is later by this.
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
