//! A message that the server has accepted, and how its answer travels.
//!
//! The eras differ in what they demand of a message, which is settled before there is one of these. After that all is the
//! same: the answer is said on a stream of its own, and the stream is carried as one JSON text, as events, or on the only
//! stream of the oldest transport. What a client's leaving means is again the era's: in the modern one it cancels.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use mendline_wire::{Kind, headers, meta};
use serde_json::{Value, json};

use super::request::HttpRequest;
use super::sse::{StreamEnd, SseFormat};
use super::reply::Reply;
use super::session::{Call, Session};
use super::state::ServerState;
use super::stream::{Next, Stream};
use super::{jsonrpc, methods, tools};
use crate::settings::Answers;

/// The ways to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP+SSE of 2024-11-05.
    HttpSse,
    /// Streamable HTTP up to 2025-11-25.
    Legacy,
    /// Streamable HTTP of 2026-07-28.
    Modern,
}

impl Protocol {
    /// A result with what the era demands of one.
    pub(crate) fn result(self, mut result: Value) -> Value {
        if self == Protocol::Modern
            && let Some(members) = result.as_object_mut()
        {
            members.entry("resultType").or_insert_with(|| "complete".into());
            members.insert("_meta".to_owned(), json!({ meta::SERVER_INFO: methods::server_info() }));
        }
        result
    }
}

/// A message that has passed the rules of its era.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) request: HttpRequest,
    pub(crate) protocol: Protocol,
    pub(crate) session: Arc<Session>,
}

/// A request that has begun.
pub(crate) struct Begun {
    pub(crate) stream: Arc<Stream>,
    pub(crate) call: Arc<Call>,
}

impl Admitted {
    /// Does what the message asks, and answers.
    pub(crate) async fn perform(self: Arc<Self>, state: &Arc<ServerState>) -> Reply {
        let Some(message) = &self.request.message else { return Reply::empty(StatusCode::ACCEPTED) };
        match message.kind() {
            Kind::Request => {
                let begun = self.begin(state);
                self.deliver(state, begun).await
            }
            Kind::Notification => {
                methods::handle_notification(&self);
                Reply::empty(StatusCode::ACCEPTED)
            }
            Kind::Result | Kind::Error => {
                if self.session.answered(&self.request.id(), self.request.text.clone()) {
                    state.oracle.record(|counts| counts.server_requests_answered += 1);
                }
                Reply::empty(StatusCode::ACCEPTED)
            }
        }
    }

    /// Begins a request. What it has to say comes on a stream of its own.
    pub(crate) fn begin(self: &Arc<Self>, state: &Arc<ServerState>) -> Begun {
        let stream = Arc::new(Stream::new(state.next_name("s")));
        if self.protocol == Protocol::Legacy {
            self.session.keep(&stream);
        }
        let call = self.session.begin(self.request.id());
        if self.request.is_call() {
            let run = tools::run(Arc::clone(state), Arc::clone(self), Arc::clone(&call), Arc::clone(&stream));
            state.spawn(run);
        } else if self.is_listen() {
            state.listen(self, &stream);
        } else {
            stream.push(methods::answer(self));
            stream.end();
            self.session.finish(&self.request.id());
        }
        Begun { stream, call }
    }

    /// A stream that says these messages and ends, in place of what the server would have said.
    pub(crate) fn stream_of(&self, state: &ServerState, messages: impl IntoIterator<Item = Bytes>) -> Begun {
        let begun = self.empty_stream(state);
        messages.into_iter().for_each(|message| begun.stream.push(message));
        begun.stream.end();
        self.session.finish(&self.request.id());
        begun
    }

    /// A stream on which nothing has been said yet.
    pub(crate) fn empty_stream(&self, state: &ServerState) -> Begun {
        let stream = Arc::new(Stream::new(state.next_name("s")));
        if self.protocol == Protocol::Legacy {
            self.session.keep(&stream);
        }
        let call = self.session.begin(self.request.id());
        Begun { stream, call }
    }

    /// Carries a stream to the client in the way that it asked for.
    pub(crate) async fn deliver(self: Arc<Self>, state: &Arc<ServerState>, begun: Begun) -> Reply {
        match (self.protocol, self.wants(state)) {
            (Protocol::HttpSse, _) => {
                state.spawn(async move { relay(&begun.stream, &self.session.stream).await });
                Reply::whole(StatusCode::ACCEPTED, Some("text/plain"), Bytes::from_static(b"Accepted"))
            }
            (_, Answers::Json) => self.deliver_json(state, begun).await,
            (_, Answers::Events) => {
                let sse_format = self.sse_format(state);
                self.deliver_events(state, begun, sse_format)
            }
        }
    }

