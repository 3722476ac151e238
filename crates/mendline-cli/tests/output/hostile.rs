//! Every command with hostile names and bodies: configuration, server, client and command line contain control
//! characters, bidirectional overrides and invisible characters. None of them reaches stdout or stderr raw, on a
//! terminal or in a pipe, and none starts a new line.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::thread;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};

use crate::stage::{MENDLINE, Stage, finish, wait};

/// A window title, a cleared screen, hidden text, their 8-bit forms, overrides, isolates, invisible characters, tags,
/// and several kinds of line ends.
const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[8m\u{9b}31m\u{9d}0;x\u{9c}\u{8}\u{7f}\u{85}\u{202e}\u{2066}\u{2069}\
                       \u{200b}\u{200d}\u{200e}\u{feff}\u{61c}\u{ad}\u{2060}\u{180e}\u{fff9}\u{e0041}\u{2028}\u{2029}\r\n\
                       FORGED";

/// The colours of Mendline, of its command line parser and of its diagnostics.
const COLOURS: [&str; 21] = [
    "", "0", "1", "2", "4", "31", "32", "33", "34", "35", "36", "91", "92", "94", "95", "96", "1;31", "1;32", "1;33",
    "38;5;9", "38;5;12",
];

/// The kind of output of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sink {
    Pipe,
    Terminal,
}

/// Returns the first forbidden character, by a list that is independent of the product.
fn forbidden(text: &str) -> Option<char> {
    text.chars().find(|&it| {
        matches!(u32::from(it),
            0..=8 | 11..=31 | 0x7f..=0x9f | 0xad | 0x61c | 0x180e | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f
            | 0xfe00..=0xfe0f | 0xfeff | 0xfff9..=0xfffb | 0xe0000..=0xe0fff)
    })
}

/// Removes the escape sequences that Mendline itself may write to a terminal.
fn without_own(text: &str) -> String {
    let mut text = text.replace("\r\n", "\n").replace("\r\u{1b}[K", "").replace("\r\u{1b}[2K", "");
    for colour in COLOURS {
        text = text.replace(&format!("\u{1b}[{colour}m"), "");
    }
    text
}

/// Returns what is wrong with an output, if anything.
fn violation(to: Sink, bytes: &[u8]) -> Option<String> {
    let Ok(text) = std::str::from_utf8(bytes) else { return Some(format!("not UTF-8: {bytes:?}")) };
    let text = if to == Sink::Terminal { without_own(text) } else { text.to_owned() };
    if let Some(character) = forbidden(&text) {
        return Some(format!("holds {character:?}: {text:?}"));
    }
    let is_forged = text.lines().any(|line| line.starts_with("FORGED"));
    is_forged.then(|| format!("a line is forged:\n{text}"))
}

fn assert_harmless(what: &str, to: Sink, bytes: &[u8]) {
    assert_eq!(violation(to, bytes), None, "{what}");
}

/// A shell script that serves hostile text in every member that it can set.
const SERVER: &str = r#"
here=${0%/*}
cat "$here/stderr" >&2
cat "$here/noise"
while IFS= read -r line; do
  id=$(printf '%s\n' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9-]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) body=initialize ;;
    *'"tools/list"'*) body=tools ;;
    *'"prompts/list"'*) body=prompts ;;
    *'"resources/list"'*) body=resources ;;
    *'"tools/call"'*)
      token=$(printf '%s\n' "$line" | sed -n 's/.*"progressToken":\("[^"]*"\|[0-9-]*\).*/\1/p')
      [ -z "$token" ] || printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,%s}}\n' "$token" "$(cat "$here/progress")"
      printf '{"jsonrpc":"2.0","method":"notifications/message","params":%s}\n' "$(cat "$here/message")"
      case "$line" in *fails*) body=fails ;; *errors*) body=errors ;; *) body=answers ;; esac ;;
    *) body=unknown ;;
  esac
  [ -z "$id" ] || printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$(cat "$here/$body")"
done
"#;

