//! The stable name and the usual level of each event.
//!
//! Logs, metrics and programs know an event by its name; it does not follow renames of the variants.

use super::{Event, Level};

macro_rules! events {
    ($($variant:ident $name:literal $level:ident,)*) => {
        impl Event {
            /// Returns the stable name of this kind of event.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Event::$variant { .. } => $name,)*
                }
            }

            /// Returns the level of this kind of event, but for the exceptions in [`Event::level`].
            pub(super) fn usual_level(&self) -> Level {
                match self {
                    $(Event::$variant { .. } => Level::$level,)*
                }
            }
        }
    };
}

events! {
    ClientOpened "client_opened" Debug,
    ClientNamed "client_named" Debug,
    ClientEnded "client_ended" Debug,
    ClientLost "client_lost" Warn,
    ClientMessageInvalid "client_message_invalid" Warn,
    DialFailed "dial_failed" Error,
    LinkStateChanged "link_state_changed" Debug,
    ReconnectRequested "reconnect_requested" Info,
    DialPlanned "dial_planned" Debug,
    ReconnectDisabled "reconnect_disabled" Warn,
    Reconfigured "reconfigured" Info,
    ServerReplaced "server_replaced" Info,
    UpstreamAdded "upstream_added" Debug,
    UpstreamRemoved "upstream_removed" Debug,
    IdleStopped "idle_stopped" Info,
    UpstreamReady "upstream_ready" Info,
    SessionReplayed "session_replayed" Info,
    SessionReplayFailed "session_replay_failed" Warn,
    LoginRequired "login_required" Error,
    LoginAccepted "login_accepted" Info,
    CredentialRenewalStarted "credential_renewal_started" Info,
    CredentialRenewed "credential_renewed" Info,
    CredentialRenewalFailed "credential_renewal_failed" Warn,
    ServerSuspected "server_suspected" Warn,
    VerdictReached "verdict_reached" Warn,
    PingAnswered "ping_answered" Debug,
    AnsweredBySession "answered_by_session" Debug,
    OwnStatusAnswered "own_status_answered" Debug,
    OwnNameTaken "own_name_taken" Warn,
    ToolDenied "tool_denied" Info,
    VerdictAwaited "verdict_awaited" Debug,
    HintsAwaited "hints_awaited" Debug,
    CallSilent "call_silent" Warn,
    SilenceEnded "silence_ended" Debug,
    OutputSkipped "output_skipped" Warn,
    InternalRequestSent "internal_request_sent" Debug,
    InternalRequestFailed "internal_request_failed" Warn,
    ListChanged "list_changed" Info,
    ListChangeHidden "list_change_hidden" Info,
    AnsweredFromCatalogue "answered_from_catalogue" Debug,
    ProvisionalAnswer "provisional_answer" Info,
    HandshakeCompleted "handshake_completed" Info,
    HandshakeDiffers "handshake_differs" Warn,
    ContentTypeMismatch "content_type_mismatch" Warn,
    ToolRemoved "tool_removed" Warn,
    CallAccepted "call_accepted" Debug,
    AttemptStarted "attempt_started" Debug,
    AttemptEnded "attempt_ended" Debug,
    CallRetried "call_retried" Warn,
    RetryRefused "retry_refused" Warn,
    ResponseResumed "response_resumed" Info,
    CallReturned "call_returned" Debug,
    CallAnswered "call_answered" Debug,
    CallFailed "call_failed" Warn,
    CallCancelled "call_cancelled" Debug,
    CallAbandoned "call_abandoned" Debug,
    CallRejected "call_rejected" Warn,
    BreakerOpened "breaker_opened" Warn,
    BreakerHalfOpened "breaker_half_opened" Info,
    BreakerClosed "breaker_closed" Info,
    Isolated "isolated" Warn,
    Resumed "resumed" Info,
    Paused "paused" Warn,
    PauseEnded "pause_ended" Info,
    RateLimited "rate_limited" Debug,
    ServerRequestForwarded "server_request_forwarded" Debug,
    ServerRequestAnswered "server_request_answered" Debug,
    ServerRequestWithdrawn "server_request_withdrawn" Warn,
    ServerRequestDeclined "server_request_declined" Warn,
    IdTypeRepaired "id_type_repaired" Warn,
    MessageDropped "message_dropped" Warn,
    ConnectivityChanged "connectivity_changed" Info,
    Stopping "stopping" Info,
    Stopped "stopped" Info,
}
