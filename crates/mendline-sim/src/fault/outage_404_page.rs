//! A load balancer without a server answers every request with a page and 404.

use std::time::Duration;

use super::Fault;
use crate::network_faults::InjectedResponse;
use crate::world::World;

/// See the module.
pub(super) struct Page404;

impl Fault for Page404 {
    fn name(&self) -> &'static str {
        "outage_404_page"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.injected = Some((InjectedResponse::Page(404), 100));
        }
        None
    }
}
