//! The server ends the TLS handshake of every new connection with an alert.

use std::time::Duration;

use super::Fault;
use crate::network_faults::ConnectResult;
use crate::world::World;

/// See the module.
pub(super) struct TlsAlert;

impl Fault for TlsAlert {
    fn name(&self) -> &'static str {
        "outage_tls_alert"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.block(at, ConnectResult::TlsAlert);
        None
    }
}
