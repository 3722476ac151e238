//! I22: no client waits for a server to start in order to complete the handshake.
//!
//! If a catalogue is cached, the first `initialize` of a client is answered at the time of its arrival. Otherwise the
//! server has its grace period; then it is answered, by the server or by Mendline. Upstreams with `startup: wait` are
//! not checked. I19 checks that a provisional answer is corrected.

use std::collections::BTreeMap;
use std::time::Duration;

use mendline_core::config::Startup;
use mendline_core::{Config, Moment, defaults};
use mendline_wire::Method;

use super::Check;
use crate::fact::Fact;
use crate::machine::EventKind;
use crate::oracle::{Key, Oracle};

/// Tolerance for a client to read an answer.
const READING: Duration = Duration::from_secs(2);

/// The first `initialize` of each upstream that must not wait.
pub(super) struct UpAtOnce {
    at_once: Vec<bool>,
    first: BTreeMap<usize, Key>,
    /// A request that must be answered at the current time.
    due_now: Option<Key>,
}

impl UpAtOnce {
    pub(super) fn new(config: &Config) -> UpAtOnce {
        let at_once = |upstream: &mendline_core::UpstreamConfig| upstream.catalogue.startup == Startup::Immediate;
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
            Fact::Emitted(event) if event.kind == EventKind::InitializeFromCatalogue => self.due_now = None,
            Fact::Stopped | Fact::Closing => {
                self.first.clear();
                self.due_now = None;
            }
            Fact::Settled { .. } => {
                if let Some(key) = self.due_now.take() {
                    return Err(format!("{} was not answered from the cached catalogue", oracle.of(key).id));
                }
                for key in self.first.values() {
                    let record = oracle.of(*key);
                    let reader = oracle.readers.get(&record.client).copied().unwrap_or_default();
                    let is_free = !reader.gone && !reader.behind && !record.twin;
                    let due = record.arrived.map(|arrived| arrived + defaults::GRACE + READING);
                    if is_free && record.is_open() && due.is_some_and(|due| now > due) {
                        return Err(format!("{} still waits for the server to start", record.id));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}
