//! H37: an HTML page with status 200 in place of an answer.

use std::time::Duration;

use super::Fault;
use crate::network_faults::InjectedResponse;
use crate::world::World;

/// See the module.
pub(super) struct HtmlInsteadOfJson;

impl Fault for HtmlInsteadOfJson {
    fn name(&self) -> &'static str {
        "h37_html_instead_of_json"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let chance = *world.rng.pick(&[30, 60, 100]);
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.injected = Some((InjectedResponse::Html, chance));
        }
        None
    }
}
