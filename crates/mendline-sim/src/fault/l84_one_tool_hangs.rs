//! L84: one tool is never answered; all others are.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct OneToolHangs;

impl Fault for OneToolHangs {
    fn name(&self) -> &'static str {
        "l84_one_tool_hangs"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.hosts[at].faults.read_note_hangs = true;
        None
    }
}
