//! The person of a login, and the account that the configuration expects.
//!
//! The ID token comes from the token endpoint over TLS, so its signature is not needed to know who logged in (OpenID
//! Connect Core, 3.1.3.7). It grants nothing here; it is shown, and compared with the configured account.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mendline::decisions::Secret;
use serde_json::{Map, Value};

use crate::OAuth;
use crate::error::OAuthError;
use crate::http::Request;
use crate::metadata::{Provider, object, text};
use crate::store::Identity;
use crate::text::shown;
use crate::token::Tokens;

/// Returns who logged in: from the ID token, else from the userinfo endpoint.
pub(crate) async fn of(oauth: &OAuth, provider: &Provider, tokens: &Tokens) -> Option<Identity> {
    if let Some(claims) = tokens.id_token.as_ref().and_then(claims) {
        return from_claims(&claims);
    }
    let endpoint = provider.userinfo_endpoint.as_deref()?;
    let authorization = Secret::new(format!("Bearer {}", tokens.access_token.expose()));
    let request = Request::get(endpoint).header("Authorization", authorization);
    let response = oauth.http.send(request).await.ok().filter(|response| response.is_success())?;
    from_claims(&object(response.body.expose())?)
}

/// Returns the claims of a JWT without a check of its signature.
fn claims(token: &Secret) -> Option<Map<String, Value>> {
    let payload = token.expose().split('.').nth(1)?;
    let bytes = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    object(std::str::from_utf8(&bytes).ok()?)
}

fn from_claims(claims: &Map<String, Value>) -> Option<Identity> {
    let claim = |names: &[&str]| names.iter().find_map(|name| text(claims, name)).map(|text| shown(&text));
    let identity = Identity {
        subject: claim(&["sub"]),
        email: claim(&["email", "upn"]),
        name: claim(&["preferred_username", "name"]),
    };
    (identity != Identity::default()).then_some(identity)
}

/// Returns whether an ID token is of this account.
pub(crate) fn is_of(id_token: Option<&Secret>, account: &str) -> bool {
    let identity = id_token.and_then(claims).and_then(|claims| from_claims(&claims));
    identity.is_some_and(|identity| names(&identity, account))
}

/// Returns whether it is known that a login is of the configured account. A label says nothing about the identity.
pub(crate) fn is_verified(account: Option<&str>, found: Option<&Identity>) -> bool {
    match account {
        Some(account) if account.contains('@') => found.is_some_and(|found| names(found, account)),
        _ => true,
    }
}

fn names(identity: &Identity, account: &str) -> bool {
    let names = [&identity.email, &identity.name, &identity.subject];
    names.into_iter().flatten().any(|name| name.eq_ignore_ascii_case(account))
}

/// Checks that a login is not that of another account than the configured one.
///
/// An account with `@` is the identity itself. Another account is a label; it belongs to the person who logged in first.
/// An authorization server that does not say who logged in can be used, too: otherwise it could have no two accounts.
/// Such a login is marked as not verified ([`is_verified`]).
pub(crate) fn check_account(
    account: Option<&str>,
    earlier: Option<&Identity>,
    found: Option<&Identity>,
) -> Result<(), OAuthError> {
    let (Some(account), Some(found)) = (account, found) else { return Ok(()) };
    let refused = |expected: &str| OAuthError::WrongAccount {
        expected: expected.to_owned(),
        found: found.shown().unwrap_or("another account").to_owned(),
    };
    if names(found, account) {
        return Ok(());
    }
    if account.contains('@') {
        let says_address = found.email.is_some() || found.name.as_ref().is_some_and(|name| name.contains('@'));
        return if says_address { Err(refused(account)) } else { Ok(()) };
    }
    match earlier.filter(|earlier| earlier.subject.is_some() && found.subject.is_some()) {
        Some(earlier) if earlier.subject != found.subject => Err(refused(earlier.shown().unwrap_or(account))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fake, block_on, json};

    fn tokens(claims: Option<&str>) -> Tokens {
        let id_token = claims.map(|claims| Secret::new(format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims))));
        Tokens { access_token: Secret::new("a"), refresh_token: None, id_token, expires_in: None, scopes: None }
    }

    fn identity(subject: &str, email: Option<&str>) -> Identity {
        Identity { subject: Some(subject.to_owned()), email: email.map(str::to_owned), name: None }
    }

    #[test]
    fn identity_comes_from_id_token_or_userinfo() {
        let fake = Fake::new();
        fake.on("https://auth.example/me", json(200, r#"{"sub":"2","email":"b@x.example"}"#));
        let mut provider = Provider::default();
        let found = |provider: &Provider, tokens: Tokens| block_on(of(&fake.oauth(), provider, &tokens));
        let expected = Some(identity("1", Some("a@x.example")));
        assert_eq!(found(&provider, tokens(Some(r#"{"sub":"1","email":"a@x.example"}"#))), expected);
        assert_eq!(found(&provider, tokens(None)), None);
        provider.userinfo_endpoint = Some("https://auth.example/me".to_owned());
        assert_eq!(found(&provider, tokens(None)), Some(identity("2", Some("b@x.example"))));
        for broken in ["", "a", "a.b", "a.!.c"] {
            let tokens = Tokens { id_token: Some(Secret::new(broken)), ..tokens(None) };
            assert!(found(&Provider::default(), tokens).is_none());
        }
    }

    #[test]
    fn login_as_another_account_is_refused() {
        let (me, other) = (identity("1", Some("me@work.example")), identity("2", Some("you@work.example")));
        assert!(check_account(Some("me@work.example"), None, Some(&me)).is_ok());
        assert!(check_account(Some("ME@work.example"), None, Some(&me)).is_ok());
        let error = check_account(Some("me@work.example"), None, Some(&other)).unwrap_err().to_string();
        assert!(error.contains("you@work.example, expected me@work.example; nothing was stored"), "{error}");
    }

    #[test]
    fn login_without_a_known_identity_is_not_verified() {
        let (me, unnamed) = (identity("1", Some("me@work.example")), identity("1", None));
        for found in [Some(&unnamed), None] {
            assert!(check_account(Some("me@work.example"), None, found).is_ok());
            assert!(!is_verified(Some("me@work.example"), found));
            assert!(is_verified(Some("work"), found) && is_verified(None, found));
        }
        assert!(is_verified(Some("Me@work.example"), Some(&me)));
    }

    #[test]
    fn label_belongs_to_the_first_person() {
        let (me, other) = (identity("1", Some("me@work.example")), identity("2", None));
        assert!(check_account(Some("work"), None, Some(&me)).is_ok());
        assert!(check_account(Some("work"), Some(&me), Some(&me)).is_ok());
        assert!(check_account(Some("work"), Some(&me), Some(&other)).is_err());
        assert!(check_account(None, Some(&me), Some(&other)).is_ok());
    }
}
