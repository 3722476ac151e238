//! The reasons why a login or a renewal fails.
//!
//! Each names the operation, the cause and the next step. Texts of servers are escaped, cut and redacted before they get
//! here.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use mendline::decisions::reason::CredentialError;
use mendline::os::keyring::KeyringError;

/// The reason why a login, a logout or a renewal failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum OAuthError {
    /// A URL that a server named, or that is configured, may not be used.
    Address {
        /// The use of the URL, such as `token endpoint`.
        what: &'static str,
        /// The URL.
        url: String,
        /// The reason.
        why: AddressProblem,
    },
    /// The server asks for no login that Mendline knows.
    NoLoginOffered {
        /// The URL of the server.
        server: String,
    },
    /// Metadata cannot be used.
    Metadata {
        /// The URL of the document.
        url: String,
        /// The reason.
        why: String,
    },
    /// The metadata is about another server.
    ResourceMismatch {
        /// The URL of the server.
        server: String,
        /// The resource that the metadata names.
        resource: String,
    },
    /// The metadata is about another authorization server.
    IssuerMismatch {
        /// The issuer that was asked.
        expected: String,
        /// The issuer that the metadata names.
        found: String,
    },
    /// The authorization server does not support PKCE with S256.
    NoPkce {
        /// The issuer.
        issuer: String,
    },
    /// The authorization server accepts only clients that are registered beforehand.
    ClientNeeded {
        /// The issuer.
        issuer: String,
        /// The redirect URL to register.
        redirect: String,
    },
    /// The authorization server refused to register a client.
    RegistrationRefused {
        /// The issuer.
        issuer: String,
        /// Its reason.
        why: String,
    },
    /// The authorization server offers no device login.
    NoDeviceLogin {
        /// The issuer.
        issuer: String,
    },
    /// The person or the authorization server refused the login.
    AuthorizationDenied {
        /// The error code of OAuth.
        error: String,
        /// The description of the authorization server.
        description: Option<String>,
    },
    /// The response came from another authorization server (RFC 9207).
    WrongIssuer {
        /// The issuer of this login.
        expected: String,
        /// The issuer of the response, if it named one.
        found: Option<String>,
    },
    /// The callback did not come in time.
    NoCallback {
        /// The limit.
        after: Duration,
        /// Whether the client was registered at an earlier login: the authorization server may have forgotten it.
        registered_before: bool,
    },
    /// The device code expired before the person confirmed it.
    DeviceExpired,
    /// The callback address cannot be used.
    Listener {
        /// The address.
        address: String,
        /// The reason.
        why: String,
    },
    /// The authorization server refused a request.
    Denied {
        /// The error code of OAuth, or the status.
        error: String,
        /// The description of the authorization server.
        description: Option<String>,
    },
    /// The authorization server cannot be reached, or fails.
    Unavailable {
        /// The URL.
        url: String,
        /// The reason.
        why: String,
    },
    /// The login is that of another account.
    WrongAccount {
        /// The expected account.
        expected: String,
        /// The account of the login.
        found: String,
    },
    /// No login is stored.
    NoLogin {
        /// The name of the server.
        name: String,
    },
    /// The authorization server has ended the login, or it expired and cannot be renewed.
    LoginEnded {
        /// The name of the server.
        name: String,
    },
    /// Another process holds the lock of the login.
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The private key cannot be used.
    Key {
        /// The reason.
        why: String,
    },
    /// Too many requests to this origin were fruitless today.
    Ceiling {
        /// The origin.
        origin: String,
        /// The number of fruitless requests today.
        count: u32,
    },
    /// A login is sealed, and the keyring does not give its key now.
    Sealed {
        /// The file of the login.
        path: PathBuf,
        /// The reason.
        why: KeyringError,
    },
    /// A login is sealed with a key that the keyring does not have.
    KeyLost {
        /// The file of the login.
        path: PathBuf,
    },
    /// Logins are to be sealed, and the keyring has no key for that.
    NoSeal {
        /// The reason.
        why: KeyringError,
    },
    /// The store of logins cannot be used.
    Store {
        /// The file.
        path: PathBuf,
        /// The reason, and what to do.
        why: String,
    },
}

