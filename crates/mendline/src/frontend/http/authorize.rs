//! The first decision about a request: who makes it, or that it needs no principal.
//!
//! A preflight of a web page and the metadata of a protected resource are answered without a token, but only under a
//! known host and to a known origin.

use std::sync::Arc;
use std::time::SystemTime;

use http::{HeaderMap, Method as Verb, StatusCode, Uri};

use super::access::{Access, Connection, Denied};
use super::protected_resource;
use super::response::{Answer, denied, empty};

/// The parts of a request that decide about its access.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) method: &'a Verb,
    pub(super) uri: &'a Uri,
    pub(super) headers: &'a HeaderMap,
    pub(super) from: Connection,
}

/// A request that is not refused.
pub(super) enum Authorized {
    /// It is one of this principal.
    Principal(Arc<str>),
    /// It has the same answer for everyone.
    Anyone(Answer),
}

/// Checks a request. The error is the refusal.
pub(super) async fn authorize(access: &Access, asked: Asked<'_>) -> Result<Authorized, Box<Answer>> {
    let Asked { method, uri, headers, from } = asked;
    let checked = access.check_all(headers, uri.authority(), from, SystemTime::now()).await;
    let base = || access.base_url(headers, uri.authority(), from);
    if !matches!(checked, Err(Denied::Host(_) | Denied::Origin(_))) {
        if method == Verb::OPTIONS {
            return Ok(Authorized::Anyone(empty(StatusCode::NO_CONTENT)));
        }
        if let (Some(resource), Some(jwt)) = (protected_resource::resource_of(uri.path()), &access.jwt) {
            return Ok(Authorized::Anyone(protected_resource::document(&base(), resource, jwt.settings())));
        }
    }
    checked.map(Authorized::Principal).map_err(|why| {
        let mut answer = denied(&why);
        if access.jwt.is_some() && answer.status() == StatusCode::UNAUTHORIZED {
            protected_resource::challenge(&mut answer, &why, &base(), uri.path());
        }
        Box::new(answer)
    })
}
