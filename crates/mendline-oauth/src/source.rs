//! Sources of credentials: a login, and client credentials.

use std::path::PathBuf;
use std::sync::Arc;

use mendline::credential::{Credential, CredentialSource, Occasion, SourceFuture};
use mendline::decisions::reason::CredentialError;

use crate::settings::{ClientCredentialsSettings, Settings};
use crate::{LoginUi, OAuth};

/// The login to one server as a source of its credential.
pub struct OAuthSource {
    oauth: OAuth,
    settings: Settings,
    auto_login: Option<Arc<dyn LoginUi>>,
    adopt_from: Option<PathBuf>,
}

impl OAuthSource {
    /// The source of this server. It never opens a browser.
    pub fn new(oauth: OAuth, settings: Settings) -> OAuthSource {
        OAuthSource { oauth, settings, auto_login: None, adopt_from: None }
    }

    /// Lets the source start a login by itself when the server refuses: once per cool-down, one per machine. The caller
    /// has checked that a person is there.
    pub fn auto_login(mut self, ui: Arc<dyn LoginUi>) -> OAuthSource {
        self.auto_login = Some(ui);
        self
    }

    /// Lets the source use valid tokens of mcp-remote in this directory, usually `~/.mcp-auth`. They are only read.
    pub fn adopt_from(mut self, mcp_auth: PathBuf) -> OAuthSource {
        self.adopt_from = Some(mcp_auth);
        self
    }
}

impl CredentialSource for OAuthSource {
    fn read<'a>(
        &'a mut self,
        _occasion: &'a Occasion,
    ) -> SourceFuture<'a, Result<Option<Credential>, CredentialError>> {
        let _ = (&self.oauth, &self.settings, &self.auto_login, &self.adopt_from);
        Box::pin(async { Ok(None) })
    }

    fn changed(&mut self) -> SourceFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

/// Client credentials: tokens for a machine, without a person.
pub struct ClientCredentialsSource {
    oauth: OAuth,
    settings: ClientCredentialsSettings,
}

impl ClientCredentialsSource {
    /// The source of this server.
    pub fn new(oauth: OAuth, settings: ClientCredentialsSettings) -> ClientCredentialsSource {
        ClientCredentialsSource { oauth, settings }
    }
}

impl CredentialSource for ClientCredentialsSource {
    fn read<'a>(
        &'a mut self,
        _occasion: &'a Occasion,
    ) -> SourceFuture<'a, Result<Option<Credential>, CredentialError>> {
        let _ = (&self.oauth, &self.settings);
        Box::pin(async { Ok(None) })
    }

    fn changed(&mut self) -> SourceFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}
