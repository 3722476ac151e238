//! The sessions of requests: found by their id, or opened.
//!
//! A client without a usable id gets a session of its own and is told its id, so that its cancellations and streams
//! concern no other client. One that keeps sending the id of another gateway finds the same session under it. Such
//! clients share an upstream, because nothing is known of their handshake, and their sessions end early: the ids open
//! them again.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use mendline_core::sharing::{NoRoom, ShareKey};
use mendline_core::{ClientStreams, Input, StreamId, UpstreamId, defaults};
use mendline_wire::{Message, Received, headers};

use super::super::ended_sessions::EndedSessions;
use super::super::reader::{OnLoss, StreamReader};
use super::super::request::{DEFAULT_REVISION, legacy_revision};
use super::super::response::{Answer, no_room, refused_post, unknown_session};
use super::super::server_pool::GatewayServer;
use super::super::session_id::Ticket;
use super::super::sessions::{ForeignKey, ImplicitKey, Opened, Session, Sessions};
use super::{Gateway, header};

/// A session that is to be opened.
struct NewSession<'a> {
    server: &'a GatewayServer,
    principal: Arc<str>,
    revision: String,
    id: Option<String>,
    share: ShareKey,
}

impl Gateway {
    /// Returns the session of a request: the one that its id names, that of an earlier process, or a new one.
    pub(super) fn session(
        &self,
        headers: &HeaderMap,
        server: &GatewayServer,
        principal: Arc<str>,
    ) -> Result<Arc<Session>, Box<Answer>> {
        let Some(id) = header(headers, headers::SESSION_ID) else {
            return self.session_without_handshake(headers, server, principal, None);
        };
        match self.session_of_id(id, server, &principal)? {
            Some(session) => {
                session.set_long_lived();
                Ok(session)
            }
            // Not an id of this gateway: its key was replaced, or the client has mixed up two servers.
            None => self.session_without_handshake(headers, server, principal, Some(id)),
        }
    }

    /// Returns the session with this id, of this process or an earlier one; nothing if the gateway did not make the id.
    pub(super) fn session_of_id(
        &self,
        id: &str,
        server: &GatewayServer,
        principal: &Arc<str>,
    ) -> Result<Option<Arc<Session>>, Box<Answer>> {
        let known = self.lock().get(id);
        if let Some(session) = known {
            let is_owner = session.principal == *principal && session.server == server.name;
            return if is_owner && self.adopt_headers(&session, server) {
                Ok(Some(session))
            } else {
                Err(Box::new(unknown_session()))
            };
        }
        match self.sealer.open(id) {
            Some(ticket) if self.lock_ended().contains(ticket.number) => Err(Box::new(unknown_session())),
            Some(ticket) if *ticket.principal == **principal && *ticket.server == *server.name => {
                self.open_again(server, Arc::clone(principal), &ticket.params, id).map(Some)
            }
            Some(_) => Err(Box::new(unknown_session())),
            None => Ok(None),
        }
    }

    /// Returns the session of a client whose handshake is not known: the one for its foreign id, or a new one.
    fn session_without_handshake(
        &self,
        headers: &HeaderMap,
        server: &GatewayServer,
        principal: Arc<str>,
        foreign: Option<&str>,
    ) -> Result<Arc<Session>, Box<Answer>> {
        let revision = legacy_revision(headers).map_err(|refused| Box::new(refused_post(&refused)))?.to_owned();
        let shared = server.forwarded.share_name(&principal);
        let foreign = foreign.map(|id| ForeignKey::new(&shared, &server.name, id));
        // The table stays locked, so that requests at the same time get one session.
        let mut sessions = self.lock();
        if let Some(session) = foreign.as_ref().and_then(|key| sessions.of_foreign(key)) {
            return Ok(session);
        }
        let params = Bytes::from(default_params(&revision));
        let id = self.seal(&principal, server, &params);
        let resumed = initialize_request(&params);
        let share = ShareKey::WithoutHandshake { principal: shared, revision: revision.clone() };
        let new = NewSession { server, principal, revision, id, share };
        let session = self.open_client(&mut sessions, new, Opened::Unasked)?;
        self.open_in_engine(&session, resumed);
        if let (Some(key), Some(id)) = (foreign, &session.id) {
            sessions.insert_foreign(key, id.clone());
        }
        self.keep(sessions, &session)?;
        Ok(session)
    }

