//! The source of a server's credential: the one place that turns `auth` and its flags into a source.
//!
//! A server at a URL without a configured `Authorization` has a login by default. As long as no login is stored and the
//! server refuses nothing, its requests carry no credential and no other address is contacted.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mendline::credential::{CommandSource, CredentialSource, FileSource, HeaderForm, VariableSource};
use mendline::decisions::Secret;
use mendline::decisions::config::CredentialKind;
use mendline::observe::redact::Redactor;
use mendline::os::directories;
use mendline::os::files::is_readable_by_others;
use mendline::os::keyring::SystemKeyring;
use mendline::state::state_directory;
use mendline::transport::child::ChildCommand;
use mendline::transport::http::fetch::{AddressPolicy, Fetcher};
use mendline::transport::http::{ProxyRules, Target, TlsOptions};
use mendline_config::{Auth, ClientAuthMethod, ClientProof, CredentialHeader, KeyringUse, LoginStart, Resource};
use mendline_oauth::http::{HttpClient, HttpFuture, Request, address_policy};
use mendline_oauth::settings::{Algorithm, AuthMethod, Bearer, Redirect, RedirectHost, ResourceSetting};
use mendline_oauth::{
    ClientCredentialsSettings, ClientCredentialsSource, LimitedSource, LoginUi, OAuth, OAuthSource, Sealing, Settings,
    Store, settings,
};
use tokio::sync::OnceCell;

use super::{Address, Endpoint, Plan, exposure, extra_roots};
use crate::untrusted_text::one_line;
use crate::wrap::randomness::is_open_url;

/// The folder in which mcp-remote keeps its tokens, in the home directory.
const MCP_REMOTE: &str = ".mcp-auth";

/// The variable that names another folder for them.
const MCP_REMOTE_VARIABLE: &str = "MCP_REMOTE_CONFIG_DIR";

/// The variable that sets the use of the keyring.
const KEYRING: &str = "MENDLINE_KEYRING";

/// The largest file of a private key.
const MAX_KEY: u64 = 64 * 1024;

const NO_STATE: &str =
    "logins have no place: neither XDG_STATE_HOME nor HOME is set; set one of them, or write `\"auth\": false`";

impl Plan {
    /// Sets the kind of the credential, after the headers and `auth` are known.
    pub(super) fn set_credential_kind(&mut self) {
        if let Endpoint::Remote(address) = &self.endpoint {
            self.upstream.credential = match address.auth() {
                Auth::Off => CredentialKind::Fixed,
                Auth::OAuth(_) => CredentialKind::Login,
                _ => CredentialKind::Source,
            };
        }
    }

    /// Returns the source of the credential. With `person`, it may open the browser by itself.
    pub(crate) fn credential_source(
        &self,
        redactor: Redactor,
        person: Option<Arc<dyn LoginUi>>,
    ) -> Result<Option<Box<dyn CredentialSource>>, String> {
        match &self.endpoint {
            Endpoint::Child(_) => Ok(None),
            Endpoint::Remote(address) => address.source(&self.upstream.name, redactor, person),
        }
    }

    /// Returns whether a running Mendline may open the browser for a login.
    pub(crate) fn opens_browser(&self) -> bool {
        let Endpoint::Remote(address) = &self.endpoint else { return false };
        matches!(address.auth(), Auth::OAuth(oauth) if oauth.start == LoginStart::Auto)
    }
}

impl Address {
    /// Returns the source that is in effect: the written one, or the default.
    pub(crate) fn auth(&self) -> Auth {
        let has_header = self.header_names().any(|name| name.eq_ignore_ascii_case("authorization"));
        match &self.auth {
            _ if has_header && self.header_wins => Auth::Off,
            Some(auth) => auth.clone(),
            None if has_header || self.is_exposed() || state().is_none() => Auth::Off,
            None => Auth::OAuth(Box::default()),
        }
    }

    /// Returns the argument of `mendline login` for this server: its name, or its URL if that is not a secret.
    pub(crate) fn login_argument(&self, name: &str) -> String {
        match self.is_by_url {
            true if !self.is_hidden && is_open_url(self.url.expose()) => self.url.expose().to_owned(),
            true => "URL".to_owned(),
            false => name.to_owned(),
        }
    }

    /// Describes the written source, without secrets.
    pub(crate) fn source_words(&self) -> Option<String> {
        Some(match self.auth.as_ref()? {
            Auth::Off => "no login".to_owned(),
            Auth::Variable { name, .. } => format!("credential in the variable {name}"),
            Auth::File { path, .. } => format!("credential in the file {}", path.display()),
            Auth::Command { command, .. } => {
                format!("credential from `{}`", command.first().map(String::as_str).unwrap_or_default())
            }
            Auth::OAuth(oauth) => match &oauth.account {
                Some(account) => format!("login as {account}"),
                None => "login".to_owned(),
            },
            Auth::ClientCredentials(_) => "client credentials".to_owned(),
        })
    }

