//! Reasons why there is no valid credential for a server.

use std::fmt;
use std::time::Duration;

use crate::event::Short;

/// The reason why a source gave no newer credential.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CredentialError {
    /// The source was read again, and its credential is the refused one.
    Unchanged,
    /// No login is stored.
    NoLogin,
    /// The authorization server has ended the login.
    LoginEnded,
    /// Too many requests without a valid credential were sent to the server today, over all processes.
    FruitlessLimit {
        /// Their number.
        count: u32,
    },
    /// A person was asked to log in, and has not done it yet.
    LoginPending,
    /// The login lacks permissions.
    Scope {
        /// The scopes that the server requires, separated by spaces; redacted text of the server.
        scopes: String,
    },
    /// An environment variable is not set.
    VariableMissing {
        /// Its name.
        name: String,
    },
    /// A file cannot be used.
    File {
        /// Its path.
        path: String,
        /// The reason, for a person.
        why: String,
    },
    /// The command of the source failed.
    Command {
        /// The reason, for a person; without the output of the command.
        why: String,
    },
    /// The command of the source did not end in time.
    CommandTimedOut {
        /// The limit.
        after: Duration,
    },
    /// The authorization server refused the request.
    Refused {
        /// Its reason: an error code of OAuth, or a status; redacted.
        why: String,
    },
    /// The authorization server cannot be reached, or fails. The trouble can pass.
    Unavailable {
        /// The reason, for a person; redacted.
        why: String,
    },
}

impl CredentialError {
    /// Returns the stable name for metrics and logs.
    pub fn name(&self) -> &'static str {
        match self {
            CredentialError::Unchanged => "credential_unchanged",
            CredentialError::NoLogin => "no_login",
            CredentialError::LoginEnded => "login_ended",
            CredentialError::FruitlessLimit { .. } => "fruitless_limit",
            CredentialError::LoginPending => "login_pending",
            CredentialError::Scope { .. } => "insufficient_scope",
            CredentialError::VariableMissing { .. } => "variable_missing",
            CredentialError::File { .. } => "credential_file",
            CredentialError::Command { .. } => "credential_command",
            CredentialError::CommandTimedOut { .. } => "credential_command_timed_out",
            CredentialError::Refused { .. } => "authorization_refused",
            CredentialError::Unavailable { .. } => "authorization_unavailable",
        }
    }

    /// Passes every text that comes from outside to `each`.
    pub fn texts(&mut self, each: &mut dyn FnMut(&mut String)) {
        match self {
            CredentialError::Scope { scopes: text }
            | CredentialError::VariableMissing { name: text }
            | CredentialError::Command { why: text }
            | CredentialError::Refused { why: text }
            | CredentialError::Unavailable { why: text } => each(text),
            CredentialError::File { path, why } => {
                each(path);
                each(why);
            }
            CredentialError::Unchanged
            | CredentialError::NoLogin
            | CredentialError::LoginEnded
            | CredentialError::FruitlessLimit { .. }
            | CredentialError::LoginPending
            | CredentialError::CommandTimedOut { .. } => {}
        }
    }

    /// Returns whether waiting can help: no person has to do anything.
    pub fn can_pass(&self) -> bool {
        matches!(self, CredentialError::Unavailable { .. } | CredentialError::CommandTimedOut { .. })
    }
}

impl fmt::Display for CredentialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CredentialError::Unchanged => f.write_str("the server does not accept the credential"),
            CredentialError::NoLogin => f.write_str("there is no login yet"),
            CredentialError::LoginEnded => f.write_str("the authorization server has ended the login"),
            CredentialError::FruitlessLimit { count } => write!(
                f,
                "{count} requests without a valid credential were sent to the server today, so no more are sent before \
                 there is another credential, or before tomorrow"
            ),
            CredentialError::LoginPending => f.write_str("the login in the browser is not complete"),
            CredentialError::Scope { scopes } if scopes.is_empty() => f.write_str("the login lacks permissions"),
            CredentialError::Scope { scopes } => write!(f, "the login lacks permissions: {scopes}"),
            CredentialError::VariableMissing { name } => write!(f, "the variable {name} is not set"),
            CredentialError::File { path, why } => write!(f, "the file {path} cannot be used: {why}"),
            CredentialError::Command { why } => write!(f, "the command for the credential failed: {why}"),
            CredentialError::CommandTimedOut { after } => {
                write!(f, "the command for the credential did not end within {}", Short(*after))
            }
            CredentialError::Refused { why } => write!(f, "the authorization server refused the request: {why}"),
            CredentialError::Unavailable { why } => write!(f, "the authorization server is not available: {why}"),
        }
    }
}