    pub(super) fn modern_session(
        &self,
        server: &GatewayServer,
        principal: Arc<str>,
    ) -> Result<Arc<Session>, Box<Answer>> {
        let revision = "modern".to_owned();
        let shared = server.forwarded.share_name(&principal);
        let key = ImplicitKey { principal: Arc::clone(&shared), server: Arc::clone(&server.name) };
        let mut sessions = self.lock();
        if let Some(session) = sessions.implicit(&key) {
            return Ok(session);
        }
        let share = ShareKey::Modern { principal: shared };
        let new = NewSession { server, principal, revision, id: None, share };
        let session = self.open_client(&mut sessions, new, Opened::ByClient)?;
        self.open_in_engine(&session, None);
        sessions.insert_implicit(key, &session);
        Ok(session)
    }

    /// Opens the session of an `initialize` request.
    pub(super) fn open_session(
        &self,
        server: &GatewayServer,
        principal: Arc<str>,
        received: &Received,
    ) -> Result<Arc<Session>, Box<Answer>> {
        let params = match received {
            Received::Message(message) => Bytes::copy_from_slice(message.body().unwrap_or_default()),
            _ => Bytes::new(),
        };
        let revision = revision_of(&params).unwrap_or_else(|| DEFAULT_REVISION.to_owned());
        let share = ShareKey::of_handshake(&server.forwarded.share_name(&principal), &params);
        let id = self.seal(&principal, server, &params);
        let mut sessions = self.lock();
        let new = NewSession { server, principal, revision, id, share };
        let session = self.open_client(&mut sessions, new, Opened::ByClient)?;
        self.open_in_engine(&session, None);
        self.keep(sessions, &session)?;
        Ok(session)
    }

    /// Opens the session of a stream of 2024-11-05. The engine learns of it with the first message: a client that
    /// connects again makes no handshake.
    pub(super) fn open_sse_session(
        &self,
        server: &GatewayServer,
        principal: Arc<str>,
    ) -> Result<Arc<Session>, Box<Answer>> {
        let id = self.seal(&principal, server, &Bytes::new());
        let mut sessions = self.lock();
        let new = NewSession { server, principal, revision: SSE_REVISION.to_owned(), id, share: ShareKey::Alone };
        let session = self.open_client(&mut sessions, new, Opened::BySse)?;
        self.keep(sessions, &session)?;
        Ok(session)
    }

    /// Opens a session of an earlier process, or one that has expired.
    fn open_again(
        &self,
        server: &GatewayServer,
        principal: Arc<str>,
        params: &Bytes,
        id: &str,
    ) -> Result<Arc<Session>, Box<Answer>> {
        // Requests that come at the same time get one session.
        let mut sessions = self.lock();
        if let Some(session) = sessions.get(id) {
            return Ok(session);
        }
        let revision = revision_of(params).unwrap_or_else(|| DEFAULT_REVISION.to_owned());
        let share = ShareKey::of_handshake(&server.forwarded.share_name(&principal), params);
        // Parameters that were too long for an id are not known any more.
        let known = if params.is_empty() { default_params(&revision) } else { params.to_vec() };
        let new = NewSession { server, principal, revision, id: Some(id.to_owned()), share };
        let session = self.open_client(&mut sessions, new, Opened::ByClient)?;
        self.open_in_engine(&session, initialize_request(&known));
        self.keep(sessions, &session)?;
        Ok(session)
    }

    /// Returns whether a session may be used with the headers of this request. Other values than before replace those
    /// of a session that shares its upstream with no other.
    fn adopt_headers(&self, session: &Session, server: &GatewayServer) -> bool {
        if self.hub.has_request_headers(session.upstream, &server.forwarded) {
            return true;
        }
        let is_alone = self.lock().count_of(session.upstream) == 1;
        if is_alone {
            self.set_headers(session.upstream, server);
        }
        is_alone
    }

    fn set_headers(&self, upstream: UpstreamId, server: &GatewayServer) {
        if !server.forwarded.is_empty() {
            self.redactor.learn_renewed(&server.forwarded.secrets());
        }
        self.hub.set_request_headers(upstream, &server.forwarded);
    }

    fn seal(&self, principal: &str, server: &GatewayServer, params: &Bytes) -> Option<String> {
        let (principal, server, number) = (principal.to_owned(), server.name.to_string(), self.sealer.number());
        self.sealer.seal(&Ticket { principal, server, number, params: params.clone() })
    }