/// Creates a stage with a hostile configuration, server and client.
fn stage() -> Stage {
    let stage = Stage::new(&json!({}));
    let file = |name: &str, text: &str| fs::write(stage.path().join(name), text).unwrap();
    let bad = |text: &str| format!("{text}{HOSTILE}");
    let member = |name: &str, value: &Value| format!("{}:{value}", json!(name));
    file("server.sh", SERVER);
    file("stderr", &format!("{HOSTILE}\n"));
    file("noise", &format!("not protocol {}\n", HOSTILE.replace(['\r', '\n'], " ")));
    let info = json!({ "name": bad("server"), "version": bad("1"), "title": bad("title") });
    let offers = json!({ "tools": {}, "prompts": {}, "resources": {}, "logging": {} });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": offers, "serverInfo": info, "instructions": bad("i") });
    file("initialize", &member("result", &hello));
    let property =
        json!({ "type": bad("string"), "description": bad("d"), "default": bad("x"), "enum": [bad("a"), "b"] });
    let schema = json!({ "type": "object", "properties": { bad("p"): property, "n": { "type": "integer" } }, "required": [bad("p")] });
    let tool = |name: &str| json!({ "name": name, "title": bad("t"), "description": bad("about"), "inputSchema": schema, "outputSchema": schema });
    let tools: Vec<Value> = ["answers", "fails", "errors", &bad("tool")].map(tool).into();
    file("tools", &member("result", &json!({ "tools": tools })));
    let argument = json!({ "name": bad("a"), "description": bad("d"), "required": true });
    let prompt = json!({ "name": bad("p"), "title": bad("t"), "description": bad("d"), "arguments": [argument] });
    file("prompts", &member("result", &json!({ "prompts": [prompt] })));
    let resource = json!({ "uri": bad("memo://"), "name": bad("n"), "mimeType": bad("m"), "description": bad("d") });
    file("resources", &member("result", &json!({ "resources": [resource] })));
    let content = json!([
        { "type": "text", "text": bad("text") },
        { "type": "resource_link", "uri": bad("memo://"), "name": bad("n"), "mimeType": bad("m") },
        { "type": "resource", "resource": { "uri": bad("memo://"), "text": bad("inner") } },
        { "type": "image", "mimeType": bad("image/png"), "data": "aGVsbG8=" },
        { "type": bad("odd"), bad("key"): bad("value") },
    ]);
    file("answers", &member("result", &json!({ "content": content, "structuredContent": { bad("k"): bad("v") } })));
    file("fails", &member("result", &json!({ "content": content, "isError": true })));
    file("errors", &member("error", &json!({ "code": -32000, "message": bad("error"), "data": bad("data") })));
    file("unknown", &member("error", &json!({ "code": -32601, "message": bad("no method") })));
    file("progress", &format!("\"progress\":1,\"total\":2,{}", member("message", &json!(bad("half")))));
    file("message", &json!({ "level": "error", "logger": bad("l"), "data": bad("said") }).to_string());
    let script = stage.path().join("server.sh");
    let script = script.to_str().unwrap();
    let entry = json!({ "command": "sh", "args": [script], "env": { bad("ENV"): bad("v") } });
    let servers = json!({
        "good": { "command": "sh", "args": [script], "env": { "A": bad("v") }, "tools": { bad("t"): { "effect": "read" } } },
        bad("name"): entry,
        bad("gone"): { "command": bad("/nonexistent/program"), "args": [bad("a")], "cwd": "/" },
        bad("away"): { "url": "http://127.0.0.1:9/mcp", "headers": { "X-Key": "k" } },
        bad("ends"): { "command": "sh", "args": ["-c", "cat \"$0\" >&2; exit 3", stage.path().join("stderr")] },
    });
    file("good.json", &json!({ "mcpServers": servers }).to_string());
    let wrong = json!({
        bad("name"): { bad("key"): bad("value"), "command": 5, "startup": bad("atOnce"), "timeouts": { bad("k"): 1 }, "retry": { "codes": { bad("c"): "x" } } },
        bad("both"): { "command": bad("c"), "url": bad("http://x"), "headers": { bad("h"): bad("v") } },
        bad("vars"): { "command": "${input:x}", "args": [format!("${{{HOSTILE}}}")] },
        bad("block"): bad("text"),
    });
    file("wrong.json", &json!({ "mcpServers": wrong, "mendline": { bad("k"): 1 } }).to_string());
    file("broken.json", &bad("{ \"mcpServers\": "));
    file(
        "good.toml",
        &format!(
            "# {}\n[mcp_servers.x]\ncommand = \"sh\"\nargs = [\"{script}\"]\n",
            HOSTILE.replace(['\r', '\n', '\u{7}', '\u{8}', '\u{1b}', '\u{7f}'], "")
        ),
    );
    stage
}

