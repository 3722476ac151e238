//! M63: the server writes every answer twice. The second one is dropped and counted.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct DuplicateResponse;

impl Fault for DuplicateResponse {
    fn name(&self) -> &'static str {
        "m63_duplicate_response"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.hosts[at].faults.duplicates_answers = true;
        None
    }
}
