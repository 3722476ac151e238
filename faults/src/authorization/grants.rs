//! The clients, codes and tokens that the authorization server has issued.
//!
//! A login is one grant. Its access tokens expire, its refresh tokens rotate, and the second use of a rotated one revokes
//! the grant with all its tokens. All issued secrets contain `canary`, so that a test can search logs for them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::fault::TokenFault;

/// Everything that was issued.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    pub(crate) clients: HashMap<String, Client>,
    /// Codes that were not exchanged.
    pub(crate) codes: HashMap<String, Code>,
    /// Consent pages that were not answered.
    pub(crate) pages: HashMap<String, BTreeMap<String, String>>,
    pub(crate) devices: HashMap<String, Device>,
    /// Faults of the token endpoint, with the number of requests that still meet each.
    pub(crate) faults: VecDeque<(TokenFault, u64)>,
    grants: HashMap<u64, Grant>,
    access_tokens: HashMap<String, AccessToken>,
    refresh_tokens: HashMap<String, RefreshToken>,
    last_number: u64,
}

/// A registered client.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) secret: Option<String>,
    /// The registered redirect URIs; `None` accepts all.
    pub(crate) redirects: Option<Vec<String>>,
}

/// An authorization code.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    pub(crate) grant: Grant,
    pub(crate) challenge: Option<String>,
    pub(crate) redirect: String,
}

/// A device that waits for its approval.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    pub(crate) grant: Grant,
    pub(crate) user_code: String,
    pub(crate) polls: u64,
    pub(crate) is_approved: bool,
}

/// One login.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) client: String,
    pub(crate) user: String,
    pub(crate) scope: String,
    pub(crate) is_revoked: bool,
}

#[derive(Clone, Debug)]
struct AccessToken {
    grant: u64,
    scope: String,
    expires: Instant,
}

#[derive(Clone, Debug)]
struct RefreshToken {
    grant: u64,
    used: Option<Instant>,
}

/// A valid access token.
#[derive(Clone, Debug)]
pub(crate) struct ValidToken {
    pub(crate) user: String,
    pub(crate) scope: String,
    pub(crate) expires: Instant,
}

/// The result of a refresh token.
pub(crate) enum Redeemed {
    Grant(u64, Grant),
    /// The token is unknown or revoked.
    Invalid,
    /// The token was used before; the grant is revoked.
    Reused,
}

impl Grants {
    /// Returns a new unique name of this kind, which is no secret.
    pub(crate) fn name(&mut self, kind: &str) -> String {
        self.last_number += 1;
        format!("{kind}-{:06}", self.last_number)
    }

    /// Returns a new unique secret of this kind.
    pub(crate) fn issue(&mut self, kind: &str) -> String {
        self.last_number += 1;
        format!("{kind}-canary-{:06}", self.last_number)
    }

    /// Adds a grant.
    pub(crate) fn open(&mut self, grant: Grant) -> u64 {
        self.last_number += 1;
        self.grants.insert(self.last_number, grant);
        self.last_number
    }

    pub(crate) fn issue_access(&mut self, grant: u64, scope: &str, lifetime: Duration) -> String {
        let token = self.issue("access");
        let access = AccessToken { grant, scope: scope.to_owned(), expires: Instant::now() + lifetime };
        self.access_tokens.insert(token.clone(), access);
        token
    }

    pub(crate) fn issue_refresh(&mut self, grant: u64) -> String {
        let token = self.issue("refresh");
        self.refresh_tokens.insert(token.clone(), RefreshToken { grant, used: None });
        token
    }

    /// Returns the access token if it is valid now.
    pub(crate) fn valid(&self, token: &str) -> Option<ValidToken> {
        let access = self.access_tokens.get(token).filter(|access| access.expires > Instant::now())?;
        let grant = self.grants.get(&access.grant).filter(|grant| !grant.is_revoked)?;
        Some(ValidToken { user: grant.user.clone(), scope: access.scope.clone(), expires: access.expires })
    }

    /// Returns the grant of a refresh token without using it.
    pub(crate) fn grant_of(&self, token: &str) -> Option<&Grant> {
        self.grants.get(&self.refresh_tokens.get(token)?.grant)
    }

    /// Uses a refresh token.
    pub(crate) fn redeem(&mut self, token: &str, rotates: bool, grace: Duration) -> Redeemed {
        let Some(refresh) = self.refresh_tokens.get_mut(token) else { return Redeemed::Invalid };
        let number = refresh.grant;
        let Some(grant) = self.grants.get_mut(&number).filter(|grant| !grant.is_revoked) else {
            return Redeemed::Invalid;
        };
        if rotates {
            match refresh.used {
                Some(used) if used.elapsed() > grace => {
                    grant.is_revoked = true;
                    return Redeemed::Reused;
                }
                Some(_) => {}
                None => refresh.used = Some(Instant::now()),
            }
        }
        Redeemed::Grant(number, grant.clone())
    }

    /// Revokes the login of a token. Returns whether the token is known.
    pub(crate) fn revoke(&mut self, token: &str) -> bool {
        let access = self.access_tokens.get(token).map(|access| access.grant);
        let number = access.or_else(|| self.refresh_tokens.get(token).map(|refresh| refresh.grant));
        let grant = number.and_then(|number| self.grants.get_mut(&number));
        grant.is_some_and(|grant| {
            grant.is_revoked = true;
            true
        })
    }

    /// Revokes all logins.
    pub(crate) fn revoke_all(&mut self) {
        self.grants.values_mut().for_each(|grant| grant.is_revoked = true);
    }

    /// Makes all access tokens invalid. Refresh tokens stay valid.
    pub(crate) fn expire_access(&mut self) {
        self.access_tokens.clear();
    }

    /// Returns the client, if it is registered or known from the settings.
    pub(crate) fn client(&self, id: &str, known: &BTreeMap<String, Option<String>>) -> Option<Client> {
        let preset = || known.get(id).map(|secret| Client { secret: secret.clone(), redirects: None });
        self.clients.get(id).cloned().or_else(preset)
    }
}
