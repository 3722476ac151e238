//! H35: an unknown method is answered with 404 and an error that names the request.

use std::time::Duration;

use super::Fault;
use crate::network_faults::Rejection;
use crate::world::World;

/// See the module.
pub(super) struct MethodNotFound;

impl Fault for MethodNotFound {
    fn name(&self) -> &'static str {
        "h35_404_method_not_found"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.rejection = Some((Rejection::NoSuchMethod, 100));
        }
        None
    }
}
