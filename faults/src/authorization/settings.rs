//! The settings of the authorization server and of the protection of the MCP server.
//!
//! The names are the same in Rust, in the JSON of the control port and in the `name=value` options of the command line.
//! All can be changed at run time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::settings::{InvalidOption, changed};

/// The settings of an authorization server and of the MCP server that it protects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AuthorizationSettings {
    /// The metadata documents of the authorization server.
    pub metadata: Metadata,
    /// The path of the issuer, for example `/tenant`. The endpoints are below it.
    pub issuer_path: String,
    /// A fault of the metadata of the authorization server.
    pub metadata_fault: Option<MetadataFault>,
    /// True if the metadata lists PKCE with S256.
    pub lists_pkce: bool,
    /// True if clients can register themselves.
    pub registration: bool,
    /// True if a registered client gets a secret.
    pub client_secrets: bool,
    /// True if a client id may be the URL of a document, which is not fetched.
    pub client_documents: bool,
    /// The ways of client authentication that the metadata lists.
    pub client_auth: Vec<String>,
    /// Clients that are known from the start: ids and secrets.
    pub clients: BTreeMap<String, Option<String>>,
    /// The redirect URIs that are accepted.
    pub redirects: Redirects,
    /// The decision of the user.
    pub consent: Consent,
    /// The user who logs in.
    pub user: String,
    /// The `iss` of the authorization response.
    pub iss: Iss,
    /// The treatment of the `resource` parameter.
    pub resource: ResourceRule,
    /// The scopes that the metadata lists.
    pub scopes: Vec<String>,
    /// The lifetime of an access token.
    pub access_seconds: u64,
    /// The `expires_in` of the token response, if it differs from the lifetime; 0 leaves it out.
    pub expires_in: Option<u64>,
    /// The rule for refresh tokens.
    pub refresh: Refresh,
    /// The time in which a rotated refresh token is accepted again.
    pub reuse_grace_ms: u64,
    /// True if only the scope `offline_access` gives a refresh token.
    pub needs_offline_access: bool,
    /// True if the device flow is offered.
    pub device: bool,
    /// The number of polls after which a device is approved. With a consent page the page approves it.
    pub device_polls: u64,
    /// Seconds that are added to the `Date` of all responses.
    pub date_skew_seconds: i64,
    /// The location of the metadata of the protected resource.
    pub resource_metadata: ResourceMetadata,
    /// True if a challenge has `resource_metadata`.
    pub challenge_names_metadata: bool,
    /// The `scope` of a challenge.
    pub challenge_scope: Option<String>,
    /// True if the MCP server itself is the authorization server, as in revision 2025-03-26.
    pub combined: bool,
    /// True if the handshake and the lists need no token.
    pub anonymous_handshake: bool,
    /// Tools that need a scope of their own.
    pub tool_scopes: BTreeMap<String, String>,
    /// True if an event stream ends when its token expires.
    pub streams_end_at_expiry: bool,
}

impl Default for AuthorizationSettings {
    fn default() -> AuthorizationSettings {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
        AuthorizationSettings {
            metadata: Metadata::Both,
            issuer_path: String::new(),
            metadata_fault: None,
            lists_pkce: true,
            registration: true,
            client_secrets: false,
            client_documents: false,
            client_auth: texts(&["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]),
            clients: BTreeMap::from([("machine".to_owned(), Some("secret-canary-machine".to_owned()))]),
            redirects: Redirects::Loopback,
            consent: Consent::Automatic,
            user: "ada@example.com".to_owned(),
            iss: Iss::Right,
            resource: ResourceRule::Optional,
            scopes: texts(&["mcp", "files", "offline_access"]),
            access_seconds: 3600,
            expires_in: None,
            refresh: Refresh::Rotated,
            reuse_grace_ms: 0,
            needs_offline_access: false,
            device: true,
            device_polls: 2,
            date_skew_seconds: 0,
            resource_metadata: ResourceMetadata::Path,
            challenge_names_metadata: true,
            challenge_scope: None,
            combined: false,
            anonymous_handshake: false,
            tool_scopes: BTreeMap::from([("big".to_owned(), "files".to_owned())]),
            streams_end_at_expiry: false,
        }
    }
}

/// The metadata documents of an authorization server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Metadata {
    /// Only `oauth-authorization-server` (RFC 8414).
    Oauth,
    /// Only `openid-configuration`.
    Openid,
    /// Both.
    Both,
    /// None: clients use `/authorize`, `/token` and `/register`.
    Absent,
}

/// A fault of the metadata of an authorization server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MetadataFault {
    /// Redirects to itself.
    Loop,
    /// Redirects to a link-local address.
    RedirectToLinkLocal,
    /// Names endpoints at a link-local address.
    LinkLocal,
    /// Names endpoints of the scheme `file`.
    File,
    /// Names another issuer.
    WrongIssuer,
    /// Answers with an HTML page.
    Html,
    /// Answers 500.
    Error,
}

/// The redirect URIs that are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Redirects {
    /// `localhost`, `127.0.0.1` and `[::1]` with any port.
    Loopback,
    /// `localhost` with any port.
    OnlyLocalhost,
    /// `127.0.0.1` with any port.
    OnlyAddress,
    /// Exactly as registered, also the port.
    Exact,
}

/// The decision of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Consent {
    /// The client is authorized without a page.
    Automatic,
    /// A page with the buttons *Allow* and *Deny*.
    Page,
    /// The client is refused.
    Denied,
}

/// The `iss` of the authorization response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Iss {
    /// The issuer.
    Right,
    /// Another issuer.
    Wrong,
    /// None, although the metadata promises it.
    Missing,
    /// None, and the metadata does not promise it.
    Unsupported,
}

/// The treatment of the `resource` parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ResourceRule {
    /// It is accepted and not required.
    Optional,
    /// A request with it is refused.
    Refused,
    /// It must be the URL of the MCP server to the letter, also at a refresh.
    Exact,
}

/// The rule for refresh tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Refresh {
    /// Each is used once. The second use revokes all tokens of the login.
    Rotated,
    /// It stays the same, and the response to a refresh does not repeat it.
    Constant,
    /// There is none.
    Absent,
}

/// The location of the metadata of the protected resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ResourceMetadata {
    /// `/.well-known/oauth-protected-resource/mcp`.
    Path,
    /// `/.well-known/oauth-protected-resource`.
    Root,
    /// A path that only the challenge names.
    Hidden,
    /// None.
    Absent,
    /// The first location, with the URL of another resource.
    WrongResource,
}

impl AuthorizationSettings {
    /// Returns these settings with the changes of a JSON object.
    pub(crate) fn changed(&self, changes: &Value) -> Result<AuthorizationSettings, InvalidOption> {
        changed(self, changes)
    }
}
