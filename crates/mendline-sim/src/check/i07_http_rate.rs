//! I7 over HTTP: one probe at a time, and no unlimited requests.
//!
//! While a link is not up, at most one exchange probes its upstream; exchanges that began while it was up and session
//! deletes do not count. There are at most 36 dials per minute, and each redial of an incident waits longer than
//! the one before until the link is proven healthy.
//!
//! Requests that are not attempts are limited too: one call is sent in at most 36 exchanges per minute. A response
//! is resumed at most ten times since its last message, and never after the call was answered, except for a replayed
//! handshake. A silent notification stream is requested at increasing intervals.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use mendline_core::config::{Reconnect, Transport};
use mendline_core::port::{ExchangeId, Verb};
use mendline_core::{Config, Moment, defaults};
use mendline_wire::{Kind, headers};

use super::i07_dial_rate::least_wait;
use super::{Check, is_answer};
use crate::exchange::Request;
use crate::fact::{Fact, Report, Via};
use crate::machine::{EngineOutput, EventKind};
use crate::oracle::{Key, Oracle, Record};
use crate::site;

const MINUTE: Duration = Duration::from_secs(60);
const PER_MINUTE: usize = mendline_core::defaults::DIALS_PER_MINUTE;

/// Times within the last minute.
#[derive(Default)]
struct Recent(VecDeque<Moment>);

impl Recent {
    fn add(&mut self, now: Moment) -> usize {
        self.0.push_back(now);
        while self.0.front().is_some_and(|first| now - *first >= MINUTE) {
            self.0.pop_front();
        }
        self.0.len()
    }
}

struct Upstream {
    over_http: bool,
    policy: Reconnect,
    resumptions: u32,
    link: &'static str,
    dials: Recent,
    /// Exchanges that began while the link was not up.
    looking: BTreeSet<ExchangeId>,
    began: Moment,
    lost: Option<Moment>,
    short_lived: u32,
    /// The server has answered a request of a client over this link.
    served: bool,
    notices: Recent,
}

impl Upstream {
    fn move_to(&mut self, to: &'static str, now: Moment) -> Result<(), String> {
        let from = std::mem::replace(&mut self.link, to);
        match to {
            "Up" => {
                self.looking.clear();
                if from != "Dialing" {
                    self.began = now;
                }
            }
            // The detection of the dialect is part of the same dial.
            "Dialing" if from != "Up" => {
                let (waited, least) = (self.lost.map(|lost| now - lost), least_wait(&self.policy, self.short_lived));
                let may_wake = now - self.began >= defaults::PARKED_COOL_DOWN;
                if waited.is_some_and(|waited| waited < least) && !may_wake {
                    return Err(format!(
                        "a dial came {waited:?} after {} early ends; the minimum is {least:?}",
                        self.short_lived
                    ));
                }
                self.began = now;
                let dials = self.dials.add(now);
                if dials > PER_MINUTE {
                    return Err(format!("{dials} dials within a minute"));
                }
            }
            // A link that waits because of its dial limit, or that was parked and waits again after a new configuration or
            // a change of connectivity, was not lost again.
            "Waiting" | "Parked" if !matches!(from, "Idle" | "Waiting" | "Parked") => {
                self.lost = Some(now);
                let lived = now - self.began;
                let is_proven = std::mem::take(&mut self.served) || lived >= defaults::PROVEN;
                self.short_lived = if is_proven { 0 } else { self.short_lived + 1 };
            }
            _ => {}
        }
        Ok(())
    }
}

/// The recent requests of each upstream.
pub(super) struct HttpRate {
    upstreams: Vec<Upstream>,
    sent: BTreeMap<Key, Recent>,
    /// The stream that an exchange resumes.
    carries: BTreeMap<ExchangeId, (usize, u32, u32)>,
    /// Number of resumptions of a response since its last message.
    resumed: BTreeMap<(usize, u32, u32), u32>,
    /// The engine ends: messages that were queued before are still sent.
    stopping: bool,
}

impl HttpRate {
    pub(super) fn new(config: &Config) -> HttpRate {
        let upstreams = config.upstreams.iter().map(|upstream| Upstream {
            over_http: upstream.transport != Transport::Child,
            policy: upstream.reconnect.clone(),
            resumptions: upstream.resume_attempts,
            link: "Idle",
            dials: Recent::default(),
            looking: BTreeSet::new(),
            began: Moment::ZERO,
            lost: None,
            short_lived: 0,
            served: false,
            notices: Recent::default(),
        });
        HttpRate {
            upstreams: upstreams.collect(),
            sent: BTreeMap::new(),
            carries: BTreeMap::new(),
            resumed: BTreeMap::new(),
            stopping: false,
        }
    }

