//! An MCP server over stdio that exits, hangs or dies on demand.
//!
//! It runs as its own process of this program. A file in the folder of its cell names its behaviour, and another one
//! has a line for each start and each execution. The reading of stdin is blocking and simple, unlike the code under
//! test.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Value, json};

/// The argument of this program that starts the server.
pub(crate) const WORD: &str = "command-server";
/// The name in the handshake.
pub(crate) const NAME: &str = "outages-command";

const BEHAVIOUR: &str = "behaviour.txt";
const LEDGER: &str = "ledger.txt";

/// The longest time for which a call waits for its file.
const PATIENCE: Duration = Duration::from_secs(120);

/// The behaviour of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Good,
    ExitsAtStart,
    HangsAtStart,
    DiesAtCall,
}

impl Behaviour {
    const ALL: [(Behaviour, &str); 4] = [
        (Behaviour::Good, "good"),
        (Behaviour::ExitsAtStart, "exits"),
        (Behaviour::HangsAtStart, "hangs"),
        (Behaviour::DiesAtCall, "dies"),
    ];

    fn of(folder: &Path) -> Behaviour {
        let text = fs::read_to_string(folder.join(BEHAVIOUR)).unwrap_or_default();
        Behaviour::ALL.iter().find(|(_, name)| *name == text).map_or(Behaviour::Good, |(behaviour, _)| *behaviour)
    }
}

/// Sets the behaviour of the next start and the next call. The file is replaced at once, never half written.
pub(crate) fn set(folder: &Path, behaviour: Behaviour) -> io::Result<()> {
    let name = Behaviour::ALL.iter().find(|(it, _)| *it == behaviour).map_or("good", |(_, name)| name);
    let next = folder.join("behaviour.next");
    fs::write(&next, name)?;
    fs::rename(next, folder.join(BEHAVIOUR))
}

/// Returns the complete lines of the ledger.
pub(crate) fn lines(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join(LEDGER)).unwrap_or_default();
    text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(str::to_owned).collect()
}

/// Runs the server until its stdin ends, or as its behaviour demands.
pub(crate) fn run(folder: &Path) -> ExitCode {
    let Ok(mut ledger) = OpenOptions::new().create(true).append(true).open(folder.join(LEDGER)) else {
        return ExitCode::FAILURE;
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    note(&mut ledger, &format!("start {} {now}", std::process::id()));
    match Behaviour::of(folder) {
        Behaviour::ExitsAtStart => {
            let _ = io::stderr().write_all(b"cannot start: the database is not reachable\n");
            return ExitCode::from(3);
        }
        Behaviour::HangsAtStart => {
            let _ = io::stdin().lock().read_to_end(&mut Vec::new());
            return ExitCode::SUCCESS;
        }
        Behaviour::Good | Behaviour::DiesAtCall => {}
    }
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let message: Value = serde_json::from_str(&line).unwrap_or_default();
        if message.get("id").is_some() {
            handle(&message, folder, &mut ledger);
        }
    }
    ExitCode::SUCCESS
}

fn handle(message: &Value, folder: &Path, ledger: &mut File) {
    let (id, params) = (&message["id"], &message["params"]);
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": params["protocolVersion"],
            "capabilities": { "tools": {} },
            "serverInfo": { "name": NAME, "version": "1" },
        }),
        Some("ping") => json!({}),
        Some("tools/list") => {
            let tool = |name: &str, is_read_only: bool| {
                json!({
                    "name": name,
                    "inputSchema": { "type": "object" },
                    "annotations": { "readOnlyHint": is_read_only },
                })
            };
            json!({ "tools": [tool("lookup", true), tool("create_note", false)] })
        }
        Some("tools/call") => {
            let key = params["arguments"]["key"].as_str().unwrap_or("-");
            note(ledger, &format!("executed {key}"));
            if Behaviour::of(folder) == Behaviour::DiesAtCall {
                // Like a crash: at once, without an answer.
                let _ = kill_process(getpid(), Signal::KILL);
            }
            let result = json!({ "content": [{ "type": "text", "text": format!("{key} is done") }] });
            if let Some(until) = params["arguments"]["until"].as_str() {
                let (until, id) = (PathBuf::from(until), id.clone());
                thread::spawn(move || {
                    wait_for(&until);
                    respond(&id, &result);
                });
                return;
            }
            result
        }
        _ => {
            let error = json!({ "code": -32601, "message": "no such method" });
            write_line(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            return;
        }
    };
    respond(id, &result);
}

fn wait_for(path: &Path) {
    let step = Duration::from_millis(5);
    let mut waited = Duration::ZERO;
    while !path.exists() && waited < PATIENCE {
        thread::sleep(step);
        waited += step;
    }
}

fn respond(id: &Value, result: &Value) {
    write_line(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
}

/// A closed reader is ignored: stdin ends then, too.
fn write_line(message: &Value) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(format!("{message}\n").as_bytes()).and_then(|()| stdout.flush());
}

/// Appends a line by a single write, so that several processes can share the file.
fn note(ledger: &mut File, line: &str) {
    let _ = ledger.write_all(format!("{line}\n").as_bytes());
}
