//! I8: messages of a server arrive in order and once, and dropped ones are counted.
//!
//! Every message of a server carries a stamp (child and line). At its client the stamps must increase. Over HTTP
//! several streams are concurrent, so the order is that in which the engine received the messages, except for errors
//! about a session: they wait for a ping, and nothing waits for them. Notifications that were written and not delivered
//! must be matched by reported drops, unless no client was connected or they were in transit when the world ended.
//! Reports of changed lists are collected, so they come once, at any time, or not at all: see I19. In the other direction, a server records a violation for a message out of order: a call before the handshake is
//! complete, a repeated id, a cancellation of an unknown request, an answer to an unknown request. The progress of one
//! request only increases, including progress that Mendline reports.

use std::collections::{BTreeMap, BTreeSet};

use mendline_core::{ClientId, Moment};

use super::{Check, is_list_change};
use crate::fact::{Fact, Stamp};
use crate::machine::EventKind;
use crate::oracle::{Key, Oracle, Verdict};

#[derive(Clone, Copy, Default)]
struct Notices {
    written: u64,
    seen: u64,
    dropped: u64,
}

/// The last stamp of each client.
pub(super) struct Order {
    last: BTreeMap<ClientId, Stamp>,
    /// Messages that the engine received over HTTP, in order.
    delivered: BTreeMap<(usize, Stamp), u64>,
    last_delivered: BTreeMap<ClientId, u64>,
    notices: Vec<Notices>,
    /// The number of connected clients by server. Without one, notifications have no recipient.
    connected: Vec<u64>,
    /// Reports of changed lists, which are collected and may be passed on later, but once.
    list_changes: BTreeSet<(ClientId, Stamp)>,
    /// Messages that clients with many streams have read. Only messages of one request have an order there.
    on_streams: BTreeSet<(ClientId, Stamp)>,
    upstream_of: BTreeMap<ClientId, usize>,
    /// The last progress value of each request.
    progress: BTreeMap<Key, f64>,
}

impl Order {
    pub(super) fn new(upstreams: usize) -> Order {
        Order {
            last: BTreeMap::new(),
            delivered: BTreeMap::new(),
            last_delivered: BTreeMap::new(),
            notices: vec![Notices::default(); upstreams],
            connected: vec![0; upstreams],
            list_changes: BTreeSet::new(),
            on_streams: BTreeSet::new(),
            upstream_of: BTreeMap::new(),
            progress: BTreeMap::new(),
        }
    }

    /// Checks that progress only increases.
    fn grow(&mut self, key: Option<Key>, value: f64, oracle: &Oracle) -> Result<(), String> {
        let Some(key) = key.filter(|key| !oracle.of(*key).twin) else { return Ok(()) };
        match self.progress.insert(key, value) {
            Some(last) if value <= last => {
                Err(format!("progress of {} went from {last} to {value}", oracle.of(key).id))
            }
            _ => Ok(()),
        }
    }

    fn next(&mut self, client: ClientId, stamp: Option<Stamp>, oracle: &Oracle) -> Result<(), String> {
        let Some(stamp) = stamp else { return Ok(()) };
        if oracle.readers.get(&client).is_some_and(|reader| reader.has_streams) {
            let is_new = self.on_streams.insert((client, stamp));
            return if is_new { Ok(()) } else { Err(format!("client {} read {stamp:?} twice", client.0)) };
        }
        let upstream = self.upstream_of.get(&client).copied().unwrap_or_default();
        if let Some(index) = self.delivered.get(&(upstream, stamp)) {
            return match self.last_delivered.insert(client, *index) {
                Some(last) if last >= *index => {
                    Err(format!("client {} read {stamp:?}, which the engine received before the last one", client.0))
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
                let index = self.delivered.len() as u64;
                // A repeated message keeps its first position, because it may be forwarded once.
                self.delivered.entry((*upstream, *stamp)).or_insert(index);
            }
            Fact::NoticeWritten { is_list_change: true, .. } => {}
            Fact::NoticeWritten { by, .. } if self.connected[by.upstream()] == 0 => {}
            Fact::NoticeWritten { by, .. } => self.notices[by.upstream()].written += 1,
            Fact::ClientConnected(upstream) => self.connected[*upstream] += 1,
            Fact::ClientLeft(client) => {
                if let Some(upstream) = self.upstream_of.get(client) {
                    self.connected[*upstream] = self.connected[*upstream].saturating_sub(1);
                }
            }
            Fact::Emitted(event) => {
                if let (Some(upstream), EventKind::Dropped(_)) = (event.upstream, &event.kind) {
                    self.notices[upstream].dropped += 1;
                }
            }
            Fact::NotificationRead { client, message, stamp: Some(stamp) } if is_list_change(message.method()) => {
                let is_new = self.list_changes.insert((*client, *stamp));
                return if is_new { Ok(()) } else { Err(format!("client {} read {stamp:?} twice", client.0)) };
            }
            Fact::NotificationRead { client, stamp, .. } => {
                if stamp.is_some()
                    && let Some(upstream) = self.upstream_of.get(client)
                {
                    self.notices[*upstream].seen += 1;
                }
                return self.next(*client, *stamp, oracle);
            }
            // It waited for a ping while other answers were forwarded; the order of answers is not guaranteed.
            Fact::Answered { verdict, .. } if names_session(verdict) => {}
            Fact::Answered { key, stamp, .. } => return self.next(oracle.of(*key).client, *stamp, oracle),
            Fact::ServerRequestRead { client, stamp } => return self.next(*client, *stamp, oracle),
            Fact::Progressed { client, named, value, stamp, .. } => {
                self.grow(*named, *value, oracle)?;
                return self.next(*client, *stamp, oracle);
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

/// Returns whether it is an error about a session, which waits for a ping.
fn names_session(verdict: &Verdict) -> bool {
    const WORD: &[u8] = b"ession";
    matches!(verdict, Verdict::Passed(body) if body.windows(WORD.len()).any(|it| it == WORD))
}
