//! What the faults share in which a server forgets its sessions now and then: they differ only in how it says so.

use std::time::Duration;

use crate::site::Site;
use crate::network_faults::SessionLostReply;
use crate::world::World;

/// From now on sessions are lost, and this is how the server says so.
pub(super) fn begin(world: &mut World, at: usize, session_lost_reply: SessionLostReply) -> Option<Duration> {
    if let Some(site) = &mut world.hosts[at].site {
        site.faults.session_lost_reply = session_lost_reply;
    }
    repeat(world, at)
}

/// Loses them once more; says when the next time is.
pub(super) fn repeat(world: &mut World, at: usize) -> Option<Duration> {
    world.forget_sessions(at);
    Some(world.rng.millis(500, 20_000))
}

/// There must be sessions, and responses that are fetched in them.
pub(super) fn prepare(site: &mut Site) {
    site.keep_sessions();
    site.polls = 30;
}
