//! P57: the child does not read its stdin and keeps sending notifications while it has no open request.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct DeafAndTalkative;

impl Fault for DeafAndTalkative {
    fn name(&self) -> &'static str {
        "p57_deaf_and_talkative"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.clients[at].is_idle = true;
        Some(Duration::from_millis(1))
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        if world.clients[at].open_keys().next().is_none() {
            world.hosts[at].faults.ignores_stdin = true;
            for link in world.living(at) {
                let actions = world.children.get_mut(&link).map(|child| child.server.send_notice()).unwrap_or_default();
                world.perform(link, actions);
            }
        }
        // The interval is long enough for a ping after the last message, and shorter than the ping timeout.
        let (low, high) = *world.rng.pick(&[(1_050, 1_400), (1_050, 1_400), (5_100, 5_900)]);
        Some(world.rng.millis(low, high))
    }

    fn end(&self, world: &mut World, at: usize) {
        world.clients[at].is_idle = false;
        super::restore(world, at);
    }
}
