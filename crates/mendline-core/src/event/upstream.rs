//! The server that an event is about.

use super::Event;
use crate::port::UpstreamId;

macro_rules! upstreams {
    (upstream: $($with:ident)*; link: $($link:ident)*; none: $($none:ident)*;) => {
        impl Event {
            /// Returns the server that the event is about; `None` if it is about the process or a client.
            pub fn upstream(&self) -> Option<UpstreamId> {
                match self {
                    $(Event::$with { upstream, .. } => Some(*upstream),)*
                    $(Event::$link { link, .. } => Some(link.upstream),)*
                    $(Event::$none { .. } => None,)*
                }
            }
        }
    };
}

upstreams! {
    upstream:
    LinkStateChanged DialFailed DialPlanned LoginRequired LoginAccepted CredentialRenewalStarted
    CredentialRenewed CredentialRenewalFailed ServerSuspected VerdictReached
    PingAnswered AnsweredBySession OwnStatusAnswered OwnNameTaken ToolDenied VerdictAwaited HintsAwaited CallSilent SilenceEnded ReconnectRequested
    ClientOpened ClientNamed UpstreamReady SessionReplayed SessionReplayFailed OutputSkipped
    ReconnectDisabled Reconfigured ServerReplaced UpstreamAdded UpstreamRemoved IdleStopped InternalRequestSent InternalRequestFailed ListChanged
    ListChangeHidden AnsweredFromCatalogue ProvisionalAnswer HandshakeCompleted HandshakeDiffers
    ContentTypeMismatch ToolRemoved CallAccepted AttemptStarted AttemptEnded RetryRefused ResponseResumed
    CallReturned CallRetried CallAnswered CallFailed CallCancelled CallAbandoned CallRejected BreakerOpened
    BreakerHalfOpened BreakerClosed Isolated Resumed Paused PauseEnded RateLimited ServerRequestDeclined
    IdTypeRepaired MessageDropped;
    link:
    ServerRequestForwarded ServerRequestAnswered ServerRequestWithdrawn;
    none:
    ClientEnded ClientLost ClientMessageInvalid ConnectivityChanged Stopping Stopped;
}
