//! The MCP client of our own commands.
//!
//! It uses the engine of `mendline run`, in this process and over a channel, so that a call from a shell recovers exactly
//! like a call of an agent. It initializes the session in the legacy era first, which most
//! servers support, and in the modern era if the server requires that. It declines requests of the server, because a
//! command line can neither ask a person nor sample.
//!
//! Results keep the text that the server wrote.

mod answer;
mod event_observer;
mod handshake;

use std::time::Duration;

use mendline::Observer;
use mendline::builder::Running;
use mendline::decisions::config::{Catalogue, Startup};
use mendline::decisions::defaults;
use mendline::frontend::{ClientChannel, channel};
use mendline::observe::redact::Redactor;
use mendline_wire::meta;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

pub(crate) use self::answer::{Failure, Notification, Progress, RequestError};
use self::answer::{Incoming, decline_request, parse};
pub(crate) use self::event_observer::{EventObserver, Observed};
pub(crate) use self::handshake::{Era, ServerInfo};
use self::handshake::{discovered, server_info};
use crate::plan::{Endpoint, Plan};
use crate::run::RENEWAL_TIMEOUT;

/// The newest revision of each era.
const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// Time limit for closing: the shutdown sequence of a child, and a margin.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(7);

/// Time limit for cancelling a request, which happens within this process.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of pages of a list.
const PAGES: usize = 1_000;

/// Time for which a command that exits is started again, unless one is configured: a person waits for the answer.
const CRASHES: Duration = Duration::from_secs(10);

/// Maximum number of rounds in which a modern server may request input.
const INPUT_ROUNDS: usize = 3;

/// One client, one server, and the engine between them.
pub(crate) struct McpClient {
    channel: ClientChannel,
    engine: Running,
    events: EventObserver,
    last_id: u64,
    era: Era,
    /// True while a request has no response.
    is_pending: bool,
    /// Hides secrets in quoted text.
    redactor: Redactor,
}

