//! The credentials of an HTTP server, as the shell and the server know them.
//!
//! Credentials are numbered. The server accepts those from one number on: to expire the current one is to raise that
//! number. The shell has a source, which gives the next credential, has none, or hangs.

use mendline_core::port::Challenge;

/// The state of a source of credentials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceState {
    /// It gives a newer credential.
    #[default]
    Works,
    /// It cannot be reached; the shell tries again.
    Down,
    /// It does not answer.
    Hangs,
    /// It has no newer credential until a person acts.
    Ended,
}

/// The credentials of one server.
#[derive(Clone, Debug, Default)]
pub struct Authorization {
    /// The number of the credential that the shell uses.
    pub current: u32,
    /// The first number that the server accepts.
    pub accepted_from: u32,
    /// The first number with which `create_note` may be called.
    pub permitted_from: u32,
    /// The server refuses every credential.
    pub refuses_all: bool,
    /// The source gives no credential with more permissions.
    pub lacks_permissions: bool,
    /// The source.
    pub source: SourceState,
    /// The engine knows that a person has to act.
    pub awaits_person: bool,
    /// The requested renewal: the number of the refused credential, and the challenge.
    pub requested: Option<(u32, Challenge)>,
}

impl Authorization {
    /// Expires the current credential.
    pub fn expire(&mut self) {
        self.accepted_from = self.current + 1;
    }

    /// The challenge of the server to a request with this credential, if it refuses it.
    pub fn refusal(&self, used: u32, is_restricted: bool) -> Option<Challenge> {
        if self.refuses_all || used < self.accepted_from {
            Some(Challenge::Credential)
        } else if is_restricted && used < self.permitted_from {
            Some(Challenge::Scope)
        } else {
            None
        }
    }
}
