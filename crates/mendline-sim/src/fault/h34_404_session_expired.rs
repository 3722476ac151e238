//! H34: sessions expire now and then, and the server says so with 404.

use std::time::Duration;

use super::Fault;
use crate::site::Site;
use crate::weather::Farewell;
use crate::world::World;

/// See the module.
pub(super) struct SessionExpired;

impl Fault for SessionExpired {
    fn name(&self) -> &'static str {
        "h34_404_session_expired"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        if let Some(site) = &mut world.hosts[at].site {
            site.weather.farewell = Farewell::NotFound;
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
