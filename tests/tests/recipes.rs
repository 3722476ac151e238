//! The programs of `docs/recipes.md` and the pages beside it, with a server that is killed in the middle of a call.
//!
//! `cargo xtask recipes` installs the packages and runs these tests.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod fault_runtime;
mod programs;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fault_runtime::runtime;
use mendline_faults::{Rule, Server, Settings};
use mendline_peers::caller::Caller;
use mendline_peers::processes::eventually;
use mendline_peers::recipes::Runtime::{self, Node, Python1, Python2};
use mendline_peers::recipes::{Printed, ReaderHome, before_the_change};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The deadline for anything that should happen at once, on a busy machine.
const SOON: Duration = Duration::from_secs(60);

const PAGE: &str = include_str!("../../docs/recipes.md");

/// The fault of `notes-server`: killed after it has run the first call, before the answer.
const KILLED: Option<&str> = Some("die-after=1");

fn home() -> (ReaderHome, TempDir) {
    let folder = TempDir::new().unwrap();
    let home = ReaderHome::new(folder.path(), &programs::built().mendline).unwrap();
    (home, folder)
}

/// Checks that the program got the tools and the answer, although the server was killed.
fn survives_kill(runtime: Runtime, program: &str) {
    let (home, _folder) = home();
    home.add_notes_server(KILLED).unwrap();
    let printed = home.run(runtime, program, &[]).unwrap();
    has_answer(&printed);
    assert_eq!(home.count("executed lookup"), 2, "the call ran, the server was killed, and the call was sent again");

    // The program before the change works too, until the server is killed.
    let before = before_the_change(PAGE, program).unwrap();
    assert!(!before.contains("mendline"), "{before}");
    let (home, _folder) = self::home();
    home.add_notes_server(None).unwrap();
    has_answer(&home.run_text(runtime, program, &before, &[]).unwrap());
    assert_eq!(home.count("executed lookup"), 1);
}

fn has_answer(printed: &Printed) {
    assert!(printed.is_success, "{printed:?}");
    assert!(printed.after("tools:").is_some_and(|tools| tools.contains("lookup")), "{printed:?}");
    assert!(printed.after("answer:").is_some_and(|answer| answer.contains(" is 42")), "{printed:?}");
}

#[test]
fn python_sdk_gets_answer_of_killed_server() {
    survives_kill(Python2, "python_sdk.py");
}

#[test]
fn first_python_sdk_gets_answer_of_killed_server() {
    survives_kill(Python1, "python_sdk.py");
}

#[test]
fn fastmcp_gets_answer_of_killed_server() {
    survives_kill(Python2, "fastmcp_client.py");
}

#[test]
fn langchain_gets_answer_of_killed_server() {
    survives_kill(Python1, "langchain_tools.py");
}

#[test]
fn openai_agents_get_answer_of_killed_server() {
    survives_kill(Python2, "openai_agents.py");
}

#[test]
fn pydantic_ai_gets_answer_of_killed_server() {
    survives_kill(Python2, "pydantic_ai_agent.py");
}

#[test]
fn google_adk_gets_answer_of_killed_server() {
    survives_kill(Python1, "google_adk.py");
}

#[test]
fn typescript_sdk_gets_answer_of_killed_server() {
    survives_kill(Node, "typescript-sdk.mjs");
}

#[test]
fn ai_sdk_gets_answer_of_killed_server() {
    survives_kill(Node, "ai-sdk.mjs");
}

#[test]
fn mastra_gets_answer_of_killed_server() {
    survives_kill(Node, "mastra.mjs");
}

#[test]
fn programs_without_mendline_lose_the_call() {
    for (runtime, program) in [(Python2, "python_sdk.py"), (Node, "typescript-sdk.mjs")] {
        let before = before_the_change(PAGE, program).unwrap();
        let (home, _folder) = home();
        home.add_notes_server(KILLED).unwrap();
        let printed = home.run_text(runtime, program, &before, &[]).unwrap();
        assert!(!printed.is_success, "{printed:?}");
        assert_eq!((printed.after("answer:"), home.count("executed lookup")), (None, 1), "{printed:?}");
    }
}

