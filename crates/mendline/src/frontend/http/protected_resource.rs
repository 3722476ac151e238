//! Metadata of the gateway as a protected resource (RFC 9728): where a client gets an access token for it.
//!
//! Every server is a resource of its own. A client finds the document by the challenge of a 401, or below the well-known
//! path; it needs no token to read it.

use bytes::Bytes;
use http::header::WWW_AUTHENTICATE;
use http::{HeaderValue, StatusCode};
use serde_json::json;

use super::access::Denied;
use super::issuer::JwtSettings;
use super::response::{Answer, json as json_answer};

/// The well-known path, before that of the resource.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Returns the path of the resource whose document is at this path.
pub(super) fn resource_of(path: &str) -> Option<&str> {
    path.strip_prefix(WELL_KNOWN).filter(|resource| resource.is_empty() || resource.starts_with('/'))
}

/// Returns the document of the resource at this URL.
pub(super) fn document(base: &str, resource: &str, jwt: &JwtSettings) -> Answer {
    let document = json!({
        "resource": format!("{base}{resource}"),
        "authorization_servers": [jwt.issuer],
        "bearer_methods_supported": ["header"],
        "resource_name": "Mendline",
    });
    json_answer(StatusCode::OK, Bytes::from(document.to_string()))
}

/// Adds the challenge to a refused request for this path.
pub(super) fn challenge(answer: &mut Answer, why: &Denied, base: &str, path: &str) {
    let mut challenge = format!("Bearer resource_metadata=\"{base}{WELL_KNOWN}{path}\"");
    if let Denied::Jwt(fault) = why {
        challenge.push_str(&format!(", error=\"invalid_token\", error_description=\"{fault}\""));
    }
    if let Ok(value) = HeaderValue::from_str(&challenge) {
        answer.headers_mut().insert(WWW_AUTHENTICATE, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_path_names_its_resource() {
        assert_eq!(resource_of("/.well-known/oauth-protected-resource"), Some(""));
        assert_eq!(resource_of("/.well-known/oauth-protected-resource/mcp/notes"), Some("/mcp/notes"));
        assert_eq!(resource_of("/.well-known/oauth-protected-resources"), None);
        assert_eq!(resource_of("/mcp/notes"), None);
    }
}
