//! N08: a connection is established, but the TLS handshake never completes.

use std::time::Duration;

use super::Fault;
use crate::network_faults::ConnectResult;
use crate::world::World;

/// See the module.
pub(super) struct TlsStall;

impl Fault for TlsStall {
    fn name(&self) -> &'static str {
        "n08_tls_stall"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.block(at, ConnectResult::TlsStall);
        None
    }
}
