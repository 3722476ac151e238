//! Metadata documents: of a protected resource (RFC 9728) and of an authorization server (RFC 8414, OpenID).

use serde_json::{Map, Value};

use crate::error::OAuthError;
use crate::settings::AuthMethod;
use crate::text::shown;
use crate::url::AddressRule;

/// The largest document in bytes.
const MAX_BYTES: usize = 256 * 1024;

/// The most entries of a list that are read.
const MAX_ENTRIES: usize = 200;

/// The metadata of a protected resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceMetadata {
    pub(crate) resource: Option<String>,
    pub(crate) authorization_servers: Vec<String>,
    pub(crate) scopes: Vec<String>,
}

impl ResourceMetadata {
    /// Parses a document. `None` if it is not one.
    pub(crate) fn parse(body: &str) -> Option<ResourceMetadata> {
        let object = object(body)?;
        let found = ResourceMetadata {
            resource: text(&object, "resource"),
            authorization_servers: texts(&object, "authorization_servers").unwrap_or_default(),
            scopes: texts(&object, "scopes_supported").unwrap_or_default(),
        };
        (found.resource.is_some() || !found.authorization_servers.is_empty()).then_some(found)
    }
}

/// An authorization server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provider {
    /// The issuer, as its metadata writes it.
    pub issuer: String,
    /// The authorization endpoint.
    pub authorization_endpoint: Option<String>,
    /// The token endpoint.
    pub token_endpoint: String,
    /// The endpoint of dynamic client registration.
    pub registration_endpoint: Option<String>,
    /// The revocation endpoint.
    pub revocation_endpoint: Option<String>,
    /// The endpoint that says who has logged in.
    pub userinfo_endpoint: Option<String>,
    /// The endpoint of the device login.
    pub device_endpoint: Option<String>,
    /// The scopes that it lists, if it lists any.
    pub scopes: Option<Vec<String>>,
    /// The authentication methods of the token endpoint that it lists.
    pub auth_methods: Option<Vec<AuthMethod>>,
    /// Whether it supports PKCE with S256.
    pub pkce: bool,
    /// Whether its authorization responses name the issuer (RFC 9207).
    pub names_issuer: bool,
    /// Whether it accepts client id metadata documents.
    pub accepts_metadata_documents: bool,
}

impl Provider {
    /// Parses a document and checks its addresses. `Ok(None)` if it is not one.
    pub(crate) fn parse(body: &str, rule: AddressRule<'_>) -> Result<Option<Provider>, OAuthError> {
        let Some(object) = object(body) else { return Ok(None) };
        let (Some(issuer), Some(token_endpoint)) = (text(&object, "issuer"), text(&object, "token_endpoint")) else {
            return Ok(None);
        };
        rule.check("token endpoint", &token_endpoint)?;
        let endpoint = |what: &'static str, name: &str| match text(&object, name) {
            Some(url) => rule.check(what, &url).map(|()| Some(url)),
            None => Ok(None),
        };
        let methods = texts(&object, "token_endpoint_auth_methods_supported");
        let challenges = texts(&object, "code_challenge_methods_supported").unwrap_or_default();
        Ok(Some(Provider {
            issuer,
            token_endpoint,
            authorization_endpoint: endpoint("authorization endpoint", "authorization_endpoint")?,
            registration_endpoint: endpoint("registration endpoint", "registration_endpoint")?,
            revocation_endpoint: endpoint("revocation endpoint", "revocation_endpoint")?,
            userinfo_endpoint: endpoint("userinfo endpoint", "userinfo_endpoint")?,
            device_endpoint: endpoint("device endpoint", "device_authorization_endpoint")?,
            scopes: texts(&object, "scopes_supported"),
            auth_methods: methods.map(|names| names.iter().filter_map(|name| AuthMethod::parse(name)).collect()),
            pkce: challenges.iter().any(|method| method == "S256"),
            names_issuer: flag(&object, "authorization_response_iss_parameter_supported"),
            accepts_metadata_documents: flag(&object, "client_id_metadata_document_supported"),
        }))
    }

    /// The endpoints of the revision 2025-03-26 for a server without metadata.
    pub(crate) fn with_default_endpoints(origin: &str) -> Provider {
        Provider {
            issuer: origin.to_owned(),
            authorization_endpoint: Some(format!("{origin}/authorize")),
            token_endpoint: format!("{origin}/token"),
            registration_endpoint: Some(format!("{origin}/register")),
            pkce: true,
            ..Provider::default()
        }
    }

    /// Returns whether the authorization server lists a scope.
    pub(crate) fn lists_scope(&self, scope: &str) -> bool {
        self.scopes.as_ref().is_some_and(|scopes| scopes.iter().any(|it| it == scope))
    }

    /// Checks that the document is about the issuer that was asked. A slash after the host is the only tolerated
    /// difference: libraries add it, and it leads to no other server.
    pub(crate) fn check_issuer(&self, asked: &str) -> Result<(), OAuthError> {
        let same_origin =
            |one: &str, other: &str| one.strip_suffix('/') == Some(other) && other.matches('/').count() == 2;
        if self.issuer == asked || same_origin(&self.issuer, asked) || same_origin(asked, &self.issuer) {
            return Ok(());
        }
        Err(OAuthError::IssuerMismatch { expected: shown(asked), found: shown(&self.issuer) })
    }
}

