//! `mendline report`, with secrets in every file, variable, argument and log that it reads.

use std::fs;

use serde_json::json;

use crate::canary::{
    COOKIE, HEADER, PASSWORD, PATH, PROXY, QUERY, SESSION, USER, VARIABLE, across_limits, forms, search,
};
use crate::client::{SOON, eventually};
use crate::home::{Home, search_to_the_end};

/// Names of the user and of the machine, which must not be shown.
const PERSON: &str = "wilhelmina";
const MACHINE: &str = "attic-computer";

fn write(path: &std::path::Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Gives every client of the report's home a file with secrets.
fn clients(home: &std::path::Path) {
    let args =
        json!(["-y", "notes", "--token", PASSWORD, format!("--api-key={COOKIE}"), format!("https://u:{USER}@h.test/")]);
    let command =
        json!({ "command": "/opt/bin/notes", "args": args, "env": { "SVC_TOKEN": VARIABLE, "PLAIN": SESSION } });
    let url = format!("https://me:{USER}@mcp.example.com/{PATH}/mcp?key={QUERY}");
    let remote = json!({ "url": url, "headers": { "Authorization": format!("Bearer {HEADER}"), "X-Any": COOKIE } });
    let servers = json!({ "local": command, "far": remote });
    write(&home.join(".cursor/mcp.json"), &json!({ "mcpServers": servers }).to_string());
    let goose = format!(
        "extensions:\n  notes:\n    type: stdio\n    cmd: notes\n    args: [--token, {PASSWORD}]\n    envs:\n      K: {VARIABLE}\n"
    );
    write(&home.join("config/goose/config.yaml"), &goose);
    let codex = format!("[mcp_servers.a]\nurl = \"{url}\"\nhttp_headers = {{ \"X\" = \"{HEADER}\" }}\n");
    write(&home.join(".codex/config.toml"), &codex);
    // A file that cannot be parsed is not quoted.
    write(&home.join(".gemini/settings.json"), &format!("{{\"mcpServers\": {{ {VARIABLE}"));
}

#[test]
fn report_shows_no_secret_and_no_name() {
    let home = Home::new();
    let said: Vec<String> = forms(VARIABLE).into_iter().chain(across_limits(VARIABLE)).collect();
    let said = home.give("said", &(said.join("\n") + &format!("\nError: {PASSWORD} of {PERSON} on {MACHINE}\n")));
    let entry = json!({
        "command": "sh",
        "args": ["-c", format!("cat {said} >&2; exit 3"), "--token", PASSWORD],
        "env": { "SVC_TOKEN": VARIABLE },
        "timeouts": { "recovery": "1s" },
    });
    let remote = json!({
        "url": format!("http://me:{USER}@127.0.0.1:9/mcp?key={QUERY}"),
        "headers": { "X-Api-Key": HEADER, "Cookie": format!("sid={COOKIE}") },
    });
    let plain = json!({ "url": format!("http://127.0.0.1:9/mcp?key={QUERY}"), "headers": { "X-Api-Key": HEADER } });
    let servers = json!({ "mcpServers": { "near": entry, "remote": remote, "plain": plain } });
    let file = home.give("servers.json", &servers.to_string());
    let mut client = home.bridge(&["--config", &file, "near"], &[]);
    client.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    let _ = client.answer("init");
    eventually("the exit is logged", SOON, || home.is_observable("exit code 3"));
    clients(home.path());
    let variables = [
        ("MENDLINE_CONFIG", file.as_str()),
        ("USER", PERSON),
        ("HOSTNAME", MACHINE),
        ("GITHUB_TOKEN", HEADER),
        ("HTTPS_PROXY", &*format!("http://me:{PROXY}@127.0.0.1:9")),
    ];
    let lines: [&[&str]; 4] = [&["report"], &["report", "near"], &["report", "--probe"], &["report", "unknown"]];
    let reports = home.search_commands(&lines, &variables);
    for report in &reports {
        let lower = report.to_lowercase();
        assert!(!lower.contains(PERSON) && !lower.contains(MACHINE), "{report}");
        assert!(!report.contains(home.path().to_str().unwrap()), "{report}");
        assert!(report.len() < 1 << 20, "{} bytes", report.len());
    }
    // It is of use nevertheless.
    for part in [
        "# Mendline report",
        &format!("mendline: {}", env!("CARGO_PKG_VERSION")),
        "~/.cursor/mcp.json (Cursor, user)",
        "local: command notes, 6 arguments, flags --token --api-key, variables PLAIN SVC_TOKEN; not wrapped",
        "far: url https://…, headers Authorization X-Any; not wrapped",
        "notes: command notes, 2 arguments, flags --token, variables K; not wrapped",
        "## Status",
        "near: valid",
        "exit code 3",
        "## Log of the last hour",
        "## Doctor, without contacting servers",
        "not contacted (--passive)",
    ] {
        assert!(reports[0].contains(part), "no {part:?} in\n{}", reports[0]);
    }
    assert!(!reports[1].contains("far: url"), "{}", reports[1]);
    assert!(!reports[2].contains("--passive"), "{}", reports[2]);
    search_to_the_end(client);
}

#[test]
fn report_is_written_only_on_request() {
    let home = Home::new();
    let target = home.path().join("report.md");
    let out = target.to_str().unwrap();
    let run = |arguments: &[&str]| {
        let output = home.command(arguments).output().unwrap();
        let all = [output.stdout, output.stderr].concat();
        search("report", &all);
        (output.status.code().unwrap(), String::from_utf8(all).unwrap())
    };
    let (code, words) = run(&["report", "--out", out]);
    assert!(code == 2 && words.contains("no terminal") && words.contains("--yes") && !target.exists(), "{words}");
    let (code, words) = run(&["report", "--out", out, "--yes"]);
    assert!(code == 0 && words.contains("The report holds:") && words.contains("Read it before"), "{words}");
    let written = fs::read_to_string(&target).unwrap();
    assert!(written.starts_with("# Mendline report\n") && written.contains("## Doctor"), "{written}");
    let (code, words) = run(&["report", "--out", out, "--yes"]);
    assert!(code == 2 && words.contains("exists already"), "{words}");
    assert_eq!(fs::read_to_string(&target).unwrap(), written);
    let (code, words) = run(&["report", "--out", "/nowhere/report.md", "--yes"]);
    assert!(code == 1 && words.contains("choose another place"), "{words}");
}
