//! The upstreams of an engine, which come and go.
//!
//! An upstream has a slot from the input that adds it until everything that it began is over: its calls are answered,
//! its process is reaped, its exchanges have ended. Only then the shell may use its number again. The numbers of dials
//! and exchanges go on in such a slot, so that no [`LinkId`](crate::LinkId) and no
//! [`ExchangeId`](crate::port::ExchangeId) is used twice.

use crate::config::UpstreamConfig;
use crate::port::UpstreamId;
use crate::upstream::Upstream;

/// The last numbers that an upstream used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbers {
    /// The last dial.
    pub dial: u32,
    /// The number of exchanges.
    pub exchanges: u64,
}

/// One slot.
#[derive(Debug, Default)]
struct Slot {
    upstream: Option<Box<Upstream>>,
    /// The numbers of the upstreams that had this slot before.
    former: Numbers,
}

/// The upstreams, by their numbers.
#[derive(Debug, Default)]
pub struct UpstreamTable {
    slots: Vec<Slot>,
    /// Upstreams that are being removed.
    leaving: Vec<UpstreamId>,
}

impl UpstreamTable {
    /// Creates a table of these upstreams.
    pub fn new(configs: Vec<UpstreamConfig>) -> UpstreamTable {
        let mut table = UpstreamTable::default();
        for (id, config) in (0..).map(UpstreamId).zip(configs) {
            table.add(id, config);
        }
        table
    }

    /// Adds an upstream. Returns false if its number is in use, or is that of no upstream.
    pub fn add(&mut self, id: UpstreamId, config: UpstreamConfig) -> bool {
        let at = usize::from(id.0);
        if id == UpstreamId::NONE || self.get(id).is_some() {
            return false;
        }
        if at >= self.slots.len() {
            self.slots.resize_with(at + 1, Slot::default);
        }
        let slot = &mut self.slots[at];
        slot.upstream = Some(Box::new(Upstream::new(id, config).with_numbers(slot.former)));
        true
    }

    pub fn get(&self, id: UpstreamId) -> Option<&Upstream> {
        self.slots.get(usize::from(id.0))?.upstream.as_deref()
    }

    pub fn get_mut(&mut self, id: UpstreamId) -> Option<&mut Upstream> {
        self.slots.get_mut(usize::from(id.0))?.upstream.as_deref_mut()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Upstream> {
        self.slots.iter().filter_map(|slot| slot.upstream.as_deref())
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Upstream> {
        self.slots.iter_mut().filter_map(|slot| slot.upstream.as_deref_mut())
    }

    /// Records that an upstream is being removed. Returns false if there is none, or if it is known already.
    pub fn note_leaving(&mut self, id: UpstreamId) -> bool {
        let is_new = self.get(id).is_some() && !self.leaving.contains(&id);
        if is_new {
            self.leaving.push(id);
        }
        is_new
    }

    /// Returns whether an upstream is being removed.
    pub fn is_any_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// The upstreams that are being removed.
    pub fn leaving(&self) -> Vec<UpstreamId> {
        self.leaving.clone()
    }

    /// Removes an upstream that is over.
    pub fn remove(&mut self, id: UpstreamId) {
        self.leaving.retain(|leaving| *leaving != id);
        if let Some(slot) = self.slots.get_mut(usize::from(id.0))
            && let Some(upstream) = slot.upstream.take()
        {
            slot.former = upstream.numbers();
        }
    }
}
