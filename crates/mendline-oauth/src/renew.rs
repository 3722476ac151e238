//! The renewal of a login: one refresher across all processes.
//!
//! A server that rotates refresh tokens takes a second use of one for theft and ends the login. So a process takes the
//! lock of the login, reads it again, and uses a token that another process has written. Only otherwise it sends the
//! refresh token, and it writes the new one durably before anything uses it. The space for it is taken before the request
//! is sent; if the disk fails regardless, the new tokens are used from memory and written later.
//!
//! Only `invalid_grant`, seen twice with a pause and a fresh look at the store between, ends a login. Another refusal is
//! checked in the same way, and the login stays. Everything else can pass.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mendline::decisions::Secret;
use tokio::time::{Instant, sleep};

use crate::OAuth;
use crate::error::OAuthError;
use crate::registration::ClientOrigin;
use crate::settings::Settings;
use crate::store::record::{Login, seconds};
use crate::store::{Key, Store};
use crate::token::{self, Grant, TokenRequest, TokenResult, Tokens};

/// The limit for waiting for the lock. Its holder has a request under way, which has a limit itself.
const LOCK_WITHIN: Duration = Duration::from_secs(45);

/// The pause before a second opinion about a refusal.
const SECOND_OPINION: Duration = Duration::from_millis(2100);

/// Renews a login in a task of its own: a caller that goes away does not stop it between the answer of the server and
/// the disk.
pub(crate) async fn renew(oauth: &OAuth, settings: &Settings, old: &Secret) -> Result<Login, OAuthError> {
    let renewal = Renewal {
        oauth: oauth.clone(),
        key: Store::key(&settings.server, settings.account.as_deref()),
        name: settings.shown_name().to_owned(),
        old: old.clone(),
    };
    let under_way = UnderWay::new();
    let task = tokio::spawn(async move {
        let _under_way = under_way;
        renewal.run().await
    });
    task.await.unwrap_or_else(|error| {
        let why = format!("the renewal was interrupted: {error}");
        Err(OAuthError::Unavailable { url: settings.server.clone(), why })
    })
}

/// The renewals that are under way in this process.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// The interval at which the end of renewals is looked for.
const FINISH_INTERVAL: Duration = Duration::from_millis(10);

/// One renewal that is under way, until it is dropped.
struct UnderWay;

