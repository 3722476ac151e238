//! The HTTP server restarts: its sessions, streams and connections are lost, and connections are refused for a while,
//! or another instance takes over at once.

use std::time::Duration;

use super::Fault;
use crate::network_faults::ConnectResult;
use crate::site::Site;
use crate::world::World;

/// See the module.
pub(super) struct ServerRestart;

impl Fault for ServerRestart {
    fn name(&self) -> &'static str {
        "server_restart"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        self.repeat(world, at)
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        let Some(site) = &mut world.hosts[at].site else { return None };
        if site.faults.connect == ConnectResult::Refused {
            site.faults.connect = ConnectResult::Connects;
            return Some(world.rng.millis(1_000, 30_000));
        }
        if world.rng.percent(50) {
            world.restart(at);
            return Some(world.rng.millis(500, 10_000));
        }
        site.faults.connect = ConnectResult::Refused;
        world.restart(at);
        Some(world.rng.millis(10, 4_000))
    }

    fn prepare(&self, site: &mut Site) {
        site.polls = 30;
    }
}
