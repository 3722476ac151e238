//! The forms of outage: what a client meets while the server is unavailable.

use mendline_faults::{Ending, Outage};

/// The `Retry-After` of a form that has one, in seconds.
pub(crate) const HINT: u64 = 3;

/// A form of outage. The last three are forms of commands, all others of URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Refused,
    Reset,
    Fin,
    ResetAfterRequest,
    FinAfterRequest,
    Silence,
    TlsAlert,
    Status500,
    Status502,
    Status503,
    Status503RetryAfter,
    Status504,
    Status429,
    Page404,
    Page200,
    Redirect307,
    ExitsAtStart,
    HangsAtStart,
    DiesAtCall,
}

impl Form {
    pub(crate) const ALL: [Form; 19] = [
        Form::Refused,
        Form::Reset,
        Form::Fin,
        Form::ResetAfterRequest,
        Form::FinAfterRequest,
        Form::Silence,
        Form::TlsAlert,
        Form::Status500,
        Form::Status502,
        Form::Status503,
        Form::Status503RetryAfter,
        Form::Status504,
        Form::Status429,
        Form::Page404,
        Form::Page200,
        Form::Redirect307,
        Form::ExitsAtStart,
        Form::HangsAtStart,
        Form::DiesAtCall,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Form::Refused => "refused",
            Form::Reset => "reset",
            Form::Fin => "fin",
            Form::ResetAfterRequest => "reset-after-request",
            Form::FinAfterRequest => "fin-after-request",
            Form::Silence => "silence",
            Form::TlsAlert => "tls-alert",
            Form::Status500 => "500",
            Form::Status502 => "502",
            Form::Status503 => "503",
            Form::Status503RetryAfter => "503-retry-after",
            Form::Status504 => "504",
            Form::Status429 => "429",
            Form::Page404 => "404-page",
            Form::Page200 => "200-page",
            Form::Redirect307 => "307",
            Form::ExitsAtStart => "exits-at-start",
            Form::HangsAtStart => "hangs-at-start",
            Form::DiesAtCall => "dies-at-call",
        }
    }

    /// Returns whether the server is a command.
    pub(crate) fn is_command(self) -> bool {
        self.outage().is_none()
    }

    /// Returns the outage of the fault server, or `None` for a command.
    pub(crate) fn outage(self) -> Option<Outage> {
        let page = |status| Some(Outage::Page { status, retry_after: None });
        match self {
            Form::Refused => Some(Outage::Refused),
            Form::Reset => Some(Outage::Cut(Ending::Reset)),
            Form::Fin => Some(Outage::Cut(Ending::Fin)),
            Form::ResetAfterRequest => Some(Outage::CutAfterRequest(Ending::Reset)),
            Form::FinAfterRequest => Some(Outage::CutAfterRequest(Ending::Fin)),
            Form::Silence => Some(Outage::Silence),
            Form::TlsAlert => Some(Outage::TlsAlert),
            Form::Status500 => page(500),
            Form::Status502 => page(502),
            Form::Status503 => page(503),
            Form::Status503RetryAfter => Some(Outage::Page { status: 503, retry_after: Some(HINT) }),
            Form::Status504 => page(504),
            Form::Status429 => page(429),
            Form::Page404 => page(404),
            Form::Page200 => page(200),
            Form::Redirect307 => page(307),
            Form::ExitsAtStart | Form::HangsAtStart | Form::DiesAtCall => None,
        }
    }

    /// Returns whether a call that meets the outage is refused: the server cannot have run it, so it may be sent again.
    pub(crate) fn refuses_calls(self) -> bool {
        matches!(self, Form::Status429 | Form::Page404 | Form::Redirect307)
    }

    /// Returns whether new connections end before a request can be read. Only the client knows how much it has written.
    pub(crate) fn ends_new_connections(self) -> bool {
        matches!(self, Form::Reset | Form::Fin)
    }

    /// Returns whether the server has restarted at the end and has lost its sessions.
    pub(crate) fn loses_sessions(self) -> bool {
        matches!(self, Form::Refused | Form::Reset | Form::Fin)
    }
}
