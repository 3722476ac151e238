//! M67: the server sends a flood of notifications.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct NotificationStorm;

impl Fault for NotificationStorm {
    fn name(&self) -> &'static str {
        "m67_notification_storm"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        self.repeat(world, at)
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        for link in world.living(at) {
            for _ in 0..10 {
                let actions = world.children.get_mut(&link).map(|child| child.server.send_notice()).unwrap_or_default();
                world.perform(link, actions);
            }
        }
        Some(world.rng.millis(50, 1_500))
    }
}
