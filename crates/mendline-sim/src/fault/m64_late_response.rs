//! M64: answers arrive after the deadline, and cancellations are ignored. Late answers are dropped and counted.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct LateResponse;

impl Fault for LateResponse {
    fn name(&self) -> &'static str {
        "m64_late_response"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let past = world.rng.millis(1, 3_000);
        world.hosts[at].faults.answer_delay = world.oracle.terms[at].call + past;
        None
    }
}
