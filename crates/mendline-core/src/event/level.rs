//! How loud an event is.
//!
//! What belongs to a healthy day is for those who look for it. What was lost or mended is said to everybody, because it should
//! not have broken; and only what stays broken until somebody does something is an error.

use super::{Dropped, Event, LinkState};

/// How loud an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For those who follow single calls.
    Debug,
    /// For those who follow the day.
    Info,
    /// Something was lost or mended that should not have broken.
    Warn,
    /// Something needs a person.
    Error,
}

impl Event {
    /// How loud it is.
    pub fn level(&self) -> Level {
        match self {
            Event::DialFailed { repeated: true, .. } | Event::LinkStateChanged { repeated: true, .. } => Level::Debug,
            Event::DialFailed { .. }
            | Event::LoginRequired { .. }
            | Event::LinkStateChanged { to: LinkState::Parked, .. } => Level::Error,
            Event::LinkStateChanged { to: LinkState::Waiting, .. } => Level::Warn,
            Event::LinkStateChanged { .. }
            | Event::DialPlanned { .. }
            | Event::CallAccepted { .. }
            | Event::AttemptStarted { .. }
            | Event::AttemptEnded { .. }
            | Event::CallReturned { .. }
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
            Event::ClientMessageInvalid { .. }
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
            | Event::SessionReplayed { .. }
            | Event::HandshakeCompleted { .. }
            | Event::ProvisionalAnswer { .. }
            | Event::ListChanged { .. }
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
