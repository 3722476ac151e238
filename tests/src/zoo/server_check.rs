//! The checks of one server.
//!
//! 1. Two direct runs, each with a new process: handshake, lists, one call.
//! 2. The same through `mendline run`, equal except for values in which the direct runs differ. Mendline waits for the
//!    server (`--startup wait`), because a provisional handshake would differ.
//! 3. The server is killed between two calls. The next call has the answer of the direct runs. A server at a URL is
//!    started again after the call was sent.
//! 4. The server is killed while it has a call. The call has exactly one answer: that of the server, or a failure that
//!    says that the outcome is unknown, which is not allowed for a tool that only reads. The next call works.
//! 5. A second Mendline with the same state directory and default options. Its handshake and tools equal the direct
//!    ones, and a call works. A server at a URL is down until the tools are listed, so that they come from the cache.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::answers::compare;
use super::in_flight::{Input, kill, server_behind, stop};
use super::listener::Listener;
use super::manifest::{Quirk, Server, Sign, Transport};
use super::session::Session;
use super::table::{Cell, Row};
use super::{Zoo, environment};
use crate::processes::{children_of, eventually};

/// The installation with the script that connects a pipe with a URL.
const DIALER: &str = "npm/sample";

/// The deadline for a server to begin its work.
const SOON: Duration = Duration::from_secs(60);

/// The codes of Mendline's own errors.
const CODES: std::ops::RangeInclusive<i64> = -31010..=-31001;

/// Runs the checks.
pub fn check(zoo: &Zoo, server: &Server) -> Row {
    let mut cells = [const { Cell::NotRun }; 5];
    if let Err(why) = ServerCheck::new(zoo, server).and_then(|mut check| check.run(&mut cells)) {
        // The error belongs to the first check without a result.
        if let Some(cell) = cells.iter_mut().find(|cell| **cell == Cell::NotRun) {
            *cell = Cell::Failed(why);
        }
    }
    Row {
        name: server.name.clone(),
        package: format!("{} {}", server.package.package, server.package.version),
        language: server.language.clone(),
        transport: server.transport.name(),
        cells,
    }
}

/// The answers of a direct run.
struct Direct {
    handshake: Value,
    lists: Vec<(String, Value)>,
    call: Value,
}

struct ServerCheck<'a> {
    zoo: &'a Zoo,
    server: &'a Server,
    folder: PathBuf,
    environment: Vec<(String, OsString)>,
    /// The command of a server over stdio.
    command: Vec<OsString>,
    /// The process of a server at a URL.
    listener: Option<Listener>,
    /// The number of calls so far, for their ids.
    calls: usize,
}

impl<'a> ServerCheck<'a> {
    fn new(zoo: &'a Zoo, server: &'a Server) -> Result<Self, String> {
        let folder = zoo.folder(&server.name)?;
        let fill = |text: &str, port: u16| zoo.fill(text, &server.package.install, &folder, port);
        for (name, contents) in &server.files {
            let path = folder.join(name);
            path.parent().map_or(Ok(()), fs::create_dir_all).map_err(|why| why.to_string())?;
            fs::write(&path, fill(contents, 0).as_encoded_bytes()).map_err(|why| why.to_string())?;
        }
        if let Some(prepare) = &server.prepare {
            let mut shell = Command::new("sh");
            shell.args(["-ec", prepare]).current_dir(&folder).env("HOME", &folder).stdin(Stdio::null());
            let done = shell.output().map_err(|why| why.to_string())?;
            if !done.status.success() {
                return Err(format!("{prepare}: {}", String::from_utf8_lossy(&done.stderr)));
            }
        }
        let filled = |port: u16| {
            let command: Vec<OsString> = server.command.iter().map(|word| fill(word, port)).collect();
            let own = server.environment.iter().map(|(name, value)| (name.clone(), fill(value, port)));
            let environment: Vec<_> = environment(&folder).into_iter().chain(own).collect();
            (command, environment)
        };
        let ((command, environment), listener) = match server.transport {
            Transport::Stdio => (filled(0), None),
            Transport::Http | Transport::Sse => {
                let listener = Listener::new(&folder, filled)?;
                ((Vec::new(), environment(&folder)), Some(listener))
            }
        };
        Ok(Self { zoo, server, environment, command, listener, calls: 0, folder })
    }

