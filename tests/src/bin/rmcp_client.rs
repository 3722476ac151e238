//! The official Rust client, controlled by a script: `rmcp_client SCRIPT (legacy|modern|probing) COMMAND [ARGS…]`.
//!
//! It starts the command, performs the operations of the script in order and prints one JSON object: the result of each
//! operation, the requests of the server and its notifications. Ids, times and other nondeterministic values are left
//! out, so that two runs can be compared as text. Requests and results are JSON like the script; between them are the
//! types of rmcp, as in every program that uses it.

#![allow(
    deprecated,
    reason = "sampling, roots and logging are deprecated by name, and proven for as long as they are spoken"
)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the printed object is what this program is for")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    ClientConfig, ClientRequest, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult,
    ListRootsResult, LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion,
    ResourceUpdatedNotificationParam,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, NotificationContext, PeerRequestOptions, RequestContext, RequestHandle,
    RunningService, ServiceError,
};
use rmcp::transport::TokioChildProcess;
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// Longer than any script takes on a busy machine. Reaching it is an error, not a hang.
const PATIENCE: Duration = Duration::from_secs(90);

type Failure = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let outcome = match tokio::time::timeout(PATIENCE, run()).await {
        Ok(outcome) => outcome,
        Err(_) => Err(format!("the script did not end within {PATIENCE:?}").into()),
    };
    match outcome {
        Ok(outcome) => {
            println!("{outcome}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("rmcp_client: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<Value, Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, era, command, rest @ ..] = args.as_slice() else {
        return Err("usage: rmcp_client SCRIPT (legacy|modern|probing) COMMAND [ARGS…]".into());
    };
    let script: Vec<Value> = serde_json::from_slice(&std::fs::read(file)?)?;
    let modern = era == "modern";
    let mut server = tokio::process::Command::new(command);
    server.args(rest);
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    let lifecycle = match era.as_str() {
        "modern" => ClientLifecycleMode::Discover { preferred_versions },
        "probing" => ClientLifecycleMode::Auto { preferred_versions, legacy_version: None },
        _ => ClientLifecycleMode::Initialize,
    };
    let listener = ServerMessages::default();
    let service = listener.clone().serve_with_lifecycle(TokioChildProcess::new(server)?, lifecycle).await?;
    let handshake = serde_json::to_value(service.peer().peer_info().as_deref())?;
    let runner = ScriptRunner { service, listener, modern };
    let mut steps = Vec::new();
    for step in script.iter().filter(|step| step["era"] != if modern { "legacy" } else { "modern" }) {
        let (gave, failed) = match runner.perform(step).await {
            Ok(gave) => (gave, false),
            Err(why) => match why.downcast::<ServiceError>().map(|why| *why) {
                Ok(ServiceError::McpError(error)) => (json!({ "error": error }), true),
                Ok(other) => (json!({ "error": other.to_string() }), true),
                Err(other) => return Err(format!("{step}: {other}").into()),
            },
        };
        // A step that fails in both runs would compare equal and prove nothing.
        if failed != step["fails"].as_bool().unwrap_or_default() {
            return Err(format!("{step} gave {gave}").into());
        }
        steps.push(json!([step["do"], step["tool"], gave]));
    }
    let ScriptRunner { service, listener, .. } = runner;
    service.cancel().await?;
    let received = listener.received().clone();
    Ok(json!({ "handshake": handshake, "steps": steps, "received": received.messages }))
}

/// The notifications and requests of the server, and the answers to the requests.
#[derive(Clone, Default)]
struct ServerMessages {
    received: Arc<Mutex<Received>>,
    changed: Arc<Notify>,
}

#[derive(Clone, Default)]
struct Received {
    messages: BTreeMap<&'static str, Vec<Value>>,
    /// Keyed by token, because a progress notification names its request only by it.
    progress: BTreeMap<String, Vec<Value>>,
}

impl ServerMessages {
    fn received(&self) -> std::sync::MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, method: &'static str, params: Value) {
        self.received().messages.entry(method).or_default().push(params);
        self.changed.notify_waiters();
    }

    fn count(&self, method: &str) -> usize {
        self.received().messages.get(method).map_or(0, Vec::len)
    }

    async fn until(&self, mut enough: impl FnMut(&Received) -> bool) {
        loop {
            let changed = self.changed.notified();
            if enough(&self.received()) {
                return;
            }
            changed.await;
        }
    }
}

fn parsed<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(internal)
}

fn internal(why: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(why.to_string(), None)
}

/// Removes the token from a request, because it is an id and not comparable.
fn without_meta(mut params: Value) -> Value {
    params["_meta"] = Value::Null;
    params
}

