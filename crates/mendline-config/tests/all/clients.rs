//! Entries of real clients, unchanged.

use std::time::Duration;

use mendline::decisions::config::Dialect;
use mendline_config::{Endpoint, Owner, Severity};

use crate::{SECRET, loaded, server};

fn command(endpoint: &Endpoint) -> (Vec<&str>, Vec<(&str, &str)>) {
    match endpoint {
        Endpoint::Command { program, arguments, environment, .. } => (
            std::iter::once(program).chain(arguments).map(String::as_str).collect(),
            environment.iter().map(|(name, value)| (name.as_str(), value.expose())).collect(),
        ),
        other => panic!("{other:?}"),
    }
}

fn remote(endpoint: &Endpoint) -> (&str, Vec<(&str, &str)>, Dialect) {
    match endpoint {
        Endpoint::Url { url, headers, dialect, .. } => {
            (url.expose(), headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect(), *dialect)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn claude_desktop() {
    let text = r#"{
      "globalShortcut": "Ctrl+Space",
      "mcpServers": {
        "filesystem": {
          "command": "npx",
          "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/me/Desktop"]
        },
        "github": {
          "command": "docker",
          "args": ["run", "-i", "--rm", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN", "ghcr.io/github/github-mcp-server"],
          "env": { "GITHUB_PERSONAL_ACCESS_TOKEN": "ghp_literal" }
        }
      }
    }"#;
    let filesystem = server("claude_desktop_config.json", text, "filesystem");
    assert_eq!(command(&filesystem.endpoint).0[2], "@modelcontextprotocol/server-filesystem");
    let github = server("claude_desktop_config.json", text, "github");
    assert_eq!(command(&github.endpoint).1, [("GITHUB_PERSONAL_ACCESS_TOKEN", "ghp_literal")]);
    assert_eq!(loaded("claude_desktop_config.json", text).owner, Owner::OtherProgram);
}

#[test]
fn claude_code() {
    let text = r#"{
      "mcpServers": {
        "sentry": { "type": "http", "url": "https://mcp.sentry.dev/mcp", "headers": { "Authorization": "Bearer ${SENTRY_TOKEN}" } },
        "asana": { "type": "sse", "url": "${ASANA:-https://mcp.asana.com}/sse" },
        "db": { "type": "stdio", "command": "/usr/bin/db-mcp", "args": ["--dsn", "${DB_KEY}"], "env": {}, "timeout": 600000, "alwaysLoad": true },
        "internal": { "type": "http", "url": "https://x.example.com/mcp", "headersHelper": "/opt/headers.sh", "oauth": { "clientId": "c" }, "env": {} }
      }
    }"#;
    let sentry = server(".mcp.json", text, "sentry");
    let token = format!("Bearer {SECRET}");
    assert_eq!(
        remote(&sentry.endpoint),
        ("https://mcp.sentry.dev/mcp", vec![("Authorization", token.as_str())], Dialect::Auto)
    );
    let asana = server(".mcp.json", text, "asana");
    assert_eq!(remote(&asana.endpoint), ("https://mcp.asana.com/sse", vec![], Dialect::Sse));
    assert_eq!(command(&server(".mcp.json", text, "db").endpoint).0[2], SECRET);
    let loaded = loaded(".mcp.json", text);
    let notes: Vec<_> = loaded.findings.iter().map(|finding| (finding.severity, finding.what.as_str())).collect();
    assert_eq!(notes.len(), 4, "{notes:?}");
    assert!(notes.iter().all(|(severity, _)| *severity == Severity::Note));
    assert!(notes[0].1.contains("Mendline ignores `timeout`: some clients mean seconds"), "{notes:?}");
}

#[test]
fn cursor() {
    let text = r#"{ "mcpServers": {
        "local": { "command": "${workspaceFolder}${/}bin${/}tool", "args": ["--home", "${userHome:-/root}"], "env": { "K": "${env:API_KEY}" } },
        "oauth": { "url": "https://api.example.com/mcp", "auth": { "CLIENT_ID": "${env:X_KEY}", "CLIENT_SECRET": "y", "scopes": ["a"] } }
    } }"#;
    let local = server("/home/me/project/.cursor/mcp.json", text, "local");
    let (words, environment) = command(&local.endpoint);
    assert_eq!(words[0], "/home/me/project/bin/tool");
    assert_eq!(environment, [("K", SECRET)]);
    let loaded = loaded("/home/me/project/.cursor/mcp.json", text);
    assert!(loaded.findings.is_empty(), "{:?}", loaded.findings);
    assert!(loaded.server("oauth").is_some());
}