/// The reason why a URL may not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressProblem {
    /// It is no URL with a host.
    NotAUrl,
    /// It is neither https nor loopback.
    NotHttps,
    /// It is a private or loopback address, and the MCP server is not.
    Private,
    /// It is an address that no authorization server has, such as a link-local one.
    Forbidden,
}

impl fmt::Display for AddressProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AddressProblem::NotAUrl => "it is not a URL with a host",
            AddressProblem::NotHttps => "it is not https, and not on this machine",
            AddressProblem::Forbidden => "no authorization server has such an address",
            AddressProblem::Private => {
                "it is a private address, and the server itself is public (set auth.allowPrivate if that is intended)"
            }
        })
    }
}

impl OAuthError {
    /// Returns whether waiting can help.
    pub fn can_pass(&self) -> bool {
        match self {
            OAuthError::Unavailable { .. } | OAuthError::Locked { .. } => true,
            OAuthError::Sealed { why, .. } | OAuthError::NoSeal { why } => *why == KeyringError::TimedOut,
            _ => false,
        }
    }

    /// Returns whether the login is stored, and can be read as soon as the keyring gives its key.
    pub(crate) fn awaits_keyring(&self) -> bool {
        matches!(self, OAuthError::Sealed { .. } | OAuthError::KeyLost { .. } | OAuthError::NoSeal { .. })
    }

    /// Returns whether the authorization server does not know the client.
    pub(crate) fn is_invalid_client(&self) -> bool {
        matches!(self, OAuthError::Denied { error, .. } if is_client_error(error))
    }

    /// Returns the reason in the words of the engine.
    pub fn for_engine(&self) -> CredentialError {
        match self {
            OAuthError::NoLogin { .. } => CredentialError::NoLogin,
            OAuthError::LoginEnded { .. } => CredentialError::LoginEnded,
            OAuthError::Unavailable { why, .. } => CredentialError::Unavailable { why: why.clone() },
            error if error.can_pass() => CredentialError::Unavailable { why: self.to_string() },
            OAuthError::Sealed { path, .. } | OAuthError::KeyLost { path } => {
                CredentialError::File { path: path.display().to_string(), why: self.sealed_because() }
            }
            OAuthError::Store { path, why } => {
                CredentialError::File { path: path.display().to_string(), why: why.clone() }
            }
            other => CredentialError::Refused { why: other.to_string() },
        }
    }
}

impl std::error::Error for OAuthError {}

/// Returns whether an error code means that the client is not known. Some servers have names of their own.
pub(crate) fn is_client_error(error: &str) -> bool {
    ["invalid_client", "unauthorized_client", "invalid_client_id", "incorrect_client_credentials"].contains(&error)
}

impl fmt::Display for OAuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OAuthError::Denied { error, description } | OAuthError::AuthorizationDenied { error, description } => {
                write!(f, "the authorization server answered {error}")?;
                description.as_ref().map_or(Ok(()), |text| write!(f, ": {text}"))
            }
            OAuthError::NoLogin { name } => write!(f, "there is no login for {name}; run: mendline login {name}"),
            OAuthError::LoginEnded { name } => {
                write!(f, "the login for {name} has ended; run: mendline login {name}")
            }
            OAuthError::Locked { path } => {
                write!(f, "another process renews this login and does not finish (lock {})", path.display())
            }
            OAuthError::Key { why } => write!(f, "cannot sign with the private key: {why}"),
            OAuthError::Ceiling { origin, count } => write!(
                f,
                "{count} requests to {origin} were fruitless today, so no more are sent before tomorrow; a new login ends that"
            ),
            OAuthError::Sealed { path, .. } | OAuthError::KeyLost { path } => {
                write!(f, "cannot use {}: {}", path.display(), self.sealed_because())
            }
            OAuthError::NoSeal { why } => write!(
                f,
                "logins are stored only with a key in the system keyring, and {why}; unlock or start the keyring, or \
                 allow unsealed logins (\"keyring\": \"auto\" in auth, --keyring auto, MENDLINE_KEYRING=auto)"
            ),
            OAuthError::Store { path, why } => write!(f, "cannot use {}: {why}", path.display()),
            OAuthError::Unavailable { url, why } => write!(f, "cannot reach {url}: {why}"),
            other => other.fmt_login(f),
        }
    }
}

