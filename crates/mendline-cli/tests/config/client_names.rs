//! One set of names: the own file, the files of clients, and running processes.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::client::{MENDLINE, SOON, eventually};
use crate::stage::{Stage, demo, file};

fn entries(servers: &Value) -> String {
    json!({ "mcpServers": servers }).to_string()
}

/// Returns an entry as `wrap` writes it.
fn wrapped(name: &str) -> Value {
    json!({ "command": MENDLINE, "args": ["run", "--name", name, "--", MENDLINE, "demo-server"] })
}

#[test]
fn u02_server_of_a_client_is_known_to_every_command() {
    let stage = Stage::empty();
    stage.client_file(".cursor/mcp.json", &entries(&json!({ "notes": wrapped("notes"), "plain": demo() })));
    for name in ["notes", "plain", "cursor/notes", "cursor:user/plain"] {
        let (code, printed) = stage.output(&["tools", name]);
        assert!(code == 0 && printed.contains("lookup"), "{name}: {printed}");
        assert!(printed.contains("is an entry of ~/.cursor/mcp.json"), "{printed}");
        let (code, printed) = stage.output(&["call", name, "lookup", "--arg", "key=k"]);
        assert!(code == 0 && printed.contains("k is 42"), "{name}: {printed}");
        let (code, printed) = stage.output(&["doctor", name]);
        assert!(code == 0 && printed.contains("✓ handshake"), "{name}: {printed}");
    }
    let mut client = stage.client(&["plain"]);
    assert!(client.result("1", "lookup", &json!({ "key": "k" })).to_string().contains("k is 42"));
    let (code, printed) = stage.output(&["status", "cursor/plain"]);
    assert!(code == 0 && printed.contains("plain"), "{printed}");
    eventually("the log is written", SOON, || {
        let (code, printed) = stage.output(&["logs", "cursor/plain"]);
        code == 0 && printed.contains("plain")
    });
    let (code, printed) = stage.output(&["reconnect", "cursor/plain"]);
    assert!(code == 0 && printed.contains("ready again"), "{printed}");
}

#[test]
fn u02_configured_server_that_does_not_run_is_said_so() {
    let stage = Stage::empty();
    stage.client_file(".cursor/mcp.json", &entries(&json!({ "notes": demo() })));
    for line in [&["status", "notes"][..], &["reconnect", "notes"]] {
        let (code, printed) = stage.output(line);
        assert_eq!(code, 3, "{printed}");
        assert!(printed.contains("\"notes\" does not run; it is an entry of"), "{printed}");
    }
}

#[test]
fn u02_own_file_wins_over_clients() {
    let stage = Stage::with(&file(&json!({ "notes": demo() })));
    stage.client_file(".cursor/mcp.json", &entries(&json!({ "notes": { "command": "/nonexistent" } })));
    let (code, printed) = stage.output(&["tools", "notes"]);
    let note = "note: notes is the entry of ~/mendline/config.json; cursor/notes is another server";
    assert!(code == 0 && printed.contains(note), "{printed}");
    assert_ne!(stage.output(&["tools", "cursor/notes"]).0, 0);
}

#[test]
fn u02_server_of_a_client_is_reached_beside_the_own_one() {
    let stage = Stage::with(&file(&json!({ "notes": demo(), "same": demo() })));
    let other = json!({ "command": MENDLINE, "args": ["demo-server"], "env": { "OTHER": "1" } });
    stage.client_file(".cursor/mcp.json", &entries(&json!({ "notes": other, "same": demo() })));
    let (code, printed) = stage.output(&["call", "cursor/notes", "lookup", "--arg", "key=k"]);
    assert!(code == 0 && printed.contains("is an entry of ~/.cursor/mcp.json"), "{printed}");
    let (code, printed) = stage.output(&["tools", "same"]);
    assert!(code == 0 && !printed.contains("note: "), "equal entries are one server: {printed}");
    let (_, printed) = stage.output(&["list"]);
    let names: Vec<&str> = printed.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(names[1..5], ["notes", "same", "cursor/notes", "same"], "{printed}");
    for command in ["tools", "call", "run", "doctor", "report"] {
        let line = format!("mendline {command} ");
        let names = "notes\nsame\ncursor/notes\n".to_owned();
        assert_eq!(stage.output(&["completions", "--names", &line]), (0, names), "{line}");
    }
}

#[test]
fn u02_name_of_a_running_process_leads_to_its_file() {
    let stage = Stage::empty();
    let other = stage.other("other.json", &file(&json!({ "notes": demo() })));
    let client = stage.client(&["--config", other.to_str().unwrap(), "notes"]);
    let (code, printed) = stage.output(&["tools", "notes"]);
    assert!(code == 0 && printed.contains("lookup"), "{printed}");
    assert!(printed.contains("notes is an entry of ~/other.json, which a running process uses"), "{printed}");
    assert_eq!(stage.output(&["call", "notes", "lookup", "--arg", "key=k"]).0, 0);
    let mut second = stage.client(&["notes"]);
    assert!(second.result("1", "lookup", &json!({ "key": "k" })).to_string().contains("k is 42"));
    for command in ["tools", "call", "run"] {
        let line = format!("mendline {command} ");
        assert_eq!(stage.output(&["completions", "--names", &line]), (0, "notes\n".to_owned()), "{line}");
    }
    drop(client);
}

