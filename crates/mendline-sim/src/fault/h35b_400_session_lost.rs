//! H35b: sessions are lost from time to time; the server answers 400.

use std::time::Duration;

use super::{Fault, session_loss};
use crate::network_faults::SessionLostReply;
use crate::site::Site;
use crate::world::World;

/// See the module.
pub(super) struct SessionLost;

impl Fault for SessionLost {
    fn name(&self) -> &'static str {
        "h35b_400_session_lost"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        session_loss::begin(world, at, SessionLostReply::BadRequest)
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        session_loss::repeat(world, at)
    }

    fn prepare(&self, site: &mut Site) {
        session_loss::prepare(site);
    }
}
