//! P53: the child exits while it has no open request.

use std::time::Duration;

use super::Fault;
use crate::clock::Ending;
use crate::world::World;

/// See the module.
pub(super) struct ExitIdle;

impl Fault for ExitIdle {
    fn name(&self) -> &'static str {
        "p53_exit_idle"
    }

    fn begin(&self, _: &mut World, _: usize) -> Option<Duration> {
        Some(Duration::from_millis(1))
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        let idle = |link| world.children.get(link).is_some_and(|child| child.server.open_jobs() == 0);
        match world.living(at).iter().find(|link| idle(link)) {
            Some(_) => {
                world.kill(at, Ending::Code(0));
                None
            }
            None => Some(Duration::from_millis(25)),
        }
    }

    fn end(&self, _: &mut World, _: usize) {}
}
