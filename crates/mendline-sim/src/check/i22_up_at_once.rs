//! I22: nobody waits for a server to start in order to be greeted.
//!
//! Where something is remembered of a server, its client's first greeting is answered in the instant in which it arrives.
//! Where nothing is, the server has its grace and not a moment more: then it is answered, by whomever. Who prefers to wait
//! waits, and is not watched here. That what was told is corrected when it turns out to be wrong is I19's.

use std::collections::BTreeMap;
use std::time::Duration;

use mendline_core::config::Startup;
use mendline_core::{Config, Moment, defaults};
use mendline_wire::Method;

use super::Check;
use crate::fact::Fact;
use crate::oracle::{Key, Oracle};

/// What a client may take to read what was written to it.
const READING: Duration = Duration::from_secs(2);

/// The first greeting of each upstream that need not wait.
pub(super) struct UpAtOnce {
    at_once: Vec<bool>,
    first: BTreeMap<usize, Key>,
    /// A greeting that has to be answered before this instant is over.
    due_now: Option<Key>,
}

impl UpAtOnce {
    pub(super) fn new(config: &Config) -> UpAtOnce {
        let at_once = |upstream: &mendline_core::UpstreamConfig| upstream.catalogue.startup == Startup::AtOnce;
        UpAtOnce { at_once: config.upstreams.iter().map(at_once).collect(), first: BTreeMap::new(), due_now: None }
    }

    fn arrived(&mut self, key: Key, oracle: &Oracle) {
        let record = oracle.of(key);
        if record.method != Method::Initialize || !self.at_once[record.upstream] {
            return;
        }
        if self.first.contains_key(&record.upstream) {
            return;
        }
        self.first.insert(record.upstream, key);
        if oracle.cached.contains(&record.upstream) {
            self.due_now = Some(key);
        }
    }
}

impl Check for UpAtOnce {
    fn name(&self) -> &'static str {
        "I22 up at once"
    }

    fn see(&mut self, fact: &Fact<'_>, now: Moment, oracle: &Oracle) -> Result<(), String> {
        match fact {
            Fact::Arrived(key) => self.arrived(*key, oracle),
            Fact::Emitted(event) if event.text == "initialize answered from the catalogue" => self.due_now = None,
            Fact::Stopped | Fact::Closing => {
                self.first.clear();
                self.due_now = None;
            }
            Fact::Settled { .. } => {
                if let Some(key) = self.due_now.take() {
                    return Err(format!("{} was not answered from what is remembered", oracle.of(key).id));
                }
                for key in self.first.values() {
                    let record = oracle.of(*key);
                    let reader = oracle.readers.get(&record.client).copied().unwrap_or_default();
                    let is_free = !reader.gone && !reader.behind && !record.twin;
                    let due = record.arrived.map(|arrived| arrived + defaults::GRACE + READING);
                    if is_free && record.is_open() && due.is_some_and(|due| now > due) {
                        return Err(format!("{} still waits for its server to start", record.id));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}
