//! Sources of credentials: a login of a person, and client credentials of a machine.
//!
//! A login is read from the store each time, because another process may have renewed or replaced it. After a refusal it
//! is renewed once, whatever the clock says. A server that refuses each new token at once gets a new one only after a
//! growing pause.

mod limited;
mod machine;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mendline::credential::{Credential, CredentialSource, Occasion, SourceFuture};
use mendline::decisions::Secret;
use mendline::decisions::reason::CredentialError;
use mendline::transport::http::Challenge;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

pub use self::limited::LimitedSource;
pub use self::machine::ClientCredentialsSource;
use crate::discovery::{current_issuers, has_endpoints};
use crate::error::OAuthError;
use crate::login::{LoggedIn, LoginOptions, login};
use crate::mcp_remote::McpRemote;
use crate::renew::renew;
use crate::settings::{Bearer, Settings};
use crate::store::counters::Demand;
use crate::store::record::{Login, from_seconds};
use crate::store::{Key, Stamp, Store};
use crate::text::quoted;
use crate::url::Parts;
use crate::{LoginUi, OAuth, identity};

/// The interval at which the store is checked while a login is needed.
const POLL_NEEDED: Duration = Duration::from_secs(1);

/// The interval at which the store is checked otherwise.
const POLL: Duration = Duration::from_secs(5);

/// A token that is refused within this time was never accepted, unless it expired.
const QUICK: Duration = Duration::from_secs(30);

/// The number of renewals in a row that were refused at once, before the pauses begin.
const QUICK_RENEWALS: u32 = 3;

/// The pause after a renewal that was refused, or whose result cannot be stored; each further one doubles it.
const FAILED_PAUSE: Duration = Duration::from_secs(60);

/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(3600);

/// The login to one server as a source of its credential.
pub struct OAuthSource {
    oauth: OAuth,
    settings: Settings,
    key: Key,
    auto_login: Option<Arc<dyn LoginUi>>,
    mcp_remote: Option<McpRemote>,
    /// The access token that was given last.
    last: Option<Secret>,
    /// The state of the store at the last read.
    seen: Option<Stamp>,
    needs_login: bool,
    /// The stored login could not be opened for want of its key.
    awaits_keyring: bool,
    /// A login that this source has started.
    flow: Option<JoinHandle<Result<LoggedIn, OAuthError>>>,
    /// The reason why that login failed.
    flow_error: Option<OAuthError>,
    quick_refusals: u32,
    /// The time at which a renewal may be tried again.
    pause_until: Option<Instant>,
    /// Renewals in a row that failed for a reason that waiting may not end.
    failures: u32,
    /// The origin that gets no requests before tomorrow, or before a login.
    limited: Option<String>,
}

impl OAuthSource {
    /// The source of this server. It never opens a browser.
    pub fn new(oauth: OAuth, settings: Settings) -> OAuthSource {
        let key = Store::key(&settings.server, settings.account.as_deref());
        OAuthSource {
            oauth,
            settings,
            key,
            auto_login: None,
            mcp_remote: None,
            last: None,
            seen: None,
            needs_login: false,
            awaits_keyring: false,
            flow: None,
            flow_error: None,
            quick_refusals: 0,
            pause_until: None,
            failures: 0,
            limited: None,
        }
    }

    /// Lets the source start a login by itself when the server refuses: once per cool-down, one per machine. The caller
    /// has checked that a person is there.
    pub fn auto_login(mut self, ui: Arc<dyn LoginUi>) -> OAuthSource {
        self.auto_login = Some(ui);
        self
    }

    /// Lets the source use valid tokens of mcp-remote in this directory, usually `~/.mcp-auth`, for requests with these
    /// headers. They are only read. With an account, only a token that names it is used.
    pub fn adopt_from(mut self, directory: PathBuf, headers: Vec<(String, Secret)>) -> OAuthSource {
        self.mcp_remote = Some(McpRemote { directory, headers });
        self
    }

