//! Unplugged: packets are lost, and the kernel does not acknowledge them.
//!
//! A [`Partition`](super::Partition) stops bytes, but the proxy's kernel still answers keep-alive probes. This toxic
//! drops every packet of the client, including probes, and sends nothing down. It applies to open connections; new ones
//! work. After its removal TCP retransmits what was lost, if it has not timed out.

use serde::{Deserialize, Serialize};

use super::{Behaviour, Flow};

/// Drops the packets of open connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unplugged {}

impl Behaviour for Unplugged {
    fn flow(&self) -> Flow {
        Flow::Hold
    }

    fn drops_packets(&self) -> bool {
        true
    }
}