    /// Finds the upstream of a new session.
    fn open_client(
        &self,
        sessions: &mut Sessions,
        new: NewSession<'_>,
        opened: Opened,
    ) -> Result<Arc<Session>, Box<Answer>> {
        let NewSession { server, principal, revision, id, share } = new;
        let upstream = self.place(sessions, server, &principal, share).map_err(|full| Box::new(no_room(full)))?;
        self.set_headers(upstream, server);
        let client = self.hub.new_client();
        self.hub.add_client(client, Arc::clone(&principal), self.access().tools_of(&principal));
        self.hub.open_stream(client, StreamId::COMMON);
        let name = Arc::clone(&server.name);
        Ok(Arc::new(Session::new((client, upstream), id, principal, name, revision, opened)))
    }

    /// Chooses the upstream of a new session. At a limit, the session of the principal that was idle for the longest
    /// time makes room.
    fn place(
        &self,
        sessions: &mut Sessions,
        server: &GatewayServer,
        principal: &Arc<str>,
        share: ShareKey,
    ) -> Result<UpstreamId, NoRoom> {
        let full = match self.servers.place(server, principal, share.clone()) {
            Ok(upstream) => return Ok(upstream),
            Err(full) => full,
        };
        let until = Instant::now().checked_sub(defaults::EVICTED_AFTER).ok_or(full)?;
        let is_busy = |session: &Session| self.hub.has_open_request(session.client);
        let evicted = sessions.take_evictable(principal, &server.name, until, is_busy).ok_or(full)?;
        self.close(&evicted);
        self.servers.place(server, principal, share)
    }

    /// Opens the client of a session in the engine. With `resumed`, Mendline makes its handshake.
    pub(super) fn open_in_engine(&self, session: &Session, resumed: Option<Message>) {
        let (client, upstream) = (session.client, session.upstream);
        let streams = ClientStreams::Many { resumed };
        self.hub.input(Input::ClientOpened { client, upstream, streams });
    }

    /// Opens a new reader of the common stream.
    pub(super) fn attach_common(&self, session: &Arc<Session>, after: Option<u32>) -> StreamReader {
        let (client, stream) = (session.client, StreamId::COMMON);
        let queue = self.hub.stream(client, stream).unwrap_or_else(|| self.hub.open_stream(client, stream));
        let reader = StreamReader::attach(&self.hub, session, stream, queue, after, OnLoss::Detach);
        self.hub.input(Input::StreamAttached { client, stream });
        reader
    }

    /// Keeps a new session. Sessions that were idle for long make room, if its principal has too many; if all are in
    /// use, the new one is refused.
    fn keep(&self, mut sessions: MutexGuard<'_, Sessions>, session: &Arc<Session>) -> Result<(), Box<Answer>> {
        sessions.insert(session);
        let limit = self.access().sessions;
        let surplus = sessions.take_surplus(session, limit);
        let is_full = sessions.is_above(&session.principal, limit);
        if let Some(id) = session.id.as_ref().filter(|_| is_full) {
            sessions.remove(id);
        }
        drop(sessions);
        surplus.iter().for_each(|session| self.close(session));
        if is_full {
            self.close(session);
            return Err(Box::new(no_room(NoRoom { limit, is_own: true })));
        }
        Ok(())
    }

    pub(super) fn close(&self, session: &Session) {
        self.hub.input(Input::ClientLost { client: session.client });
        self.hub.remove_client(session.client);
        self.servers.leave(session.upstream);
    }

    pub(super) fn lock_ended(&self) -> MutexGuard<'_, EndedSessions> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The revision of clients of HTTP+SSE.
pub(super) const SSE_REVISION: &str = "2024-11-05";

/// Returns the `initialize` parameters for a client whose own are not known.
pub(super) fn default_params(revision: &str) -> Vec<u8> {
    let params = serde_json::json!({
        "protocolVersion": revision, "capabilities": {},
        "clientInfo": { "name": "mendline", "version": env!("CARGO_PKG_VERSION") },
    });
    params.to_string().into_bytes()
}

/// Returns the `initialize` request with these parameters.
pub(super) fn initialize_request(params: &[u8]) -> Option<Message> {
    let mut text = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":"#.to_vec();
    text.extend_from_slice(params);
    text.push(b'}');
    Message::parse(Bytes::from(text)).ok()
}

/// Returns the revision that a client asked for.
fn revision_of(params: &[u8]) -> Option<String> {
    let params: serde_json::Value = serde_json::from_slice(params).ok()?;
    params.get("protocolVersion")?.as_str().map(str::to_owned)
}
