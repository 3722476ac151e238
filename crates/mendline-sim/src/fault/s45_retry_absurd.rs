//! S45: the `retry` field is zero or eleven days.

use std::time::Duration;

use super::Fault;
use crate::site::Site;
use crate::world::World;

/// See the module.
pub(super) struct RetryAbsurd;

impl Fault for RetryAbsurd {
    fn name(&self) -> &'static str {
        "s45_retry_absurd"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        // A response that waits for a minute keeps its call slot; with few slots the recovery would be late.
        let has_many_slots = world.hosts[at].call_slots > 1_000 && !world.hosts[at].limits_tools;
        let retry = if has_many_slots { *world.rng.pick(&[0, 1_000_000_000]) } else { 0 };
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.retry = Some(retry);
            site.faults.polls = true;
        }
        None
    }

    fn prepare(&self, site: &mut Site) {
        site.name_events();
    }
}