impl OAuthError {
    /// The reason why a sealed login cannot be opened, and the next step.
    fn sealed_because(&self) -> String {
        match self {
            OAuthError::Sealed { why: KeyringError::NoKeyring { why }, .. } => format!(
                "it is sealed with a key in the system keyring, and {why}; run this in the session of the desktop, or \
                 replace it by a login without a seal: mendline login --keyring never"
            ),
            OAuthError::Sealed { why: KeyringError::Locked, .. } => {
                "it is sealed with a key in the system keyring, and the system keyring is locked; unlock the keyring and \
                 try again"
                    .to_owned()
            }
            OAuthError::Sealed { why, .. } => format!(
                "it is sealed with a key in the system keyring, and {why}; if this lasts, start the keyring again"
            ),
            _ => {
                "it is sealed with a key that the system keyring does not have any more; run: mendline login".to_owned()
            }
        }
    }

    /// The reasons of discovery, registration and interactive login.
    fn fmt_login(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OAuthError::Address { what, url, why } => write!(f, "cannot use the {what} {url}: {why}"),
            OAuthError::NoLoginOffered { server } => {
                write!(
                    f,
                    "{server} asks for no OAuth login; if it needs a key, set headers or auth in the configuration"
                )
            }
            OAuthError::Metadata { url, why } => write!(f, "cannot use the metadata at {url}: {why}"),
            OAuthError::ResourceMismatch { server, resource } => write!(
                f,
                "the metadata of {server} is about {resource}; a token for it would be valid elsewhere, so the login is refused"
            ),
            OAuthError::IssuerMismatch { expected, found } => {
                write!(
                    f,
                    "the metadata of the authorization server {expected} names the issuer {found}; the login is refused"
                )
            }
            OAuthError::NoPkce { issuer } => write!(
                f,
                "the authorization server {issuer} does not announce PKCE with S256, which MCP requires; set auth.authorizationEndpoint and auth.tokenEndpoint to use it regardless"
            ),
            OAuthError::ClientNeeded { issuer, redirect } => write!(
                f,
                "the authorization server {issuer} registers no clients; create a client there with the redirect URL {redirect} and set auth.clientId (and auth.clientSecret)"
            ),
            OAuthError::RegistrationRefused { issuer, why } => write!(
                f,
                "the authorization server {issuer} refused to register a client: {why}; create a client there and set auth.clientId"
            ),
            OAuthError::NoDeviceLogin { issuer } => {
                write!(f, "the authorization server {issuer} offers no device login; use --no-browser")
            }
            OAuthError::WrongIssuer { expected, found } => match found {
                Some(found) => write!(f, "the response names the issuer {found}, expected {expected}; it is refused"),
                None => write!(f, "the response names no issuer, expected {expected}; it is refused"),
            },
            OAuthError::NoCallback { after, registered_before } => {
                write!(f, "the browser did not come back within {} s", after.as_secs())?;
                if *registered_before {
                    f.write_str(
                        "; if it showed an error about the client, run the login again: it registers a new one",
                    )?;
                }
                Ok(())
            }
            OAuthError::DeviceExpired => f.write_str("the code expired before it was confirmed; run the login again"),
            OAuthError::Listener { address, why } => {
                write!(f, "cannot listen on {address} for the callback: {why}; choose another port with --port")
            }
            OAuthError::WrongAccount { expected, found } => write!(
                f,
                "this is the login of {found}, expected {expected}; nothing was stored. Log out in the browser first, or set another account"
            ),
            other => write!(f, "{other:?}"),
        }
    }
}
