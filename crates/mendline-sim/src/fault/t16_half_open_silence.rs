//! T16: connections stay open but carry nothing any more. Requests are lost silently.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct HalfOpenSilence;

impl Fault for HalfOpenSilence {
    fn name(&self) -> &'static str {
        "t16_half_open_silence"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.silent = Some(20);
        }
        world.silence(at);
        None
    }
}