/// Parses a JSON object of a reasonable size.
pub(crate) fn object(body: &str) -> Option<Map<String, Value>> {
    if body.len() > MAX_BYTES {
        return None;
    }
    match serde_json::from_str(body.trim_start_matches('\u{feff}')) {
        Ok(Value::Object(object)) => Some(object),
        _ => None,
    }
}

/// Returns a member that is a text and not empty.
pub(crate) fn text(object: &Map<String, Value>, name: &str) -> Option<String> {
    object.get(name)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Returns the texts of a member that is a list; a single text is a list of one.
fn texts(object: &Map<String, Value>, name: &str) -> Option<Vec<String>> {
    match object.get(name)? {
        Value::Array(list) => {
            Some(list.iter().filter_map(Value::as_str).take(MAX_ENTRIES).map(str::to_owned).collect())
        }
        Value::String(text) => Some(text.split_whitespace().take(MAX_ENTRIES).map(str::to_owned).collect()),
        _ => None,
    }
}

fn flag(object: &Map<String, Value>, name: &str) -> bool {
    object.get(name).and_then(Value::as_bool).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(body: &str) -> Result<Option<Provider>, OAuthError> {
        Provider::parse(body, AddressRule::for_server("https://mcp.example/mcp", false))
    }

    #[test]
    fn document_that_is_no_metadata_is_skipped() {
        for body in [
            "",
            "<html>",
            "[]",
            "{}",
            r#"{"issuer":"https://a.example"}"#,
            "null",
            r#"{"issuer":1,"token_endpoint":2}"#,
        ] {
            assert_eq!(provider(body), Ok(None), "{body}");
            assert_eq!(ResourceMetadata::parse(body), None, "{body}");
        }
        let huge = format!(r#"{{"resource":"{}"}}"#, "x".repeat(MAX_BYTES));
        assert_eq!(ResourceMetadata::parse(&huge), None);
    }

    #[test]
    fn endpoint_at_private_address_is_refused() {
        for name in ["token_endpoint", "authorization_endpoint", "registration_endpoint", "revocation_endpoint"] {
            let mut object =
                serde_json::json!({"issuer": "https://a.example", "token_endpoint": "https://a.example/t"});
            for bad in ["https://169.254.169.254/x", "file:///etc/passwd", "http://a.example/x"] {
                object[name] = bad.into();
                assert!(matches!(provider(&object.to_string()), Err(OAuthError::Address { .. })), "{name} {bad}");
            }
        }
    }

    #[test]
    fn issuer_must_be_the_one_that_was_asked() {
        let with = |issuer: &str| Provider { issuer: issuer.to_owned(), ..Provider::default() };
        assert!(with("https://a.example").check_issuer("https://a.example").is_ok());
        assert!(with("https://a.example/").check_issuer("https://a.example").is_ok());
        assert!(with("https://a.example").check_issuer("https://a.example/").is_ok());
        for other in [
            "https://evil.example",
            "https://A.example",
            "https://a.example/x",
            "https://a.example//",
            "http://a.example",
        ] {
            assert!(with(other).check_issuer("https://a.example").is_err(), "{other}");
        }
        assert!(with("https://a.example/t/").check_issuer("https://a.example/t").is_err());
    }
}
