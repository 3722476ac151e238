//! HTTP+SSE of 2024-11-05: one stream for all messages to a client, and an endpoint for its own.
//!
//! The endpoint and the id of the first event carry the sealed session. A client that connects again sends that id, as
//! browsers and their libraries do, and goes on with its session: after a lost connection, and after a restart of the
//! gateway. One that connects without it gets a new session, in which Mendline makes the handshake if the client does
//! not.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body::Body;
use mendline_core::{Input, StreamId};
use mendline_wire::{Kind, Method, Received, headers};

use super::super::admission::admit;
use super::super::body::{EventBody, EventIds};
use super::super::posted_body::{self, BodyLimits};
use super::super::response::{Answer, broken, events, text, unknown_session};
use super::super::server_pool::GatewayServer;
use super::super::sessions::Session;
use super::opening::{SSE_REVISION, default_params, initialize_request};
use super::{Gateway, header};

impl Gateway {
    pub(super) fn open_sse(
        &self,
        path: &str,
        headers: &HeaderMap,
        server: &GatewayServer,
        principal: Arc<str>,
    ) -> Result<Answer, Box<Answer>> {
        let last = header(headers, headers::LAST_EVENT_ID);
        let known = last.and_then(|id| self.session_of_id(id, server, &principal).ok().flatten());
        let session = match known {
            Some(session) => session,
            None => self.open_sse_session(server, principal)?,
        };
        session.set_short_lived();
        let reader = self.attach_common(&session, None);
        let id = session.id.clone().ok_or_else(|| Box::new(unknown_session()))?;
        let target = format!("{}/message?sessionId={id}", path.trim_end_matches('/'));
        Ok(events(EventBody::new(reader, EventIds::None, false, None).with_endpoint(target, id)))
    }

    pub(super) async fn post_sse<B: Body<Data = Bytes>>(
        &self,
        request: Request<B>,
        server: &GatewayServer,
        principal: Arc<str>,
    ) -> Result<Answer, Box<Answer>> {
        let query = request.uri().query().unwrap_or_default();
        let id = query.split('&').find_map(|pair| pair.strip_prefix("sessionId=")).unwrap_or_default().to_owned();
        let Some(session) = self.session_of_id(&id, server, &principal)? else {
            return Err(Box::new(unknown_session()));
        };
        let (parts, body) = request.into_parts();
        let posted = posted_body::read(&parts.headers, body, BodyLimits::up_to(self.limits.message_bytes)).await?;
        let received = Received::from_text(posted, &self.limits);
        self.refuse_while_draining(&received)?;
        // Answers on the common stream have no stream of their own, so only the rate counts.
        drop(admit(&self.admission(&self.access(), server), &session.principal, &received)?);
        if let Received::Broken { .. } | Received::TooLong { .. } = received {
            return Ok(broken(&received));
        }
        session.set_short_lived();
        session.touch();
        self.begin_sse(&session, &received);
        self.hub.input(Input::FromClient { client: session.client, stream: StreamId::COMMON, received });
        Ok(text(StatusCode::ACCEPTED, "Accepted"))
    }

    /// Opens the client in the engine with its first message. Mendline makes the handshake if that is none.
    fn begin_sse(&self, session: &Arc<Session>, first: &Received) {
        if !session.begin() {
            return;
        }
        let is_handshake = matches!(first, Received::Message(message)
            if message.kind() == Kind::Request && message.method() == Method::Initialize);
        let resumed = if is_handshake { None } else { initialize_request(&default_params(SSE_REVISION)) };
        self.open_in_engine(session, resumed);
        let (client, stream) = (session.client, StreamId::COMMON);
        if self.hub.stream(client, stream).is_some_and(|queue| queue.is_attached()) {
            self.hub.input(Input::StreamAttached { client, stream });
        }
    }
}
