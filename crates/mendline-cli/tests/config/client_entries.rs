//! `mendline add --client` and `mendline remove --client`: an entry in the form of every client.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::client::MENDLINE;
use crate::stage::{Stage, file};

/// Every client: its name, its usual file below the home directory, and a file as the client writes it.
const CLIENTS: [(&str, &str, &str); 14] = [
    ("claude-code", ".claude.json", include_str!("../clients/claude-code.json")),
    ("claude-desktop", "Claude/claude_desktop_config.json", include_str!("../clients/claude-desktop.json")),
    ("cursor", ".cursor/mcp.json", include_str!("../clients/cursor.json")),
    ("vscode", "Code/User/mcp.json", include_str!("../clients/vscode.json")),
    ("codex", ".codex/config.toml", include_str!("../clients/codex.toml")),
    ("gemini", ".gemini/settings.json", include_str!("../clients/gemini.json")),
    ("opencode", "opencode/opencode.json", include_str!("../clients/opencode.jsonc")),
    ("windsurf", ".codeium/windsurf/mcp_config.json", include_str!("../clients/windsurf.json")),
    (
        "cline",
        "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        include_str!("../clients/cline.json"),
    ),
    (
        "roo",
        "Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
        include_str!("../clients/roo.json"),
    ),
    ("zed", "zed/settings.json", include_str!("../clients/zed.json")),
    ("goose", "goose/config.yaml", include_str!("../clients/goose.yaml")),
    ("continue", ".continue/config.yaml", include_str!("../clients/continue.yaml")),
    ("junie", ".junie/mcp/mcp.json", include_str!("../clients/junie.json")),
];

fn add(stage: &Stage, name: &str, client: &str, more: &[&str]) -> (i32, String) {
    let line = [&["add", name, "--client", client, "--binary", MENDLINE], more, &["--", MENDLINE, "demo-server"]];
    stage.output(&line.concat())
}

fn text(path: &PathBuf) -> String {
    fs::read_to_string(path).unwrap()
}

/// Returns the entry of this name and client that `mendline list` shows.
fn listed(stage: &Stage, name: &str, client: &str) -> Option<Value> {
    let (_, printed) = stage.output(&["list", "--json"]);
    let all: Value = serde_json::from_str(&printed).unwrap();
    let is_it =
        |server: &&Value| server["name"].as_str().is_some_and(|it| it.ends_with(name)) && server["client"] == client;
    all["servers"].as_array().unwrap().iter().find(is_it).cloned()
}

#[test]
fn u12_every_client_gets_an_entry_in_its_own_file() {
    for (client, place, before) in CLIENTS {
        let stage = Stage::empty();
        let path = stage.client_file(place, before);
        let (code, printed) = add(&stage, "added", client, &[]);
        assert_eq!(code, 0, "{client}: {printed}");
        assert!(printed.contains(" runs added now: "), "{client}: {printed}");
        let after = text(&path);
        let is_left = |line: &&str| after.contains(line.trim_end_matches(','));
        let missing: Vec<&str> = before.lines().filter(|line| !is_left(line)).collect();
        assert_eq!(missing, [""; 0], "{client}: {after}");
        assert_eq!(listed(&stage, "added", client).map(|it| it["isWrapped"].clone()), Some(json!(true)), "{client}");
        // Once more changes nothing in the client.
        let (code, printed) = add(&stage, "added", client, &["--replace"]);
        assert!(code == 0 && printed.contains(" runs added already: "), "{client}: {printed}");
        assert_eq!(text(&path), after, "{client}");
        let (code, printed) = stage.output(&["remove", "added", "--client", client]);
        assert!(code == 0 && printed.contains("Removed added from "), "{client}: {printed}");
        assert_eq!(text(&path), before, "{client}");
    }
}

#[test]
fn u12_every_client_without_a_file_gets_one() {
    for (client, place, _) in CLIENTS {
        let stage = Stage::empty();
        let (code, printed) = add(&stage, "added", client, &[]);
        assert_eq!(code, 0, "{client}: {printed}");
        let path = stage.home().join(place);
        assert!(path.is_file(), "{client}: {printed}");
        assert_eq!(listed(&stage, "added", client).map(|it| it["isWrapped"].clone()), Some(json!(true)), "{client}");
        let (code, printed) = stage.output(&["remove", "added", "--client", client]);
        assert!(code == 0 && !text(&path).contains("added"), "{client}: {printed}");
    }
}

