//! T16: connections stay, and nothing comes over them any more. What is written goes nowhere, as far as anybody can tell.

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
