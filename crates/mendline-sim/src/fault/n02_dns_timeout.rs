//! N02: the DNS resolver does not reply.

use std::time::Duration;

use super::Fault;
use crate::network_faults::ConnectResult;
use crate::world::World;

/// See the module.
pub(super) struct DnsTimeout;

impl Fault for DnsTimeout {
    fn name(&self) -> &'static str {
        "n02_dns_timeout"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.block(at, ConnectResult::ResolverTimeout);
        None
    }
}
