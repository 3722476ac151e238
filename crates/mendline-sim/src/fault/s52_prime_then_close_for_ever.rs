//! S52: every stream is accepted, primed and closed. The resumptions must end.

use std::time::Duration;

use super::Fault;
use crate::site::Site;
use crate::world::World;

/// See the module.
pub(super) struct PrimeThenCloseForEver;

impl Fault for PrimeThenCloseForEver {
    fn name(&self) -> &'static str {
        "s52_prime_then_close_for_ever"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.primes_forever = true;
        }
        // Open streams must be resumed too.
        world.cut_long_streams(at);
        None
    }

    fn prepare(&self, site: &mut Site) {
        site.name_events();
    }
}