    fn begin(&mut self, id: ExchangeId, upstream: usize, request: &Request, now: Moment) -> Result<(), String> {
        let named = request.header(headers::LAST_EVENT_ID).and_then(site::read_event_name);
        let of_a_call = named
            .filter(|(_, stream, _)| *stream != 0)
            .map(|(conversation, stream, _)| (upstream, conversation, stream));
        if let Some(stream) = of_a_call {
            self.carries.insert(id, stream);
            let times = self.resumed.entry(stream).or_default();
            *times += 1;
            if *times > self.upstreams[upstream].resumptions {
                return Err(format!("a response was resumed {times} times since its last message"));
            }
            return Ok(());
        }
        let it = &mut self.upstreams[upstream];
        if it.link != "Up" && request.verb != Verb::Delete && !self.stopping {
            if let Some(other) = it.looking.first() {
                return Err(format!("exchange {} probes while exchange {} does", id.0, other.0));
            }
            it.looking.insert(id);
        }
        if request.verb == Verb::Get && it.link == "Up" {
            let asked = it.notices.add(now);
            if asked > PER_MINUTE {
                return Err(format!("the notification stream was requested {asked} times within a minute"));
            }
        }
        Ok(())
    }

    fn report(&mut self, id: ExchangeId, upstream: usize, report: Report) {
        match report {
            Report::End => {
                self.upstreams[upstream].looking.remove(&id);
                self.carries.remove(&id);
            }
            // A resumption that was refused for its credential is repeated once.
            Report::Head(401 | 403) => {
                if let Some(times) = self.carries.get(&id).and_then(|stream| self.resumed.get_mut(stream)) {
                    *times = times.saturating_sub(1);
                }
            }
            Report::Event(true) => {
                if let Some(stream) = self.carries.get(&id) {
                    self.resumed.remove(stream);
                }
            }
            _ => {}
        }
    }
}

/// Returns whether a response may be resumed. A handshake is replayed after it was answered; then the response to the
/// replay is resumed.
fn may_be_resumed(record: &Record) -> bool {
    record.is_open() || record.twin || record.is_replayed_state()
}

impl Check for HttpRate {
    fn name(&self) -> &'static str {
        "I7 dial rate"
    }

    fn see(&mut self, fact: &Fact<'_>, now: Moment, oracle: &Oracle) -> Result<(), String> {
        match fact {
            Fact::Requested(EngineOutput::Exchange(id, upstream, request)) => self.begin(*id, *upstream, request, now),
            Fact::HandedOut { by: Via::Exchange(..), key: Some(key), .. } => {
                let times = self.sent.entry(*key).or_default().add(now);
                // A pause that the server requested paces a call that it refused.
                let record = oracle.of(*key);
                if times > PER_MINUTE + (record.refused + record.overloaded) as usize {
                    return Err(format!("one call was sent in {times} exchanges within a minute"));
                }
                Ok(())
            }
            Fact::Stopped | Fact::Closing => {
                self.stopping = true;
                Ok(())
            }
            Fact::Requested(EngineOutput::Abort(id)) => {
                for upstream in &mut self.upstreams {
                    upstream.looking.remove(id);
                }
                Ok(())
            }
            // An answered request is no probe any more.
            Fact::Received { by: Via::Exchange(upstream, exchange), message: Some(message) }
                if matches!(message.kind(), Kind::Result | Kind::Error) =>
            {
                self.upstreams[*upstream].looking.remove(exchange);
                Ok(())
            }
            Fact::ResponseResumed { key, .. } if !may_be_resumed(oracle.of(*key)) => Err(format!(
                "the response to {} was resumed, but the request is answered or cancelled",
                oracle.of(*key).id
            )),
            Fact::Reported { upstream, exchange, report } => {
                self.report(*exchange, *upstream, *report);
                Ok(())
            }
            Fact::ManualAction(upstream) | Fact::Requested(EngineOutput::Renew(upstream)) => {
                let it = &mut self.upstreams[*upstream];
                (it.lost, it.short_lived) = (None, 0);
                Ok(())
            }
            Fact::ConnectivityChanged(later) => {
                for it in &mut self.upstreams {
                    (it.lost, it.short_lived) = (None, 0);
                    it.dials.0.iter_mut().for_each(|at| *at = Moment(at.0.saturating_sub(later.as_nanos() as u64)));
                }
                Ok(())
            }
            Fact::Emitted(event) => match (event.upstream, &event.kind) {
                (Some(upstream), EventKind::Moved(_, to)) if self.upstreams[upstream].over_http => {
                    self.upstreams[upstream].move_to(to, now)
                }
                (Some(upstream), _) if is_answer(event) => {
                    self.upstreams[upstream].served = true;
                    Ok(())
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}