    async fn read_login(&mut self, occasion: &Occasion) -> Result<Option<Credential>, CredentialError> {
        self.finish_flow().await;
        if *occasion == Occasion::Start {
            let (store, key) = (self.oauth.store().clone(), self.key.clone());
            // A slow keyring delays nothing. What fails is tried again by the next renewal.
            tokio::spawn(async move { store.convert(&key).await });
        }
        // The state is taken before the contents: a change in between is noticed by the next check.
        self.seen = self.oauth.store().stamp(&self.key);
        let loaded = self.oauth.store().load(&self.key).await;
        self.awaits_keyring = loaded.as_ref().is_err_and(OAuthError::awaits_keyring);
        self.needs_login = loaded.is_err();
        let stored = loaded.map_err(|error| error.for_engine())?;
        let result = match occasion {
            Occasion::Start | Occasion::Changed => self.current(stored).await,
            Occasion::Expiring => self.before_expiry(stored).await,
            Occasion::Refused { challenges } => self.after_refusal(stored, challenges).await,
        };
        self.skip_own_change().await;
        self.needs_login = matches!(&result, Err(why) if !why.can_pass());
        result
    }

    /// Takes note of the file that this source has just written itself. A login by another process meanwhile has
    /// another token, and is noticed by the next check.
    async fn skip_own_change(&mut self) {
        let stamp = self.oauth.store().stamp(&self.key);
        if let Ok(Some(login)) = self.oauth.store().load(&self.key).await
            && self.last.as_ref() == Some(&login.access_token)
        {
            self.seen = stamp;
        }
    }

    /// The stored login, renewed if it has expired.
    async fn current(&mut self, stored: Option<Login>) -> Result<Option<Credential>, CredentialError> {
        let Some(login) = stored else {
            return match (self.adopted(None), self.flow_error.take()) {
                (Some(adopted), _) => Ok(Some(adopted)),
                (None, Some(error)) => Err(error.for_engine()),
                (None, None) => Ok(None),
            };
        };
        let is_waiting = self.pause_until.is_some() || self.limited.is_some();
        let is_refused = is_waiting && self.last.as_ref() == Some(&login.access_token);
        let now = (self.oauth.clock)();
        if !login.ended && !is_refused && !login.expires_within(Duration::ZERO, now) {
            return Ok(Some(self.give(&login)));
        }
        if is_refused && !self.pause_is_over() {
            return Ok(Some(self.give(&login)));
        }
        (self.pause_until, self.limited) = (None, None);
        let renewed = self.renewed(&login, &[]).await;
        if is_waiting && renewed.as_ref().is_err_and(CredentialError::can_pass) {
            // The engine waits for nothing any more, so that only this source asks again.
            self.pause_until = Some(Instant::now() + FAILED_PAUSE);
        }
        renewed
    }

    /// A renewed login; the old one as long as it is valid.
    async fn before_expiry(&mut self, stored: Option<Login>) -> Result<Option<Credential>, CredentialError> {
        let Some(login) = stored else { return self.current(None).await };
        let is_newer = self.last.as_ref() != Some(&login.access_token);
        let is_valid = !login.ended && !login.expires_within(Duration::ZERO, (self.oauth.clock)());
        if is_valid && (is_newer || login.refresh_token.is_none()) {
            return Ok(Some(self.give(&login)));
        }
        self.renewed(&login, &[]).await
    }

    async fn after_refusal(
        &mut self,
        stored: Option<Login>,
        challenges: &[Challenge],
    ) -> Result<Option<Credential>, CredentialError> {
        let Some(login) = stored else {
            if let Some(adopted) = self.adopted(self.last.clone().as_ref()) {
                return Ok(Some(adopted));
            }
            return Err(self.start_login(challenges, CredentialError::NoLogin, Demand::Login).await);
        };
        let now = (self.oauth.clock)();
        let is_expired = login.expires_within(Duration::ZERO, now);
        if self.last.as_ref() != Some(&login.access_token) && !is_expired && !login.ended {
            return Ok(Some(self.give(&login)));
        }
        if let Some(challenge) = challenges.iter().find(|challenge| challenge.is_insufficient_scope()) {
            return Err(self.more_scopes(login, challenge, challenges).await);
        }
        let has_endpoints = has_endpoints(&self.settings);
        if !is_expired && !has_endpoints && self.has_moved(&login, challenges).await {
            return Err(self.start_login(challenges, CredentialError::NoLogin, Demand::New).await);
        }
        let age = now.duration_since(from_seconds(login.received_at)).unwrap_or_default();
        if is_expired || age > QUICK || login.renewals == 0 {
            self.quick_refusals = 0;
        } else {
            self.quick_refusals += 1;
            if self.quick_refusals >= QUICK_RENEWALS {
                let pause = QUICK * 2u32.saturating_pow((self.quick_refusals - QUICK_RENEWALS).min(10));
                self.pause_until = Some(Instant::now() + pause.min(MAX_PAUSE));
                return Ok(Some(self.give(&login)));
            }
        }
        self.renewed(&login, challenges).await
    }

