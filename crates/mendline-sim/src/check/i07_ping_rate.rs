//! I7 for pings: an idle line is tested, a busy one is left in peace.
//!
//! Over a child's pipe no ping goes out while a call of a client is out: a server that does one thing at a time would miss
//! it. One ping at a time, and at most one in a second. A call is out here only when that is beyond doubt: handed over, not
//! answered as far as the engine can know, not called off and not past its deadline. Who speaks is there: a child that said
//! something within the time that it has for an answer is not given up for a ping that it did not answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mendline_core::{LinkId, Moment};
use mendline_wire::{Id, Kind, Message, Method};

use super::Check;
use crate::fact::{Fact, Via};
use crate::oracle::{Key, Oracle};

#[derive(Default)]
struct Line {
    out: BTreeMap<Id, Key>,
    pings: BTreeSet<Id>,
    last: Option<Moment>,
    last_received: Option<Moment>,
}

impl Line {
    fn ping(&mut self, message: &Message, now: Moment, oracle: &Oracle) -> Result<(), String> {
        if self.last.replace(now).is_some_and(|last| now - last < Duration::from_secs(1)) {
            return Err("a line was tested twice within a second".into());
        }
        let is_out = |key: &Key| {
            let record = oracle.of(*key);
            let due = record.due();
            record.is_open() && !record.twin && !oracle.is_gone(record.client) && due.is_some_and(|due| now < due)
        };
        if let Some(key) = self.out.values().find(|key| is_out(key)) {
            let record = oracle.of(*key);
            return Err(format!("a line was tested while {} ({}) was out on it", record.id, record.what));
        }
        if !self.pings.is_empty() {
            return Err("a line was tested while a test was under way".into());
        }
        self.pings.insert(Id::from_raw(message.id().unwrap_or_default()));
        Ok(())
    }
}

/// What is out over each child's pipe.
#[derive(Default)]
pub(super) struct PingRate {
    lines: BTreeMap<LinkId, Line>,
    timeout: Vec<Option<Duration>>,
}

impl PingRate {
    pub(super) fn new(config: &mendline_core::Config) -> PingRate {
        let timeout = config.upstreams.iter().map(|upstream| upstream.keep_alive.map(|it| it.timeout)).collect();
        PingRate { lines: BTreeMap::new(), timeout }
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
                let line = self.lines.entry(*link).or_default();
                let Some(timeout) = timeout else { return Err("a line was tested although nobody wants that".into()) };
                // A test that was not answered in time is over.
                if line.last.is_some_and(|last| now - last >= timeout) {
                    line.pings.clear();
                }
                line.ping(message, now, oracle)
            }
            Fact::HandedOut { by: Via::Child(link), message, key: Some(key) } => {
                let id = Id::from_raw(message.id().unwrap_or_default());
                self.lines.entry(*link).or_default().out.insert(id, *key);
                Ok(())
            }
            Fact::Received { by: Via::Child(link), message } => {
                let Some(line) = self.lines.get_mut(link) else { return Ok(()) };
                line.last_received = message.map(|_| now).or(line.last_received);
                match message {
                    Some(message) if matches!(message.kind(), Kind::Result | Kind::Error) => {
                        let id = Id::from_raw(message.id().unwrap_or_default());
                        let bare = id.to_string().trim_matches('"').to_owned();
                        line.out.retain(|it, _| it.to_string() != bare);
                        line.pings.retain(|it| it.to_string() != bare);
                    }
                    Some(_) => {}
                    // Whose it was is anybody's guess.
                    None => {
                        line.out.clear();
                        line.pings.clear();
                    }
                }
                Ok(())
            }
            Fact::Emitted(event) if event.text.contains("did not answer") && event.text.contains("pings") => {
                let Some(upstream) = event.upstream else { return Ok(()) };
                let mut lines = self.lines.iter().filter(|(link, _)| usize::from(link.upstream.0) == upstream);
                let spoke = |line: &Line| {
                    let timeout = self.timeout[upstream].unwrap_or_default();
                    line.last_received.is_some_and(|at| now - at < timeout)
                };
                if lines.any(|(_, line)| spoke(line)) {
                    return Err("a child that speaks was given up for a ping that it did not answer".into());
                }
                Ok(())
            }
            // A sleep is longer than any deadline, perhaps.
            Fact::ConnectivityChanged(later) if !later.is_zero() => {
                for line in self.lines.values_mut() {
                    line.last = None;
                    line.pings.clear();
                }
                Ok(())
            }
            Fact::Exited(link) => {
                self.lines.remove(link);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
