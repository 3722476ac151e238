//! M72: lists are never answered.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct ListHangs;

impl Fault for ListHangs {
    fn name(&self) -> &'static str {
        "m72_list_hangs"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.hosts[at].faults.lists_hang = true;
        None
    }
}