#[test]
fn unknown_outcome_of_a_write_is_readable_in_code() {
    for (runtime, program) in [(Python2, "python_outcome.py"), (Node, "typescript-outcome.mjs")] {
        let (home, _folder) = home();
        home.add_notes_server(KILLED).unwrap();
        let printed = home.run(runtime, program, &[]).unwrap();
        assert_eq!(printed.after("unknown:"), Some("outcome_unknown - now: milk is 42"), "{printed:?}");
        assert_eq!(home.count("executed create_note"), 1, "a write is not sent again");

        let (home, _folder) = self::home();
        home.add_notes_server(None).unwrap();
        let printed = home.run(runtime, program, &[]).unwrap();
        assert_eq!(printed.after("answer:"), Some("wrote milk"), "{printed:?}");
    }
}

fn fault_server() -> Server {
    runtime().block_on(Server::start(Settings::default())).unwrap()
}

#[test]
fn client_of_a_url_gets_answer_of_restarted_server() {
    for (runtime, program) in [(Python1, "python_sdk_url.py"), (Node, "typescript-sdk-url.mjs")] {
        let server = fault_server();
        // As a server that is killed and restarted: the call runs and its connection is reset, and the next attempt
        // meets a server without the session. The second rule counts what the first one leaves.
        server.add(Rule::new("t13_reset_before_headers").tool("lookup").nth(1)).unwrap();
        server.add(Rule::new("h34_404_session_expired").tool("lookup").nth(1)).unwrap();
        let (home, _folder) = home();
        has_answer(&home.run(runtime, program, &[&server.url()]).unwrap());
        let counts = server.oracle().counts();
        assert_eq!(counts.struck_by("t13_reset_before_headers"), 1, "{counts:?}");
        assert_eq!(counts.struck_by("h34_404_session_expired"), 1, "{counts:?}");

        let (server, before) = (fault_server(), before_the_change(PAGE, program).unwrap());
        let (home, _folder) = self::home();
        has_answer(&home.run_text(runtime, program, &before, &[&server.url()]).unwrap());
    }
}

#[test]
fn stream_that_is_always_cut_ends_with_an_error() {
    let server = fault_server();
    server.add(Rule::new("s52_prime_then_close_for_ever").value(50)).unwrap();
    let (home, _folder) = home();
    let printed = home.run(Python1, "python_sdk_url.py", &[&server.url()]).unwrap();
    let answer = printed.after("answer:").unwrap_or_else(|| panic!("{printed:?}"));
    assert!(answer.contains("lookup") && answer.contains("try again"), "{answer}");
    let counts = server.oracle().counts();
    assert!(counts.resumes > 0, "the streams were resumed, a bounded number of times: {counts:?}");
}

/// Calls a tool of a server that is killed when `method` has first used its file of notes.
fn call_killed(runtime: Runtime, server: &str, method: &str, tool: &str, before: &str) -> (Output, String) {
    let (home, folder) = home();
    let file = folder.path().join("notes.json");
    fs::write(&file, before).unwrap();
    let command = home.crashing(runtime, server, method, &file).unwrap();
    let mut call = Command::new(programs::built().mendline);
    call.args(["call", tool, "--arg", "name=milk"]);
    if tool != "find_note" {
        call.args(["--arg", "text=1 litre"]);
    }
    let output = call.arg("--").args(command).envs(home.environment()).output().unwrap();
    assert!(home.has_crashed(), "{output:?}");
    (output, fs::read_to_string(file).unwrap())
}

fn hints_decide(runtime: Runtime, server: &str, reads: &str, writes: &str) {
    let stdout = |output: &Output| String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let (output, _) = call_killed(runtime, server, reads, "find_note", r#"{"milk": "2 litres"}"#);
    assert_eq!(stdout(&output), "2 litres", "{output:?}");
    let (output, notes) = call_killed(runtime, server, writes, "set_note", "{}");
    assert_eq!(stdout(&output), "milk is saved.", "{output:?}");
    assert_eq!(serde_json::from_str::<Value>(&notes).unwrap(), json!({ "milk": "1 litre" }));
    let (output, notes) = call_killed(runtime, server, writes, "append_to_note", r#"{"milk": "3 or "}"#);
    assert_eq!(output.status.code(), Some(4), "the outcome is unknown: {output:?}");
    assert_eq!(serde_json::from_str::<Value>(&notes).unwrap(), json!({ "milk": "3 or 1 litre" }), "it ran once");
}

#[test]
fn hints_of_python_server_decide_about_repeated_calls() {
    hints_decide(Python2, "server_hints.py", "read_text", "write_text");
}

#[test]
fn hints_of_typescript_server_decide_about_repeated_calls() {
    hints_decide(Node, "server-hints.mjs", "readFile", "writeFile");
}

/// An HTTP service that a server depends on. It answers every path with its name, or with 503.
struct Dependency {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// The paths that fail.
    failing: Mutex<Vec<&'static str>>,
    requests: AtomicUsize,
    is_over: AtomicBool,
}

impl Dependency {
    fn start() -> Dependency {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if shared.is_over.load(Ordering::Relaxed) {
                    break;
                }
                // A client that closes its connection early is not a failure of the test.
                let _ = shared.serve(stream);
            }
        });
        Dependency { address, state }
    }

    fn fail(&self, paths: &[&'static str]) {
        *self.state.failing.lock().unwrap() = paths.to_vec();
    }

    fn requests(&self) -> usize {
        self.state.requests.load(Ordering::Relaxed)
    }
}