#[test]
fn clients_with_other_forms_get_what_they_read() {
    let stage = Stage::empty();
    for client in ["opencode", "goose", "continue", "zed"] {
        let more: &[&str] = if client == "opencode" { &[] } else { &["--replace"] };
        let (code, printed) = add(&stage, "n", client, more);
        assert_eq!(code, 0, "{printed}");
    }
    let at = |place: &str| text(&stage.home().join(place)).replace(MENDLINE, "MENDLINE");
    let json = |place: &str| serde_json::from_str::<Value>(&at(place)).unwrap();
    assert_eq!(
        json("opencode/opencode.json")["mcp"]["n"],
        json!({ "type": "local", "command": ["MENDLINE", "run", "n"], "enabled": true })
    );
    assert_eq!(
        json("zed/settings.json")["context_servers"]["n"],
        json!({ "source": "custom", "command": "MENDLINE", "args": ["run", "n"], "env": {} })
    );
    assert_eq!(
        at("goose/config.yaml"),
        "extensions:\n  n:\n    enabled: true\n    type: \"stdio\"\n    name: \"n\"\n    description: \"\"\n    cmd: \"MENDLINE\"\n    args: [\"run\", \"n\"]\n    envs: {}\n    env_keys: []\n    timeout: 300\n"
    );
    assert_eq!(
        at(".continue/config.yaml"),
        "name: Local Config\nversion: 1.0.0\nschema: v1\nmcpServers:\n  - name: \"n\"\n    command: \"MENDLINE\"\n    args: [\"run\", \"n\"]\n"
    );
}

#[test]
fn newer_file_of_opencode_gets_the_entry_in_its_table() {
    let stage = Stage::empty();
    let before = include_str!("../clients/opencode2.json");
    let path = stage.client_file("opencode/opencode.json", before);
    assert_eq!(add(&stage, "n", "opencode", &[]).0, 0);
    let after: Value = serde_json::from_str(&text(&path)).unwrap();
    assert_eq!(after["mcp"]["servers"]["n"], json!({ "type": "local", "command": [MENDLINE, "run", "n"] }));
    assert_eq!(stage.output(&["remove", "n", "--client", "opencode"]).0, 0);
    assert_eq!(text(&path), before);
}

#[test]
fn u02_servers_of_clients_with_other_forms_run_by_their_names() {
    let stage = Stage::empty();
    let opencode = json!({ "mcp": { "one": { "type": "local", "command": [MENDLINE, "demo-server"] } } });
    stage.client_file("opencode/opencode.json", &opencode.to_string());
    let goose = format!("extensions:\n  two:\n    type: stdio\n    cmd: {MENDLINE}\n    args: [demo-server]\n");
    stage.client_file("goose/config.yaml", &goose);
    let wrapped = format!("[run, --name, three, --, {MENDLINE}, demo-server]");
    let list = format!("mcpServers:\n  - name: three\n    command: {MENDLINE}\n    args: {wrapped}\n");
    stage.client_file(".continue/config.yaml", &list);
    for name in ["one", "goose/two", "three"] {
        let (code, printed) = stage.output(&["call", name, "lookup", "--arg", "key=k"]);
        assert!(code == 0 && printed.contains("k is 42"), "{name}: {printed}");
    }
    assert_eq!(stage.output(&["completions", "--names", "mendline tools "]), (0, "one\ntwo\nthree\n".to_owned()));
}

