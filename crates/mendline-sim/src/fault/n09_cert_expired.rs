//! N09: the certificate of the server has expired.

use std::time::Duration;

use super::Fault;
use crate::network_faults::ConnectResult;
use crate::world::World;

/// See the module.
pub(super) struct CertExpired;

impl Fault for CertExpired {
    fn name(&self) -> &'static str {
        "n09_cert_expired"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.block(at, ConnectResult::Forbidden("its certificate has expired"));
        None
    }
}
