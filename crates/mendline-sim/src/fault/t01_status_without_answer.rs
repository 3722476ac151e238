//! T1: a proxy in front of the server answers with a status and no JSON-RPC response. Some statuses prove that the
//! request was not processed; with the others the server may have executed it.

use std::time::Duration;

use super::Fault;
use crate::network_faults::InjectedResponse;
use crate::world::World;

/// See the module.
pub(super) struct StatusWithoutAnswer;

/// Statuses of both kinds. 404 is excluded, because it means a lost session for every request that names one.
const STATUSES: &[u16] = &[302, 400, 403, 405, 408, 409, 410, 413, 415, 422, 426, 431, 451];

impl Fault for StatusWithoutAnswer {
    fn name(&self) -> &'static str {
        "t01_status_without_answer"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let chance = *world.rng.pick(&[30, 60, 100]);
        let status = *world.rng.pick(STATUSES);
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.injected = Some((InjectedResponse::Status(status, None), chance));
        }
        None
    }
}