impl State {
    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut head = BufReader::new(stream.try_clone()?).lines();
        let first = head.next().transpose()?.unwrap_or_default();
        for line in head {
            if line?.is_empty() {
                break;
            }
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        let name = first.split(' ').nth(1).unwrap_or_default().trim_matches('/').to_owned();
        let fails = self.failing.lock().is_ok_and(|failing| failing.contains(&name.as_str()));
        let (status, body) = if fails { ("503 Service Unavailable", "") } else { ("200 OK", "3 of them") };
        let length = body.len();
        write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
    }
}

impl Drop for Dependency {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

/// A server with a dependency, behind Mendline.
struct Project {
    caller: Caller,
    dependency: Dependency,
    calls: usize,
    _folder: TempDir,
}

impl Project {
    fn start(runtime: Runtime, server: &str, reset: &str) -> Project {
        let (home, folder) = home();
        let dependency = Dependency::start();
        let language = if runtime == Node { "node" } else { "python" };
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes").join(language).join(server);
        let script = home.copy(runtime, server, &fs::read_to_string(source).unwrap()).unwrap();
        let mut command = vec![programs::built().mendline.into(), "run".into(), "--".into()];
        command.extend([runtime.interpreter().unwrap().into(), script.into()]);
        command.extend([format!("http://{}", dependency.address).into(), reset.into()]);
        let mut caller = Caller::start(&command, &home.environment(), &folder.path().join("run.log")).unwrap();
        caller.initialize(SOON).unwrap();
        Project { caller, dependency, calls: 0, _folder: folder }
    }

    /// Returns whether the result is an error, and its text.
    fn summary(&mut self) -> (bool, String) {
        self.calls += 1;
        let id = self.calls.to_string();
        self.caller.call(&id, "project_summary", &json!({})).unwrap();
        let answer = self.caller.answer(&id, SOON).unwrap();
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        (answer["result"]["isError"] == true, text.to_owned())
    }
}

fn degrades(runtime: Runtime, server: &str) {
    // The breaker stays open for an hour.
    let mut project = Project::start(runtime, server, "3600");
    assert_eq!(project.summary(), (false, "commits: 3 of them\nissues: 3 of them".to_owned()));
    project.dependency.fail(&["issues"]);
    let (is_error, text) = project.summary();
    assert!(!is_error && text.contains("commits: 3 of them") && text.contains("Missing: issues: HTTP 503"), "{text}");
    project.dependency.fail(&["commits", "issues"]);
    assert!((0..3).all(|_| project.summary().0), "no source answers");
    let before = project.dependency.requests();
    // Mendline's own breaker is not for errors that a tool reports, so that the model reads the server's text.
    for _ in 0..10 {
        let (is_error, text) = project.summary();
        assert!(is_error && text.contains("Try again in 3600 s."), "{text}");
    }
    assert_eq!(project.dependency.requests(), before, "an open breaker does not ask");
}

fn recovers(runtime: Runtime, server: &str) {
    let mut project = Project::start(runtime, server, "1");
    project.dependency.fail(&["commits", "issues"]);
    while !project.summary().1.contains("not asked") {}
    project.dependency.fail(&[]);
    assert!(eventually(SOON, || project.summary() == (false, "commits: 3 of them\nissues: 3 of them".to_owned())));
}

#[test]
fn python_server_returns_partial_results_and_opens_its_breaker() {
    degrades(Python2, "server_breaker.py");
    recovers(Python2, "server_breaker.py");
}

#[test]
fn typescript_server_returns_partial_results_and_opens_its_breaker() {
    degrades(Node, "server-breaker.mjs");
    recovers(Node, "server-breaker.mjs");
}
