//! The common part of the faults in which a server loses its sessions; they differ in its reply.

use std::time::Duration;

use crate::network_faults::SessionLostReply;
use crate::site::Site;
use crate::world::World;

/// Begins to lose sessions, with this reply.
pub(super) fn begin(world: &mut World, at: usize, session_lost_reply: SessionLostReply) -> Option<Duration> {
    if let Some(site) = &mut world.hosts[at].site {
        site.faults.session_lost_reply = Some(session_lost_reply);
    }
    repeat(world, at)
}

/// Loses all sessions again. Returns the delay until the next time.
pub(super) fn repeat(world: &mut World, at: usize) -> Option<Duration> {
    world.forget_sessions(at);
    Some(world.rng.millis(500, 20_000))
}

/// Enables sessions, and responses that are resumed in them.
pub(super) fn prepare(site: &mut Site) {
    site.keep_sessions();
    site.polls = 30;
}
