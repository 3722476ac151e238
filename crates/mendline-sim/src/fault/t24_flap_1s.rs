//! T24: the server is up for one second and down for one second, repeatedly.

use std::time::Duration;

use super::Fault;
use crate::clock::Ending;
use crate::network_faults::ConnectResult;
use crate::server_faults::SpawnResult;
use crate::world::World;

/// See the module.
pub(super) struct Flap1s;

impl Fault for Flap1s {
    fn name(&self) -> &'static str {
        "t24_flap_1s"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        self.repeat(world, at)
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        let host = &mut world.hosts[at];
        let away = match &mut host.site {
            Some(site) => {
                let away = site.faults.connect == ConnectResult::Connects;
                site.faults.connect = if away { ConnectResult::Refused } else { ConnectResult::Connects };
                away
            }
            None => {
                let away = host.faults.spawn == SpawnResult::Succeeds;
                host.faults.spawn = if away { SpawnResult::Exhausted } else { SpawnResult::Succeeds };
                away
            }
        };
        if away {
            world.kill(at, Ending::Signal(9));
            world.cut_all(at);
        }
        Some(Duration::from_secs(1))
    }
}
