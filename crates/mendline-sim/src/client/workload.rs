//! The workload of a client.

use std::time::Duration;

use super::RequestSpec;
use crate::oracle::Effect;
use crate::rng::Rng;
use crate::server::Era;

/// One item of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkItem {
    /// Sends this request.
    Request(RequestSpec),
    /// Cancels an open request.
    Cancel,
    /// Sends a notification.
    Notify,
}

/// The remaining workload.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The era; some methods exist in one era only.
    pub era: Era,
    /// Number of remaining items.
    pub left: u32,
    /// Milliseconds between two items: minimum and maximum.
    pub pace: (u64, u64),
    /// Percentage of items that are cancellations.
    pub cancels: u64,
    /// Percentage of calls that are unsafe.
    pub unsafes: u64,
    /// It opens subscriptions. Each one occupies a call slot until the server ends it.
    pub listens: bool,
    /// It starts with `tools/list`, as most clients do.
    pub lists_first: bool,
    /// It sets levels and subscriptions, and changes them.
    pub varied: bool,
    /// Its list requests have no additional parameters.
    pub plain: bool,
}

/// The requests that set session state.
const VARIED: &[(&str, Effect)] = &[
    ("logging/setLevel", Effect::Idempotent),
    ("resources/subscribe", Effect::Idempotent),
    ("resources/subscribe", Effect::Idempotent),
    ("resources/subscribe", Effect::Idempotent),
    ("resources/unsubscribe", Effect::Idempotent),
];

impl Workload {
    /// Returns an empty workload.
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

    /// Returns the next item.
    pub(super) fn next(&mut self, rng: &mut Rng) -> Option<WorkItem> {
        self.left = self.left.checked_sub(1)?;
        if std::mem::take(&mut self.lists_first) {
            return Some(WorkItem::Request(RequestSpec {
                method: "tools/list",
                tool: None,
                effect: Effect::Read,
                continues: false,
            }));
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
        Some(WorkItem::Request(if rng.percent(70) { self.pick_call(rng) } else { self.pick_other_request(rng) }))
    }

    /// Returns the delay until the next item.
    pub(super) fn pause(&self, rng: &mut Rng) -> Duration {
        rng.millis(self.pace.0, self.pace.1)
    }

    fn pick_call(&self, rng: &mut Rng) -> RequestSpec {
        let (tool, effect) = if rng.percent(self.unsafes) {
            ("create_note", Effect::Unsafe)
        } else if rng.percent(70) {
            ("read_note", Effect::Read)
        } else {
            ("put_note", Effect::Idempotent)
        };
        RequestSpec { method: "tools/call", tool: Some(tool), effect, continues: false }
    }

    fn pick_other_request(&self, rng: &mut Rng) -> RequestSpec {
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
