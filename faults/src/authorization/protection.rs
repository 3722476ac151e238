//! The protection of an MCP server by an authorization server.
//!
//! Requests without a valid token are refused with a challenge before any rule of the server is applied. The metadata of
//! the protected resource is served here.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::header::WWW_AUTHENTICATE;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::settings::{AuthorizationSettings, ResourceMetadata};
use super::state::{AuthorizationState, bearer, json_reply, origin_of};
use crate::HttpRequest;
use crate::server::reply::{Answer, Content, Piece, Reply};
use crate::server::socket::Ending;

const ROOT: &str = "/.well-known/oauth-protected-resource";
const HIDDEN: &str = "/about/resource.json";

/// The protection of one MCP server.
#[derive(Clone, Debug)]
pub(crate) struct Protection {
    state: Arc<AuthorizationState>,
    /// The URL of the MCP server.
    resource: String,
}

/// The decision about a request.
pub(crate) enum Decision {
    /// It is answered here.
    Answered(Reply),
    /// The MCP server answers it. The time at which its token expires, if its stream must end then.
    Admitted(Option<Instant>),
}

impl Protection {
    pub(crate) fn new(state: Arc<AuthorizationState>, resource: String) -> Protection {
        Protection { state, resource }
    }

    /// Decides about a request.
    pub(crate) async fn check(&self, request: &HttpRequest) -> Decision {
        let settings = self.state.settings();
        let path = request.path.as_str();
        if path.starts_with(ROOT) || path == HIDDEN {
            self.state.counters.record(|counts| counts.resource_metadata += 1);
            return Decision::Answered(self.metadata(path, &settings));
        }
        if !matches!(path, "/mcp" | "/moved/mcp" | "/sse") && !path.starts_with("/messages") {
            return match settings.combined {
                true => Decision::Answered(self.state.answer(request).await),
                false => Decision::Admitted(None),
            };
        }
        self.check_token(request, &settings)
    }

    fn check_token(&self, request: &HttpRequest, settings: &AuthorizationSettings) -> Decision {
        let count = |what: fn(&mut super::AuthorizationCounts)| self.state.counters.record(what);
        let Some(token) = bearer(request) else {
            if settings.anonymous_handshake && !request.is_call() {
                return Decision::Admitted(None);
            }
            count(|counts| counts.refused_without_token += 1);
            return Decision::Answered(self.refusal(StatusCode::UNAUTHORIZED, None, None, settings));
        };
        let Some(token) = self.state.grants().valid(token) else {
            count(|counts| counts.refused_token += 1);
            return Decision::Answered(self.refusal(StatusCode::UNAUTHORIZED, Some("invalid_token"), None, settings));
        };
        let needed = request.tool().and_then(|tool| settings.tool_scopes.get(tool));
        if let Some(scope) = needed.filter(|needed| !token.scope.split(' ').any(|scope| scope == needed.as_str())) {
            count(|counts| counts.refused_scope += 1);
            let error = Some("insufficient_scope");
            return Decision::Answered(self.refusal(StatusCode::FORBIDDEN, error, Some(scope), settings));
        }
        count(|counts| counts.accepted += 1);
        Decision::Admitted(settings.streams_end_at_expiry.then_some(token.expires))
    }

    fn refusal(
        &self,
        status: StatusCode,
        error: Option<&str>,
        scope: Option<&str>,
        settings: &AuthorizationSettings,
    ) -> Reply {
        let mut parameters = vec![r#"realm="mcp""#.to_owned()];
        parameters.extend(error.map(|error| format!(r#"error="{error}""#)));
        let scope = scope.or(settings.challenge_scope.as_deref());
        parameters.extend(scope.map(|scope| format!(r#"scope="{scope}""#)));
        if settings.challenge_names_metadata {
            let origin = origin_of(&self.resource);
            let path = match settings.resource_metadata {
                ResourceMetadata::Path | ResourceMetadata::WrongResource => Some(format!("{ROOT}/mcp")),
                ResourceMetadata::Root => Some(ROOT.to_owned()),
                ResourceMetadata::Hidden => Some(HIDDEN.to_owned()),
                ResourceMetadata::Absent => None,
            };
            parameters.extend(path.map(|path| format!(r#"resource_metadata="{origin}{path}""#)));
        }
        Reply::whole(status, Some("text/plain"), Bytes::from(status.to_string()))
            .with(WWW_AUTHENTICATE, &format!("Bearer {}", parameters.join(", ")))
    }

    fn metadata(&self, path: &str, settings: &AuthorizationSettings) -> Reply {
        let wanted = match settings.resource_metadata {
            ResourceMetadata::Path | ResourceMetadata::WrongResource => format!("{ROOT}/mcp"),
            ResourceMetadata::Root => ROOT.to_owned(),
            ResourceMetadata::Hidden => HIDDEN.to_owned(),
            ResourceMetadata::Absent => return Reply::empty(StatusCode::NOT_FOUND),
        };
        if path != wanted {
            return Reply::empty(StatusCode::NOT_FOUND);
        }
        let resource = match settings.resource_metadata {
            ResourceMetadata::WrongResource => "https://resource.example.com/mcp",
            _ => &self.resource,
        };
        let document = json!({
            "resource": resource,
            "authorization_servers": [self.state.issuer(settings)],
            "scopes_supported": settings.challenge_scope.iter().collect::<Vec<_>>(),
            "bearer_methods_supported": ["header"],
        });
        json_reply(StatusCode::OK, &document)
    }
}

/// Ends the stream of a reply when its token expires.
pub(crate) fn end_at(reply: Reply, expires: Instant) -> Reply {
    let Reply::Answer(Answer { status, headers, content: Content::Pieces(mut pieces) }) = reply else { return reply };
    let (forward, taken) = mpsc::channel(1);
    // The task ends with the response: at its end, at the expiry, or when the client leaves.
    tokio::spawn(async move {
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(expires) => {
                    let _ = forward.send(Piece::Cut(Ending::Fin)).await;
                    return;
                }
                () = forward.closed() => return,
                piece = pieces.recv() => {
                    let Some(piece) = piece else { return };
                    if forward.send(piece).await.is_err() {
                        return;
                    }
                }
            }
        }
    });
    Reply::Answer(Answer { status, headers, content: Content::Pieces(taken) })
}
