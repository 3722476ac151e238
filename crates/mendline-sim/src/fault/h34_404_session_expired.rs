//! H34: sessions expire from time to time; the server answers 404.

use std::time::Duration;

use super::{Fault, session_loss};
use crate::network_faults::SessionLostReply;
use crate::site::Site;
use crate::world::World;

/// See the module.
pub(super) struct SessionExpired;

impl Fault for SessionExpired {
    fn name(&self) -> &'static str {
        "h34_404_session_expired"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        session_loss::begin(world, at, SessionLostReply::NotFound)
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        session_loss::repeat(world, at)
    }

    fn prepare(&self, site: &mut Site) {
        session_loss::prepare(site);
    }
}