    fn run(&mut self, cells: &mut [Cell; 5]) -> Result<(), String> {
        let direct = [self.direct("direct-1.txt")?, self.direct("direct-2.txt")?];
        let mut session = self.mendline(&["--startup", "wait"], "cold.txt")?;
        let healed = self.cold_and_kills(&direct, &mut session, cells);
        let tail = session.stderr_tail();
        let finished = session.finish();
        let healed = healed.and(finished);
        healed.map_err(|why| format!("{why}\n{tail}"))?;
        if let Some(listener) = &mut self.listener {
            listener.kill();
        }
        let mut session = self.mendline(&[], "warm.txt")?;
        let warm = self.warm(&direct, &mut session);
        let tail = session.stderr_tail();
        warm.and(session.finish()).map_err(|why| format!("{why}\n{tail}"))?;
        cells[4] = Cell::Passed("equal");
        Ok(())
    }

    /// Talks to a new process of the server without Mendline.
    fn direct(&mut self, log: &str) -> Result<Direct, String> {
        let command = match &mut self.listener {
            None => self.command.clone(),
            Some(listener) => {
                listener.kill();
                listener.start()?;
                let dialer = self.zoo.home.join(DIALER).join("dial.mjs");
                let kind = if self.server.transport == Transport::Sse { "sse" } else { "http" };
                vec!["node".into(), dialer.into(), self.url().into(), kind.into()]
            }
        };
        let mut session = Session::start(&command, &self.environment, &self.folder, log)?;
        let answers = self.conversation(&mut session);
        let tail = session.stderr_tail();
        session.end_direct();
        answers.map_err(|why| format!("without Mendline: {why}\n{tail}"))
    }

    fn conversation(&mut self, session: &mut Session) -> Result<Direct, String> {
        let handshake = session.initialize()?;
        let lists = session.lists(&handshake)?;
        let id = self.send_call(session)?;
        Ok(Direct { handshake, lists, call: session.answer(&id)? })
    }

    fn url(&self) -> String {
        let port = self.listener.as_ref().map_or(0, Listener::port);
        format!("http://127.0.0.1:{port}{}", self.server.path)
    }

    /// Starts `mendline run` with these options and those of the server.
    fn mendline(&self, options: &[&str], log: &str) -> Result<Session, String> {
        let mut command: Vec<OsString> = vec![self.zoo.mendline.clone().into(), "run".into(), "--no-log-files".into()];
        command.extend(options.iter().map(OsString::from));
        command.extend(self.server.flags.iter().map(OsString::from));
        if self.listener.is_some() {
            command.push(self.url().into());
        } else {
            command.push("--".into());
            command.extend(self.command.iter().cloned());
        }
        let mut environment = self.environment.clone();
        environment.push(("MENDLINE_STATE_DIR".into(), self.folder.join("state").into()));
        Session::start(&command, &environment, &self.folder, log)
    }

    fn cold_and_kills(
        &mut self,
        direct: &[Direct; 2],
        session: &mut Session,
        cells: &mut [Cell; 5],
    ) -> Result<(), String> {
        let through = self.conversation(session)?;
        cells[0] = passed("equal", same_lists(direct, &through));
        cells[1] = passed("equal", self.same_call(direct, &through.call));

        self.kill_server(session)?;
        let id = self.send_call(session)?;
        self.start_again()?;
        self.same_call(direct, &session.answer(&id)?)?;
        cells[2] = Cell::Passed("answered");

        let reads = reads_only(&through, self.work_tool());
        let answer = self.kill_at_work(session)?;
        let how = judge(&answer, reads)?;
        if how == "answered" {
            if self.server.work.is_none() {
                self.same_call(direct, &answer)?;
            } else if !answer["result"].is_object() || answer["result"]["isError"] == true {
                return Err(format!("the work failed: {answer}"));
            }
        }
        let id = self.send_call(session)?;
        self.same_call(direct, &session.answer(&id)?).map_err(|why| format!("the next call: {why}"))?;
        cells[3] = Cell::Passed(how);
        Ok(())
    }

