//! I7 for pings: only an idle link is pinged.
//!
//! No ping is sent to a child while a client call is open on it, because a server that handles one request at a time
//! would miss it, unless an earlier call reached its deadline and nothing came since it was sent; the ping may still
//! be queued when something comes. There is one ping at a time, and at most one per second. A call counts as open only
//! if that is certain: sent, not answered as far as the engine can know, not cancelled and not past its deadline. A
//! child that sent a message within the ping timeout is not ended because of an unanswered ping.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mendline_core::{LinkId, Moment};
use mendline_wire::{Id, Kind, Message, Method};

use super::Check;
use crate::fact::{Fact, Via};
use crate::machine::EventKind;
use crate::oracle::{Key, Oracle};

/// A second between two pings, less the time that the first one may wait for the pipe.
const SHORTEST: Duration = Duration::from_millis(990);

#[derive(Default)]
struct ChildPings {
    /// Requests without a response, and when they were sent.
    out: BTreeMap<Id, (Key, Moment)>,
    /// Requests that an invalid message may have answered.
    doubtful: Vec<(Key, Moment)>,
    pings: BTreeSet<Id>,
    last: Option<Moment>,
    last_received: Option<Moment>,
    /// The time of the first message after the deadline of a call passed in silence.
    broken_silence: Option<Moment>,
}

impl ChildPings {
    /// Returns whether a call has reached its deadline, and nothing came since it was sent.
    fn has_overdue(&self, now: Moment, oracle: &Oracle) -> bool {
        let is_overdue = |(key, sent): &(Key, Moment)| {
            let is_late = oracle.of(*key).due().is_some_and(|due| now >= due);
            is_late && self.last_received.is_none_or(|received| received <= *sent)
        };
        self.out.values().chain(&self.doubtful).any(is_overdue)
    }

    fn ping(&mut self, message: &Message, timeout: Duration, now: Moment, oracle: &Oracle) -> Result<(), String> {
        // A ping that the silence held back is followed by the next one at the usual time.
        let was_queued = self.broken_silence.is_some_and(|at| now - at < timeout);
        if self.last.replace(now).is_some_and(|last| now - last < SHORTEST) && !was_queued {
            return Err("a child was pinged twice within a second".into());
        }
        let is_out = |key: &Key| {
            let record = oracle.of(*key);
            let due = record.due();
            record.is_open() && !record.twin && !oracle.is_gone(record.client) && due.is_some_and(|due| now < due)
        };
        let has_overdue = was_queued || self.has_overdue(now, oracle);
        if let Some((key, _)) = self.out.values().find(|(key, _)| is_out(key)).filter(|_| !has_overdue) {
            let record = oracle.of(*key);
            return Err(format!("a child was pinged while {} ({}) was open", record.id, record.what));
        }
        if !self.pings.is_empty() {
            return Err("a child was pinged while a ping was open".into());
        }
        self.pings.insert(Id::from_raw(message.id().unwrap_or_default()));
        Ok(())
    }
}

/// The open calls and pings of each child.
#[derive(Default)]
pub(super) struct PingRate {
    children: BTreeMap<LinkId, ChildPings>,
    timeout: Vec<Option<Duration>>,
}

impl PingRate {
    pub(super) fn new(config: &mendline_core::Config) -> PingRate {
        let timeout = config.upstreams.iter().map(|upstream| upstream.keep_alive.map(|it| it.timeout)).collect();
        PingRate { children: BTreeMap::new(), timeout }
    }
}

impl Check for PingRate {
    fn name(&self) -> &'static str {
        "I7 dial rate"
    }

    fn see(&mut self, fact: &Fact<'_>, now: Moment, oracle: &Oracle) -> Result<(), String> {
        match fact {
            Fact::HandedOut { by: Via::Child(link), message, key: None } if message.method() == Method::Ping => {
                let timeout = self.timeout[usize::from(link.upstream.0)];
                let child = self.children.entry(*link).or_default();
                let Some(timeout) = timeout else {
                    return Err("a child was pinged although keep-alive is disabled".into());
                };
                // A ping that was not answered in time is over.
                if child.last.is_some_and(|last| now - last >= timeout) {
                    child.pings.clear();
                }
                child.ping(message, timeout, now, oracle)
            }
            Fact::HandedOut { by: Via::Child(link), message, key: Some(key) } => {
                let id = Id::from_raw(message.id().unwrap_or_default());
                self.children.entry(*link).or_default().out.insert(id, (*key, now));
                Ok(())
            }
            Fact::Received { by: Via::Child(link), message } => {
                let Some(child) = self.children.get_mut(link) else { return Ok(()) };
                if child.has_overdue(now, oracle) {
                    child.broken_silence = Some(now);
                }
                child.last_received = message.map(|_| now).or(child.last_received);
                match message {
                    Some(message) if matches!(message.kind(), Kind::Result | Kind::Error) => {
                        let id = Id::from_raw(message.id().unwrap_or_default());
                        let bare = id.to_string().trim_matches('"').to_owned();
                        child.out.retain(|it, _| it.to_string() != bare);
                        child.pings.retain(|it| it.to_string() != bare);
                    }
                    Some(_) => {}
                    // The request of an invalid message is unknown.
                    None => {
                        child.doubtful.extend(std::mem::take(&mut child.out).into_values());
                        child.pings.clear();
                    }
                }
                Ok(())
            }
            Fact::Emitted(event)
                if event.reason == Some("unresponsive") && matches!(event.kind, EventKind::Moved(..)) =>
            {
                let Some(upstream) = event.upstream else { return Ok(()) };
                let mut children = self.children.iter().filter(|(link, _)| usize::from(link.upstream.0) == upstream);
                let is_responsive = |child: &ChildPings| {
                    let timeout = self.timeout[upstream].unwrap_or_default();
                    child.last_received.is_some_and(|at| now - at < timeout)
                };
                if children.any(|(_, child)| is_responsive(child)) {
                    return Err("a child that sends messages was ended because of an unanswered ping".into());
                }
                Ok(())
            }
            // A suspend may exceed every deadline.
            Fact::ConnectivityChanged(later) if !later.is_zero() => {
                for child in self.children.values_mut() {
                    child.last = None;
                    child.pings.clear();
                    // The last message is older by the suspended time.
                    let older = |at: Moment| Moment(at.0.saturating_sub(later.as_nanos() as u64));
                    child.last_received = child.last_received.map(older);
                }
                Ok(())
            }
            Fact::Exited(link) => {
                self.children.remove(link);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
