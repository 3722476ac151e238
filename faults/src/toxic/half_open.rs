//! Half open: open connections go silent without an error.
//!
//! This is the effect of a router that drops its state, or of a host that vanishes and returns: open connections stay
//! dead, new ones work. A peer notices only if it probes the connection.

use serde::{Deserialize, Serialize};

use super::{Behaviour, ExistingConnections};

/// Silences open connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HalfOpen {}

impl Behaviour for HalfOpen {
    fn on_existing(&self) -> ExistingConnections {
        ExistingConnections::Silence
    }
}
