//! What a client means to do, and how fast.

use std::time::Duration;

use super::RequestSpec;
use crate::rng::Rng;
use crate::oracle::Effect;
use crate::server::Era;

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkItem {
    /// Ask for this.
    Request(RequestSpec),
    /// Call off something that is open.
    Cancel,
    /// Tell the server something.
    Notify,
}

/// What is left to do.
#[derive(Clone, Debug)]
pub struct Workload {
    /// What it speaks, because some methods exist in one era only.
    pub era: Era,
    /// How many more things.
    pub left: u32,
    /// Milliseconds between two of them, from and to.
    pub pace: (u64, u64),
    /// Of a hundred things, how many are cancellations.
    pub cancels: u64,
    /// Of a hundred calls, how many must not run twice.
    pub unsafes: u64,
    /// It listens for changes: each such request keeps a place for as long as the server lets it.
    pub listens: bool,
    /// The tools are looked up first, as most clients do.
    pub lists_first: bool,
    /// It chooses levels and resources, and changes its mind about them.
    pub varied: bool,
    /// It asks for lists with nothing but what the protocol knows.
    pub plain: bool,
}

/// What a client may want its server to keep in mind.
const VARIED: &[(&str, Effect)] = &[
    ("logging/setLevel", Effect::Idempotent),
    ("resources/subscribe", Effect::Idempotent),
    ("resources/subscribe", Effect::Idempotent),
    ("resources/subscribe", Effect::Idempotent),
    ("resources/unsubscribe", Effect::Idempotent),
];

impl Workload {
    /// Nothing by itself: a client that only does what it is told.
    pub fn none(era: Era) -> Workload {
        Workload {
            era,
            left: 0,
            pace: (1, 1),
            cancels: 0,
            unsafes: 0,
            listens: false,
            lists_first: false,
            varied: false,
            plain: false,
        }
    }

    /// The next thing, if any is left.
    pub(super) fn next(&mut self, rng: &mut Rng) -> Option<WorkItem> {
        self.left = self.left.checked_sub(1)?;
        if std::mem::take(&mut self.lists_first) {
            return Some(WorkItem::Request(RequestSpec { method: "tools/list", tool: None, effect: Effect::Read, continues: false }));
        }
        if rng.percent(self.cancels) {
            return Some(WorkItem::Cancel);
        }
        if self.era == Era::Legacy && rng.percent(3) {
            return Some(WorkItem::Notify);
        }
        if self.era == Era::Legacy && self.varied && rng.percent(25) {
            let &(method, effect) = rng.pick(VARIED);
            return Some(WorkItem::Request(RequestSpec { method, tool: None, effect, continues: false }));
        }
        Some(WorkItem::Request(if rng.percent(70) { self.a_call(rng) } else { self.something_else(rng) }))
    }

    /// How long until the thing after.
    pub(super) fn pause(&self, rng: &mut Rng) -> Duration {
        rng.millis(self.pace.0, self.pace.1)
    }

    fn a_call(&self, rng: &mut Rng) -> RequestSpec {
        let (tool, effect) = if rng.percent(self.unsafes) {
            ("create_note", Effect::Unsafe)
        } else if rng.percent(70) {
            ("read_note", Effect::Read)
        } else {
            ("put_note", Effect::Idempotent)
        };
        RequestSpec { method: "tools/call", tool: Some(tool), effect, continues: false }
    }

    fn something_else(&self, rng: &mut Rng) -> RequestSpec {
        const BOTH: &[(&str, Effect)] = &[
            ("tools/list", Effect::Read),
            ("tools/list", Effect::Read),
            ("resources/list", Effect::Read),
            ("prompts/list", Effect::Read),
            ("resources/read", Effect::Read),
            ("prompts/get", Effect::Read),
            ("completion/complete", Effect::Read),
            ("acme/frobnicate", Effect::Unsafe),
        ];
        const LEGACY: &[(&str, Effect)] = &[
            ("ping", Effect::Read),
            ("logging/setLevel", Effect::Idempotent),
            ("resources/subscribe", Effect::Idempotent),
        ];
        const MODERN: &[(&str, Effect)] =
            &[("server/discover", Effect::Read), ("subscriptions/listen", Effect::Idempotent)];
        let own = match self.era {
            Era::Legacy => LEGACY,
            Era::Modern if self.listens => MODERN,
            Era::Modern => &MODERN[..1],
        };
        let usual = if self.varied && self.era == Era::Modern { 50 } else { 80 };
        let &(method, effect) = if rng.percent(usual) { rng.pick(BOTH) } else { rng.pick(own) };
        RequestSpec { method, tool: None, effect, continues: false }
    }
}
