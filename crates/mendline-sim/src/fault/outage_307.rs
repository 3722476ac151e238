//! A proxy redirects every request to another origin, such as a login page.

use std::time::Duration;

use super::Fault;
use crate::network_faults::InjectedResponse;
use crate::world::World;

/// See the module.
pub(super) struct Redirected;

impl Fault for Redirected {
    fn name(&self) -> &'static str {
        "outage_307"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.injected = Some((InjectedResponse::Redirect, 100));
        }
        None
    }
}
