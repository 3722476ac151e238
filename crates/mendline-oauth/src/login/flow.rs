//! The steps of one interactive login.
//!
//! Discovery, the listener, the client, the browser, the code, the tokens, the identity, the store. Two answers of an
//! authorization server lead to one more round in the same browser page: it refuses the `resource` parameter, or it has
//! forgotten the registered client.

use std::time::Duration;

use mendline::decisions::Secret;
use tokio::time::{Instant, sleep, sleep_until};

use super::{LOCK_WITHIN, LoginOptions, Way};
use crate::authorize::{self, AuthorizationRequest, RequestParts, Verdict};
use crate::callback::{Browser, Callback, Page};
use crate::device::{self, DeviceLogin};
use crate::discovery::{Discovered, discover};
use crate::error::OAuthError;
use crate::identity;
use crate::profile::Profile;
use crate::registration::{Client, ClientOrigin, client_for};
use crate::revoke::revoke;
use crate::settings::{RedirectHost, Settings};
use crate::store::Key;
use crate::store::record::{Known, Login, seconds};
use crate::token::{self, Grant, TokenRequest, TokenResult, Tokens};
use crate::url::{AddressRule, Parts};
use crate::{LoginUi, OAuth, Progress};

/// The path of the redirect URL, unless it is configured.
const PATH: &str = "/callback";

/// The attempts to exchange a code while the authorization server fails.
const EXCHANGES: u32 = 3;

/// One interactive login.
pub(super) struct Flow<'a> {
    oauth: &'a OAuth,
    settings: &'a Settings,
    options: &'a LoginOptions,
    ui: &'a dyn LoginUi,
    key: Key,
    deadline: Instant,
}

/// The facts that are known before the person confirms.
struct Plan {
    found: Discovered,
    known: Known,
    scopes: Vec<String>,
    resource: Option<String>,
}

/// A code, and the browser that waits for a page.
struct Confirmation {
    code: Secret,
    browser: Option<Browser>,
}

/// The reason why the person was not led back with a code.
struct NotConfirmed {
    error: OAuthError,
    browser: Option<Browser>,
}

/// The result of one round.
enum Round {
    Done(Tokens, Option<Browser>),
    /// Another round is needed; the browser goes on to its address.
    Again(Option<Browser>),
    Failed(OAuthError, Option<Browser>),
}

