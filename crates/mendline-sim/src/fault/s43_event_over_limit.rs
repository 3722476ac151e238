//! S43: answers exceed the size limit.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct EventOverLimit;

impl Fault for EventOverLimit {
    fn name(&self) -> &'static str {
        "s43_event_over_limit"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let limit = *world.rng.pick(&[100, 300, 500]);
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.message_limit = Some(limit);
        }
        None
    }
}
