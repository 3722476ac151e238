//! H35b: sessions are lost now and then, and the server says so with 400.

use std::time::Duration;

use super::Fault;
use crate::site::Site;
use crate::weather::Farewell;
use crate::world::World;

/// See the module.
pub(super) struct SessionLost;

impl Fault for SessionLost {
    fn name(&self) -> &'static str {
        "h35b_400_session_lost"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        if let Some(site) = &mut world.hosts[at].site {
            site.weather.farewell = Farewell::BadRequest;
        }
        self.go_on(world, at)
    }

    fn go_on(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.forget_sessions(at);
        Some(world.dice.millis(500, 20_000))
    }

    fn suit(&self, site: &mut Site) {
        site.keep_sessions();
        site.polls = 30;
    }
}