/// Returns every command, in every form that prints text of others.
fn lines(stage: &Stage) -> Vec<Vec<String>> {
    let name = format!("name{HOSTILE}");
    let tool = format!("tool{HOSTILE}");
    let (gone, away, ends) = (format!("gone{HOSTILE}"), format!("away{HOSTILE}"), format!("ends{HOSTILE}"));
    let word = format!("x{HOSTILE}");
    let good = ["--config", "good.json"];
    let names = "mendline run --config good.json ".to_owned();
    let pages = stage.path().join("p").to_str().unwrap().to_owned();
    let lines: Vec<Vec<&str>> = vec![
        vec![&word],
        vec!["--", &word],
        vec!["help", &word],
        vec!["run", "--config", "good.json", "nosuch"],
        vec!["run", "--config", "good.json", &word],
        vec!["run", "--config", "wrong.json", &name],
        vec!["run", "--config", "broken.json", &name],
        vec!["run", "--config", &word, &name],
        vec!["run", "--name", &word, "--", "true"],
        vec!["run", "--transport", &word, "http://127.0.0.1:9/"],
        vec!["run", "--header", &word, "http://127.0.0.1:9/"],
        vec!["run", "--call-timeout", &word, "http://127.0.0.1:9/"],
        vec!["run", &word, &word],
        vec!["serve", "--config", "good.json", &word],
        vec!["serve", "--config", "wrong.json"],
        vec!["serve", "--config", "broken.json"],
        vec!["serve", "--listen", &word],
        vec!["explain", &word],
        vec!["explain", "last", &word],
        vec!["report"],
        vec!["report", &word],
        vec!["login", "--config", "good.json", &name],
        vec!["login", "--config", "good.json", &word],
        vec!["login", "--timeout", &word, &name],
        vec!["logout", "--config", "good.json", &name],
        vec!["logout", &word],
        vec!["token", "--config", "good.json", &name],
        vec!["token", &word],
        vec!["status"],
        vec!["status", "evil"],
        vec!["status", &word],
        vec!["status", "--json"],
        vec!["status", "--within", "20s", "--probe", "--config", "good.json"],
        vec!["status", "--within", "20s", "--probe", "--json", "--config", "good.json"],
        vec!["reconnect", "evil"],
        vec!["reconnect", &word],
        vec!["isolate", "evil"],
        vec!["isolate", &word],
        vec!["resume", "evil"],
        vec!["resume", &word],
        vec!["stats"],
        vec!["stats", &word],
        vec!["metrics"],
        vec!["list", "--config", "good.json"],
        vec!["list", "--json", "--config", "good.json"],
        vec!["list", "--config", "wrong.json"],
        vec!["add", "--dry-run", "--config", "good.json", "other", "https://mcp.example.com/mcp"],
        vec!["add", "--dry-run", "--config", "wrong.json", "other", "https://mcp.example.com/mcp"],
        vec!["add", "--dry-run", "--config", "broken.json", "other", "https://mcp.example.com/mcp"],
        vec!["add", "--dry-run", "--config", "good.json", "other", "--set", &word, "--env", &word, "--", &word],
        vec!["add", "--dry-run", "--client", &word, "other", "https://mcp.example.com/mcp"],
        vec!["add", &word, "https://mcp.example.com/mcp"],
        vec!["set", "--dry-run", "--config", "good.json", &name, "cwd=/"],
        vec!["set", "--dry-run", "--config", "good.json", &word, "cwd=/"],
        vec!["set", "--dry-run", "--config", "good.json", &name, &word],
        vec!["unset", "--dry-run", "--config", "good.json", &name, "env"],
        vec!["unset", "--dry-run", "--config", "good.json", &name, &word],
        vec!["remove", "--dry-run", "--config", "good.json", &name],
        vec!["remove", "--dry-run", "--config", "good.json", &word],
        vec!["check", "good.json"],
        vec!["check", "wrong.json"],
        vec!["check", "broken.json"],
        vec!["check", &word],
        vec!["schema", &word],
        vec!["wrap", "--dry-run", "--binary", MENDLINE, "--file", "good.json"],
        vec!["wrap", "--dry-run", "--binary", MENDLINE, "--file", "good.toml"],
        vec!["wrap", "--dry-run", "--binary", MENDLINE, "--file", "broken.json"],
        vec!["wrap", "--dry-run", "--binary", MENDLINE, "--file", "good.json", "--server", &word],
        vec!["wrap", "--dry-run", "--binary", MENDLINE, "--client", &word],
        vec!["unwrap", "--dry-run", "--file", "good.json"],
        vec!["unwrap", "--dry-run", "--file", &word],
        vec!["doctor", "--config", "good.json"],
        vec!["doctor", "--json", "--config", "good.json"],
        vec!["doctor", "--config", "wrong.json"],
        vec!["doctor", "--config", "good.json", &name],
        vec!["doctor", "--config", "good.json", "nosuch"],
        vec!["tools", good[0], good[1], &name],
        vec!["tools", good[0], good[1], &name, "answers"],
        vec!["tools", good[0], good[1], &name, "nosuch"],
        vec!["tools", good[0], good[1], &name, &tool],
        vec!["tools", good[0], good[1], "--json", "--prompts", "--resources", &name],
        vec!["tools", good[0], good[1], "--prompts", "--resources", &name],
        vec!["tools", good[0], good[1], &gone],
        vec!["tools", good[0], good[1], "--timeout", "2s", &away],
        vec!["tools", good[0], good[1], &ends],
        vec!["tools", good[0], good[1], "nosuch"],
        vec!["call", good[0], good[1], &name, "errors"],
        vec!["call", good[0], good[1], &name, "nosuch"],
        vec!["call", good[0], good[1], "--json", &name, &tool],
        vec!["call", good[0], good[1], "--json", &name, "answers"],
        vec!["call", good[0], good[1], "--arg", "n=x", &name, "answers"],
        vec!["call", good[0], good[1], "--arg", &word, &name, "answers"],
        vec!["call", good[0], good[1], &name, "answers", &word],
        vec!["logs", "--level", "debug"],
        vec!["logs", "--json", "--level", "debug"],
        vec!["logs", &word],
        vec!["logs", "--since", &word],
        vec!["demo", "--calls", &word],
        vec!["completions", &word],
        vec!["completions", "--names", &names],
        vec!["man", &word],
        vec!["man", "--output", &pages],
        vec!["demo-server", "--fault", &word],
    ];
    lines.into_iter().map(|line| line.into_iter().map(str::to_owned).collect()).collect()
}