    async fn renewed(
        &mut self,
        login: &Login,
        challenges: &[Challenge],
    ) -> Result<Option<Credential>, CredentialError> {
        let renewed = renew(&self.oauth, &self.settings, &login.access_token).await;
        self.note_renewal(&renewed);
        match renewed {
            Ok(login) => Ok(Some(self.give(&login))),
            Err(OAuthError::LoginEnded { .. } | OAuthError::NoLogin { .. }) => {
                Err(self.start_login(challenges, CredentialError::LoginEnded, Demand::Login).await)
            }
            Err(OAuthError::Denied { error, .. }) if error == "invalid_client" => {
                Err(self.start_login(challenges, CredentialError::LoginEnded, Demand::Login).await)
            }
            Err(error) => Err(error.for_engine()),
        }
    }

    /// Takes note of a failure after which nothing else would ask again: the source itself does that later.
    fn note_renewal(&mut self, renewed: &Result<Login, OAuthError>) {
        match renewed {
            Ok(_) => (self.failures, self.pause_until, self.limited) = (0, None, None),
            Err(OAuthError::Ceiling { origin, .. }) => self.limited = Some(origin.clone()),
            Err(OAuthError::Denied { .. } | OAuthError::Store { .. }) => {
                let pause = FAILED_PAUSE * 2u32.saturating_pow(self.failures.min(10));
                self.failures = self.failures.saturating_add(1);
                self.pause_until = Some(Instant::now() + pause.min(MAX_PAUSE));
            }
            Err(_) => {}
        }
    }

    /// Starts a login with more scopes, unless they were requested already.
    async fn more_scopes(&mut self, login: Login, challenge: &Challenge, all: &[Challenge]) -> CredentialError {
        let wanted = challenge.scope.as_deref().unwrap_or_default();
        let reason = CredentialError::Scope { scopes: quoted(&self.oauth.redactor, wanted) };
        let wanted: Vec<String> = wanted.split_whitespace().map(str::to_owned).collect();
        if wanted.iter().all(|scope| login.requested_scopes.contains(scope)) {
            return reason;
        }
        // A later `mendline login` requests them, too.
        if login.wanted_scopes != wanted {
            self.remember_scopes(wanted).await;
        }
        self.start_login(all, reason, Demand::New).await
    }

    async fn remember_scopes(&self, wanted: Vec<String>) {
        let store = self.oauth.store();
        let Ok(_lock) = store.lock(&self.key, POLL).await else { return };
        if let Ok(Some(mut login)) = store.load(&self.key).await {
            login.wanted_scopes = wanted;
            let _ = store.save(&self.key, &login).await;
        }
    }

    /// Returns whether the server now has another authorization server: tokens of the old one are of no use.
    async fn has_moved(&self, login: &Login, challenges: &[Challenge]) -> bool {
        let issuers = current_issuers(&self.oauth, &self.settings, challenges).await;
        let same = |issuer: &String| issuer.trim_end_matches('/') == login.issuer.trim_end_matches('/');
        issuers.is_some_and(|issuers| !issuers.iter().any(same))
    }

    /// Starts a login if that is allowed and the cool-down is over. Returns the reason why there is no credential now.
    async fn start_login(
        &mut self,
        challenges: &[Challenge],
        reason: CredentialError,
        demand: Demand,
    ) -> CredentialError {
        let Some(ui) = self.auto_login.clone() else { return reason };
        if self.flow.is_some() {
            return CredentialError::LoginPending;
        }
        let is_other = matches!(self.oauth.store().try_flow_lock(&self.key), Ok(None));
        if is_other {
            return CredentialError::LoginPending;
        }
        if !self.oauth.store().may_open_browser(&self.key, demand, (self.oauth.clock)()).await {
            return reason;
        }
        let (oauth, settings) = (self.oauth.clone(), self.settings.clone());
        let options = LoginOptions { challenges: challenges.to_vec(), ..LoginOptions::default() };
        self.flow = Some(tokio::spawn(async move { login(&oauth, &settings, &options, &*ui).await }));
        CredentialError::LoginPending
    }

