//! Counts of the authorization server and of the protection of the MCP server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// The number of requests that are kept one by one.
const REMEMBERED: usize = 10_000;

/// All counts of an authorization server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationCounts {
    /// Requests for metadata of the authorization server, including those that found nothing.
    pub metadata: u64,
    /// Requests for metadata of the protected resource, including those that found nothing.
    pub resource_metadata: u64,
    /// Clients that registered themselves.
    pub registrations: u64,
    /// Authorization requests that were accepted.
    pub authorizations: u64,
    /// Consent pages that were shown.
    pub pages: u64,
    /// Requests to the token endpoint.
    pub token_requests: u64,
    /// Logins: codes, devices and client credentials that were exchanged for tokens.
    pub logins: u64,
    /// Refresh tokens that were exchanged for tokens.
    pub refreshes: u64,
    /// Rotated refresh tokens that were used again. Each revokes all tokens of its login.
    pub reuses: u64,
    /// Error responses of the token endpoint by their `error`.
    pub token_errors: BTreeMap<String, u64>,
    /// Faults of the token endpoint that were injected.
    pub token_faults: u64,
    /// Device codes that were issued.
    pub device_codes: u64,
    /// Requests to the revocation endpoint that named a known token.
    pub revocations: u64,
    /// Requests to the userinfo endpoint that were answered.
    pub userinfo: u64,
    /// Requests that the MCP server accepted with a token.
    pub accepted: u64,
    /// Requests that the MCP server refused with 401 because they had no token.
    pub refused_without_token: u64,
    /// Requests that the MCP server refused with 401 because their token was unknown, expired or revoked.
    pub refused_token: u64,
    /// Requests that the MCP server refused with 403 because their token lacks a scope.
    pub refused_scope: u64,
}

impl AuthorizationCounts {
    /// Returns the number of requests that were refused with 401.
    pub fn refused(&self) -> u64 {
        self.refused_without_token + self.refused_token
    }

    /// Returns the number of error responses of the token endpoint with this `error`.
    pub fn token_errors_of(&self, error: &str) -> u64 {
        self.token_errors.get(error).copied().unwrap_or(0)
    }
}

/// One request to an authorization server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationRequest {
    /// The verb and the path.
    pub endpoint: String,
    /// The parameters of the query or the form, also secret ones.
    pub parameters: BTreeMap<String, String>,
    /// The JSON body of a registration.
    pub body: Option<serde_json::Value>,
}

/// Counters that wake tasks waiting for a count.
#[derive(Debug)]
pub(crate) struct Counters {
    inner: Mutex<Inner>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Inner {
    counts: AuthorizationCounts,
    seen: VecDeque<AuthorizationRequest>,
}

impl Counters {
    pub(crate) fn new() -> Counters {
        Counters { inner: Mutex::default(), changed: watch::channel(()).0 }
    }

    pub(crate) fn counts(&self) -> AuthorizationCounts {
        self.inner().counts.clone()
    }

    pub(crate) fn seen(&self) -> Vec<AuthorizationRequest> {
        self.inner().seen.iter().cloned().collect()
    }

    pub(crate) fn reset(&self) {
        *self.inner() = Inner::default();
        self.changed.send_replace(());
    }

    pub(crate) fn record(&self, what: impl FnOnce(&mut AuthorizationCounts)) {
        what(&mut self.inner().counts);
        self.changed.send_replace(());
    }

    pub(crate) fn arrived(&self, request: AuthorizationRequest) {
        let mut inner = self.inner();
        if inner.seen.len() == REMEMBERED {
            inner.seen.pop_front();
        }
        inner.seen.push_back(request);
        drop(inner);
        self.changed.send_replace(());
    }

    pub(crate) async fn until(
        &self,
        timeout: Duration,
        condition: impl Fn(&AuthorizationCounts) -> bool,
    ) -> Result<AuthorizationCounts, AuthorizationCounts> {
        let deadline = Instant::now() + timeout;
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let counts = self.counts();
            if condition(&counts) {
                return Ok(counts);
            }
            if timeout_at(deadline, changed.changed()).await.is_err() {
                return Err(self.counts());
            }
        }
    }

    /// Counting continues after a panic in another thread.
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
