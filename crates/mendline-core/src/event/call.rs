//! The call that an event is about.

use super::Event;

impl Event {
    /// Returns the number of the call that the event is about, if it is about one.
    pub fn call(&self) -> Option<u64> {
        match self {
            Event::CallAccepted { call, .. }
            | Event::AttemptStarted { call, .. }
            | Event::AttemptEnded { call, .. }
            | Event::RetryRefused { call, .. }
            | Event::ResponseResumed { call, .. }
            | Event::CallReturned { call, .. }
            | Event::VerdictAwaited { call, .. }
            | Event::HintsAwaited { call, .. }
            | Event::CallSilent { call, .. }
            | Event::SilenceEnded { call, .. }
            | Event::CallRetried { call, .. }
            | Event::CallAnswered { call, .. }
            | Event::ProvisionalAnswer { call, .. }
            | Event::CallFailed { call, .. }
            | Event::CallCancelled { call, .. }
            | Event::CallAbandoned { call, .. }
            | Event::RateLimited { call, .. }
            | Event::IdTypeRepaired { call, .. } => Some(*call),
            _ => None,
        }
    }

    /// Returns whether the event ends the call that it is about.
    pub fn ends_call(&self) -> bool {
        matches!(
            self,
            Event::CallAnswered { .. }
                | Event::CallFailed { .. }
                | Event::CallCancelled { .. }
                | Event::CallAbandoned { .. }
                | Event::ProvisionalAnswer { .. }
                | Event::CallRejected { .. }
        )
    }
}
