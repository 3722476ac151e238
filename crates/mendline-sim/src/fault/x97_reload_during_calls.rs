//! Somebody edits the configuration, in the middle of everything: now its policies, now the way to a server.

use std::time::Duration;

use mendline_core::port::Change;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct ReloadDuringCalls;

impl Fault for ReloadDuringCalls {
    fn name(&self) -> &'static str {
        "x97_reload_during_calls"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.reconfigure(at, Change::Policies);
        world.reconfigure(at, Change::Way);
        None
    }

    fn end(&self, _: &mut World, _: usize) {}
}