impl<'a> Flow<'a> {
    pub(super) fn new(
        oauth: &'a OAuth,
        settings: &'a Settings,
        options: &'a LoginOptions,
        ui: &'a dyn LoginUi,
        key: Key,
        deadline: Instant,
    ) -> Flow<'a> {
        Flow { oauth, settings, options, ui, key, deadline }
    }

    /// Logs in and stores the login.
    pub(super) async fn run(self) -> Result<Login, OAuthError> {
        let plan = self.plan().await?;
        if self.options.way == Way::Device {
            return self.by_device(plan).await;
        }
        if !plan.found.provider.pkce {
            return Err(OAuthError::NoPkce { issuer: plan.found.provider.issuer });
        }
        let mut callback = self.listen(&plan).await?;
        let (result, browser) = self.by_browser(plan, &mut callback).await;
        if let Some(browser) = browser {
            match &result {
                Ok(_) => browser.show(Page::Worked { name: self.settings.shown_name() }).await,
                Err(error) => browser.show(Page::Failed { why: &error.to_string() }).await,
            }
        }
        callback.close().await;
        result
    }

    async fn plan(&self) -> Result<Plan, OAuthError> {
        let found = discover(self.oauth, self.settings, &self.options.challenges).await?;
        self.ui.progress(&Progress::Found { issuer: found.provider.issuer.clone() });
        let mut known = self.oauth.store.known(&found.provider.issuer).await?;
        if self.options.new_registration {
            known.registration = None;
        }
        let earlier = self.oauth.store.peek(&self.key)?.filter(|login| login.issuer == found.provider.issuer);
        let wants_more = self.options.challenges.iter().any(|challenge| challenge.is_insufficient_scope());
        let earlier = match earlier {
            Some(login) if wants_more || !login.wanted_scopes.is_empty() => {
                login.requested_scopes.into_iter().chain(login.wanted_scopes).collect()
            }
            _ => Vec::new(),
        };
        let scopes = authorize::scopes(self.settings, &found, &earlier);
        let resource = authorize::resource(self.settings, &found, known.quirks.refuses_resource);
        Ok(Plan { found, known, scopes, resource })
    }

    /// Binds the listener: the configured port, else that of the registration if it is free, else a free one.
    async fn listen(&self, plan: &Plan) -> Result<Callback, OAuthError> {
        let profile = Profile::of(&plan.found.provider);
        let redirect = &self.settings.redirect;
        let fixed_host = self.options.host.or(redirect.host).or(profile.redirect_host);
        let registered = plan.known.registration.as_ref().and_then(|client| Parts::of(client.redirect.as_deref()?));
        let registered_host = registered.map(|parts| match parts.host {
            "localhost" => RedirectHost::Localhost,
            _ => RedirectHost::Address,
        });
        let host = fixed_host.or(registered_host).unwrap_or(RedirectHost::Address);
        let path = redirect.path.as_deref().or(profile.redirect_path).unwrap_or(PATH);
        if let Some(port) = self.options.port.or(redirect.port).or(profile.redirect_port) {
            return Callback::bind(host, port, path).await;
        }
        let port = plan.known.registration.as_ref().and_then(Client::redirect_port);
        match Callback::bind(host, port.unwrap_or(0), path).await {
            Err(_) if port.is_some() => Callback::bind(host, 0, path).await,
            other => other,
        }
    }

    async fn by_device(self, mut plan: Plan) -> Result<Login, OAuthError> {
        if plan.found.provider.device_endpoint.is_none() {
            return Err(OAuthError::NoDeviceLogin { issuer: plan.found.provider.issuer });
        }
        // Registrations need a redirect URL, although this way does not use it.
        let known = plan.known.registration.as_ref().and_then(|client| client.redirect.clone());
        let redirect = known.unwrap_or_else(|| format!("http://127.0.0.1{PATH}"));
        let client = self.client(&mut plan, &redirect).await?.0;
        let login = DeviceLogin {
            provider: &plan.found.provider,
            client: &client,
            scopes: &plan.scopes,
            resource: plan.resource.as_deref(),
            rule: AddressRule::of(self.settings),
        };
        let result = tokio::select! {
            result = device::run(self.oauth, &login, self.ui) => result,
            () = sleep_until(self.deadline) => Err(OAuthError::DeviceExpired),
        };
        self.store(&plan, client, result?).await
    }

    /// Runs rounds until one succeeds or fails. Returns the browser that waits for the last page.
    async fn by_browser(
        &self,
        mut plan: Plan,
        callback: &mut Callback,
    ) -> (Result<Login, OAuthError>, Option<Browser>) {
        let redirect = callback.redirect().to_owned();
        let mut waiting = None;
        loop {
            let (client, is_new) = match self.client(&mut plan, &redirect).await {
                Ok(client) => client,
                Err(error) => return (Err(error), waiting),
            };
            match self.round(&mut plan, &client, is_new, callback, waiting.take()).await {
                Round::Done(tokens, browser) => return (self.store(&plan, client, tokens).await, browser),
                Round::Failed(error, browser) => return (Err(error), browser),
                Round::Again(browser) => waiting = browser,
            }
        }
    }

    async fn round(
        &self,
        plan: &mut Plan,
        client: &Client,
        is_new: bool,
        callback: &mut Callback,
        waiting: Option<Browser>,
    ) -> Round {
        let request = AuthorizationRequest::new(&RequestParts {
            provider: &plan.found.provider,
            client_id: &client.id,
            redirect: callback.redirect(),
            scopes: &plan.scopes,
            resource: plan.resource.as_deref(),
            parameters: &self.settings.parameters,
        });
        let request = match request {
            Ok(request) => request,
            Err(error) => return Round::Failed(error, waiting),
        };
        self.present(&request, callback, waiting).await;
        let confirmation = match self.confirmation(&request, callback, client, is_new).await {
            Ok(confirmation) => confirmation,
            Err(NotConfirmed { error, browser }) => {
                let refused =
                    matches!(&error, OAuthError::AuthorizationDenied { error, .. } if error == "invalid_target");
                if refused && plan.resource.is_some() {
                    self.drop_resource(plan).await;
                    return Round::Again(browser);
                }
                if matches!(error, OAuthError::NoCallback { registered_before: true, .. }) {
                    self.forget_registration(plan).await;
                }
                return Round::Failed(error, browser);
            }
        };
        self.ui.progress(&Progress::Exchanging);
        let browser = confirmation.browser;
        match self.exchange(plan, client, &request, &confirmation.code, callback.redirect()).await {
            Ok(TokenResult::Granted(tokens)) => Round::Done(tokens, browser),
            Ok(result) if result.is_invalid_client() && client.origin == ClientOrigin::Registered && !is_new => {
                self.forget_registration(plan).await;
                Round::Again(browser)
            }
            Ok(result) => match result.into_tokens(&plan.found.provider.token_endpoint) {
                Ok(tokens) => Round::Done(tokens, browser),
                Err(error) => Round::Failed(error, browser),
            },
            Err(error) => Round::Failed(error, browser),
        }
    }

    /// Leads the person to the address: on in the page that waits, or in a new one.
    async fn present(&self, request: &AuthorizationRequest, callback: &Callback, waiting: Option<Browser>) {
        if let Some(browser) = waiting {
            browser.redirect(&request.url).await;
            return;
        }
        self.ui.progress(&Progress::Listening { redirect: callback.redirect().to_owned() });
        let opened = self.options.way == Way::Browser && self.ui.open_browser(&request.url);
        self.ui.show_url(&request.url, opened);
    }

    /// Waits for the callback or a pasted text; the first valid one wins.
    async fn confirmation(
        &self,
        request: &AuthorizationRequest,
        callback: &mut Callback,
        client: &Client,
        is_new: bool,
    ) -> Result<Confirmation, NotConfirmed> {
        let mut may_paste = true;
        loop {
            let (verdict, browser) = tokio::select! {
                Some(query) = callback.next() => (request.judge(&query.text), Some(query.browser)),
                line = self.ui.read_line(), if may_paste => match line {
                    Some(line) => (request.judge_pasted(&line), None),
                    None => {
                        may_paste = false;
                        continue;
                    }
                },
                () = sleep_until(self.deadline) => {
                    let registered_before = client.origin == ClientOrigin::Registered && !is_new;
                    let error = OAuthError::NoCallback { after: self.options.timeout, registered_before };
                    return Err(NotConfirmed { error, browser: None });
                }
            };
            match verdict {
                Verdict::Code(code) => {
                    self.oauth.redactor.learn([&code]);
                    return Ok(Confirmation { code, browser });
                }
                Verdict::Failed(error) => return Err(NotConfirmed { error, browser }),
                Verdict::Ignored(why) => {
                    self.ui.progress(&Progress::Ignored { why: why.to_owned() });
                    if let Some(browser) = browser {
                        browser.show(Page::Ignored).await;
                    }
                }
            }
        }
    }

    /// Exchanges the code. An authorization server that fails is asked again, one that refuses the resource without it.
    async fn exchange(
        &self,
        plan: &mut Plan,
        client: &Client,
        request: &AuthorizationRequest,
        code: &Secret,
        redirect: &str,
    ) -> Result<TokenResult, OAuthError> {
        let mut attempt = 1;
        loop {
            let grant = Grant::Code { code, verifier: request.verifier.secret(), redirect };
            let endpoint = &plan.found.provider.token_endpoint;
            let resource = plan.resource.as_deref();
            let result =
                token::request(self.oauth, &TokenRequest { endpoint, client, signer: None, grant, resource }).await?;
            match result {
                TokenResult::Unavailable { .. } if attempt < EXCHANGES => {
                    sleep(Duration::from_secs(u64::from(attempt))).await;
                    attempt += 1;
                }
                result if result.refuses_resource() && plan.resource.is_some() => self.drop_resource(plan).await,
                result => return Ok(result),
            }
        }
    }

    /// Returns the client and whether it is new. A new registration is stored before it is used.
    async fn client(&self, plan: &mut Plan, redirect: &str) -> Result<(Client, bool), OAuthError> {
        let known = plan.known.registration.as_ref();
        let (client, is_new) = client_for(self.oauth, self.settings, &plan.found.provider, known, redirect).await?;
        self.oauth.redactor.learn(client.secret.iter());
        if is_new {
            plan.known.registration = Some(client.clone());
            self.oauth.store.save_known(&plan.known).await?;
            self.ui.progress(&Progress::Registered { issuer: plan.known.issuer.clone() });
        }
        Ok((client, is_new))
    }

    async fn drop_resource(&self, plan: &mut Plan) {
        self.ui.progress(&Progress::WithoutResource);
        plan.resource = None;
        plan.known.quirks.refuses_resource = true;
        // It is found out again if it cannot be stored.
        let _ = self.oauth.store.save_known(&plan.known).await;
    }

    async fn forget_registration(&self, plan: &mut Plan) {
        plan.known.registration = None;
        let _ = self.oauth.store.save_known(&plan.known).await;
    }

    /// Checks who logged in, and stores the login in place of an earlier one.
    async fn store(&self, plan: &Plan, client: Client, tokens: Tokens) -> Result<Login, OAuthError> {
        let now = seconds((self.oauth.clock)());
        let provider = &plan.found.provider;
        let identity = identity::of(self.oauth, provider, &tokens).await;
        let _lock = self.oauth.store.lock(&self.key, LOCK_WITHIN).await?;
        let earlier = self.oauth.store.peek(&self.key)?.and_then(|login| login.identity);
        let account = self.settings.account.as_deref();
        if let Err(error) = identity::check_account(account, earlier.as_ref(), identity.as_ref()) {
            if let Some(endpoint) = &provider.revocation_endpoint {
                let token = tokens.refresh_token.as_ref().unwrap_or(&tokens.access_token);
                let _ = revoke(self.oauth, endpoint, &client, token, tokens.refresh_token.is_some()).await;
            }
            return Err(error);
        }
        let login = Login {
            server: self.settings.server.clone(),
            account: self.settings.account.clone(),
            issuer: provider.issuer.clone(),
            authorization_endpoint: provider.authorization_endpoint.clone(),
            token_endpoint: provider.token_endpoint.clone(),
            revocation_endpoint: provider.revocation_endpoint.clone(),
            resource: plan.resource.clone(),
            client,
            requested_scopes: plan.scopes.clone(),
            wanted_scopes: Vec::new(),
            scopes: tokens.scopes.unwrap_or_else(|| plan.scopes.clone()),
            access_token: tokens.access_token,
            refresh_token: tokens.refresh_token,
            id_token: tokens.id_token,
            expires_at: tokens.expires_in.map(|lifetime| now + lifetime.as_secs()),
            received_at: now,
            renewals: 0,
            identity,
            quirks: plan.known.quirks,
            ended: false,
        };
        self.oauth.store.save(&self.key, &login).await?;
        self.oauth.store.login_succeeded(&self.key, (self.oauth.clock)()).await;
        for url in [&self.settings.server, &login.token_endpoint] {
            let origin = Parts::of(url).map_or(url.as_str(), |parts| parts.origin);
            self.oauth.store.forgive(origin, (self.oauth.clock)()).await;
        }
        Ok(login)
    }
}