impl ClientHandler for ServerMessages {
    fn get_info(&self) -> ClientConfig {
        let capabilities = json!({"sampling": {}, "elicitation": {"form": {}}, "roots": {"listChanged": true}});
        let name = json!({"name": "peer-rmcp", "version": "1.0.0"});
        match (serde_json::from_value(capabilities), serde_json::from_value(name)) {
            (Ok(capabilities), Ok(name)) => ClientConfig::new(capabilities, name),
            _ => ClientConfig::default(),
        }
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.note("sampling/createMessage", without_meta(json!(params)));
        if let Some(token) = context.meta.get_progress_token() {
            let progress = ProgressNotificationParam::new(token, 1.0).with_total(2.0);
            context.peer.notify_progress(progress).await.map_err(internal)?;
        }
        let content = json!({"type": "text", "text": "four"});
        parsed(json!({"role": "assistant", "content": content, "model": "arithmetic", "stopReason": "endTurn"}))
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let params = without_meta(json!(params));
        let never_mind = params["message"] == "Never mind.";
        self.note("elicitation/create", params);
        if never_mind {
            // The server waits for this notification before it cancels its request.
            context.peer.notify_roots_list_changed().await.map_err(internal)?;
            context.ct.cancelled().await;
        }
        parsed(json!({"action": "accept", "content": {"colour": "blue", "name": "Ada", "check": true}}))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        self.note("roots/list", Value::Null);
        parsed(json!({"roots": [{"uri": "file:///srv/data", "name": "data"}]}))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let step = json!([params.progress, params.total, params.message]);
        self.received().progress.entry(json!(params.progress_token).to_string()).or_default().push(step);
        self.changed.notify_waiters();
    }

    async fn on_logging_message(&self, params: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        self.note("notifications/message", json!(params));
    }

    async fn on_resource_updated(&self, params: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        self.note("notifications/resources/updated", json!(params));
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.note("notifications/tools/list_changed", Value::Null);
    }
}

/// Creates a file at a pause, and continues when the test has created another.
async fn pause(file: &str) -> Result<Value, Failure> {
    std::fs::write(format!("{file}.here"), "")?;
    while !std::path::Path::new(&format!("{file}.on")).exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(Value::Null)
}

struct ScriptRunner {
    service: RunningService<RoleClient, ServerMessages>,
    listener: ServerMessages,
    modern: bool,
}

impl ScriptRunner {
    async fn perform(&self, step: &Value) -> Result<Value, Failure> {
        match step["do"].as_str().unwrap_or_default() {
            "ping" => self.request("ping", None).await,
            "list" => self.list(&step["what"]).await,
            "call" => self.call(step).await,
            "together" => self.together(&step["calls"]).await,
            "cancel" => self.cancel(step).await,
            "read" => self.request("resources/read", Some(json!({"uri": step["uri"]}))).await,
            "watch" => self.watch(step).await,
            "hang_up" => self.hang_up(step).await,
            "subscribe" => self.request("resources/subscribe", Some(json!({"uri": step["uri"]}))).await,
            "pause" => pause(step["file"].as_str().unwrap_or_default()).await,
            "level" => self.request("logging/setLevel", Some(json!({"level": step["level"]}))).await,
            "prompt" => {
                self.request("prompts/get", Some(json!({"name": step["name"], "arguments": step["arguments"]}))).await
            }
            "complete" => {
                let reference = json!({"type": "ref/prompt", "name": step["prompt"]});
                self.request("completion/complete", Some(json!({"ref": reference, "argument": step["argument"]}))).await
            }
            "raw" => self.request(step["method"].as_str().unwrap_or_default(), None).await,
            "roots_changed" => {
                self.service.notify_roots_list_changed().await?;
                Ok(Value::Null)
            }
            "await" => {
                let method = step["method"].as_str().unwrap_or_default();
                let count = step["count"].as_u64().unwrap_or_default();
                self.listener.until(|received| received.messages.get(method).map_or(0, Vec::len) as u64 >= count).await;
                Ok(Value::Null)
            }
            other => Err(format!("no such operation: {other}").into()),
        }
    }

    async fn send(&self, method: &str, params: Option<Value>) -> Result<RequestHandle<RoleClient>, Failure> {
        let mut request = json!({ "method": method });
        if let Some(params) = params {
            request["params"] = params;
        }
        let request: ClientRequest = serde_json::from_value(request)?;
        Ok(self.service.send_cancellable_request(request, PeerRequestOptions::no_options()).await?)
    }

    async fn request(&self, method: &str, params: Option<Value>) -> Result<Value, Failure> {
        Ok(serde_json::to_value(self.send(method, params).await?.await_response().await?)?)
    }