/// Starts a bridge with a hostile server and a hostile client, and makes a call that fails.
fn bridge(stage: &Stage) -> impl Drop + use<> {
    struct Bridge(std::process::Child);
    impl Drop for Bridge {
        fn drop(&mut self) {
            drop(self.0.stdin.take());
            let _ = self.0.wait();
        }
    }
    let script = stage.path().join("server.sh");
    let mut command =
        stage.command(&["run", "--name", "evil", "--startup", "wait", "--", "sh", script.to_str().unwrap()]);
    let mut process = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let who = json!({ "name": format!("client{HOSTILE}"), "version": HOSTILE });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who });
    let stdin = process.stdin.as_mut().unwrap();
    for (id, method, params) in [
        (1, "initialize", hello),
        (2, "tools/list", json!({})),
        (3, "tools/call", json!({ "name": format!("errors{HOSTILE}"), "arguments": {} })),
        (4, "ping", json!({})),
    ] {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        stdin.write_all(format!("{message}\n").as_bytes()).unwrap();
    }
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(process.stdout.take().unwrap()));
    let is_last = |line: &String| serde_json::from_str::<Value>(line).is_ok_and(|message| message["id"] == 4);
    assert!(lines.by_ref().map_while(Result::ok).any(|line| is_last(&line)), "the bridge has ended");
    thread::spawn(move || lines.for_each(drop));
    Bridge(process)
}

/// Runs a command on its own terminal and returns all its output.
fn on_terminal(stage: &Stage, line: &[String]) -> (ExitStatus, Vec<u8>) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut command = stage.command(line);
    command.env("TERM", "xterm-256color");
    let mut process = command.stdout(slave.try_clone().unwrap()).stderr(slave).spawn().unwrap();
    // The command holds copies of the terminal that would keep it open.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let reader = thread::spawn(move || {
        let mut seen = Vec::new();
        // Reading a terminal without users ends with an error.
        let _ = File::from(master).read_to_end(&mut seen);
        seen
    });
    let status = wait(&mut process, &command);
    (status, reader.join().unwrap())
}

