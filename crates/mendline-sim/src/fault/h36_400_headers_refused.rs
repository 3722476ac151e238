//! H36: the server reports that headers and body differ, once or always.

use std::time::Duration;

use super::Fault;
use crate::network_faults::Rejection;
use crate::world::World;

/// See the module.
pub(super) struct HeadersRefused;

impl Fault for HeadersRefused {
    fn name(&self) -> &'static str {
        "h36_400_headers_refused"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let chance = *world.rng.pick(&[20, 50, 100]);
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.rejection = Some((Rejection::HeaderMismatch, chance));
        }
        None
    }
}