#[test]
fn u02_name_of_a_gateway_leads_to_it() {
    let stage = Stage::empty();
    let line = ["serve", "--listen", "127.0.0.1:0", "--name", "notes", "--", MENDLINE, "demo-server"];
    let mut gateway = stage.command(&line).stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut printed = String::new();
    eventually("the gateway is used", SOON, || {
        printed = stage.output(&["call", "notes", "lookup", "--arg", "key=k"]).1;
        printed.contains("k is 42")
    });
    let offered = stage.output(&["completions", "--names", "mendline tools "]);
    assert_eq!(stage.started().len(), 1, "the gateway has the only process");
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    assert_eq!(offered, (0, "notes\n".to_owned()), "{printed}");
}

#[test]
fn u02_name_of_a_command_line_is_said_with_the_next_step() {
    let stage = Stage::empty();
    let client = stage.client(&["--name", "notes", "--", MENDLINE, "demo-server"]);
    for line in [&["tools", "notes"][..], &["call", "notes", "lookup"], &["run", "notes"]] {
        let (code, printed) = stage.output(line);
        assert_eq!(code, 3, "{printed}");
        assert!(printed.contains("from a command line that no file has"), "{printed}");
        assert!(printed.contains("mendline add notes -- ") && printed.contains("makes the name known"), "{printed}");
    }
    assert_eq!(stage.output(&["completions", "--names", "mendline tools "]), (0, String::new()));
    drop(client);
}

#[test]
fn report_takes_the_same_names_and_refuses_others() {
    let stage = Stage::with(&file(&json!({ "notes": demo() })));
    stage.client_file(".cursor/mcp.json", &entries(&json!({ "notes": { "command": "other" } })));
    stage.client_file(".claude.json", &entries(&json!({ "notes": { "command": "third" } })));
    let (code, printed) = stage.output(&["report", "cursor/notes"]);
    assert!(code == 0 && printed.contains("notes: command other"), "{printed}");
    assert!(!printed.contains("notes: command third") && !printed.contains("(Mendline)"), "{printed}");
    let (code, printed) = stage.output(&["report", "notes"]);
    assert!(code == 0 && printed.contains("notes: valid") && printed.contains("notes: command third"), "{printed}");
    let out = stage.home().join("report.md");
    let (code, printed) = stage.output(&["report", "nodes", "--yes", "--out", out.to_str().unwrap()]);
    assert!(code == 3 && printed.contains("no server \"nodes\" is known"), "{printed}");
    assert!(printed.contains("did you mean \"notes\"?") && printed.contains("claude-code/notes"), "{printed}");
    assert!(!out.exists());
}

#[test]
fn u02_ambiguous_name_is_told_apart_by_its_client() {
    let stage = Stage::empty();
    stage.client_file(".cursor/mcp.json", &entries(&json!({ "notes": demo() })));
    stage.client_file(".claude.json", &entries(&json!({ "notes": { "command": "/nonexistent" } })));
    let (code, printed) = stage.output(&["tools", "notes"]);
    assert_eq!(code, 2, "{printed}");
    for words in ["\"notes\" is ambiguous", "mendline tools cursor/notes", "mendline tools claude-code/notes"] {
        assert!(printed.contains(words), "{printed}");
    }
    assert_eq!(stage.output(&["tools", "cursor/notes"]).0, 0);
    // Equal entries are one server.
    stage.client_file(".claude.json", &entries(&json!({ "notes": demo() })));
    assert_eq!(stage.output(&["tools", "notes"]).0, 0);
}

#[test]
fn u02_every_command_names_the_ambiguity() {
    let stage = Stage::empty();
    stage.client_file(".cursor/mcp.json", &entries(&json!({ "notes": demo() })));
    stage.client_file("goose/config.yaml", "extensions:\n  notes:\n    type: stdio\n    cmd: /nonexistent\n");
    for (line, words) in [
        (&["tools", "notes"][..], "mendline tools cursor/notes "),
        (&["call", "notes", "lookup"], "mendline call goose/notes  TOOL "),
        (&["run", "notes"], "mendline run goose/notes "),
        (&["doctor", "notes"], "mendline doctor goose/notes "),
        (&["status", "notes"], "  goose/notes    HOME/goose/config.yaml"),
        (&["reconnect", "notes"], "  cursor/notes   HOME/.cursor/mcp.json"),
    ] {
        let (code, printed) = stage.output(line);
        assert!(code != 0 && printed.contains(words), "{line:?}: {printed}");
    }
    let names = "cursor/notes\ngoose/notes\n".to_owned();
    assert_eq!(stage.output(&["completions", "--names", "mendline doctor "]), (0, names));
}