impl McpClient {
    /// Starts or dials the server. Must be called inside a runtime.
    pub(crate) fn open<O: Observer + 'static>(mut plan: Plan, observer: O) -> Result<McpClient, String> {
        // Only fresh answers of the server count here, not cached ones.
        plan.upstream.catalogue = Catalogue { cache: false, startup: Startup::Wait };
        let redactor = Redactor::default();
        redactor.learn(&plan.secrets());
        let is_child = matches!(plan.endpoint, Endpoint::Child(_));
        if is_child && plan.upstream.timeouts.recovery == defaults::RECOVERY {
            plan.upstream.timeouts.recovery = CRASHES;
        }
        let (frontend, channel) = channel(&plan.limits);
        let (builder, server) = plan.builder(redactor.clone(), None)?;
        let events = EventObserver::default();
        let engine = builder.observer(events.clone()).observer(observer).start([(server.id, frontend)]);
        Ok(McpClient { channel, engine, events, last_id: 0, era: Era::Legacy, is_pending: false, redactor })
    }

    /// Opens a connection and performs the handshake within a time limit.
    pub(crate) async fn connect<O: Observer + 'static>(
        plan: Plan,
        time_limit: Duration,
        observer: O,
    ) -> Result<(McpClient, ServerInfo), RequestError> {
        let mut client = McpClient::open(plan, observer).map_err(RequestError::InvalidResponse)?;
        let result = timeout(time_limit, client.handshake()).await;
        match result.unwrap_or(Err(RequestError::Timeout(time_limit))) {
            Ok(info) => Ok((client, info)),
            Err(trouble) => {
                let seen = client.events.seen().trouble.map(|why| why.to_string());
                client.close().await;
                // A timeout has a known reason, if a failure was observed.
                Err(match (trouble, seen) {
                    (RequestError::Timeout(_), Some(why)) => RequestError::Unavailable(why),
                    (trouble, _) => trouble.before_a_call(),
                })
            }
        }
    }

    /// Returns the observer of the connection's events.
    pub(crate) fn events(&self) -> &EventObserver {
        &self.events
    }

    /// Performs the handshake, in the era that the server supports.
    pub(crate) async fn handshake(&mut self) -> Result<ServerInfo, RequestError> {
        let who = json!({ "name": "mendline", "title": "Mendline", "version": env!("CARGO_PKG_VERSION") });
        let hello = json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": who });
        let refused = match self.request("initialize", members(hello), &mut ignore).await {
            Ok(result) => return self.finish_handshake(&result).await,
            Err(trouble) if trouble.is_from_server() => trouble,
            Err(trouble) => return Err(trouble),
        };
        self.era = Era::Modern;
        match self.request("server/discover", Vec::new(), &mut ignore).await {
            Ok(result) => discovered(&result),
            // A server that supports neither era has given its reason in the first response.
            Err(_) => Err(refused),
        }
    }

    /// Returns the modern description of a server that was initialized in the legacy era, if it supports both.
    pub(crate) async fn discover(&mut self) -> Option<ServerInfo> {
        let era = std::mem::replace(&mut self.era, Era::Modern);
        let asked = self.request("server/discover", Vec::new(), &mut ignore).await;
        self.era = era;
        discovered(&asked.ok()?).ok()
    }

    async fn finish_handshake(&mut self, result: &RawValue) -> Result<ServerInfo, RequestError> {
        let said: Value = serde_json::from_str(result.get()).unwrap_or(Value::Null);
        let Some(version) = said["protocolVersion"].as_str() else {
            return Err(RequestError::InvalidResponse("its initialize result has no protocolVersion".to_owned()));
        };
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned()).await?;
        Ok(server_info(Era::Legacy, version, &said["serverInfo"], &said))
    }

    /// Sends a request and waits for the response as long as the engine does. Other messages go to `notify`.
    pub(crate) async fn request(
        &mut self,
        method: &str,
        params: Vec<(String, Box<RawValue>)>,
        notify: &mut (dyn FnMut(Notification) + Send),
    ) -> Result<Box<RawValue>, RequestError> {
        let mut given: Option<(Map<String, Value>, Option<Value>)> = None;
        for _ in 0..INPUT_ROUNDS {
            let mut params = params.clone();
            if let Some((responses, state)) = given.take() {
                params.push(("inputResponses".to_owned(), raw(&Value::Object(responses))));
                params.extend(state.map(|state| ("requestState".to_owned(), raw(&state))));
            }
            let result = self.request_once(method, params, notify).await?;
            match answer::input_requests(&result) {
                None => return Ok(result),
                Some(input_requests) => given = Some((input_requests.declined()?, input_requests.state)),
            }
        }
        Err(RequestError::InvalidResponse("it keeps requesting input, which a command line cannot provide".to_owned()))
    }

    async fn request_once(
        &mut self,
        method: &str,
        mut params: Vec<(String, Box<RawValue>)>,
        notify: &mut (dyn FnMut(Notification) + Send),
    ) -> Result<Box<RawValue>, RequestError> {
        self.last_id += 1;
        let id = self.last_id;
        if let Some(meta) = self.meta(method, id) {
            params.push(("_meta".to_owned(), raw(&meta)));
        }
        let text: Vec<String> =
            params.iter().map(|(name, value)| format!("{}:{value}", Value::from(&**name))).collect();
        let method = Value::from(method);
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{{{}}}}}"#, text.join(","));
        self.is_pending = true;
        self.send(line).await?;
        loop {
            let message = self.channel.recv().await.ok_or(RequestError::Closed)?;
            match parse(&String::from_utf8_lossy(&message)) {
                Some(Incoming::Result { to, result }) if to == id => {
                    self.is_pending = false;
                    return Ok(result);
                }
                Some(Incoming::Error { to, trouble }) if to == id => {
                    self.is_pending = false;
                    return Err(trouble.redacted(&self.redactor));
                }
                Some(Incoming::Request { id, method }) => {
                    self.send(decline_request(&id, &method)).await?;
                    notify(Notification::RequestDeclined(method));
                }
                Some(Incoming::Progress(progress)) => notify(Notification::Progress(progress.redacted(&self.redactor))),
                Some(Incoming::Log { level, text }) => {
                    notify(Notification::Log { level, text: answer::redacted(&text, &self.redactor) });
                }
                Some(Incoming::Result { .. } | Incoming::Error { .. }) | None => {}
            }
        }
    }

    /// Returns the `_meta` of a request.
    fn meta(&self, method: &str, id: u64) -> Option<Value> {
        let mut meta = Map::new();
        if method == "tools/call" {
            meta.insert(meta::PROGRESS_TOKEN.to_owned(), id.into());
        }
        if self.era == Era::Modern {
            let who = json!({ "name": "mendline", "version": env!("CARGO_PKG_VERSION") });
            meta.insert(meta::PROTOCOL_VERSION.to_owned(), MODERN.into());
            meta.insert(meta::CLIENT_CAPABILITIES.to_owned(), json!({}));
            meta.insert(meta::CLIENT_INFO.to_owned(), who);
        }
        (!meta.is_empty()).then_some(Value::Object(meta))
    }

    /// Reads every page of a list; each item stays as the server wrote it.
    pub(crate) async fn list(&mut self, method: &str, member: &str) -> Result<Vec<Box<RawValue>>, RequestError> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES {
            let params = cursor.iter().map(|cursor| ("cursor".to_owned(), raw(&Value::from(&**cursor)))).collect();
            let result = self.request(method, params, &mut ignore).await?;
            let page: std::collections::BTreeMap<String, Box<RawValue>> =
                serde_json::from_str(result.get()).map_err(|_| missing_list(method, member))?;
            let listed = page.get(member).ok_or_else(|| missing_list(method, member))?;
            let listed: Vec<Box<RawValue>> =
                serde_json::from_str(listed.get()).map_err(|_| missing_list(method, member))?;
            items.extend(listed);
            let next = page.get("nextCursor").and_then(|next| serde_json::from_str::<Option<String>>(next.get()).ok());
            match next.flatten() {
                // A server that repeats a cursor would be read for ever.
                Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
                _ => return Ok(items),
            }
        }
        Err(RequestError::InvalidResponse(format!("{method} does not end: {PAGES} pages were read")))
    }

    /// Pings the server. The modern era has no ping, so the cheapest request replaces it.
    pub(crate) async fn ping(&mut self) -> Result<(), RequestError> {
        let method = if self.era == Era::Legacy { "ping" } else { "server/discover" };
        self.request(method, Vec::new(), &mut ignore).await.map(drop)
    }

    /// Cancels the last request.
    pub(crate) async fn cancel(&mut self) {
        let params = json!({ "requestId": self.last_id, "reason": "interrupted" });
        let notice = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        // The driver may have ended.
        let _ = self.send(notice.to_string()).await;
        // Closing right away could lose the cancellation.
        let cancelled = self.events.until(|seen| seen.is_cancelled.then_some(()));
        if timeout(CANCEL_TIMEOUT, cancelled).await.is_ok() {
            self.is_pending = false;
        }
    }

    /// Closes the connection: finishes running calls, ends the session, and shuts the child down.
    pub(crate) async fn close(self) {
        self.close_within(CLOSE_TIMEOUT).await;
    }

    /// Closes the connection within a time limit; then the guard ends the child.
    pub(crate) async fn close_within(self, time_limit: Duration) {
        let McpClient { channel, mut engine, is_pending, .. } = self;
        if is_pending {
            // The response is no longer needed. A second stop skips the graceful shutdown.
            engine.stop();
            engine.stop();
        }
        drop(channel);
        if timeout(time_limit, engine.ended()).await.is_err() {
            engine.abort().await;
        }
        mendline_oauth::finish_renewals(RENEWAL_TIMEOUT).await;
    }

    async fn send(&mut self, message: String) -> Result<(), RequestError> {
        self.channel.send(message).await.map_err(|_| RequestError::Closed)
    }
}

/// Returns the members of an object, each as raw JSON.
pub(crate) fn members(object: Value) -> Vec<(String, Box<RawValue>)> {
    match object {
        Value::Object(members) => members.into_iter().map(|(name, value)| (name, raw(&value))).collect(),
        _ => Vec::new(),
    }
}

/// Returns a value as raw JSON.
pub(crate) fn raw(value: &Value) -> Box<RawValue> {
    // A value has text keys and only numbers that JSON has, so serializing it does not fail.
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Ignores a notification.
pub(crate) fn ignore(_: Notification) {}

fn missing_list(method: &str, member: &str) -> RequestError {
    RequestError::InvalidResponse(format!("its response to {method} has no list of {member}"))
}
