//! The level of each event.
//!
//! Events of normal operation are `Debug` or `Info`. Losses and repairs are `Warn`. `Error` is a fault that lasts until
//! a person acts.

use super::{Condition, Dropped, Event, HiddenChange, LinkState};

/// The level of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Details of single calls.
    Debug,
    /// Normal operation.
    Info,
    /// A loss or a repair.
    Warn,
    /// A fault that needs a person.
    Error,
}

impl Event {
    /// Returns the level.
    pub fn level(&self) -> Level {
        match self {
            Event::DialFailed { repeated: true, .. } | Event::LinkStateChanged { repeated: true, .. } => Level::Debug,
            Event::LinkStateChanged { to: LinkState::Parked, .. } => Level::Error,
            Event::LinkStateChanged { to: LinkState::Waiting, .. } => Level::Warn,
            Event::ListChangeHidden { why: HiddenChange::OrderOnly, .. }
            | Event::VerdictReached { condition: Condition::Available | Condition::Suspect, .. }
            | Event::MessageDropped { why: Dropped::Late | Dropped::StaleProgress | Dropped::StaleReply, .. } => {
                Level::Debug
            }
            // The renewal of the credential is reported once for all calls.
            Event::CallRetried { why, .. } if why.status() == Some(401) => Level::Debug,
            _ => self.usual_level(),
        }
    }
}
