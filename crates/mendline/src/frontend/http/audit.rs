//! The audit log: one line for each tool call, with who called what and how it ended, and never its arguments.
//!
//! The engine's events have the client, the tool and the outcome; the [`Hub`] knows the principal of a client.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use mendline_core::event::Answered;
use mendline_core::{ClientId, Event, UpstreamId};
use mendline_wire::Method;
use serde_json::{Map, Value, json};

use super::access::LOCAL;
use super::hub::Hub;
use super::line_log::{LineLog, harmless};
use crate::driver::{At, Observer};

/// The name of the file in the state directory.
const FILE: &str = "audit.log";

/// Calls that run. More are not expected: each server has at most a few thousand.
const OPEN_CALLS: usize = 65_536;

/// Writes the audit log.
pub struct Audit {
    hub: Hub,
    servers: HashMap<UpstreamId, String>,
    clients: HashMap<ClientId, String>,
    open: HashMap<(UpstreamId, u64), OpenCall>,
    log: LineLog,
}

/// A call that runs.
struct OpenCall {
    principal: Arc<str>,
    client: Option<String>,
    tool: String,
}

impl Audit {
    /// Opens the log in the state directory. `servers` are the upstreams of the start, with the names of their servers.
    pub fn open(state: &Path, hub: Hub, servers: impl IntoIterator<Item = (UpstreamId, String)>) -> io::Result<Audit> {
        let servers = servers.into_iter().collect();
        let log = LineLog::open(state, FILE)?;
        let (clients, open) = (HashMap::new(), HashMap::new());
        Ok(Audit { hub, servers, clients, open, log })
    }

    /// Returns the caller of a tool.
    fn call(&self, client: ClientId, tool: &str) -> OpenCall {
        let principal = self.hub.principal_of(client).unwrap_or_else(|| Arc::from(LOCAL));
        OpenCall { principal, client: self.clients.get(&client).cloned(), tool: harmless(tool) }
    }

    fn end(&mut self, upstream: UpstreamId, call: u64, at: At, ending: Value) {
        if let Some(open) = self.open.remove(&(upstream, call)) {
            self.line(upstream, &open, at, ending);
        }
    }

    fn line(&self, upstream: UpstreamId, call: &OpenCall, at: At, ending: Value) {
        let time = UNIX_EPOCH + Duration::from_micros(at.unix_micros);
        let mut line = Map::new();
        line.insert("time".into(), humantime::format_rfc3339_micros(time).to_string().into());
        line.insert("principal".into(), (&*call.principal).into());
        line.insert("client".into(), call.client.clone().into());
        line.insert("server".into(), self.servers.get(&upstream).cloned().into());
        line.insert("tool".into(), call.tool.clone().into());
        if let Value::Object(ending) = ending {
            line.extend(ending);
        }
        self.log.write(line);
    }
}

impl Observer for Audit {
    fn on_event(&mut self, event: &Event, at: At) {
        let millis = |took: &Duration| u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        match event {
            Event::ClientNamed { client, name, version, .. } => {
                self.clients.insert(*client, harmless(format!("{name} {version}").trim()));
            }
            Event::ClientLost { client } | Event::ClientEnded { client } => drop(self.clients.remove(client)),
            Event::UpstreamAdded { upstream, name, .. } => drop(self.servers.insert(*upstream, name.clone())),
            Event::UpstreamRemoved { upstream } => drop(self.servers.remove(upstream)),
            Event::CallAccepted { upstream, call, client, method: Method::ToolsCall, tool, .. } => {
                let tool = tool.as_ref().map(|tool| tool.as_str()).unwrap_or_default();
                if self.open.len() < OPEN_CALLS {
                    let open = self.call(*client, tool);
                    self.open.insert((*upstream, *call), open);
                }
            }
            Event::CallAnswered { upstream, call, result, took, attempts, .. } => {
                let mut ending = json!({ "outcome": "ok", "ms": millis(took), "attempts": attempts });
                match result {
                    Answered::Ok => {}
                    Answered::ToolError => ending["outcome"] = "tool_error".into(),
                    Answered::Error(code) => {
                        ending["outcome"] = "error".into();
                        ending["code"] = (*code).into();
                    }
                }
                self.end(*upstream, *call, at, ending);
            }
            Event::CallFailed { upstream, call, cause, outcome, took, attempts, .. } => {
                let ending = json!({
                    "outcome": "failed", "cause": cause.word(), "ran": outcome.word(), "ms": millis(took),
                    "attempts": attempts,
                });
                self.end(*upstream, *call, at, ending);
            }
            Event::CallCancelled { upstream, call, .. } => {
                self.end(*upstream, *call, at, json!({ "outcome": "cancelled" }));
            }
            Event::CallAbandoned { upstream, call, .. } => {
                self.end(*upstream, *call, at, json!({ "outcome": "abandoned" }));
            }
            Event::CallRejected { upstream, client, method: Method::ToolsCall, tool, cause, .. } => {
                let tool = tool.as_ref().map(|tool| tool.as_str()).unwrap_or_default();
                let rejected = self.call(*client, tool);
                self.line(*upstream, &rejected, at, json!({ "outcome": "rejected", "cause": cause.word() }));
            }
            Event::ToolDenied { upstream, client, tool } => {
                let denied = self.call(*client, tool);
                self.line(*upstream, &denied, at, json!({ "outcome": "denied" }));
            }
            _ => {}
        }
    }

    fn on_stderr(&mut self, _: UpstreamId, _: &[u8]) {}
}