    /// Carries a stream as events.
    pub(crate) fn deliver_events(self: Arc<Self>, state: &Arc<ServerState>, begun: Begun, sse_format: SseFormat) -> Reply {
        let (reply, pieces) = Reply::events();
        let reply = self.with_session_id(reply);
        let shared = Arc::clone(state);
        state.spawn(async move {
            if sse_format.write_stream(&begun.stream, 0, &pieces).await == StreamEnd::ClientLeft {
                self.client_left(&shared, &begun.call);
            }
        });
        reply
    }

    /// Waits for the last word of a stream and makes it the body.
    async fn deliver_json(self: Arc<Self>, state: &Arc<ServerState>, begun: Begun) -> Reply {
        let mut waiting = Waiting { admitted: &self, state, call: &begun.call, is_over: false };
        let messages = begun.stream.collect().await;
        waiting.is_over = true;
        drop(waiting);
        let reply = match messages.last() {
            Some(answer) => Reply::json(StatusCode::OK, answer.clone()),
            // Cancelled: the protocol has no answer for this, and HTTP must have one.
            None => Reply::empty(StatusCode::NO_CONTENT),
        };
        self.with_session_id(reply)
    }

    /// How events look to this client.
    pub(crate) fn sse_format(&self, state: &ServerState) -> SseFormat {
        match self.protocol {
            Protocol::Legacy => SseFormat::legacy(&state.settings()),
            Protocol::HttpSse | Protocol::Modern => SseFormat::plain(&state.settings()),
        }
    }

    /// Reports progress to a client that asked for it.
    pub(crate) fn progress(&self, stream: &Stream, done: u64, total: Option<u64>) {
        let token = &self.request.params()["_meta"]["progressToken"];
        if !token.is_null() {
            let params = json!({ "progressToken": token, "progress": done, "total": total });
            stream.push(jsonrpc::notification("notifications/progress", &params));
        }
    }

    /// Whether it wants JSON or events.
    pub(crate) fn wants(&self, state: &ServerState) -> Answers {
        let arguments = &self.request.params()["arguments"];
        let needs_client = self.request.tool() == Some("ask") && self.protocol == Protocol::Legacy;
        match arguments["answer"].as_str() {
            // A question to the client has to travel before the answer does.
            _ if needs_client || self.is_listen() => Answers::Events,
            Some("json") => Answers::Json,
            Some("events") => Answers::Events,
            _ => state.settings().answers,
        }
    }

    fn is_listen(&self) -> bool {
        self.protocol == Protocol::Modern && self.request.method() == Some("subscriptions/listen")
    }

    /// A new session is told its id with the answer to its greeting.
    fn with_session_id(&self, reply: Reply) -> Reply {
        let is_new = self.request.method() == Some("initialize") && !self.session.id().is_empty();
        match headers::SESSION_ID.parse() {
            Ok(name) if is_new && self.protocol == Protocol::Legacy => reply.with(name, self.session.id()),
            _ => reply,
        }
    }

    /// The client did not wait for the end of the answer.
    fn client_left(&self, state: &ServerState, call: &Call) {
        if self.is_listen() {
            state.oracle.record(|counts| counts.listens_closed += 1);
            state.stop_listening(&self.request.id());
            return;
        }
        state.oracle.record(|counts| counts.closed_mid_call += 1);
        if self.protocol == Protocol::Modern {
            call.cancel();
        }
    }
}

/// A JSON answer is waited for; hyper drops the wait when the client leaves.
struct Waiting<'a> {
    admitted: &'a Admitted,
    state: &'a ServerState,
    call: &'a Call,
    is_over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.admitted.client_left(self.state, self.call);
        }
    }
}

/// Says on one stream what is said on another.
async fn relay(from: &Stream, to: &Stream) {
    let (mut changed, mut after) = (from.watch(), 0);
    loop {
        changed.mark_unchanged();
        match from.next(after) {
            Next::Message(number, message) => {
                to.push(message);
                after = number;
            }
            Next::Ended => return,
            Next::NotYet => {
                // The sender lives as long as the stream.
                let _ = changed.changed().await;
            }
        }
    }
}
