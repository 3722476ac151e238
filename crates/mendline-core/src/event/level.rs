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
            Event::DialFailed { .. }
            | Event::LoginRequired { .. }
            | Event::LinkStateChanged { to: LinkState::Parked, .. } => Level::Error,
            Event::LinkStateChanged { to: LinkState::Waiting, .. } | Event::CallSilent { .. } => Level::Warn,
            Event::LinkStateChanged { .. }
            | Event::ListChangeHidden { why: HiddenChange::OrderOnly, .. }
            | Event::DialPlanned { .. }
            | Event::CallAccepted { .. }
            | Event::AttemptStarted { .. }
            | Event::AttemptEnded { .. }
            | Event::CallReturned { .. }
            | Event::VerdictAwaited { .. }
            | Event::HintsAwaited { .. }
            | Event::SilenceEnded { .. }
            | Event::PingAnswered { .. }
            | Event::AnsweredBySession { .. }
            | Event::VerdictReached { condition: Condition::Available | Condition::Suspect, .. }
            | Event::InternalRequestSent { .. }
            | Event::CallAnswered { .. }
            | Event::AnsweredFromCatalogue { .. }
            | Event::CallCancelled { .. }
            | Event::CallAbandoned { .. }
            | Event::RateLimited { .. }
            | Event::ServerRequestForwarded { .. }
            | Event::ServerRequestAnswered { .. }
            | Event::ClientOpened { .. }
            | Event::ClientNamed { .. }
            | Event::ClientEnded { .. } => Level::Debug,
            Event::MessageDropped { why: Dropped::Late | Dropped::StaleProgress | Dropped::StaleReply, .. } => {
                Level::Debug
            }
            Event::ServerSuspected { .. }
            | Event::VerdictReached { .. }
            | Event::ClientMessageInvalid { .. }
            | Event::ClientLost { .. }
            | Event::OutputSkipped { .. }
            | Event::ContentTypeMismatch { .. }
            | Event::HandshakeDiffers { .. }
            | Event::ToolRemoved { .. }
            | Event::SessionReplayFailed { .. }
            | Event::InternalRequestFailed { .. }
            | Event::ReconnectDisabled { .. }
            | Event::CallRetried { .. }
            | Event::RetryRefused { .. }
            | Event::CallFailed { .. }
            | Event::CallRejected { .. }
            | Event::BreakerOpened { .. }
            | Event::Isolated { .. }
            | Event::Paused { .. }
            | Event::ServerRequestWithdrawn { .. }
            | Event::ServerRequestDeclined { .. }
            | Event::IdTypeRepaired { .. }
            | Event::MessageDropped { .. } => Level::Warn,
            Event::UpstreamReady { .. }
            | Event::LoginAccepted { .. }
            | Event::SessionReplayed { .. }
            | Event::HandshakeCompleted { .. }
            | Event::ProvisionalAnswer { .. }
            | Event::ListChanged { .. }
            | Event::ListChangeHidden { .. }
            | Event::ResponseResumed { .. }
            | Event::BreakerHalfOpened { .. }
            | Event::BreakerClosed { .. }
            | Event::Resumed { .. }
            | Event::PauseEnded { .. }
            | Event::ReconnectRequested { .. }
            | Event::Reconfigured { .. }
            | Event::ServerReplaced { .. }
            | Event::ConnectivityChanged { .. }
            | Event::Stopping { .. }
            | Event::Stopped => Level::Info,
        }
    }
}
