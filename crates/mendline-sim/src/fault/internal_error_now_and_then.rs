//! The server answers some requests with an internal error, after or without executing them.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct InternalErrorNowAndThen;

impl Fault for InternalErrorNowAndThen {
    fn name(&self) -> &'static str {
        "internal_error_now_and_then"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.hosts[at].faults.internal_errors = *world.rng.pick(&[10, 40, 90]);
        None
    }
}