    fn warm(&mut self, direct: &[Direct; 2], session: &mut Session) -> Result<(), String> {
        let [one, other] = direct;
        compare([&one.handshake, &other.handshake], &session.initialize()?)
            .map_err(|why| format!("initialize: {why}"))?;
        if let (Some((name, one)), Some((_, other))) = (one.lists.first(), other.lists.first()) {
            compare([one, other], &session.list(name)?).map_err(|why| format!("{name}: {why}"))?;
        }
        self.start_again()?;
        let id = self.send_call(session)?;
        self.same_call(direct, &session.answer(&id)?)
    }

    /// Compares the answer to the call, except for its id and the quirks of the server.
    fn same_call(&self, direct: &[Direct; 2], through: &Value) -> Result<(), String> {
        same_call(direct, through, &self.server.quirks)
    }

    fn work_tool(&self) -> &str {
        self.server.work.as_ref().map_or(&self.server.call.tool, |work| &work.tool)
    }

    fn send_call(&mut self, session: &mut Session) -> Result<String, String> {
        self.calls += 1;
        let id = format!("call {}", self.calls);
        let call = &self.server.call;
        session.call(&id, &call.tool, &self.filled(&call.arguments), false)?;
        Ok(id)
    }

    /// Replaces the placeholders in the arguments of a call. No arguments are an empty object.
    fn filled(&self, arguments: &Value) -> Value {
        let fill = |value: &Value| self.filled(value);
        match arguments {
            Value::Null => json!({}),
            Value::String(text) => {
                let filled = self.zoo.fill(text, &self.server.package.install, &self.folder, 0);
                filled.to_string_lossy().into_owned().into()
            }
            Value::Array(items) => items.iter().map(fill).collect(),
            Value::Object(members) => members
                .iter()
                .map(|(name, value)| (name.clone(), fill(value)))
                .collect::<serde_json::Map<_, _>>()
                .into(),
            other => other.clone(),
        }
    }

    /// Returns the pid of the server.
    fn server_process(&self, session: &Session) -> Result<i32, String> {
        match &self.listener {
            None => server_behind(session.id()),
            Some(listener) => listener.id().ok_or_else(|| "the server does not run".into()),
        }
    }

    fn kill_server(&mut self, session: &Session) -> Result<(), String> {
        match &mut self.listener {
            None => kill(server_behind(session.id())?),
            Some(listener) => {
                listener.kill();
                Ok(())
            }
        }
    }

    /// Starts a server at a URL again. Mendline itself starts one over stdio.
    fn start_again(&mut self) -> Result<(), String> {
        match &mut self.listener {
            None => Ok(()),
            Some(listener) => {
                listener.kill();
                listener.start()
            }
        }
    }

    /// Kills the server while it has a call and returns the answer to the call.
    fn kill_at_work(&mut self, session: &mut Session) -> Result<Value, String> {
        let pid = self.server_process(session)?;
        let id = if let Some(work) = &self.server.work {
            let id = "work".to_owned();
            session.call(&id, &work.tool, &self.filled(&work.arguments), work.shown_by == Sign::Progress)?;
            match work.shown_by {
                Sign::Progress => session.wait_for_progress(&id)?,
                Sign::Process => {
                    if !eventually(SOON, || !children_of(pid).is_empty()) {
                        return Err("the server started no process for the call".into());
                    }
                }
            }
            id
        } else {
            let input = self.listener.as_ref().map_or(Input::Pipes(pid), |listener| Input::Port(listener.port()));
            stop(pid)?;
            let before = input.waiting();
            let id = self.send_call(session)?;
            input.wait_for_more_than(before)?;
            id
        };
        self.kill_server(session)?;
        self.start_again()?;
        session.answer(&id)
    }
}

fn passed(text: &'static str, result: Result<(), String>) -> Cell {
    result.map_or_else(Cell::Failed, |()| Cell::Passed(text))
}

/// Compares the handshake and the lists.
fn same_lists([one, other]: &[Direct; 2], through: &Direct) -> Result<(), String> {
    compare([&one.handshake, &other.handshake], &through.handshake).map_err(|why| format!("initialize: {why}"))?;
    for (((name, one), (_, other)), (_, through)) in one.lists.iter().zip(&other.lists).zip(&through.lists) {
        compare([one, other], through).map_err(|why| format!("{name}: {why}"))?;
    }
    let names = |direct: &Direct| direct.lists.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    if names(one) == names(through) { Ok(()) } else { Err("another selection of lists".into()) }
}