    /// Returns whether a credential would go to another machine unencrypted, which is not allowed.
    fn is_exposed(&self) -> bool {
        let token = [("Authorization", "Bearer x")];
        !self.allow_http && exposure::exposed(self.url.expose(), token).is_some()
    }

    /// Rejects a source whose credentials would go to another machine unencrypted.
    pub(super) fn check_source_exposure(&self) -> Result<(), String> {
        match &self.auth {
            Some(Auth::Off) | None => Ok(()),
            Some(_) if self.is_exposed() => {
                Err("the credential of `auth` would go to another machine unencrypted; use \
                                                 https://, or --allow-http if the network is trusted"
                    .to_owned())
            }
            Some(_) => Ok(()),
        }
    }

    /// Returns the secrets of the source.
    pub(super) fn auth_secrets(&self) -> Vec<Secret> {
        match &self.auth {
            Some(Auth::OAuth(oauth)) => {
                oauth.client_secret.iter().chain(oauth.parameters.iter().map(|(_, value)| value)).cloned().collect()
            }
            Some(Auth::ClientCredentials(client)) => match &client.proof {
                ClientProof::Secret(secret) => vec![secret.clone()],
                ClientProof::PrivateKey { .. } => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// Returns the parts and the settings of a login.
    pub(crate) fn login(&self, name: &str, redactor: Redactor) -> Result<(OAuth, Settings), String> {
        let Auth::OAuth(oauth) = self.auth() else {
            return Err(match self.auth {
                None if self.is_exposed() => {
                    "a login needs https://, because its token would go unencrypted".to_owned()
                }
                None if state().is_none() => NO_STATE.to_owned(),
                None => format!("{name:?} has an Authorization header, so it has no login; remove the header first"),
                Some(_) => format!("{name:?} has another credential in `auth`, so it has no login"),
            });
        };
        let parts = oauth_with(self.provider_client(oauth.allow_private)?, oauth.keyring, redactor)?;
        Ok((parts, self.settings(name, &oauth)))
    }

    fn settings(&self, name: &str, oauth: &mendline_config::OAuth) -> Settings {
        let mut settings = Settings::new(self.url.expose());
        // Messages name the argument of `mendline login`.
        settings.name = Some(self.login_argument(name));
        settings.account.clone_from(&oauth.account);
        settings.client_id.clone_from(&oauth.client_id);
        settings.client_secret.clone_from(&oauth.client_secret);
        settings.client_metadata_url.clone_from(&oauth.client_metadata_url);
        settings.scopes.clone_from(&oauth.scopes);
        let host = oauth.redirect_host.as_deref().map(|host| match host {
            "localhost" => RedirectHost::Localhost,
            _ => RedirectHost::Address,
        });
        settings.redirect = Redirect { host, port: oauth.redirect_port, path: oauth.redirect_path.clone() };
        settings.resource = resource(&oauth.resource);
        let parameters = oauth.parameters.iter();
        settings.parameters = parameters.map(|(name, value)| (name.clone(), value.expose().to_owned())).collect();
        settings.authorization_endpoint.clone_from(&oauth.authorization_endpoint);
        settings.token_endpoint.clone_from(&oauth.token_endpoint);
        settings.auth_method = oauth.method.map(method);
        settings.allow_private = oauth.allow_private;
        settings.allow_http = self.allow_http;
        settings.bearer = if oauth.sends_id_token { Bearer::IdToken } else { Bearer::AccessToken };
        settings
    }

    fn source(
        &self,
        name: &str,
        redactor: Redactor,
        person: Option<Arc<dyn LoginUi>>,
    ) -> Result<Option<Box<dyn CredentialSource>>, String> {
        let source: Box<dyn CredentialSource> = match self.auth() {
            Auth::Off => return Ok(None),
            Auth::Variable { name, header } => {
                let value = std::env::var(&name).ok().map(Secret::new);
                let source = VariableSource::new(&name, value.as_ref(), &form(&header)?);
                Box::new(source.map_err(|fault| format!("the variable {name} cannot be used: {fault}"))?)
            }
            Auth::File { path, header } => Box::new(FileSource::new(path, form(&header)?)),
            Auth::Command { command, timeout, header } => {
                let [program, arguments @ ..] = command.as_slice() else {
                    return Err("`auth.command` is empty".to_owned());
                };
                let command = ChildCommand::new(program, arguments.iter().map(OsString::from));
                let source = CommandSource::new(command.found_by_login_shell(), form(&header)?);
                Box::new(match timeout {
                    Some(limit) => source.time_limit(limit),
                    None => source,
                })
            }
            Auth::OAuth(_) => {
                let (oauth, settings) = self.login(name, redactor)?;
                let mut source = OAuthSource::new(oauth, settings);
                if let Some(folder) = mcp_remote_folder() {
                    source = source.adopt_from(folder, self.headers.clone());
                }
                if let Some(person) = person {
                    source = source.auto_login(person);
                }
                Box::new(source)
            }
            Auth::ClientCredentials(client) => {
                let oauth = oauth_with(self.provider_client(client.allow_private)?, None, redactor)?;
                Box::new(ClientCredentialsSource::new(oauth, self.client_credentials(&client)?))
            }
        };
        Ok(Some(match store() {
            Ok(store) => Box::new(LimitedSource::new(source, store, self.url.expose())),
            // Without a place for the counts, each process has its own pace.
            Err(_) => source,
        }))
    }

    /// Returns the HTTP client for requests about the login. The certificate of the client and the permission of
    /// unencrypted requests are for the server, not for its provider; the authorities are for both.
    fn provider_client(&self, allow_private: bool) -> Result<ProviderClient, String> {
        let server = self.url.expose().to_owned();
        let to_server = fetcher(self.tls_options()?)?.allow_http(self.allow_http);
        let to_host = fetcher(self.authorities()?)?.allow_http(self.allow_http);
        let to_others = fetcher(self.authorities()?)?;
        Ok(ProviderClient { to_server, to_host, to_others, server, allow_private, policy: OnceCell::new() })
    }

    fn client_credentials(
        &self,
        client: &mendline_config::ClientCredentials,
    ) -> Result<ClientCredentialsSettings, String> {
        let proof = match &client.proof {
            ClientProof::Secret(secret) => settings::ClientProof::Secret(secret.clone()),
            ClientProof::PrivateKey { path, algorithm, key_id } => settings::ClientProof::Key {
                pem: private_key(path)?,
                algorithm: Algorithm::parse(algorithm).ok_or("this algorithm is not known")?,
                key_id: key_id.clone(),
            },
        };
        Ok(ClientCredentialsSettings {
            server: self.url.expose().to_owned(),
            token_endpoint: client.token_endpoint.clone(),
            client_id: client.client_id.clone(),
            proof,
            auth_method: client.method.map(method),
            scopes: client.scopes.clone(),
            resource: resource(&client.resource),
            audience: client.audience.clone(),
            allow_private: client.allow_private,
        })
    }
}

/// Returns the store of the logins of this user, without the keyring.
pub(crate) fn store() -> Result<Store, String> {
    state().map(|state| Store::new(&state)).ok_or_else(|| NO_STATE.to_owned())
}

/// Returns the use of the keyring: as it is written, else as the variable says.
fn sealing(written: Option<KeyringUse>) -> Result<Sealing, String> {
    let chosen = match (written, std::env::var_os(KEYRING).filter(|value| !value.is_empty())) {
        (Some(written), _) => written,
        (None, None) => KeyringUse::Auto,
        (None, Some(value)) => value
            .to_str()
            .and_then(KeyringUse::parse)
            .ok_or_else(|| format!("the variable {KEYRING} must be auto, always or never"))?,
    };
    Ok(match chosen {
        KeyringUse::Auto => Sealing::Auto,
        KeyringUse::Always => Sealing::Always,
        KeyringUse::Never => Sealing::Never,
    })
}

fn state() -> Option<PathBuf> {
    state_directory(|name| std::env::var_os(name))
}

/// Returns an HTTP client for an authorization server that the operator has named, with the proxies and authorities of
/// this machine. It may have a private address.
pub(crate) fn issuer_client() -> Result<Fetcher, String> {
    Ok(fetcher(extra_roots()?)?.addresses(AddressPolicy::Any))
}

/// Returns the parts of OAuth for a server at this URL of which nothing else is known: the store, and an HTTP client with
/// the proxies and authorities of this machine.
pub(crate) fn oauth_for(server: &str, redactor: Redactor) -> Result<OAuth, String> {
    let plain = fetcher(extra_roots()?)?;
    let (to_server, to_host, to_others) = (plain.clone(), plain.clone(), plain);
    let (server, policy) = (server.to_owned(), OnceCell::new());
    let client = ProviderClient { to_server, to_host, to_others, server, allow_private: false, policy };
    oauth_with(client, None, redactor)
}

fn oauth_with(client: ProviderClient, keyring: Option<KeyringUse>, redactor: Redactor) -> Result<OAuth, String> {
    let system = SystemKeyring::from_variables(|name| std::env::var_os(name));
    let store = store()?.keyring(system, sealing(keyring)?);
    let oauth = OAuth::new(Arc::new(client), store).redactor(redactor);
    Ok(oauth.notices(|notice| eprintln!("warning: {}", one_line(notice))))
}

/// Returns a client with the proxies of this machine.
fn fetcher(tls: TlsOptions) -> Result<Fetcher, String> {
    let rules = ProxyRules::from_variables(std::env::vars()).map_err(|fault| fault.to_string())?;
    Ok(Fetcher::new().proxies(rules).tls(tls))
}

/// An HTTP client for requests to a server and its provider. A server names the provider, so private addresses are
/// refused unless the server itself has only such.
struct ProviderClient {
    /// For the origin of the server.
    to_server: Fetcher,
    /// For other ports of its host.
    to_host: Fetcher,
    to_others: Fetcher,
    /// The URL of the server.
    server: String,
    allow_private: bool,
    /// The addresses that are allowed, as soon as the name of the server can be looked up.
    policy: OnceCell<AddressPolicy>,
}

impl ProviderClient {
    async fn fetcher(&self, url: &str) -> Fetcher {
        let look_up = || async { address_policy(&self.server, self.allow_private).await.ok_or(()) };
        // Without a result the name is looked up again by the next request, for instance when a VPN is up.
        let policy = self.policy.get_or_try_init(look_up).await.copied().unwrap_or(AddressPolicy::Public);
        let chosen = match Receiver::of(url, &self.server) {
            Receiver::Server => &self.to_server,
            Receiver::Host => &self.to_host,
            Receiver::Other => &self.to_others,
        };
        chosen.clone().addresses(policy)
    }
}

/// The receiver of a request, in relation to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receiver {
    /// The same origin.
    Server,
    /// Another port or scheme of the same host.
    Host,
    Other,
}

impl Receiver {
    fn of(url: &str, server: &str) -> Receiver {
        let (Ok(to), Ok(server)) = (Target::parse(url), Target::parse(server)) else { return Receiver::Other };
        match to.origin() == server.origin() {
            true => Receiver::Server,
            false if to.origin().host() == server.origin().host() => Receiver::Host,
            false => Receiver::Other,
        }
    }
}

impl HttpClient for ProviderClient {
    fn send(&self, request: Request) -> HttpFuture<'_> {
        Box::pin(async move { self.fetcher(&request.url).await.send(request).await })
    }
}

/// Reads the file of a private key.
fn private_key(path: &Path) -> Result<Secret, String> {
    let shown = path.display();
    let metadata = std::fs::metadata(path).map_err(|error| format!("`privateKey`: {shown} cannot be read: {error}"))?;
    if metadata.len() > MAX_KEY {
        return Err(format!("`privateKey`: {shown} is too large for a key"));
    }
    if is_readable_by_others(&metadata) {
        return Err(format!("`privateKey`: other users can read {shown}; run: chmod 600 '{shown}'"));
    }
    let pem =
        std::fs::read_to_string(path).map_err(|error| format!("`privateKey`: {shown} cannot be read: {error}"))?;
    Ok(Secret::new(pem))
}

fn mcp_remote_folder() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let named = variable(MCP_REMOTE_VARIABLE).map(PathBuf::from);
    named.or_else(|| variable(directories::HOME).map(|home| Path::new(&home).join(MCP_REMOTE)))
}

