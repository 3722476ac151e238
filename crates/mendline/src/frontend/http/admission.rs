//! Requests that the gateway answers itself, because their principal may not make them, or not now.
//!
//! A denied tool is answered as an unknown one. A request above a limit is answered as any other request that was not
//! sent, so that a model knows what to do; the header `Retry-After` tells a program the same. The engine is told of both,
//! so that they are in the audit log and in the counts.

use std::sync::Arc;
use std::time::Instant;

use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use mendline_core::{Input, RequestRefusal, words};
use mendline_wire::{Id, Kind, Message, Method, Received, code, meta};

use super::access::Access;
use super::hub::Hub;
use super::principal::{Permit, Principals, Rejected};
use super::response::{Answer, json, json_error};
use super::server_pool::GatewayServer;

/// The rules for the requests to one server.
pub(super) struct Admission<'a> {
    pub(super) access: &'a Access,
    pub(super) principals: &'a Principals,
    pub(super) hub: &'a Hub,
    pub(super) server: &'a GatewayServer,
}

impl Admission<'_> {
    /// Tells the engine of a refused request.
    fn report(&self, principal: &Arc<str>, request: &Message, why: RequestRefusal) {
        let (client, upstream) = (self.hub.client_of_principal(principal), self.server.upstream);
        let (method, tool) = (request.method(), tool_of(request));
        self.hub.input(Input::RequestRefused { upstream, client, method, tool, why });
    }
}

/// Accepts a frame of a client, or returns the answer to it. A frame without requests needs no permit.
pub(super) fn admit(
    admission: &Admission<'_>,
    principal: &Arc<str>,
    received: &Received,
) -> Result<Option<Permit>, Box<Answer>> {
    let Admission { access, principals, server, .. } = admission;
    let requests: Vec<&Message> = requests(received).collect();
    if let Some((request, tool)) = denied_tool(access, principal, &requests) {
        admission.report(principal, request, RequestRefusal::DeniedTool);
        let why = words::denied_tool(&tool);
        return Err(Box::new(match requests[..] {
            [only] => json(StatusCode::OK, words::error_response(&id_of(only), code::INVALID_PARAMS, &why)),
            _ => json_error(StatusCode::BAD_REQUEST, code::INVALID_PARAMS, &why, request.id()),
        }));
    }
    // A subscription waits for as long as its client wants; the engine limits their number.
    let count = requests.iter().filter(|request| request.method() != Method::SubscriptionsListen).count();
    let Ok(count @ 1..) = u32::try_from(count) else { return Ok(None) };
    let limits = access.limits_of(principal);
    let admitted = principals.admit(principal, limits, count, Instant::now());
    admitted.map(Some).map_err(|rejected| {
        for request in &requests {
            admission.report(principal, request, rejected.refusal());
        }
        Box::new(answer_rejected(&rejected, &server.name, &requests))
    })
}

/// Returns the requests of a frame.
pub(super) fn requests(received: &Received) -> impl Iterator<Item = &Message> {
    let (one, many) = match received {
        Received::Message(message) => (Some(message), &[][..]),
        Received::Batch(messages) => (None, &messages[..]),
        Received::Broken { .. } | Received::TooLong { .. } => (None, &[][..]),
    };
    let all = one.into_iter().chain(many.iter().filter_map(|message| message.as_ref().ok()));
    all.filter(|message| message.kind() == Kind::Request)
}

/// Returns the first call of a tool that the principal may not use.
fn denied_tool<'a>(access: &Access, principal: &str, requests: &[&'a Message]) -> Option<(&'a Message, String)> {
    let tools = access.tools_of(principal).filter(|tools| !tools.allows_all())?;
    requests.iter().filter(|request| request.method() == Method::ToolsCall).find_map(|request| {
        let tool = request.get_str(&["name"]).unwrap_or_default();
        (!tools.allows(&tool)).then(|| (*request, tool_of(request).unwrap_or_default()))
    })
}

/// Returns the name of the tool that a request calls, not longer than it is shown.
fn tool_of(request: &Message) -> Option<String> {
    let name = request.get_str(&["name"]).filter(|_| request.method() == Method::ToolsCall)?;
    Some(name.chars().take(100).collect())
}

fn answer_rejected(rejected: &Rejected, server: &str, requests: &[&Message]) -> Answer {
    let [only] = requests else {
        let failure = rejected.failure(server, "the batch".to_owned(), false);
        return with_hint(
            json_error(StatusCode::TOO_MANY_REQUESTS, failure.cause.code(), &failure.text(), None),
            rejected,
        );
    };
    let what = tool_of(only).unwrap_or_else(|| only.method_name().chars().take(100).collect());
    let failure = rejected.failure(server, what, meta::is_modern(only));
    with_hint(json(StatusCode::OK, failure.response(&id_of(only), only.method())), rejected)
}

fn with_hint(mut answer: Answer, rejected: &Rejected) -> Answer {
    let seconds = rejected.retry_after.as_millis().div_ceil(1000).max(1);
    if let Ok(value) = HeaderValue::from_str(&seconds.to_string()) {
        answer.headers_mut().insert(RETRY_AFTER, value);
    }
    answer
}

fn id_of(message: &Message) -> Id {
    Id::from_raw(message.id().unwrap_or(b"null"))
}