impl UnderWay {
    fn new() -> UnderWay {
        UNDER_WAY.fetch_add(1, Ordering::SeqCst);
        UnderWay
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits until no renewal is under way, for a process that is about to end: a token that the server has rotated would be
/// lost. Returns at once if there is none.
pub async fn finish_renewals(within: Duration) {
    let deadline = Instant::now() + within;
    while UNDER_WAY.load(Ordering::SeqCst) > 0 && Instant::now() < deadline {
        sleep(FINISH_INTERVAL).await;
    }
    Store::write_unsaved().await;
}

struct Renewal {
    oauth: OAuth,
    key: Key,
    name: String,
    /// The access token that is to be replaced.
    old: Secret,
}

/// The state of the store under the lock.
enum Found {
    /// Another process has renewed the login.
    Newer(Login),
    /// The login with the old access token, and its refresh token.
    Old(Login, Secret),
}

/// The answer of the server to a refresh token.
enum Refreshed {
    Renewed(Box<Login>),
    /// It says that the token is not valid.
    InvalidGrant,
    /// It refuses the request for another reason.
    Denied(OAuthError),
}

impl Renewal {
    async fn run(self) -> Result<Login, OAuthError> {
        let refused = {
            let _lock = self.oauth.store.lock(&self.key, LOCK_WITHIN).await?;
            let (login, token) = match self.find().await? {
                Found::Newer(login) => return Ok(login),
                Found::Old(login, token) => (login, token),
            };
            match self.refresh(&login, &token).await? {
                Refreshed::Renewed(renewed) => return Ok(*renewed),
                Refreshed::InvalidGrant => Some(token),
                Refreshed::Denied(_) => None,
            }
        };
        // Another process may have written a newer token without the lock: a login, or a restored file.
        sleep(SECOND_OPINION).await;
        let _lock = self.oauth.store.lock(&self.key, LOCK_WITHIN).await?;
        let (login, token) = match self.find().await? {
            Found::Newer(login) => return Ok(login),
            Found::Old(login, token) => (login, token),
        };
        match self.refresh(&login, &token).await? {
            Refreshed::Renewed(renewed) => return Ok(*renewed),
            Refreshed::InvalidGrant => {}
            Refreshed::Denied(error) => {
                if error.is_invalid_client() {
                    self.forget_registration(&login).await?;
                }
                return Err(error);
            }
        }
        if refused != Some(token) {
            let why = "it says that the refresh token is not valid".to_owned();
            return Err(OAuthError::Unavailable { url: login.token_endpoint, why });
        }
        // A mark that cannot be written is found out again.
        let _ = self.oauth.store.save(&self.key, &Login { ended: true, ..login }).await;
        Err(OAuthError::LoginEnded { name: self.name.clone() })
    }

    async fn find(&self) -> Result<Found, OAuthError> {
        let Some(login) = self.oauth.store.load(&self.key).await? else {
            return Err(OAuthError::NoLogin { name: self.name.clone() });
        };
        if login.access_token != self.old && !login.ended && !login.expires_within(Duration::ZERO, (self.oauth.clock)())
        {
            self.oauth.redactor.learn_renewed([&login.access_token]);
            return Ok(Found::Newer(login));
        }
        match &login.refresh_token {
            Some(token) if !login.ended => {
                let token = token.clone();
                self.oauth.redactor.learn_renewed([&token]);
                Ok(Found::Old(login, token))
            }
            _ => Err(OAuthError::LoginEnded { name: self.name.clone() }),
        }
    }

    /// Sends the refresh token.
    async fn refresh(&self, login: &Login, token: &Secret) -> Result<Refreshed, OAuthError> {
        let mut login = login.clone();
        // A rotated token that cannot be stored would be lost.
        self.oauth.store.prepare().await?;
        let space = self.oauth.store.reserve(&self.key).await?;
        let now = (self.oauth.clock)();
        let mut result = self.send(&login, token).await?;
        if result.refuses_resource() && login.resource.is_some() {
            login.resource = None;
            login.quirks.refuses_resource = true;
            result = self.send(&login, token).await?;
        }
        if result.is_invalid_grant() {
            return Ok(Refreshed::InvalidGrant);
        }
        if let TokenResult::Denied { error, .. } = &result
            && !token::is_known_error(error)
        {
            // A code of its own does not end a login: what it means is not known.
            let (url, why) = (login.token_endpoint.clone(), format!("it answered {error}"));
            return Err(OAuthError::Unavailable { url, why });
        }
        let is_denied = matches!(result, TokenResult::Denied { .. });
        match result.into_tokens(&login.token_endpoint) {
            Ok(tokens) => login.renew(tokens, seconds(now)),
            Err(error) if is_denied => return Ok(Refreshed::Denied(error)),
            Err(error) => return Err(error),
        }
        if let Err(error) = self.oauth.store.save_renewed(&self.key, &login, space).await {
            let name = &self.name;
            self.oauth
                .notify(&format!("the renewed login for {name} is only in memory until it can be written: {error}"));
        }
        Ok(Refreshed::Renewed(Box::new(login)))
    }

    async fn send(&self, login: &Login, token: &Secret) -> Result<TokenResult, OAuthError> {
        let request = TokenRequest {
            endpoint: &login.token_endpoint,
            client: &login.client,
            signer: None,
            grant: Grant::Refresh { token },
            resource: login.resource.as_deref(),
        };
        token::request(&self.oauth, &request).await
    }

    /// Lets the next login register a new client. The tokens stay until it succeeds.
    async fn forget_registration(&self, login: &Login) -> Result<(), OAuthError> {
        let mut known = self.oauth.store.known(&login.issuer).await?;
        if login.client.origin == ClientOrigin::Registered && known.registration.as_ref() == Some(&login.client) {
            known.registration = None;
            self.oauth.store.save_known(&known).await?;
        }
        Ok(())
    }
}

impl Login {
    /// Takes over new tokens. A server that does not rotate its refresh tokens sends none.
    pub(crate) fn renew(&mut self, tokens: Tokens, now: u64) {
        self.access_token = tokens.access_token;
        if tokens.refresh_token.is_some() {
            self.refresh_token = tokens.refresh_token;
        }
        if tokens.id_token.is_some() {
            self.id_token = tokens.id_token;
        }
        if let Some(scopes) = tokens.scopes {
            self.scopes = scopes;
        }
        self.expires_at = tokens.expires_in.map(|lifetime| now + lifetime.as_secs());
        self.received_at = now;
        self.renewals += 1;
    }
}

#[cfg(test)]
mod tests;
