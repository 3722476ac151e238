//! S47: responses are cut, and the server refuses to resume them.

use std::time::Duration;

use super::Fault;
use crate::network_faults::Cut;
use crate::site::Site;
use crate::world::World;

/// See the module.
pub(super) struct ResumeRefused;

impl Fault for ResumeRefused {
    fn name(&self) -> &'static str {
        "s47_resume_refused"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let chance = *world.rng.pick(&[30, 60, 100]);
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.resumes_nothing = true;
            site.faults.polls = true;
            site.faults.cut = Some((Cut::Body, chance));
        }
        None
    }

    fn prepare(&self, site: &mut Site) {
        site.name_events();
    }
}