fn same_call([one, other]: &[Direct; 2], through: &Value, quirks: &[Quirk]) -> Result<(), String> {
    let comparable = |answer: &Value| {
        let mut answer = answer.clone();
        answer.as_object_mut().and_then(|members| members.remove("id"));
        for quirk in quirks {
            let value = answer.pointer_mut(&quirk.path);
            *value.ok_or_else(|| format!("the answer has no {}", quirk.path))? = Value::Null;
        }
        Ok::<Value, String>(answer)
    };
    compare([&comparable(&one.call)?, &comparable(&other.call)?], &comparable(through)?).map(drop)
}

/// Returns whether the server says that the tool only reads.
fn reads_only(answers: &Direct, tool: &str) -> bool {
    let pages = answers.lists.iter().filter(|(name, _)| name == "tools/list").filter_map(|(_, pages)| pages.as_array());
    let mut tools = pages.flatten().filter_map(|page| page["result"]["tools"].as_array()).flatten();
    tools.any(|entry| entry["name"] == tool && entry["annotations"]["readOnlyHint"] == true)
}

/// Judges the answer to a call whose server was killed.
fn judge(answer: &Value, reads: bool) -> Result<&'static str, String> {
    let failure = &answer["result"]["_meta"]["dev.mendline/failure"];
    if failure.is_null() {
        // A failed call is a result; a server does not use the codes of Mendline.
        let ours = answer["error"]["code"].as_i64().is_some_and(|code| CODES.contains(&code));
        return if ours {
            Err(format!("a failed call is not an error of the protocol: {answer}"))
        } else {
            Ok("answered")
        };
    }
    if reads {
        return Err(format!("a call that only reads was not sent again: {answer}"));
    }
    if failure["outcome"] == "unknown" { Ok("reported") } else { Err(format!("not an unknown outcome: {answer}")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::manifest::Quirk;
    use super::{Direct, judge, reads_only, same_call};

    fn direct(call: serde_json::Value) -> Direct {
        let tools = json!([{ "result": { "tools": [
            { "name": "read", "annotations": { "readOnlyHint": true } },
            { "name": "write", "annotations": { "readOnlyHint": false } },
        ] } }]);
        Direct { handshake: json!({}), lists: vec![("tools/list".into(), tools)], call }
    }

    #[test]
    fn only_a_hint_of_the_server_makes_a_tool_read_only() {
        let answers = direct(json!({}));
        assert!(reads_only(&answers, "read"));
        assert!(!reads_only(&answers, "write"));
        assert!(!reads_only(&answers, "unknown"));
    }

    #[test]
    fn id_of_a_call_may_differ_and_its_result_may_not() {
        let runs = [direct(json!({ "id": "1", "result": 5 })), direct(json!({ "id": "2", "result": 5 }))];
        same_call(&runs, &json!({ "id": "3", "result": 5 }), &[]).unwrap();
        same_call(&runs, &json!({ "id": "3", "result": 6 }), &[]).unwrap_err();
    }

    #[test]
    fn value_of_a_quirk_may_differ_and_must_exist() {
        let run = || direct(json!({ "id": "1", "result": { "text": "a", "isError": true } }));
        let (runs, quirks) = ([run(), run()], [Quirk { path: "/result/text".into(), reason: String::new() }]);
        same_call(&runs, &json!({ "id": "1", "result": { "text": "b", "isError": true } }), &quirks).unwrap();
        same_call(&runs, &json!({ "id": "1", "result": { "text": "b", "isError": false } }), &quirks).unwrap_err();
        same_call(&runs, &json!({ "id": "1", "result": { "isError": true } }), &quirks).unwrap_err();
    }

    #[test]
    fn unknown_outcome_is_allowed_unless_the_tool_reads() {
        let failed =
            |outcome: &str| json!({ "result": { "_meta": { "dev.mendline/failure": { "outcome": outcome } } } });
        assert_eq!(judge(&json!({ "result": {} }), true), Ok("answered"));
        assert_eq!(judge(&json!({ "error": { "code": -32602 } }), true), Ok("answered"));
        judge(&json!({ "error": { "code": -31002 } }), false).unwrap_err();
        assert_eq!(judge(&failed("unknown"), false), Ok("reported"));
        judge(&failed("unknown"), true).unwrap_err();
        judge(&failed("not_sent"), false).unwrap_err();
    }
}
