//! Client credentials: tokens for a machine, without a person.
//!
//! Each process has its own token, so nothing is stored and nothing is shared.

use std::time::Duration;

use mendline::credential::{Credential, CredentialSource, Occasion, SourceFuture};
use mendline::decisions::reason::CredentialError;

use crate::OAuth;
use crate::assertion::Signer;
use crate::authorize;
use crate::discovery::{Discovered, discover};
use crate::error::OAuthError;
use crate::metadata::Provider;
use crate::registration::{Client, ClientOrigin, method_for};
use crate::settings::{AuthMethod, ClientCredentialsSettings, ClientProof, Settings};
use crate::token::{self, Grant, TokenRequest};
use crate::url::Parts;

/// Client credentials: tokens for a machine, without a person.
pub struct ClientCredentialsSource {
    oauth: OAuth,
    settings: ClientCredentialsSettings,
    /// The result of the discovery, which is kept.
    found: Option<Discovered>,
    /// Whether the authorization server refuses the `resource` parameter.
    refuses_resource: bool,
}

impl ClientCredentialsSource {
    /// The source of this server.
    pub fn new(oauth: OAuth, settings: ClientCredentialsSettings) -> ClientCredentialsSource {
        ClientCredentialsSource { oauth, settings, found: None, refuses_resource: false }
    }

    /// Gets a new token.
    ///
    /// # Errors
    ///
    /// When the authorization server refuses or cannot be reached, or the key cannot be used.
    pub async fn token(&mut self) -> Result<Credential, OAuthError> {
        let found = self.found().await?;
        let (client, signer) = self.client(&found.provider)?;
        let settings = Settings {
            resource: self.settings.resource.clone(),
            scopes: self.settings.scopes.clone(),
            ..Settings::new(self.settings.server.clone())
        };
        // A machine asks for what its operator configured, else for what the server asks for.
        let scopes = match settings.scopes.as_slice() {
            [] => authorize::scopes(&settings, &found, &[]).into_iter().filter(|it| it != "offline_access").collect(),
            configured => configured.to_vec(),
        };
        let now = (self.oauth.clock)();
        let mut resource = authorize::resource(&settings, &found, self.refuses_resource);
        let result = loop {
            let request = TokenRequest {
                endpoint: &found.provider.token_endpoint,
                client: &client,
                signer: signer.as_ref(),
                grant: Grant::ClientCredentials { scopes: &scopes, audience: self.settings.audience.as_deref() },
                resource: resource.as_deref(),
            };
            let result = token::request(&self.oauth, &request).await?;
            if !result.refuses_resource() || resource.is_none() {
                break result;
            }
            self.refuses_resource = true;
            resource = None;
        };
        let tokens = result.into_tokens(&found.provider.token_endpoint)?;
        let expires_at = tokens.expires_in.map(|lifetime: Duration| now + lifetime);
        Ok(Credential::bearer(&tokens.access_token).expires_at(expires_at))
    }

    async fn found(&mut self) -> Result<Discovered, OAuthError> {
        if let Some(found) = &self.found {
            return Ok(found.clone());
        }
        let found = if let Some(endpoint) = &self.settings.token_endpoint {
            let issuer = Parts::of(endpoint).map_or(endpoint.as_str(), |parts| parts.origin).to_owned();
            let provider = Provider { issuer, token_endpoint: endpoint.clone(), ..Provider::default() };
            Discovered { provider, ..Discovered::default() }
        } else {
            let mut settings = Settings::new(self.settings.server.clone());
            settings.allow_private = self.settings.allow_private;
            discover(&self.oauth, &settings, &[]).await?
        };
        self.found = Some(found.clone());
        Ok(found)
    }

    fn client(&self, provider: &Provider) -> Result<(Client, Option<Signer>), OAuthError> {
        let (secret, signer, method) = match &self.settings.proof {
            ClientProof::Secret(secret) => {
                self.oauth.redactor.learn([secret]);
                let method = self.settings.auth_method.unwrap_or_else(|| method_for(provider, true));
                (Some(secret.clone()), None, method)
            }
            ClientProof::Key { pem, algorithm, key_id } => {
                let audience = match &self.settings.token_endpoint {
                    Some(endpoint) => endpoint.clone(),
                    None => provider.issuer.clone(),
                };
                let signer = Signer::new(pem.clone(), *algorithm, key_id.clone(), audience)?;
                (None, Some(signer), AuthMethod::PrivateKeyJwt)
            }
        };
        let id = self.settings.client_id.clone();
        let origin = ClientOrigin::Configured;
        Ok((Client { id, secret, method, origin, redirect: None, secret_expires_at: None }, signer))
    }
}

impl CredentialSource for ClientCredentialsSource {
    fn read<'a>(
        &'a mut self,
        _occasion: &'a Occasion,
    ) -> SourceFuture<'a, Result<Option<Credential>, CredentialError>> {
        Box::pin(async { self.token().await.map(Some).map_err(|error| error.for_engine()) })
    }

    fn retry_after(&self) -> Option<Duration> {
        super::pause_of(&self.oauth, &self.found.as_ref()?.provider.token_endpoint)
    }

    fn changed(&mut self) -> SourceFuture<'_, ()> {
        // Nothing but an expiry or a refusal changes it.
        Box::pin(std::future::pending())
    }
}
