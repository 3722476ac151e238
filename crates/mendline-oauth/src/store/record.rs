//! The contents of the files: a login, and what is known about an authorization server.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mendline::decisions::Secret;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::identity::is_verified;
use crate::login::LoginInfo;
use crate::registration::Client;
use crate::store::Contents;

/// A person at an authorization server, as far as it said who that is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The id of the account at the issuer (`sub`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The address of mail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// The name of the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Identity {
    /// Returns the best text for a person: the address of mail, the name, or the id.
    pub fn shown(&self) -> Option<&str> {
        self.email.as_deref().or(self.name.as_deref()).or(self.subject.as_deref())
    }
}

/// Facts about an authorization server that were found out at run time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Quirks {
    /// It refuses the `resource` parameter.
    pub(crate) refuses_resource: bool,
}

/// A stored login.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Login {
    pub(crate) server: String,
    #[serde(default)]
    pub(crate) account: Option<String>,
    pub(crate) issuer: String,
    #[serde(default)]
    pub(crate) authorization_endpoint: Option<String>,
    pub(crate) token_endpoint: String,
    #[serde(default)]
    pub(crate) revocation_endpoint: Option<String>,
    /// The `resource` parameter of every request; `None`: no such parameter.
    #[serde(default)]
    pub(crate) resource: Option<String>,
    pub(crate) client: Client,
    /// The scopes that were requested.
    #[serde(default)]
    pub(crate) requested_scopes: Vec<String>,
    /// The scopes that the server asked for after the login.
    #[serde(default)]
    pub(crate) wanted_scopes: Vec<String>,
    /// The scopes that were granted.
    #[serde(default)]
    pub(crate) scopes: Vec<String>,
    #[serde(with = "secret")]
    pub(crate) access_token: Secret,
    #[serde(default, with = "optional_secret")]
    pub(crate) refresh_token: Option<Secret>,
    #[serde(default, with = "optional_secret")]
    pub(crate) id_token: Option<Secret>,
    /// The expiry of the access token by the clock of this machine, in seconds since 1970.
    #[serde(default)]
    pub(crate) expires_at: Option<u64>,
    /// The time of receipt by the clock of this machine, in seconds since 1970.
    pub(crate) received_at: u64,
    /// The number of renewals since the login.
    #[serde(default)]
    pub(crate) renewals: u64,
    #[serde(default)]
    pub(crate) identity: Option<Identity>,
    #[serde(default)]
    pub(crate) quirks: Quirks,
    /// Whether the authorization server has ended the login. The tokens stay for inspection until the next login.
    #[serde(default)]
    pub(crate) ended: bool,
}

impl Contents for Login {
    const SECRETS: &'static [&'static str] = &["/access_token", "/refresh_token", "/id_token", "/client/secret"];
}

impl Login {
    /// Returns whether the access token has expired, or expires within this time.
    pub(crate) fn expires_within(&self, time: Duration, now: SystemTime) -> bool {
        self.expires_at.is_some_and(|at| from_seconds(at) <= now + time)
    }

    /// The login without its secrets.
    pub(crate) fn info(&self) -> LoginInfo {
        LoginInfo {
            server: self.server.clone(),
            account: self.account.clone(),
            issuer: self.issuer.clone(),
            identity: self.identity.clone(),
            expires_at: self.expires_at.map(from_seconds),
            received_at: from_seconds(self.received_at),
            has_refresh: self.refresh_token.is_some(),
            scopes: self.scopes.clone(),
            ended: self.ended,
            sealed: false,
            unverified: !is_verified(self.account.as_deref(), self.identity.as_ref()),
        }
    }
}

/// Facts about an authorization server, by its issuer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Known {
    pub(crate) issuer: String,
    /// The client that was registered dynamically.
    #[serde(default)]
    pub(crate) registration: Option<Client>,
    #[serde(default)]
    pub(crate) quirks: Quirks,
}

impl Contents for Known {
    const SECRETS: &'static [&'static str] = &["/registration/secret"];
}

/// Returns the time as seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns the time of seconds since 1970. A time that the system cannot represent is far in the future.
pub(crate) fn from_seconds(seconds: u64) -> SystemTime {
    const FAR: u64 = 100 * 365 * 24 * 60 * 60;
    UNIX_EPOCH + Duration::from_secs(seconds.min(10 * FAR))
}

/// Secrets in files.
pub(crate) mod secret {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(secret.expose())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        String::deserialize(deserializer).map(Secret::new)
    }
}

/// Secrets in files that may be absent.
pub(crate) mod optional_secret {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(secret: &Option<Secret>, serializer: S) -> Result<S::Ok, S::Error> {
        secret.as_ref().map(Secret::expose).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
        Option::<String>::deserialize(deserializer).map(|text| text.map(Secret::new))
    }
}
