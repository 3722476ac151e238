//! The states of a link and of a credential, as events report them.

/// The state of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkState {
    /// Never dialed, or not needed.
    #[default]
    Idle,
    /// Being started.
    Dialing,
    /// Running.
    Up,
    /// Being ended by us.
    Draining,
    /// Lost; the next dial is scheduled.
    Waiting,
    /// Given up for now: probed slowly, and woken by calls.
    Parked,
}

/// The state of the credential of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CredentialState {
    /// The server has not refused it.
    #[default]
    Current,
    /// The server refused it, and a newer one is requested.
    Renewing,
    /// The server refused it, and there is no newer one.
    Refused,
}

impl CredentialState {
    /// Returns the stable name for logs and status.
    pub fn name(self) -> &'static str {
        match self {
            CredentialState::Current => "current",
            CredentialState::Renewing => "renewing",
            CredentialState::Refused => "refused",
        }
    }
}
