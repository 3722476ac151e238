//! I7 over HTTP: one path is looked for at a time, and nothing is asked for without end.
//!
//! While a link is not up, at most one exchange looks whether its upstream can be reached; those that are left over from
//! better times do not count, and neither do goodbyes. Never more than thirty dials in any minute, and each redial of an
//! incident waits longer than the one before until health is proven.
//!
//! Requests that cost no attempt must be calm too: one call is put into at most thirty exchanges in any minute, whatever
//! happens to them. A response is resumed at most ten times since its last message, and never after the call was answered,
//! but for a greeting, which is replayed. A stream for notices that says nothing is asked for ever more slowly.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use mendline_core::config::{Reconnect, Transport};
use mendline_core::port::{ExchangeId, Verb};
use mendline_core::{Config, Moment, defaults};
use mendline_wire::headers;

use super::Check;
use super::i07_dial_rate::least_wait;
use crate::exchange::Request;
use crate::fact::{Fact, Report, Via};
use crate::machine::{EngineOutput, EventKind};
use crate::oracle::{Key, Oracle, Record};
use crate::site;

const MINUTE: Duration = Duration::from_secs(60);
const PER_MINUTE: usize = 30;

/// Moments within the last minute.
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
    /// Exchanges that were begun while it was not up.
    looking: BTreeSet<ExchangeId>,
    began: Moment,
    lost: Option<Moment>,
    short_lived: u32,
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
            // Finding out what a server speaks is part of the same dial.
            "Dialing" if from != "Up" => {
                let (waited, least) = (self.lost.map(|lost| now - lost), least_wait(&self.policy, self.short_lived));
                let may_wake = now - self.began >= defaults::PARKED_COOL_DOWN;
                if waited.is_some_and(|waited| waited < least) && !may_wake {
                    return Err(format!(
                        "a dial came {waited:?} after {} short lives; {least:?} is the least",
                        self.short_lived
                    ));
                }
                self.began = now;
                let dials = self.dials.add(now);
                if dials > PER_MINUTE {
                    return Err(format!("{dials} dials within a minute"));
                }
            }
            // One that waits only because it was dialed so often has not been lost again.
            "Waiting" | "Parked" if from != "Idle" => {
                self.lost = Some(now);
                let lived = now - self.began;
                self.short_lived = if lived >= defaults::PROVEN { 0 } else { self.short_lived + 1 };
            }
            _ => {}
        }
        Ok(())
    }
}

/// Remembers, per upstream, what was asked for lately.
pub(super) struct HttpRate {
    upstreams: Vec<Upstream>,
    sent: BTreeMap<Key, Recent>,
    /// Which stream an exchange resumes.
    carries: BTreeMap<ExchangeId, (usize, u32, u32)>,
    /// How often a response was asked for again since its last message.
    resumed: BTreeMap<(usize, u32, u32), u32>,
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
            notices: Recent::default(),
        });
        HttpRate {
            upstreams: upstreams.collect(),
            sent: BTreeMap::new(),
            carries: BTreeMap::new(),
            resumed: BTreeMap::new(),
        }
    }

    fn begin(&mut self, id: ExchangeId, upstream: usize, request: &Request, now: Moment) -> Result<(), String> {
        let named = request.header(headers::LAST_EVENT_ID).and_then(site::read_event_name);
        let of_a_call = named.filter(|(_, stream, _)| *stream != 0).map(|(conversation, stream, _)| (upstream, conversation, stream));
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
        if it.link != "Up" && request.verb != Verb::Delete {
            if let Some(other) = it.looking.first() {
                return Err(format!("exchange {} looks for a path while exchange {} does", id.0, other.0));
            }
            it.looking.insert(id);
        }
        if request.verb == Verb::Get && it.link == "Up" {
            let asked = it.notices.add(now);
            if asked > PER_MINUTE {
                return Err(format!("the stream for notices was asked for {asked} times within a minute"));
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
            Report::Event(true) => {
                if let Some(stream) = self.carries.get(&id) {
                    self.resumed.remove(stream);
                }
            }
            _ => {}
        }
    }
}

/// A greeting is replayed long after it was answered, and then it is the replay whose response is resumed.
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
                if times > PER_MINUTE {
                    return Err(format!("one call was put into {times} exchanges within a minute"));
                }
                Ok(())
            }
            Fact::Requested(EngineOutput::Abort(id)) => {
                for upstream in &mut self.upstreams {
                    upstream.looking.remove(id);
                }
                Ok(())
            }
            Fact::ResponseResumed { key, .. } if !may_be_resumed(oracle.of(*key)) => Err(format!(
                "the response to {} was asked for again, but it is answered or called off",
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
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}