#[test]
fn file_that_cannot_be_changed_is_left_and_nothing_is_written() {
    for (client, place, before, words) in [
        ("goose", "goose/config.yaml", "extensions: {a: {type: stdio}}\n", "by hand: the command is `mendline run n`"),
        ("goose", "goose/config.yaml", "extensions: [\n", "it cannot be read as YAML: line"),
        (
            "goose",
            "goose/config.yaml",
            "extensions:\n  n:\n    type: builtin\n",
            "has a part of its own that is called",
        ),
        (
            "goose",
            "goose/config.yaml",
            "extensions:\n  n:\n    type: stdio\n    cmd: x\n",
            "Goose has another server \"n\"",
        ),
        (
            "opencode",
            "opencode/opencode.json",
            "{\"mcp\": {\"n\": {\"type\": \"local\", \"command\": [\"x\"]}}}",
            "another server",
        ),
        ("opencode", "opencode/opencode.json", "{\"mcp\": ", "nothing was written"),
        ("opencode", "opencode/opencode.json", "{\"mcp\": []}", "`mcp` must be an object"),
        ("continue", ".continue/config.json", "{\"models\": []}", "would ignore beside a new config.yaml"),
    ] {
        let stage = Stage::empty();
        let path = stage.client_file(place, before);
        let (code, printed) = add(&stage, "n", client, &[]);
        assert_eq!(code, 2, "{client}: {printed}");
        assert!(printed.contains(words), "{client}: {printed}");
        assert_eq!((text(&path).as_str(), stage.path().exists()), (before, false), "{client}: nothing is written");
    }
}

#[test]
fn another_entry_of_a_yaml_file_is_replaced_on_demand() {
    let stage = Stage::with(&file(&json!({})));
    let before = "# mine\nextensions:\n  n: # old\n    type: stdio\n    cmd: x\n  other:\n    type: builtin\n";
    let path = stage.client_file("goose/config.yaml", before);
    let (code, printed) = add(&stage, "n", "goose", &["--replace"]);
    assert_eq!(code, 0, "{printed}");
    let after = text(&path);
    assert!(after.starts_with("# mine\nextensions:\n  n:\n    enabled: true\n"), "{after}");
    assert!(after.ends_with("\n  other:\n    type: builtin\n") && !after.contains("cmd: x"), "{after}");
}

#[test]
fn dry_run_shows_the_entry_of_a_yaml_file() {
    let stage = Stage::empty();
    let before = "GOOSE_MODE: auto # mine\n";
    let path = stage.client_file("goose/config.yaml", before);
    let (code, printed) = add(&stage, "n", "goose", &["--dry-run"]);
    assert_eq!(code, 0, "{printed}");
    assert!(printed.contains("+extensions:") && printed.contains("+    cmd:"), "{printed}");
    assert_eq!(text(&path), before);
}

#[test]
fn entry_through_a_launcher_is_known_by_its_server() {
    for words in [
        &["uvx", "mendline@0.2.0"][..],
        &["/opt/uv/bin/uvx", "mendline"],
        &["npx", "-y", "mendline@0.2.0"],
        &["cmd", "/c", "npx", "-y", "mendline@0.2.0"],
        &["pipx", "run", "--spec", "mendline==0.2.0", "mendline"],
    ] {
        let stage = Stage::empty();
        let run = ["run", "--name", "n", "--", MENDLINE, "demo-server"];
        let args: Vec<&&str> = words[1..].iter().chain(&run).collect();
        let servers = json!({ "n": { "command": words[0], "args": args } });
        stage.client_file(".cursor/mcp.json", &json!({ "mcpServers": servers }).to_string());
        let entry = listed(&stage, "n", "cursor").unwrap();
        assert_eq!((&entry["isWrapped"], &entry["error"]), (&json!(true), &Value::Null), "{words:?}: {entry}");
        let (code, printed) = stage.output(&["tools", "n"]);
        assert!(code == 0 && printed.contains("lookup"), "{words:?}: {printed}");
    }
}

#[test]
fn added_entry_through_a_launcher_names_the_launcher() {
    let version = env!("CARGO_PKG_VERSION");
    let stage = Stage::empty();
    let line = ["add", "n", "--client", "goose", "--client", "cursor", "--", MENDLINE, "demo-server"];
    let done = stage.command(&line).env("MENDLINE_LAUNCHER", "npx").output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let goose = text(&stage.home().join("goose/config.yaml"));
    let args = format!("    cmd: \"npx\"\n    args: [\"-y\", \"mendline@{version}\", \"run\", \"n\"]\n");
    assert!(goose.contains(&args), "{goose}");
    assert_eq!(listed(&stage, "n", "goose").unwrap()["isWrapped"], json!(true));
    assert_eq!(stage.output(&["remove", "n", "--client", "goose", "--client", "cursor"]).0, 0);
    assert!(listed(&stage, "n", "goose").is_none() && listed(&stage, "n", "cursor").is_none());
}
