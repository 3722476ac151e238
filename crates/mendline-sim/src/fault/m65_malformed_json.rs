//! M65: the end of every answer is missing, so that it is no JSON. The call that it names is told; the rest is unharmed.

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
        world.hosts[at].faults.malformed_json = true;
        None
    }
}
