//! The source of the credential of a server, as `auth` names it.

use std::path::PathBuf;
use std::time::Duration;

use mendline::decisions::Secret;

/// The source of the credential of a server at a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// No source: only the configured headers.
    Off,
    /// An environment variable.
    Variable {
        /// Its name.
        name: String,
        /// The header that carries the credential.
        header: CredentialHeader,
    },
    /// A file, which is read again when it changes.
    File {
        /// Its path.
        path: PathBuf,
        /// The header that carries the credential.
        header: CredentialHeader,
    },
    /// A program that prints the credential.
    Command {
        /// The program and its arguments.
        command: Vec<String>,
        /// The time limit, if configured.
        timeout: Option<Duration>,
        /// The header that carries the credential.
        header: CredentialHeader,
    },
    /// A login of a person.
    OAuth(Box<OAuth>),
    /// A login of a program.
    ClientCredentials(Box<ClientCredentials>),
}

/// The header that carries a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialHeader {
    /// Its name.
    pub name: String,
    /// Its value; `{}` is replaced by the credential.
    pub format: String,
}

impl Default for CredentialHeader {
    fn default() -> Self {
        CredentialHeader { name: "Authorization".to_owned(), format: "Bearer {}".to_owned() }
    }
}

/// The settings of a login of a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OAuth {
    /// The id of a registered client.
    pub client_id: Option<String>,
    /// The secret of the client.
    pub client_secret: Option<Secret>,
    /// The URL of a client id metadata document.
    pub client_metadata_url: Option<String>,
    /// The scopes to request.
    pub scopes: Vec<String>,
    /// The account of this login.
    pub account: Option<String>,
    /// The host that the browser returns to.
    pub redirect_host: Option<String>,
    /// The port that the browser returns to.
    pub redirect_port: Option<u16>,
    /// The path that the browser returns to.
    pub redirect_path: Option<String>,
    /// The resource indicator.
    pub resource: Resource,
    /// Further parameters of the authorization request.
    pub parameters: Vec<(String, Secret)>,
    /// The authorization endpoint, if it is not to be discovered.
    pub authorization_endpoint: Option<String>,
    /// The token endpoint, if it is not to be discovered.
    pub token_endpoint: Option<String>,
    /// The authentication of the client at the token endpoint.
    pub method: Option<ClientAuthMethod>,
    /// The id token is sent to the server in place of the access token.
    pub sends_id_token: bool,
    /// The provider may have a private address although the server has a public one.
    pub allow_private: bool,
    /// Who starts a login.
    pub start: LoginStart,
    /// The use of the system keyring, if it is written.
    pub keyring: Option<KeyringUse>,
}

/// The settings of a login of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCredentials {
    /// The id of the client.
    pub client_id: String,
    /// The proof of the client.
    pub proof: ClientProof,
    /// The scopes to request.
    pub scopes: Vec<String>,
    /// The resource indicator.
    pub resource: Resource,
    /// The audience of the token.
    pub audience: Option<String>,
    /// The token endpoint, if it is not to be discovered.
    pub token_endpoint: Option<String>,
    /// The authentication of the client at the token endpoint.
    pub method: Option<ClientAuthMethod>,
    /// The provider may have a private address although the server has a public one.
    pub allow_private: bool,
}

/// The proof of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientProof {
    /// A secret.
    Secret(Secret),
    /// A signature with a private key.
    PrivateKey {
        /// The file of the key.
        path: PathBuf,
        /// The algorithm: ES256, RS256 or EdDSA.
        algorithm: &'static str,
        /// The id of the key.
        key_id: Option<String>,
    },
}

/// The resource indicator of token requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Resource {
    /// The one that discovery finds.
    #[default]
    Discovered,
    /// This one, as it is written.
    Fixed(String),
    /// None.
    Off,
}

/// The authentication of a client at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuthMethod {
    /// Only the id of the client.
    None,
    /// `client_secret_basic`.
    Basic,
    /// `client_secret_post`.
    Post,
}

/// The use of the system keyring for a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyringUse {
    /// The login is sealed if there is a keyring that is not locked.
    Auto,
    /// The login is not stored without a key in the keyring.
    Always,
    /// The login is not sealed.
    Never,
}

impl KeyringUse {
    /// Parses the word of the configuration.
    pub fn parse(word: &str) -> Option<KeyringUse> {
        match word {
            "auto" => Some(KeyringUse::Auto),
            "always" => Some(KeyringUse::Always),
            "never" => Some(KeyringUse::Never),
            _ => None,
        }
    }
}

/// Who starts a login.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoginStart {
    /// A running Mendline opens the browser, if a person is there.
    #[default]
    Auto,
    /// Only `mendline login`.
    Never,
}
