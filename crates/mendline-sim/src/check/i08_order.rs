//! I8: what a server says arrives in order, nothing twice, and what is dropped is counted.
//!
//! Every message of a server carries which child wrote it and as which line. At its client these must only rise. Over HTTP
//! several streams run side by side, so there the order is that in which the engine was given the messages, but for errors
//! about a session: they wait for a ping, and nothing else waits for them. Notices
//! that were written and never arrived must be matched by drops that the engine has owned up to, unless the client left or
//! the child's last words were still under way when the world ended. In the other direction, a server that is sent something
//! out of turn complains: a call before the handshake is over, an id given twice, a cancellation of what it never had, an
//! answer to a question that it never asked. Progress of one request only rises, Mendline's own included.

use std::collections::BTreeMap;

use mendline_core::{ClientId, Moment};

use super::Check;
use crate::fact::{Fact, Stamp};
use crate::machine::EventKind;
use crate::oracle::{Key, Oracle, Verdict};

#[derive(Clone, Copy, Default)]
struct Notices {
    written: u64,
    seen: u64,
    dropped: u64,
}

/// Remembers the last stamp that each client has seen.
pub(super) struct Order {
    last: BTreeMap<ClientId, Stamp>,
    /// What the engine was given over HTTP, in order.
    delivered: BTreeMap<(usize, Stamp), u64>,
    last_delivered: BTreeMap<ClientId, u64>,
    notices: Vec<Notices>,
    upstream_of: BTreeMap<ClientId, usize>,
    /// The highest progress that was seen of each request.
    progress: BTreeMap<Key, f64>,
}

impl Order {
    pub(super) fn new(upstreams: usize) -> Order {
        Order {
            last: BTreeMap::new(),
            delivered: BTreeMap::new(),
            last_delivered: BTreeMap::new(),
            notices: vec![Notices::default(); upstreams],
            upstream_of: BTreeMap::new(),
            progress: BTreeMap::new(),
        }
    }

    /// Progress only rises, whoever reports it and however often a call is sent.
    fn grow(&mut self, key: Option<Key>, value: f64, oracle: &Oracle) -> Result<(), String> {
        let Some(key) = key.filter(|key| !oracle.of(*key).twin) else { return Ok(()) };
        match self.progress.insert(key, value) {
            Some(last) if value <= last => {
                Err(format!("progress of {} went from {last} to {value}", oracle.of(key).id))
            }
            _ => Ok(()),
        }
    }

    fn next(&mut self, client: ClientId, stamp: Option<Stamp>) -> Result<(), String> {
        let Some(stamp) = stamp else { return Ok(()) };
        let upstream = self.upstream_of.get(&client).copied().unwrap_or_default();
        if let Some(place) = self.delivered.get(&(upstream, stamp)) {
            return match self.last_delivered.insert(client, *place) {
                Some(last) if last >= *place => {
                    Err(format!("client {} read {stamp:?}, which the engine was given before the last", client.0))
                }
                _ => Ok(()),
            };
        }
        if let Some(last) = self.last.insert(client, stamp)
            && last >= stamp
        {
            return Err(format!("client {} read {stamp:?} after {last:?}", client.0));
        }
        Ok(())
    }
}

impl Check for Order {
    fn name(&self) -> &'static str {
        "I8 order"
    }

    fn see(&mut self, fact: &Fact<'_>, _: Moment, oracle: &Oracle) -> Result<(), String> {
        match fact {
            Fact::Arrived(key) => {
                self.upstream_of.insert(oracle.of(*key).client, oracle.of(*key).upstream);
            }
            Fact::Delivered { upstream, stamp } => {
                let place = self.delivered.len() as u64;
                // One that is given twice keeps its first place: it may be passed on once.
                self.delivered.entry((*upstream, *stamp)).or_insert(place);
            }
            Fact::NoticeWritten { by, .. } => self.notices[by.upstream()].written += 1,
            Fact::Emitted(event) => {
                if let (Some(upstream), EventKind::Dropped(_)) = (event.upstream, &event.kind) {
                    self.notices[upstream].dropped += 1;
                }
            }
            Fact::NotificationRead { client, stamp, .. } => {
                if stamp.is_some()
                    && let Some(upstream) = self.upstream_of.get(client)
                {
                    self.notices[*upstream].seen += 1;
                }
                return self.next(*client, *stamp);
            }
            // It waited for a ping while others went on; the order of answers to different calls is not promised.
            Fact::Answered { verdict, .. } if names_session(verdict) => {}
            Fact::Answered { key, stamp, .. } => return self.next(oracle.of(*key).client, *stamp),
            Fact::ServerRequestRead { client, stamp } => return self.next(*client, *stamp),
            Fact::Progressed { client, named, value, stamp, .. } => {
                self.grow(*named, *value, oracle)?;
                return self.next(*client, *stamp);
            }
            Fact::ServerViolation { by, text } => return Err(format!("{by} {text}")),
            Fact::ClientViolation { client, text } => return Err(format!("client {} {text}", client.0)),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, _: Moment, oracle: &Oracle) -> Result<(), String> {
        for (client, upstream) in &self.upstream_of {
            let Notices { written, seen, dropped } = self.notices[*upstream];
            if !oracle.is_gone(*client) && seen + dropped < written {
                return Err(format!(
                    "upstream {upstream} wrote {written} notices, {seen} arrived and {dropped} were counted as dropped"
                ));
            }
        }
        Ok(())
    }
}

/// Whether it is an error about a session, which is kept until a ping has shown whether ours is lost.
fn names_session(verdict: &Verdict) -> bool {
    const WORD: &[u8] = b"ession";
    matches!(verdict, Verdict::Passed(body) if body.windows(WORD.len()).any(|it| it == WORD))
}
