//! R15: tools run and answer with errors about a session of their own. The MCP session is valid.

use std::time::Duration;

use super::{Fault, session_loss};
use crate::site::Site;
use crate::world::World;

/// See the module.
pub(super) struct ErrorNamesSession;

impl Fault for ErrorNamesSession {
    fn name(&self) -> &'static str {
        "r15_error_names_session"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.hosts[at].faults.session_errors = *world.rng.pick(&[20, 50, 100]);
        None
    }

    fn prepare(&self, site: &mut Site) {
        session_loss::prepare(site);
    }
}
