//! Revocation of tokens (RFC 7009).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mendline::decisions::Secret;

use crate::OAuth;
use crate::http::Request;
use crate::registration::Client;
use crate::settings::AuthMethod;
use crate::text::quoted;
use crate::url::{encode, push_parameter};

/// Revokes a token. Revoking a refresh token ends the whole grant.
pub(crate) async fn revoke(
    oauth: &OAuth,
    endpoint: &str,
    client: &Client,
    token: &Secret,
    is_refresh: bool,
) -> Result<(), String> {
    let mut form = String::new();
    push_parameter(&mut form, "token", token.expose());
    push_parameter(&mut form, "token_type_hint", if is_refresh { "refresh_token" } else { "access_token" });
    let mut header = None;
    match (client.method, &client.secret) {
        (AuthMethod::ClientSecretBasic, Some(secret)) => {
            let mut pair = String::new();
            encode(&mut pair, &client.id);
            pair.push(':');
            encode(&mut pair, secret.expose());
            header = Some(Secret::new(format!("Basic {}", STANDARD.encode(pair))));
        }
        (AuthMethod::ClientSecretPost, Some(secret)) => {
            push_parameter(&mut form, "client_id", &client.id);
            push_parameter(&mut form, "client_secret", secret.expose());
        }
        _ => push_parameter(&mut form, "client_id", &client.id),
    }
    let mut request = Request::form(endpoint, Secret::new(form));
    if let Some(value) = header {
        request = request.header("Authorization", value);
    }
    match oauth.http.send(request).await {
        Ok(response) if response.is_success() => Ok(()),
        Ok(response) => Err(format!("HTTP {}", response.status)),
        Err(error) => Err(quoted(&oauth.redactor, &error.why)),
    }
}