    async fn list(&self, what: &Value) -> Result<Value, Failure> {
        let (method, key) = match what.as_str() {
            Some("tools") => ("tools/list", "tools"),
            Some("resources") => ("resources/list", "resources"),
            Some("templates") => ("resources/templates/list", "resourceTemplates"),
            _ => ("prompts/list", "prompts"),
        };
        let mut pages = Vec::new();
        let mut params = None;
        loop {
            let page = self.request(method, params.take()).await?;
            pages.push(page[key].clone());
            match &page["nextCursor"] {
                Value::String(cursor) => params = Some(json!({ "cursor": cursor })),
                _ => return Ok(json!(pages)),
            }
        }
    }

    fn call_params(&self, step: &Value) -> Value {
        let mut arguments = step["arguments"].clone();
        if let (Some(name), Some(bytes)) = (step["fill"]["argument"].as_str(), step["fill"]["bytes"].as_u64()) {
            arguments[name] = json!("x".repeat(bytes as usize));
        }
        let mut params = json!({"name": step["tool"], "arguments": arguments});
        if self.modern && step["log"].is_string() {
            params["_meta"] = json!({"io.modelcontextprotocol/logLevel": step["log"]});
        }
        params
    }

    /// Calls a tool. A call with progress is sent as a raw request, because only its handle has the token. Other calls
    /// use the high-level API, which answers the input requests of the modern era.
    async fn call(&self, step: &Value) -> Result<Value, Failure> {
        let params = self.call_params(step);
        if step["progress"] == true {
            let handle = self.send("tools/call", Some(params)).await?;
            let token = json!(handle.progress_token).to_string();
            let result = handle.await_response().await?;
            let seen = self.listener.received().progress.get(&token).cloned();
            return Ok(json!([result, seen]));
        }
        let result = json!(self.service.call_tool(serde_json::from_value(params)?).await?);
        if step["brief"] == true {
            let text = result["content"][0]["text"].as_str().unwrap_or_default();
            return Ok(json!({"length": text.len(), "head": text.get(..24), "tail": text.get(text.len() - 24..)}));
        }
        Ok(result)
    }

    async fn together(&self, calls: &Value) -> Result<Value, Failure> {
        let mut handles = Vec::new();
        for call in calls.as_array().into_iter().flatten() {
            handles.push(self.send("tools/call", Some(self.call_params(call))).await?);
        }
        let mut results = Vec::new();
        for handle in handles {
            results.push(json!(handle.await_response().await?));
        }
        Ok(json!(results))
    }

    /// Cancels a running call: after its first progress, or after another call that was sent later.
    async fn cancel(&self, step: &Value) -> Result<Value, Failure> {
        let handle = self.send("tools/call", Some(self.call_params(&step["call"]))).await?;
        if step["after"] == "progress" {
            let token = json!(handle.progress_token).to_string();
            self.listener.until(|received| received.progress.contains_key(&token)).await;
        } else {
            self.call(&step["after"]).await?;
        }
        handle.cancel(Some("given up".into())).await?;
        Ok(json!(["given up"]))
    }

    /// Subscribes to a resource, has it changed, waits for the notification, and unsubscribes.
    async fn watch(&self, step: &Value) -> Result<Value, Failure> {
        let uri = &step["uri"];
        if self.modern {
            let filter = serde_json::from_value(json!({"resourceSubscriptions": [uri]}))?;
            let mut subscription = self.service.listen(filter).await?;
            let touched = self.call(&step["touch"]).await?;
            let word = subscription.next().await?;
            subscription.cancel().await?;
            // The notification has a random subscription id. Only its arrival is compared.
            return Ok(json!([touched, word.is_some()]));
        }
        let method = "notifications/resources/updated";
        let before = self.listener.count(method);
        self.request("resources/subscribe", Some(json!({ "uri": uri }))).await?;
        let touched = self.call(&step["touch"]).await?;
        self.listener.until(|received| received.messages.get(method).map_or(0, Vec::len) > before).await;
        self.request("resources/unsubscribe", Some(json!({ "uri": uri }))).await?;
        Ok(json!([touched, self.listener.received().messages[method][before..]]))
    }

    /// Subscribes and lets the server end the subscription.
    async fn hang_up(&self, step: &Value) -> Result<Value, Failure> {
        let filter = serde_json::from_value(json!({"resourceSubscriptions": [step["uri"]]}))?;
        let mut subscription = self.service.listen(filter).await?;
        let called = self.call(&step["call"]).await?;
        let word = subscription.next().await?;
        Ok(json!([called, word.is_none(), subscription.end().is_some()]))
    }
}