    /// Takes the result of a login that has ended.
    async fn finish_flow(&mut self) {
        if self.flow.as_ref().is_some_and(JoinHandle::is_finished)
            && let Some(flow) = self.flow.take()
        {
            self.flow_error = flow.await.ok().and_then(Result::err);
        }
    }

    /// A valid token of mcp-remote, unless it is this refused one.
    fn adopted(&mut self, refused: Option<&Secret>) -> Option<Credential> {
        let found = self.mcp_remote.as_ref()?.token(&self.settings, (self.oauth.clock)())?;
        if refused == Some(&found.access_token) {
            return None;
        }
        let account = self.settings.account.as_deref();
        if account.is_some_and(|account| !identity::is_of(found.id_token.as_ref(), account)) {
            return None;
        }
        self.oauth.redactor.learn_renewed([&found.access_token]);
        self.last = Some(found.access_token.clone());
        Some(Credential::bearer(&found.access_token).expires_at(found.expires_at))
    }

    fn give(&mut self, login: &Login) -> Credential {
        self.last = Some(login.access_token.clone());
        credential(&self.oauth, &self.settings, login)
    }

    fn pause_is_over(&self) -> bool {
        let is_limited = |origin: &String| self.oauth.store().check_ceiling(origin, (self.oauth.clock)()).is_err();
        self.pause_until.is_none_or(|until| Instant::now() >= until) && !self.limited.as_ref().is_some_and(is_limited)
    }
}

/// The credential of a login. Its secrets are known to the redactor.
pub(crate) fn credential(oauth: &OAuth, settings: &Settings, login: &Login) -> Credential {
    let token = match (settings.bearer, &login.id_token) {
        (Bearer::IdToken, Some(token)) => token,
        _ => &login.access_token,
    };
    oauth.redactor.learn_renewed([token]);
    oauth.redactor.learn_renewed(&login.refresh_token);
    oauth.redactor.learn(&login.client.secret);
    Credential::bearer(token).expires_at(login.expires_at.map(from_seconds))
}

/// Returns the rest of the pause that a token endpoint asked for.
fn pause_of(oauth: &OAuth, endpoint: &str) -> Option<Duration> {
    let origin = Parts::of(endpoint).map_or(endpoint, |parts| parts.origin);
    oauth.store().pause(origin, (oauth.clock)())
}

/// Returns whether a login is valid for this time, in which case it needs no renewal.
pub(crate) fn is_fresh(oauth: &OAuth, login: &Login, margin: Duration) -> bool {
    // A short-lived token is fresh for most of its life.
    let lifetime = login.expires_at.map(|at| Duration::from_secs(at.saturating_sub(login.received_at)));
    let margin = lifetime.map_or(margin, |lifetime| margin.min(lifetime / 4));
    !login.ended && !login.expires_within(margin, (oauth.clock)())
}

impl CredentialSource for OAuthSource {
    fn read<'a>(&'a mut self, occasion: &'a Occasion) -> SourceFuture<'a, Result<Option<Credential>, CredentialError>> {
        Box::pin(self.read_login(occasion))
    }

    fn retry_after(&self) -> Option<Duration> {
        let login = self.oauth.store().peek(&self.key).ok().flatten()?;
        pause_of(&self.oauth, &login.token_endpoint)
    }

    fn changed(&mut self) -> SourceFuture<'_, ()> {
        Box::pin(async {
            loop {
                let interval = if self.needs_login || self.flow.is_some() { POLL_NEEDED } else { POLL };
                sleep(interval).await;
                let flow_ended = self.flow.as_ref().is_some_and(JoinHandle::is_finished);
                let is_waiting = self.pause_until.is_some() || self.limited.is_some();
                let pause_ended = is_waiting && self.pause_is_over();
                self.oauth.store().unsaved(&self.key).await;
                if self.awaits_keyring && self.oauth.store().load(&self.key).await.is_ok() {
                    return;
                }
                if flow_ended || pause_ended || self.oauth.store().stamp(&self.key) != self.seen {
                    return;
                }
            }
        })
    }
}

#[cfg(test)]
mod tests;
