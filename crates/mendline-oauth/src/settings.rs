//! The settings of the login to one server.
//!
//! The command line fills them in from the configuration. Every quirk of an authorization server that a person may have
//! to correct has a field here, so that no server needs code of its own.

use mendline::decisions::Secret;
use serde::{Deserialize, Serialize};

/// The settings of the login to one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The URL of the MCP server, as it is configured.
    pub server: String,
    /// The name of the server in the configuration, for messages.
    pub name: Option<String>,
    /// The account: another login for the same URL. With an `@` it is the identity that the login must have.
    pub account: Option<String>,
    /// The id of a client that is registered at the authorization server.
    pub client_id: Option<String>,
    /// The secret of that client.
    pub client_secret: Option<Secret>,
    /// The URL of a client id metadata document.
    pub client_metadata_url: Option<String>,
    /// Scopes that are requested in addition to those that the server asks for.
    pub scopes: Vec<String>,
    /// The address to which the authorization server sends the browser back.
    pub redirect: Redirect,
    /// The `resource` parameter of requests.
    pub resource: ResourceSetting,
    /// Additional parameters of the authorization request, such as `audience`.
    pub parameters: Vec<(String, String)>,
    /// The authorization endpoint. With the token endpoint it replaces the discovery.
    pub authorization_endpoint: Option<String>,
    /// The token endpoint.
    pub token_endpoint: Option<String>,
    /// The authentication of the client at the token endpoint.
    pub auth_method: Option<AuthMethod>,
    /// Whether the authorization server may have a private address although the MCP server has a public one.
    pub allow_private: bool,
    /// Whether requests to the host of the MCP server may be unencrypted.
    pub allow_http: bool,
    /// The token that requests to the server carry.
    pub bearer: Bearer,
}

impl Settings {
    /// The settings of a server without any configuration.
    pub fn new(server: impl Into<String>) -> Settings {
        Settings {
            server: server.into(),
            name: None,
            account: None,
            client_id: None,
            client_secret: None,
            client_metadata_url: None,
            scopes: Vec::new(),
            redirect: Redirect::default(),
            resource: ResourceSetting::default(),
            parameters: Vec::new(),
            authorization_endpoint: None,
            token_endpoint: None,
            auth_method: None,
            allow_private: false,
            allow_http: false,
            bearer: Bearer::default(),
        }
    }

    /// Returns the name for messages and for `mendline login`: the configured one, or the URL.
    pub fn shown_name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.server)
    }
}

/// The address to which the authorization server sends the browser back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redirect {
    /// The host of the URL: `127.0.0.1` or `localhost`. Some authorization servers accept only one of them.
    pub host: Option<RedirectHost>,
    /// A fixed port. Without it the port of the registration, else a free one is used.
    pub port: Option<u16>,
    /// The path, which begins with `/`.
    pub path: Option<String>,
}

/// The host of a loopback redirect URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RedirectHost {
    /// `127.0.0.1`
    Address,
    /// `localhost`
    Localhost,
}

impl RedirectHost {
    /// The host as a URL has it.
    pub fn as_str(self) -> &'static str {
        match self {
            RedirectHost::Address => "127.0.0.1",
            RedirectHost::Localhost => "localhost",
        }
    }
}

/// The `resource` parameter (RFC 8707) of requests to the authorization server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ResourceSetting {
    /// The resource that the metadata of the server names.
    #[default]
    Discovered,
    /// This text.
    Fixed(String),
    /// No such parameter.
    Off,
}

/// The authentication of the client at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMethod {
    /// A public client: only its id is sent.
    None,
    /// The id and the secret in the `Authorization` header.
    ClientSecretBasic,
    /// The id and the secret in the body.
    ClientSecretPost,
    /// A signed assertion in the body.
    PrivateKeyJwt,
}

impl AuthMethod {
    /// The name in metadata and registrations.
    pub fn as_str(self) -> &'static str {
        match self {
            AuthMethod::None => "none",
            AuthMethod::ClientSecretBasic => "client_secret_basic",
            AuthMethod::ClientSecretPost => "client_secret_post",
            AuthMethod::PrivateKeyJwt => "private_key_jwt",
        }
    }

    /// Parses the name in metadata and registrations.
    pub fn parse(name: &str) -> Option<AuthMethod> {
        [AuthMethod::None, AuthMethod::ClientSecretBasic, AuthMethod::ClientSecretPost, AuthMethod::PrivateKeyJwt]
            .into_iter()
            .find(|method| method.as_str() == name)
    }
}

/// The token that requests to the server carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bearer {
    /// The access token.
    #[default]
    AccessToken,
    /// The ID token, for servers that verify it instead.
    IdToken,
}

/// The settings of a login of a machine: client credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCredentialsSettings {
    /// The URL of the MCP server, as it is configured.
    pub server: String,
    /// The token endpoint. Without it the discovery finds it.
    pub token_endpoint: Option<String>,
    /// The id of the client.
    pub client_id: String,
    /// The secret or the key of the client.
    pub proof: ClientProof,
    /// The authentication at the token endpoint, for a client with a secret.
    pub auth_method: Option<AuthMethod>,
    /// The requested scopes.
    pub scopes: Vec<String>,
    /// The `resource` parameter.
    pub resource: ResourceSetting,
    /// The `audience` parameter of the token request, which some authorization servers need.
    pub audience: Option<String>,
    /// Whether the authorization server may have a private address although the MCP server has a public one.
    pub allow_private: bool,
}

/// The proof of a machine's client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientProof {
    /// A shared secret.
    Secret(Secret),
    /// A private key, which signs an assertion (RFC 7523).
    Key {
        /// The key: PEM with PKCS#8.
        pem: Secret,
        /// The algorithm.
        algorithm: Algorithm,
        /// The id of the key at the authorization server.
        key_id: Option<String>,
    },
}

/// An algorithm of signed assertions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// ECDSA with P-256 and SHA-256.
    Es256,
    /// RSA PKCS#1 v1.5 with SHA-256.
    Rs256,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    /// The name in the header of an assertion.
    pub fn as_str(self) -> &'static str {
        match self {
            Algorithm::Es256 => "ES256",
            Algorithm::Rs256 => "RS256",
            Algorithm::EdDsa => "EdDSA",
        }
    }

    /// Parses the name.
    pub fn parse(name: &str) -> Option<Algorithm> {
        [Algorithm::Es256, Algorithm::Rs256, Algorithm::EdDsa].into_iter().find(|it| it.as_str() == name)
    }
}
