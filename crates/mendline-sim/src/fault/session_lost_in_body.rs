//! Sessions are lost from time to time; the server answers 200 with an error in the body.

use std::time::Duration;

use super::{Fault, session_loss};
use crate::network_faults::SessionLostReply;
use crate::site::Site;
use crate::world::World;

/// See the module.
pub(super) struct SessionLostInBody;

impl Fault for SessionLostInBody {
    fn name(&self) -> &'static str {
        "session_lost_in_body"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        session_loss::begin(world, at, SessionLostReply::InBody)
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        session_loss::repeat(world, at)
    }

    fn prepare(&self, site: &mut Site) {
        session_loss::prepare(site);
    }
}