fn form(header: &CredentialHeader) -> Result<HeaderForm, String> {
    HeaderForm::new(&header.name, &header.format).map_err(|fault| format!("`auth`: {fault}"))
}

fn resource(resource: &Resource) -> ResourceSetting {
    match resource {
        Resource::Discovered => ResourceSetting::Discovered,
        Resource::Fixed(text) => ResourceSetting::Fixed(text.clone()),
        Resource::Off => ResourceSetting::Off,
    }
}

fn method(method: ClientAuthMethod) -> AuthMethod {
    match method {
        ClientAuthMethod::None => AuthMethod::None,
        ClientAuthMethod::Basic => AuthMethod::ClientSecretBasic,
        ClientAuthMethod::Post => AuthMethod::ClientSecretPost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_of_the_client_goes_to_the_server_only() {
        let server = "https://mcp.example/mcp";
        for (url, receiver) in [
            ("https://MCP.example:443/.well-known/oauth-protected-resource", Receiver::Server),
            ("https://mcp.example:8443/token", Receiver::Host),
            ("http://mcp.example/token", Receiver::Host),
            ("https://mcp.example.evil.example/token", Receiver::Other),
            ("https://auth.example/token", Receiver::Other),
            ("nonsense", Receiver::Other),
        ] {
            assert_eq!(Receiver::of(url, server), receiver, "{url}");
        }
    }
}
