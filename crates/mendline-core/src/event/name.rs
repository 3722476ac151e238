//! The stable names of events.
//!
//! Logs, metrics and programs know an event by this name; it does not follow renames of the variants.

use super::Event;

impl Event {
    /// Returns the stable name of this kind of event.
    pub fn name(&self) -> &'static str {
        match self {
            Event::ClientOpened { .. } => "client_opened",
            Event::ClientNamed { .. } => "client_named",
            Event::ClientEnded { .. } => "client_ended",
            Event::ClientLost { .. } => "client_lost",
            Event::ClientMessageInvalid { .. } => "client_message_invalid",
            Event::DialFailed { .. } => "dial_failed",
            Event::LinkStateChanged { .. } => "link_state_changed",
            Event::ReconnectRequested { .. } => "reconnect_requested",
            Event::DialPlanned { .. } => "dial_planned",
            Event::ReconnectDisabled { .. } => "reconnect_disabled",
            Event::Reconfigured { .. } => "reconfigured",
            Event::ServerReplaced { .. } => "server_replaced",
            Event::UpstreamReady { .. } => "upstream_ready",
            Event::SessionReplayed { .. } => "session_replayed",
            Event::SessionReplayFailed { .. } => "session_replay_failed",
            Event::LoginRequired { .. } => "login_required",
            Event::OutputSkipped { .. } => "output_skipped",
            Event::InternalRequestSent { .. } => "internal_request_sent",
            Event::InternalRequestFailed { .. } => "internal_request_failed",
            Event::ListChanged { .. } => "list_changed",
            Event::AnsweredFromCatalogue { .. } => "answered_from_catalogue",
            Event::ProvisionalAnswer { .. } => "provisional_answer",
            Event::HandshakeCompleted { .. } => "handshake_completed",
            Event::HandshakeDiffers { .. } => "handshake_differs",
            Event::ContentTypeMismatch { .. } => "content_type_mismatch",
            Event::ToolRemoved { .. } => "tool_removed",
            Event::CallAccepted { .. } => "call_accepted",
            Event::AttemptStarted { .. } => "attempt_started",
            Event::AttemptEnded { .. } => "attempt_ended",
            Event::CallRetried { .. } => "call_retried",
            Event::RetryRefused { .. } => "retry_refused",
            Event::ResponseResumed { .. } => "response_resumed",
            Event::CallReturned { .. } => "call_returned",
            Event::CallAnswered { .. } => "call_answered",
            Event::CallFailed { .. } => "call_failed",
            Event::CallCancelled { .. } => "call_cancelled",
            Event::CallAbandoned { .. } => "call_abandoned",
            Event::CallRejected { .. } => "call_rejected",
            Event::BreakerOpened { .. } => "breaker_opened",
            Event::BreakerHalfOpened { .. } => "breaker_half_opened",
            Event::BreakerClosed { .. } => "breaker_closed",
            Event::Isolated { .. } => "isolated",
            Event::Resumed { .. } => "resumed",
            Event::Paused { .. } => "paused",
            Event::PauseEnded { .. } => "pause_ended",
            Event::RateLimited { .. } => "rate_limited",
            Event::ServerRequestForwarded { .. } => "server_request_forwarded",
            Event::ServerRequestAnswered { .. } => "server_request_answered",
            Event::ServerRequestWithdrawn { .. } => "server_request_withdrawn",
            Event::ServerRequestDeclined { .. } => "server_request_declined",
            Event::IdTypeRepaired { .. } => "id_type_repaired",
            Event::MessageDropped { .. } => "message_dropped",
            Event::ConnectivityChanged { .. } => "connectivity_changed",
            Event::Stopping { .. } => "stopping",
            Event::Stopped => "stopped",
        }
    }
}
