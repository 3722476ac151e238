//! The checks of one client library.
//!
//! Its script (`tests/zoo/clients`) connects to the server that its arguments start, prints the names of the tools,
//! calls a tool for each line of its stdin, and prints the text of the answer or of the failure. It runs directly,
//! through `mendline run` with a new state directory, where the server is killed between two calls and with a call in
//! its stdin, and once more with that state.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use super::in_flight::{Input, kill, server_behind, stop};
use super::manifest::Client;
use super::table::{Cell, Row};
use super::{Zoo, environment};
use crate::processes::{children_of, eventually};

/// The server of all clients. Its tool `echo` answers with the message.
const SERVER: (&str, &str) = ("npm/sample", "node_modules/@modelcontextprotocol/server-everything/dist/index.js");

/// The deadline of a line, on a busy machine and with a library that loads slowly.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the checks.
pub fn check(zoo: &Zoo, client: &Client) -> Row {
    let mut cells = [const { Cell::NotRun }; 5];
    if let Err(why) = run(zoo, client, &mut cells)
        && let Some(cell) = cells.iter_mut().find(|cell| **cell == Cell::NotRun)
    {
        *cell = Cell::Failed(why);
    }
    Row {
        name: client.name.clone(),
        package: format!("{} {}", client.package.package, client.package.version),
        language: client.language.clone(),
        transport: "client, stdio",
        cells,
    }
}

fn run(zoo: &Zoo, client: &Client, cells: &mut [Cell; 5]) -> Result<(), String> {
    let folder = zoo.folder(&format!("client-{}", client.name))?;
    let server: Vec<OsString> = vec!["node".into(), zoo.home.join(SERVER.0).join(SERVER.1).into(), "stdio".into()];
    // The libraries pass on few variables, so `env` sets this one.
    let mut state = OsString::from("MENDLINE_STATE_DIR=");
    state.push(folder.join("state"));
    let mut through: Vec<OsString> = vec!["env".into(), state, zoo.mendline.clone().into(), "run".into()];
    through.extend(["--no-log-files", "--"].map(OsString::from));
    through.extend(server.iter().cloned());

    let mut script = Script::start(zoo, client, &folder, &server, "direct.txt")?;
    let tools = script.line()?;
    let answer = script.call()?;
    script.finish()?;
    if !tools["tools"].to_string().contains("echo") || !answer["answer"].to_string().contains("there?") {
        return Err(format!("without Mendline: {tools} {answer}"));
    }

    let mut script = Script::start(zoo, client, &folder, &through, "cold.txt")?;
    same(&tools, &script.line()?)?;
    cells[0] = Cell::Passed("equal");
    same(&answer, &script.call()?)?;
    cells[1] = Cell::Passed("equal");
    let mendline = script.mendline(zoo)?;
    kill(server_behind(mendline)?)?;
    same(&answer, &script.call()?)?;
    cells[2] = Cell::Passed("answered");
    let process = server_behind(mendline)?;
    stop(process)?;
    let input = Input::Pipes(process);
    let before = input.waiting();
    script.send_call()?;
    input.wait_for_more_than(before)?;
    kill(process)?;
    let at_work = script.line()?;
    let how = if at_work == answer { "answered" } else { reported(&at_work)? };
    same(&answer, &script.call()?).map_err(|why| format!("the next call: {why}"))?;
    script.finish()?;
    cells[3] = Cell::Passed(how);

    let mut script = Script::start(zoo, client, &folder, &through, "warm.txt")?;
    same(&tools, &script.line()?)?;
    same(&answer, &script.call()?)?;
    script.finish()?;
    cells[4] = Cell::Passed("equal");
    Ok(())
}

/// Checks that a failure says that the outcome is unknown, in the text that the library shows.
fn reported(line: &Value) -> Result<&'static str, String> {
    let text = line.to_string();
    if text.contains("may or may not have") {
        Ok("reported")
    } else {
        Err(format!("neither an answer nor a report: {text}"))
    }
}

fn same(direct: &Value, through: &Value) -> Result<(), String> {
    if direct == through { Ok(()) } else { Err(format!("{direct} directly and {through} through Mendline")) }
}

/// A running script.
struct Script {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    log: PathBuf,
}

impl Script {
    fn start(zoo: &Zoo, client: &Client, folder: &Path, server: &[OsString], log: &str) -> Result<Self, String> {
        let command: Vec<OsString> =
            client.command.iter().map(|word| zoo.fill(word, &client.package.install, folder, 0)).collect();
        let [program, args @ ..] = &command[..] else { return Err("no command".into()) };
        let log = folder.join(log);
        let mut child = Command::new(program)
            .args(args)
            .args(server)
            .envs(environment(folder))
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).map_err(|why| why.to_string())?)
            .spawn()
            .map_err(|why| format!("{}: {why}", program.display()))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().ok_or("no stdout")?);
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, stdin, lines, log })
    }

    fn call(&mut self) -> Result<Value, String> {
        self.send_call()?;
        self.line()
    }

    fn send_call(&mut self) -> Result<(), String> {
        let stdin = self.stdin.as_mut().ok_or("stdin is closed")?;
        stdin.write_all(b"call\n").map_err(|why| format!("{why}\n{}", self.stderr_tail()))
    }

    /// Returns the next line, which is JSON. Some libraries print other lines, which are skipped.
    fn line(&mut self) -> Result<Value, String> {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).map_err(|why| format!("{why}\n{}", self.stderr_tail()))?;
            if line.starts_with("{\"") {
                return serde_json::from_str(&line).map_err(|why| format!("{line}: {why}"));
            }
        }
    }

    /// Returns the pid of Mendline, which is a descendant of the script.
    fn mendline(&self, zoo: &Zoo) -> Result<i32, String> {
        let program = zoo.mendline.canonicalize().map_err(|why| why.to_string())?;
        let is_mendline = |pid: &i32| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program);
        let mut level = vec![i32::try_from(self.child.id()).unwrap_or_default()];
        while !level.is_empty() {
            level = level.into_iter().flat_map(children_of).collect();
            if let Some(pid) = level.iter().find(|pid| is_mendline(pid)) {
                return Ok(*pid);
            }
        }
        Err("there is no process of Mendline".into())
    }

    /// Ends the script by the end of its stdin. Its exit status is not checked: some libraries fail in their cleanup,
    /// directly too.
    fn finish(mut self) -> Result<(), String> {
        drop(self.stdin.take());
        let ended = eventually(PATIENCE, || !matches!(self.child.try_wait(), Ok(None)));
        if ended { Ok(()) } else { Err(format!("the script did not end\n{}", self.stderr_tail())) }
    }

    fn stderr_tail(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::reported;

    #[test]
    fn only_an_unknown_outcome_is_a_report() {
        assert_eq!(reported(&json!({ "failed": "the call may or may not have run" })), Ok("reported"));
        reported(&json!({ "failed": "connection closed" })).unwrap_err();
    }
}
