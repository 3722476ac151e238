//! The interactive login.

use std::time::{Duration, SystemTime};

use mendline::credential::Credential;
use mendline::transport::http::Challenge;

use crate::error::OAuthError;
use crate::settings::{RedirectHost, Settings};
use crate::store::Identity;
use crate::{LoginUi, OAuth};

/// The options of one login.
#[derive(Clone, Debug)]
pub struct LoginOptions {
    /// The way in which the person confirms.
    pub way: Way,
    /// The port of the callback; replaces the configured one.
    pub port: Option<u16>,
    /// The host of the callback; replaces the configured one.
    pub host: Option<RedirectHost>,
    /// The limit for the whole login.
    pub timeout: Duration,
    /// Whether a new client is registered, even if one is known.
    pub new_registration: bool,
    /// The challenges of the refusal that made the login necessary.
    pub challenges: Vec<Challenge>,
}

impl Default for LoginOptions {
    fn default() -> LoginOptions {
        LoginOptions {
            way: Way::Browser,
            port: None,
            host: None,
            timeout: Duration::from_secs(300),
            new_registration: false,
            challenges: Vec::new(),
        }
    }
}

/// The way in which the person confirms a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A browser is opened. A pasted address is accepted, too.
    Browser,
    /// The address is shown; the person opens it anywhere and pastes the address of the last page, unless the browser
    /// reaches the callback itself.
    Paste,
    /// A code is shown, which the person enters on another device (RFC 8628).
    Device,
}

/// The result of a login.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedIn {
    /// The login as status shows it.
    pub info: LoginInfo,
    /// Whether another process completed the login while this one waited for it.
    pub by_other_process: bool,
}

impl LoggedIn {
    /// The time at which this login ends for good: it has no refresh token.
    pub fn ends_at(&self) -> Option<SystemTime> {
        if self.info.has_refresh { None } else { self.info.expires_at }
    }
}

/// A stored login without its secrets.
#[derive(Clone, Debug, PartialEq)]
pub struct LoginInfo {
    /// The URL of the server.
    pub server: String,
    /// The account of the configuration.
    pub account: Option<String>,
    /// The issuer.
    pub issuer: String,
    /// The person, as far as the authorization server said it.
    pub identity: Option<Identity>,
    /// The expiry of the access token.
    pub expires_at: Option<SystemTime>,
    /// The time at which the access token was received.
    pub received_at: SystemTime,
    /// Whether the login can be renewed without a person.
    pub has_refresh: bool,
    /// The granted scopes.
    pub scopes: Vec<String>,
    /// Whether the authorization server has ended the login.
    pub ended: bool,
}

/// The result of a logout.
#[derive(Clone, Debug, PartialEq)]
pub enum LoggedOut {
    /// There was no login.
    NoLogin,
    /// The tokens are revoked at the authorization server, and deleted here.
    Revoked,
    /// The tokens are deleted here. The authorization server offers no revocation, or it failed for this reason.
    DeletedOnly {
        /// The reason, if the revocation failed.
        why: Option<String>,
    },
}

/// Logs in to a server.
///
/// # Errors
///
/// When the person or a server refuses, or something cannot be used. Nothing is stored then, and an earlier login stays.
pub async fn login(
    oauth: &OAuth,
    settings: &Settings,
    options: &LoginOptions,
    ui: &dyn LoginUi,
) -> Result<LoggedIn, OAuthError> {
    let _ = (oauth, options, ui);
    Err(OAuthError::NoLogin { name: settings.shown_name().to_owned() })
}

/// Revokes a login and deletes it, and no other.
///
/// # Errors
///
/// When the store cannot be used.
pub async fn logout(oauth: &OAuth, settings: &Settings) -> Result<LoggedOut, OAuthError> {
    let _ = (oauth, settings);
    Ok(LoggedOut::NoLogin)
}

/// Returns a fresh credential: the stored one if it is valid for another minute, else a renewed one.
///
/// # Errors
///
/// When there is no login, or it cannot be renewed.
pub async fn token(oauth: &OAuth, settings: &Settings) -> Result<Credential, OAuthError> {
    let _ = oauth;
    Err(OAuthError::NoLogin { name: settings.shown_name().to_owned() })
}
