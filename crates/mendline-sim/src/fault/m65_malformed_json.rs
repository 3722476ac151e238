//! M65: every answer is truncated, so that it is not valid JSON. The call that it names fails; other calls are not
//! affected.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct MalformedJson;

impl Fault for MalformedJson {
    fn name(&self) -> &'static str {
        "m65_malformed_json"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        // A truncated answer without its id leaves its call unanswered, and the call keeps its slot until its deadline;
        // with few slots the recovery would be late.
        world.hosts[at].faults.malformed_json = world.hosts[at].call_slots > 16;
        None
    }
}
