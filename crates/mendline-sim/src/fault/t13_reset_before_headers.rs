//! T13: connections are reset after the request and before the response. The server may have received the request.

use std::time::Duration;

use super::Fault;
use crate::network_faults::Cut;
use crate::world::World;

/// See the module.
pub(super) struct ResetBeforeHeaders;

impl Fault for ResetBeforeHeaders {
    fn name(&self) -> &'static str {
        "t13_reset_before_headers"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let chance = *world.rng.pick(&[30, 60, 100]);
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.cut = Some((Cut::Response, chance));
        }
        None
    }
}