#[test]
fn vs_code() {
    let directory = tempfile::tempdir().unwrap();
    let env_file = directory.path().join(".env");
    std::fs::write(&env_file, "A=from file\nB=kept\n").unwrap();
    let text = format!(
        r#"{{
      "inputs": [{{ "type": "promptString", "id": "key", "description": "Key", "password": true }}],
      "servers": {{
        "playwright": {{ "type": "stdio", "command": "npx", "args": ["-y", "@playwright/mcp@latest"],
                         "envFile": {:?}, "env": {{ "A": "from env" }}, "dev": {{ "watch": "**/*.ts" }} }},
        "github": {{ "type": "http", "url": "https://api.githubcopilot.com/mcp", "gallery": true, "version": "1" }},
        "asks": {{ "type": "stdio", "command": "x", "env": {{ "K": "${{input:key}}" }} }},
      }},
    }}"#,
        env_file.display().to_string()
    );
    let loaded = loaded("/home/me/project/.vscode/mcp.json", &text);
    let playwright = loaded.server("playwright").expect("the server is valid");
    assert_eq!(command(&playwright.endpoint).1, [("B", "kept"), ("A", "from env")]);
    assert!(loaded.server("github").is_some());
    let beside = r#"{ "servers": { "a": { "command": "x", "envFile": ".env" } } }"#;
    let path = directory.path().join("mcp.json");
    assert_eq!(command(&server(path.to_str().unwrap(), beside, "a").endpoint).1, [("A", "from file"), ("B", "kept")]);
    assert_eq!(loaded.obstacles("asks").len(), 1, "prompts are not supported");
    assert!(loaded.obstacles("playwright").is_empty());
    let settings = r#"{ "editor.fontSize": 12, "mcp": { "servers": { "a": { "command": "x" } } } }"#;
    assert_eq!(command(&server("settings.json", settings, "a").endpoint).0, ["x"]);
}

#[test]
fn codex() {
    let text = r#"
model = "gpt-5"
[mcp_servers.context7]
command = "npx"
args = ["-y", "@upstash/context7-mcp"]
startup_timeout_sec = 20
tool_timeout_sec = 90.5
env_vars = ["HOME"]
enabled_tools = ["a"]

[mcp_servers.context7.env]
K = "${API_KEY}"

[mcp_servers.figma]
url = "https://mcp.figma.com/mcp"
bearer_token_env_var = "FIGMA_TOKEN"
http_headers = { "X-Region" = "us-east-1" }
env_http_headers = { "X-Key" = "FIGMA_KEY" }

[mcp_servers.off]
command = "x"
enabled = false
"#;
    let context7 = server("config.toml", text, "context7");
    assert_eq!(command(&context7.endpoint), (vec!["npx", "-y", "@upstash/context7-mcp"], vec![("K", SECRET)]));
    let timeouts = &context7.policies.timeouts;
    assert_eq!((timeouts.handshake, timeouts.call), (Duration::from_secs(20), Duration::from_millis(90_500)));
    let figma = server("config.toml", text, "figma");
    let token = format!("Bearer {SECRET}");
    let headers = vec![("X-Region", "us-east-1"), ("X-Key", SECRET), ("Authorization", token.as_str())];
    assert_eq!(remote(&figma.endpoint), ("https://mcp.figma.com/mcp", headers, Dialect::Auto));
    assert!(server("config.toml", text, "off").is_disabled);
}

#[test]
fn cline_and_windsurf() {
    let text = r#"{ "mcpServers": {
        "a": { "command": "x", "disabled": true, "autoApprove": ["t"], "alwaysAllow": [] },
        "b": { "serverUrl": "https://x.test/sse", "somethingNew": { "deep": "secret" } }
    } }"#;
    assert!(server("cline_mcp_settings.json", text, "a").is_disabled);
    assert_eq!(remote(&server("mcp_config.json", text, "b").endpoint).0, "https://x.test/sse");
    let loaded = loaded("mcp_config.json", text);
    let unknown = loaded.findings.iter().find(|finding| finding.what.contains("somethingNew")).unwrap();
    assert_eq!(unknown.severity, Severity::Note);
}

#[test]
fn entry_that_runs_mendline_is_unwrapped() {
    for (entry, words) in [
        (r#""command": "mendline", "args": ["run", "--", "npx", "x"]"#, ["--", "npx", "x"].as_slice()),
        (r#""command": "/opt/bin/mendline", "args": ["run", "https://x.test"]"#, &["https://x.test"]),
        (
            r#""command": "npx", "args": ["-y", "mendline@1.2", "run", "--name", "n", "--", "y"]"#,
            &["--name", "n", "--", "y"],
        ),
    ] {
        let text = format!("{{ \"mcpServers\": {{ \"a\": {{ {entry} }} }} }}");
        match server("x.json", &text, "a").endpoint {
            Endpoint::Wrapped { arguments, .. } => assert_eq!(arguments, words),
            other => panic!("{other:?}"),
        }
    }
    for entry in [
        r#""command": "npx", "args": ["-y", "mendline-notes", "run"]"#,
        r#""command": "sh", "args": ["mendline", "run"]"#,
    ] {
        let text = format!("{{ \"mcpServers\": {{ \"a\": {{ {entry} }} }} }}");
        assert!(matches!(server("x.json", &text, "a").endpoint, Endpoint::Command { .. }), "{entry}");
    }
}