#[test]
fn u02_file_of_a_client_in_any_form_can_be_named() {
    let stage = Stage::empty();
    let goose = format!("extensions:\n  one:\n    type: stdio\n    cmd: {MENDLINE}\n    args: [demo-server]\n");
    stage.other("goose.yaml", &goose);
    let opencode = json!({ "mcp": { "two": { "type": "local", "command": [MENDLINE, "demo-server"] } } });
    stage.other("opencode.json", &opencode.to_string());
    for (file, name) in [("goose.yaml", "one"), ("opencode.json", "two")] {
        let (code, printed) = stage.output(&["tools", "--config", file, name]);
        assert!(code == 0 && printed.contains("lookup"), "{file}: {printed}");
        let (code, printed) = stage.output(&["check", file]);
        assert!(code == 0 && printed.contains(name), "{file}: {printed}");
    }
    let (code, printed) = stage.output(&["set", "--config", "goose.yaml", "one", "cwd=/"]);
    assert!(code == 2 && printed.contains("goose.yaml is not JSON"), "{printed}");
}

#[test]
fn u02_project_scope_of_claude_code_is_known() {
    let stage = Stage::empty();
    let here = stage.home().to_str().unwrap().to_owned();
    let text = json!({ "projects": { here: { "mcpServers": { "local": demo() } } } }).to_string();
    stage.client_file(".claude.json", &text);
    let (code, printed) = stage.output(&["tools", "local"]);
    assert!(code == 0 && printed.contains("lookup"), "{printed}");
}

#[test]
fn file_of_a_project_is_used_only_if_it_is_named() {
    let stage = Stage::empty();
    stage.other(".mcp.json", &entries(&json!({ "notes": demo() })));
    let (code, printed) = stage.output(&["tools", "notes"]);
    assert_eq!(code, 3, "{printed}");
    assert!(printed.contains("mendline tools --config HOME/.mcp.json notes"), "{printed}");
    assert_eq!(stage.started(), Vec::<i32>::new());
    assert_eq!(stage.output(&["tools", "--config", ".mcp.json", "notes"]).0, 0);
}

#[test]
fn u02_unknown_name_lists_the_names_of_clients() {
    let stage = Stage::empty();
    stage.client_file(".cursor/mcp.json", &entries(&json!({ "notes": demo(), "tickets": demo() })));
    let (code, printed) = stage.output(&["tools", "nodes"]);
    assert_eq!(code, 3, "{printed}");
    assert!(printed.contains("did you mean \"notes\"?"), "{printed}");
    assert!(printed.contains("Servers of clients: notes, tickets"), "{printed}");
}

#[test]
fn u02_completion_offers_the_names_of_clients() {
    let stage = Stage::with(&file(&json!({ "own": demo() })));
    stage.client_file(".cursor/mcp.json", &entries(&json!({ "notes": demo() })));
    for (line, names) in [
        ("mendline tools ", "own\nnotes\n"),
        ("mendline run ", "own\nnotes\n"),
        ("mendline doctor ", "own\nnotes\n"),
        ("mendline set ", "own\n"),
    ] {
        assert_eq!(stage.output(&["completions", "--names", line]), (0, names.to_owned()), "{line}");
    }
}

#[test]
fn bare_command_shows_the_next_step() {
    let stage = Stage::empty();
    let (code, printed) = stage.output(&[]);
    assert!(code == 0 && printed.contains("mendline demo"), "{printed}");
    stage.client_file(".cursor/mcp.json", &entries(&json!({ "notes": demo() })));
    let (_, printed) = stage.output(&[]);
    assert!(printed.contains("Cursor: 1 server, 0 through Mendline"), "{printed}");
    assert!(printed.contains("Next:\n  mendline wrap "), "{printed}");
    stage.client_file(".cursor/mcp.json", &entries(&json!({ "notes": wrapped("notes") })));
    let (_, printed) = stage.output(&[]);
    assert!(printed.contains("1 through Mendline") && printed.contains("Next:\n  mendline status "), "{printed}");
}

#[test]
fn next_step_is_wrap_only_if_wrap_changes_something() {
    let stage = Stage::empty();
    let wrap = |stage: &Stage| stage.output(&["wrap", "--binary", MENDLINE, "--yes"]);
    let remote = json!({ "url": "https://mcp.example.com/mcp" });
    let off = json!({ "command": MENDLINE, "args": ["demo-server"], "disabled": true });
    let servers = json!({ "notes": demo(), "remote": remote, "off": off, "empty": {} });
    stage.client_file(".cursor/mcp.json", &entries(&servers));
    let (_, printed) = stage.output(&[]);
    assert!(printed.contains("Next:\n  mendline wrap "), "{printed}");
    assert!(stage.output(&["list"]).1.contains("Next: `mendline wrap` routes"));
    assert_eq!(wrap(&stage).0, 0);
    let (_, printed) = wrap(&stage);
    assert!(printed.contains("Nothing to do."), "{printed}");
    let (_, printed) = stage.output(&[]);
    assert!(!printed.contains("mendline wrap"), "{printed}");
    let (_, printed) = stage.output(&["list"]);
    assert!(!printed.contains("Next:") && printed.contains("`mendline wrap --dry-run` says why"), "{printed}");
}
