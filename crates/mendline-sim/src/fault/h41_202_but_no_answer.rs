//! H41: requests are accepted with 202 and never answered.

use std::time::Duration;

use super::Fault;
use crate::network_faults::InjectedResponse;
use crate::world::World;

/// See the module.
pub(super) struct TakenButNoAnswer;

impl Fault for TakenButNoAnswer {
    fn name(&self) -> &'static str {
        "h41_202_but_no_answer"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let chance = *world.rng.pick(&[30, 60, 100]);
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.injected = Some((InjectedResponse::Status(202, None), chance));
        }
        None
    }
}
