//! An accepted message and the delivery of its answer.
//!
//! The eras differ in their checks, which happen before a message is admitted. After that the path is the same: the
//! answer is pushed to its own stream, and the stream is delivered as one JSON text, as events, or on the single stream
//! of HTTP+SSE. In the modern era a client cancels a call by closing the response.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use mendline_wire::{Kind, headers, meta};
use serde_json::{Value, json};

use super::reply::Reply;
use super::request::HttpRequest;
use super::session::{Call, Session};
use super::sse::{SseFormat, StreamEnd};
use super::state::ServerState;
use super::stream::{Next, Stream};
use super::{jsonrpc, methods, tools};
use crate::settings::Answers;

/// The protocols of the server.
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
    /// Completes a result with the members that the era requires.
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

/// A message that has passed the checks of its era.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) request: HttpRequest,
    pub(crate) protocol: Protocol,
    pub(crate) session: Arc<Session>,
}

/// A request that has started.
pub(crate) struct Begun {
    pub(crate) stream: Arc<Stream>,
    pub(crate) call: Arc<Call>,
}

impl Admitted {
    /// Handles the message and returns the reply.
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

    /// Starts a request. Its messages go to a new stream.
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

    /// Starts a request whose stream holds these messages only, instead of the real answer.
    pub(crate) fn stream_of(&self, state: &ServerState, messages: impl IntoIterator<Item = Bytes>) -> Begun {
        let begun = self.empty_stream(state);
        messages.into_iter().for_each(|message| begun.stream.push(message));
        begun.stream.end();
        self.session.finish(&self.request.id());
        begun
    }

    /// Starts a request whose stream is still empty.
    pub(crate) fn empty_stream(&self, state: &ServerState) -> Begun {
        let stream = Arc::new(Stream::new(state.next_name("s")));
        if self.protocol == Protocol::Legacy {
            self.session.keep(&stream);
        }
        let call = self.session.begin(self.request.id());
        Begun { stream, call }
    }

    /// Delivers a stream in the form that the client chose.
    pub(crate) async fn deliver(self: Arc<Self>, state: &Arc<ServerState>, begun: Begun) -> Reply {
        match (self.protocol, self.answer_form(state)) {
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

    /// Delivers a stream as events.
    pub(crate) fn deliver_events(
        self: Arc<Self>,
        state: &Arc<ServerState>,
        begun: Begun,
        sse_format: SseFormat,
    ) -> Reply {
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

    /// Waits for the end of a stream and returns its last message as the body.
    async fn deliver_json(self: Arc<Self>, state: &Arc<ServerState>, begun: Begun) -> Reply {
        let mut waiting = Waiting { admitted: &self, state, call: &begun.call, is_over: false };
        let messages = begun.stream.collect().await;
        waiting.is_over = true;
        drop(waiting);
        let reply = match messages.last() {
            Some(answer) => Reply::json(StatusCode::OK, answer.clone()),
            // The call was cancelled. The protocol has no answer for it, but HTTP needs a response.
            None => Reply::empty(StatusCode::NO_CONTENT),
        };
        self.with_session_id(reply)
    }

    /// Returns the format of events for this protocol.
    pub(crate) fn sse_format(&self, state: &ServerState) -> SseFormat {
        match self.protocol {
            Protocol::Legacy => SseFormat::legacy(&state.settings()),
            Protocol::HttpSse | Protocol::Modern => SseFormat::plain(&state.settings()),
        }
    }

    /// Reports progress if the client asked for it.
    pub(crate) fn progress(&self, stream: &Stream, done: u64, total: Option<u64>) {
        let token = &self.request.params()["_meta"]["progressToken"];
        if !token.is_null() {
            let params = json!({ "progressToken": token, "progress": done, "total": total });
            stream.push(jsonrpc::notification("notifications/progress", &params));
        }
    }

    /// Returns the form of the answer.
    pub(crate) fn answer_form(&self, state: &ServerState) -> Answers {
        let arguments = &self.request.params()["arguments"];
        let needs_client = self.request.tool() == Some("ask") && self.protocol == Protocol::Legacy;
        match arguments["answer"].as_str() {
            // A request to the client must be sent before the answer.
            _ if needs_client || self.is_listen() => Answers::Events,
            Some("json") => Answers::Json,
            Some("events") => Answers::Events,
            _ => state.settings().answers,
        }
    }

    fn is_listen(&self) -> bool {
        self.protocol == Protocol::Modern && self.request.method() == Some("subscriptions/listen")
    }

    /// Adds the id of a new session to the answer to `initialize`.
    fn with_session_id(&self, reply: Reply) -> Reply {
        let is_new = self.request.method() == Some("initialize") && !self.session.id().is_empty();
        match headers::SESSION_ID.parse() {
            Ok(name) if is_new && self.protocol == Protocol::Legacy => reply.with(name, self.session.id()),
            _ => reply,
        }
    }

    /// Handles a client that closed the response before its end.
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

/// A pending JSON answer. hyper drops it when the client leaves.
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

/// Copies one stream to another.
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
