//! The metadata documents of the authorization server.

use bytes::Bytes;
use http::StatusCode;
use http::header::LOCATION;
use serde_json::{Value, json};

use super::settings::{Iss, Metadata, MetadataFault};
use super::state::{Incoming, json_reply};
use crate::server::reply::Reply;

const OAUTH: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";
const LINK_LOCAL: &str = "http://169.254.169.254";

/// Answers a request for metadata.
pub(crate) fn answer(incoming: &Incoming<'_>) -> Reply {
    let settings = &incoming.settings;
    let path = incoming.request.path.as_str();
    let issuer_path = settings.issuer_path.as_str();
    let has_oauth = matches!(settings.metadata, Metadata::Oauth | Metadata::Both);
    let has_openid = matches!(settings.metadata, Metadata::Openid | Metadata::Both);
    // OpenID appends its location to the issuer; RFC 8414 inserts it before the path of the issuer.
    let is_openid = path == format!("{issuer_path}{OPENID}") || path == format!("{OPENID}{issuer_path}");
    let is_oauth = path == format!("{OAUTH}{issuer_path}");
    if !(is_oauth && has_oauth || is_openid && has_openid) {
        return Reply::empty(StatusCode::NOT_FOUND);
    }
    match settings.metadata_fault {
        Some(MetadataFault::Loop) => Reply::empty(StatusCode::FOUND).with(LOCATION, path),
        Some(MetadataFault::RedirectToLinkLocal) => {
            Reply::empty(StatusCode::FOUND).with(LOCATION, &format!("{LINK_LOCAL}{path}"))
        }
        Some(MetadataFault::Html) => {
            Reply::whole(StatusCode::OK, Some("text/html"), Bytes::from_static(b"<html><body>Hello</body></html>"))
        }
        Some(MetadataFault::Error) => Reply::empty(StatusCode::INTERNAL_SERVER_ERROR),
        _ => json_reply(StatusCode::OK, &document(incoming, is_openid)),
    }
}

fn document(incoming: &Incoming<'_>, is_openid: bool) -> Value {
    let settings = &incoming.settings;
    let issuer = incoming.issuer.as_str();
    let base = match settings.metadata_fault {
        Some(MetadataFault::LinkLocal) => LINK_LOCAL,
        Some(MetadataFault::File) => "file:///etc",
        _ => issuer,
    };
    let named = match settings.metadata_fault {
        Some(MetadataFault::WrongIssuer) => "https://issuer.example.com",
        _ => issuer,
    };
    let mut document = json!({
        "issuer": named,
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "revocation_endpoint": format!("{base}/revoke"),
        "userinfo_endpoint": format!("{base}/userinfo"),
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
        "token_endpoint_auth_methods_supported": settings.client_auth,
        "scopes_supported": settings.scopes,
    });
    let mut set = |is_set: bool, name: &str, value: Value| {
        if is_set {
            document[name] = value;
        }
    };
    set(settings.lists_pkce, "code_challenge_methods_supported", json!(["S256"]));
    set(settings.registration, "registration_endpoint", format!("{base}/register").into());
    set(settings.client_documents, "client_id_metadata_document_supported", true.into());
    set(settings.iss != Iss::Unsupported, "authorization_response_iss_parameter_supported", true.into());
    set(settings.device, "device_authorization_endpoint", format!("{base}/device_authorization").into());
    set(is_openid, "jwks_uri", format!("{base}/jwks").into());
    set(is_openid, "subject_types_supported", json!(["public"]));
    set(is_openid, "id_token_signing_alg_values_supported", json!(["RS256"]));
    document
}