#[test]
fn s07_hostile_text_reaches_no_pipe_raw() {
    let stage = stage();
    let _bridge = bridge(&stage);
    let mut complaints = Vec::new();
    for line in lines(&stage) {
        let ended = finish(&mut stage.command(&line));
        assert!(ended.status.signal().is_none(), "{line:?}: {}", ended.status);
        assert!(!ended.stdout.is_empty() || !ended.stderr.is_empty(), "{line:?} prints nothing");
        let found = [&ended.stdout, &ended.stderr].into_iter().filter_map(|bytes| violation(Sink::Pipe, bytes));
        complaints.extend(found.map(|found| format!("{line:?}: {found}")));
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n\n"));
}

#[test]
fn s07_hostile_text_reaches_no_terminal_raw() {
    let stage = stage();
    let _bridge = bridge(&stage);
    let mut complaints = Vec::new();
    for line in lines(&stage) {
        let (status, seen) = on_terminal(&stage, &line);
        assert!(status.signal().is_none(), "{line:?}: {status}");
        complaints.extend(violation(Sink::Terminal, &seen).map(|found| format!("{line:?}: {found}")));
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n\n"));
}

#[test]
fn s07_result_in_pipe_is_exact_and_on_terminal_escaped() {
    let stage = stage();
    let line = ["call", "--config", "good.json", "good", "answers"].map(str::to_owned);
    let ended = finish(&mut stage.command(&line));
    let stdout = String::from_utf8(ended.stdout).unwrap();
    assert!(stdout.contains(&format!("text{HOSTILE}\n")), "{stdout:?}");
    assert_harmless("stderr", Sink::Pipe, &ended.stderr);
    let (_, seen) = on_terminal(&stage, &line);
    let seen = without_own(std::str::from_utf8(&seen).unwrap());
    assert_eq!(forbidden(&seen), None, "{seen:?}");
    assert!(seen.contains("text\\u{1b}]0;owned\\u{7}"), "{seen:?}");
}

/// The text of a tool may have several lines. On stderr it is always escaped.
#[test]
fn s07_error_of_tool_is_escaped_everywhere() {
    let stage = stage();
    let line = ["call", "--config", "good.json", "good", "fails"].map(str::to_owned);
    let ended = finish(&mut stage.command(&line));
    assert_eq!((ended.status.code(), ended.stdout.len()), (Some(1), 0), "{ended:?}");
    for text in [String::from_utf8(ended.stderr).unwrap(), String::from_utf8(on_terminal(&stage, &line).1).unwrap()] {
        let text = without_own(&text);
        assert_eq!(forbidden(&text), None, "{text:?}");
        assert!(text.contains("text\\u{1b}]0;owned\\u{7}"), "{text:?}");
    }
}

#[test]
fn s07_escaped_json_equals_server_text() {
    let stage = stage();
    let ended = finish(&mut stage.command(&["call", "--config", "good.json", "--json", "good", "answers"]));
    let value: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(value["content"][0]["text"], format!("text{HOSTILE}"));
}

#[test]
fn s07_log_of_bridge_is_harmless() {
    let stage = stage();
    let name = format!("name{HOSTILE}");
    let mut command = stage.command(&["run", "--log-level", "debug", "--config", "good.json", &name]);
    let requests = stage.path().join("requests");
    fs::write(&requests, crate::stage::initialize()).unwrap();
    let ended = finish(command.stdin(File::open(&requests).unwrap()));
    assert_harmless("run", Sink::Pipe, &ended.stderr);
    assert!(String::from_utf8_lossy(&ended.stderr).contains("owned"), "the server's stderr is logged");
}

#[test]
fn s07_every_command_is_in_the_table() {
    let stage = stage();
    let listed: BTreeSet<String> = lines(&stage).into_iter().map(|line| line[0].clone()).collect();
    let missing: Vec<String> = stage.commands().difference(&listed).cloned().collect();
    assert_eq!(missing, Vec::<String>::new(), "add a line for each of them to `lines`");
}
