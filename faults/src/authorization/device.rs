//! The device flow (RFC 8628).

use http::StatusCode;
use serde_json::json;

use super::grants::{Device, Grant};
use super::settings::Consent;
use super::state::{AuthorizationState, Incoming, escape, json_reply, page as html};
use crate::server::reply::Reply;

/// Issues a device code.
pub(crate) fn begin(state: &AuthorizationState, incoming: &Incoming<'_>) -> Reply {
    let grant = Grant {
        client: incoming.get("client_id").unwrap_or_default().to_owned(),
        user: incoming.settings.user.clone(),
        scope: incoming.get("scope").unwrap_or("mcp").to_owned(),
        is_revoked: false,
    };
    let mut grants = state.grants();
    let code = grants.issue("device");
    let user_code = format!("USER-{}", code.rsplit('-').next().unwrap_or_default());
    let device = Device { grant, user_code: user_code.clone(), polls: 0, is_approved: false };
    grants.devices.insert(code.clone(), device);
    drop(grants);
    state.counters.record(|counts| counts.device_codes += 1);
    let address = format!("{}/device", incoming.issuer);
    json_reply(
        StatusCode::OK,
        &json!({
            "device_code": code,
            "user_code": user_code,
            "verification_uri": address,
            "verification_uri_complete": format!("{address}?user_code={user_code}"),
            "expires_in": 600,
            "interval": 1,
        }),
    )
}

/// Shows the page on which the user approves a device.
pub(crate) fn page(incoming: &Incoming<'_>) -> Reply {
    let form = format!(
        "<form method=\"post\" action=\"{}/device\"><input name=\"user_code\" value=\"{}\">\
         <button>Allow</button></form>",
        incoming.settings.issuer_path,
        escape(incoming.get("user_code").unwrap_or_default()),
    );
    html(StatusCode::OK, "Allow a device?", &form)
}

/// Approves a device.
pub(crate) fn approve(state: &AuthorizationState, incoming: &Incoming<'_>) -> Reply {
    let wanted = incoming.get("user_code").unwrap_or_default();
    let mut grants = state.grants();
    match grants.devices.values_mut().find(|device| device.user_code == wanted) {
        Some(device) => {
            device.is_approved = true;
            html(StatusCode::OK, "Allowed", "You can close this page.")
        }
        None => html(StatusCode::BAD_REQUEST, "Unknown code", ""),
    }
}

/// Returns the grant of an approved device, or the error of a poll.
pub(crate) fn poll(state: &AuthorizationState, incoming: &Incoming<'_>) -> Result<Grant, &'static str> {
    let code = incoming.get("device_code").unwrap_or_default();
    let mut grants = state.grants();
    let device = grants.devices.get_mut(code).ok_or("expired_token")?;
    device.polls += 1;
    match incoming.settings.consent {
        Consent::Denied => return Err("access_denied"),
        Consent::Automatic if device.polls >= incoming.settings.device_polls => device.is_approved = true,
        Consent::Automatic | Consent::Page => {}
    }
    if !device.is_approved {
        return Err("authorization_pending");
    }
    grants.devices.remove(code).map(|device| device.grant).ok_or("expired_token")
}
