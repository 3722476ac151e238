//! M68: calls report progress forever and never end. The total timeout ends them.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct ProgressForever;

impl Fault for ProgressForever {
    fn name(&self) -> &'static str {
        "m68_progress_forever"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let interval = world.oracle.terms[at].call / 3;
        world.hosts[at].faults.progress_forever = Some(interval);
        None
    }
}
