//! S52: every stream is accepted, primed and closed, for ever. Asking again must come to an end.

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
        // Streams that are open already are to be asked for again, too.
        world.cut_long_streams(at);
        None
    }

    fn prepare(&self, site: &mut Site) {
        site.name_events();
    }
}
