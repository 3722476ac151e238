//! T15: the server receives the request and closes the connection without a response.

use std::time::Duration;

use super::Fault;
use crate::network_faults::Cut;
use crate::world::World;

/// See the module.
pub(super) struct EofWithoutResponse;

impl Fault for EofWithoutResponse {
    fn name(&self) -> &'static str {
        "t15_eof_without_response"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let chance = *world.rng.pick(&[30, 60, 100]);
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.cut = Some((Cut::Eof, chance));
        }
        None
    }
}
