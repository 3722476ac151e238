//! The audit log: one line for each tool call, with who called what and how it ended, and never its arguments.
//!
//! The engine's events have the client, the tool and the outcome; the [`Hub`] knows the principal of a client. A thread
//! of its own writes the lines, so a slow disk delays no call. If it does not keep up, lines are dropped and counted, and
//! the next line says how many.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use mendline_core::event::Answered;
use mendline_core::{ClientId, Event, UpstreamId};
use mendline_wire::Method;
use serde_json::{Map, Value, json};

use super::access::LOCAL;
use super::hub::Hub;
use crate::background::{Work, Worker};
use crate::driver::{At, Observer};
use crate::observe::escaped::is_harmless;
use crate::os::files::append_private_file;
use crate::state::own_folder;

/// The name of the file in the state directory.
const FILE: &str = "audit.log";

/// The size from which a new file is begun.
const FILE_BYTES: u64 = 8 << 20;

/// Older files that are kept.
const OLDER_FILES: u32 = 8;

/// Lines that wait for the disk.
const WAITING_LINES: usize = 4096;

/// Calls that run. More are not expected: each server has at most a few thousand.
const OPEN_CALLS: usize = 65_536;

/// Writes the audit log.
pub struct Audit {
    hub: Hub,
    servers: HashMap<UpstreamId, String>,
    clients: HashMap<ClientId, String>,
    open: HashMap<(UpstreamId, u64), OpenCall>,
    lines: Option<SyncSender<String>>,
    dropped: u64,
    work: Work,
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
        own_folder(state)?;
        let file = AuditFile::open(state.join(FILE))?;
        let (lines, received) = sync_channel(WAITING_LINES);
        let (work, worker) = Work::new();
        thread::Builder::new().name("mendline-audit".to_owned()).spawn(move || write(file, &received, &worker))?;
        let (clients, open) = (HashMap::new(), HashMap::new());
        Ok(Audit { hub, servers, clients, open, lines: Some(lines), dropped: 0, work })
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

    fn line(&mut self, upstream: UpstreamId, call: &OpenCall, at: At, ending: Value) {
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
        if self.dropped > 0 {
            line.insert("droppedBefore".into(), self.dropped.into());
        }
        let text = format!("{}\n", Value::Object(line));
        match self.lines.as_ref().map(|lines| lines.try_send(text)) {
            Some(Ok(())) => self.dropped = 0,
            _ => self.dropped += 1,
        }
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

impl Drop for Audit {
    /// Waits for the last lines to be written, unless the disk blocks.
    fn drop(&mut self) {
        self.lines = None;
        self.work.wait();
    }
}

/// Returns a text from outside without characters that control a terminal.
fn harmless(text: &str) -> String {
    text.chars().map(|c| if is_harmless(c) { c } else { '\u{fffd}' }).collect()
}

fn write(mut file: AuditFile, lines: &Receiver<String>, worker: &Worker) {
    while let Ok(first) = lines.recv() {
        let mut text = first;
        lines.try_iter().take(WAITING_LINES).for_each(|line| text.push_str(&line));
        // A full disk loses these lines; the next ones are tried again.
        let _ = worker.risk(|| file.append(text.as_bytes()));
    }
}

/// The file, which is replaced when it is full.
struct AuditFile {
    path: PathBuf,
    file: File,
    length: u64,
}

impl AuditFile {
    fn open(path: PathBuf) -> io::Result<AuditFile> {
        let file = append_private_file().open(&path)?;
        let length = file.metadata()?.len();
        Ok(AuditFile { path, file, length })
    }

    fn append(&mut self, text: &[u8]) -> io::Result<()> {
        if self.length >= FILE_BYTES {
            self.rotate()?;
        }
        self.file.write_all(text)?;
        self.length += text.len() as u64;
        Ok(())
    }

    /// Renames the full file and the older ones, and begins a new one.
    fn rotate(&mut self) -> io::Result<()> {
        let older = |number: u32| self.path.with_extension(format!("log.{number}"));
        for number in (1..OLDER_FILES).rev() {
            // The first ones do not exist yet.
            let _ = fs::rename(older(number), older(number + 1));
        }
        fs::rename(&self.path, older(1))?;
        *self = AuditFile::open(self.path.clone())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_file_is_followed_by_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let mut file = AuditFile::open(path.clone()).unwrap();
        file.append(b"old\n").unwrap();
        for _ in 0..OLDER_FILES + 3 {
            file.length = FILE_BYTES;
            file.append(b"new\n").unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "new\n");
        let files = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(files, OLDER_FILES as usize + 1, "the oldest are gone");
    }
}
