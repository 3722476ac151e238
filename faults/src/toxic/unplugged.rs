//! Unplugged: packets go nowhere, and not even the kernel acknowledges them.
//!
//! A [`Partition`](super::Partition) stops what is said; whoever probes the connection still finds it alive, since the
//! proxy's kernel answers. Here it does not: upwards every packet of the client is lost, and so is its every probe.
//! Downwards nothing is sent. It is about the connections that are there; what is dialed anew is sound. When they are plugged
//! in again TCP sends what was lost once more, if it has not given up.

use serde::{Deserialize, Serialize};

use super::{Flow, Behaviour};

/// Packets of the connections there are go nowhere.
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
