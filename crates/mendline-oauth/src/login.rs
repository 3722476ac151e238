//! Login, logout, and the token for other programs.
//!
//! One login per server and machine is under way at a time; other processes wait for its result. An earlier login stays
//! until the new one is stored.

mod flow;

use std::time::{Duration, SystemTime};

use mendline::credential::Credential;
use mendline::transport::http::Challenge;
use tokio::time::{Instant, sleep};

use self::flow::Flow;
use crate::error::OAuthError;
use crate::renew::renew;
use crate::revoke::revoke;
use crate::settings::{RedirectHost, Settings};
use crate::source::{credential, is_fresh};
use crate::store::record::{Login, seconds};
use crate::store::{Identity, Key, Lock, Store};
use crate::{LoginUi, OAuth, Progress};

/// The interval at which the result of another process is looked for.
const OTHER_INTERVAL: Duration = Duration::from_millis(200);

/// The time for which a token for another program is valid at least, unless its whole life is short.
const TOKEN_MARGIN: Duration = Duration::from_secs(60);

/// The limit for waiting for a renewal before a logout.
const LOCK_WITHIN: Duration = Duration::from_secs(45);

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
    /// Whether its tokens are sealed with a key in the keyring.
    pub sealed: bool,
    /// Whether it is not known that this is the login of the account, because the authorization server does not say it.
    pub unverified: bool,
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
    let key = Store::key(&settings.server, settings.account.as_deref());
    let deadline = Instant::now() + options.timeout;
    let _lock = match turn(oauth, &key, deadline, ui).await? {
        Turn::Ours(lock) => lock,
        Turn::Done(login) => return Ok(LoggedIn { info: stored_info(oauth, &key, &login), by_other_process: true }),
        Turn::TooLate => {
            return Err(OAuthError::NoCallback { after: options.timeout, registered_before: false });
        }
    };
    // Known before the person confirms: whether the login can be stored.
    oauth.store.prepare().await?;
    let login = Flow::new(oauth, settings, options, ui, key.clone(), deadline).run().await?;
    Ok(LoggedIn { info: stored_info(oauth, &key, &login), by_other_process: false })
}

/// Returns a login as it is stored.
fn stored_info(oauth: &OAuth, key: &Key, login: &Login) -> LoginInfo {
    oauth.store.login_info(key).ok().flatten().unwrap_or_else(|| login.info())
}

/// The result of waiting for other logins to the same server.
enum Turn {
    Ours(Lock),
    /// Another process has logged in meanwhile.
    Done(Box<Login>),
    TooLate,
}

async fn turn(oauth: &OAuth, key: &Key, deadline: Instant, ui: &dyn LoginUi) -> Result<Turn, OAuthError> {
    let start = seconds((oauth.clock)());
    let before = oauth.store.stamp(key);
    let mut waited = false;
    loop {
        let lock = oauth.store.try_flow_lock(key)?;
        if waited
            && oauth.store.stamp(key) != before
            && let Some(login) = oauth.store.peek(key)?
            && !login.ended
            && login.renewals == 0
            && login.received_at >= start
        {
            return Ok(Turn::Done(Box::new(login)));
        }
        if let Some(lock) = lock {
            return Ok(Turn::Ours(lock));
        }
        if !waited {
            ui.progress(&Progress::WaitingForOtherLogin);
            waited = true;
        }
        if Instant::now() >= deadline {
            return Ok(Turn::TooLate);
        }
        sleep(OTHER_INTERVAL).await;
    }
}

/// Revokes a login and deletes it, and no other.
///
/// # Errors
///
/// When the store cannot be used.
pub async fn logout(oauth: &OAuth, settings: &Settings) -> Result<LoggedOut, OAuthError> {
    let key = Store::key(&settings.server, settings.account.as_deref());
    let _lock = oauth.store.lock(&key, LOCK_WITHIN).await?;
    let login = match oauth.store.load(&key).await {
        Ok(Some(login)) => login,
        Ok(None) => return Ok(LoggedOut::NoLogin),
        Err(lost @ OAuthError::KeyLost { .. }) => {
            oauth.store.delete(&key)?;
            return Ok(LoggedOut::DeletedOnly { why: Some(lost.to_string()) });
        }
        Err(error) => return Err(error),
    };
    let result = match (&login.revocation_endpoint, &login.refresh_token) {
        (None, _) => LoggedOut::DeletedOnly { why: None },
        (Some(endpoint), refresh) => {
            let token = refresh.as_ref().unwrap_or(&login.access_token);
            oauth.redactor.learn([token]);
            match revoke(oauth, endpoint, &login.client, token, refresh.is_some()).await {
                Ok(()) => LoggedOut::Revoked,
                Err(why) => LoggedOut::DeletedOnly { why: Some(why) },
            }
        }
    };
    oauth.store.delete(&key)?;
    Ok(result)
}

/// Returns a fresh credential: the stored one if it is valid for another minute, else a renewed one.
///
/// # Errors
///
/// When there is no login, or it cannot be renewed.
pub async fn token(oauth: &OAuth, settings: &Settings) -> Result<Credential, OAuthError> {
    let key = Store::key(&settings.server, settings.account.as_deref());
    let name = || settings.shown_name().to_owned();
    let Some(login) = oauth.store.load(&key).await? else { return Err(OAuthError::NoLogin { name: name() }) };
    if login.ended {
        return Err(OAuthError::LoginEnded { name: name() });
    }
    if is_fresh(oauth, &login, TOKEN_MARGIN) {
        return Ok(credential(oauth, settings, &login));
    }
    match renew(oauth, settings, &login.access_token).await {
        Ok(login) => Ok(credential(oauth, settings, &login)),
        // A token that lives a little longer is better than none.
        Err(_) if is_fresh(oauth, &login, Duration::ZERO) => Ok(credential(oauth, settings, &login)),
        Err(error) => Err(error),
    }
}

/// Returns the stored login of a server without its secrets.
///
/// # Errors
///
/// When the store cannot be used.
pub fn login_of(store: &Store, settings: &Settings) -> Result<Option<LoginInfo>, OAuthError> {
    store.login_info(&Store::key(&settings.server, settings.account.as_deref()))
}

#[cfg(test)]
mod tests;
