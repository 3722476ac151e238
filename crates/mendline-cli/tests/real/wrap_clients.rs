//! `mendline wrap` and `unwrap` with a file of every client in its place, and through launchers.

use std::fs;
use std::process::Command;

use crate::support::MENDLINE;
use crate::wrap::{CommandOutput, Home};

/// A file of each client, as the client writes it, and its place in a home directory.
const FILES: [(&str, &str, &str); 14] = [
    ("Claude Code", ".claude.json", "claude-code.json"),
    ("Claude Desktop", ".config/Claude/claude_desktop_config.json", "claude-desktop.json"),
    ("Cursor", ".cursor/mcp.json", "cursor.json"),
    ("VS Code", ".config/Code - Insiders/User/mcp.json", "vscode.json"),
    ("Codex", ".codex/config.toml", "codex.toml"),
    ("Gemini CLI", ".gemini/settings.json", "gemini.json"),
    ("opencode", ".config/opencode/opencode.jsonc", "opencode.jsonc"),
    ("Windsurf", ".codeium/windsurf/mcp_config.json", "windsurf.json"),
    ("Cline", ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json", "cline.json"),
    ("Roo Code", ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json", "roo.json"),
    ("Zed", ".config/zed/settings.json", "zed.json"),
    ("Goose", ".config/goose/config.yaml", "goose.yaml"),
    ("Continue", ".continue/config.yaml", "continue.yaml"),
    ("JetBrains Junie", ".junie/mcp/mcp.json", "junie.json"),
];

fn sample(name: &str) -> String {
    fs::read_to_string(format!("{}/tests/clients/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn u12_file_of_every_client_is_found_wrapped_and_restored() {
    let home = Home::new();
    let files = FILES.map(|(client, path, name)| (client, home.write(path, sample(name)), sample(name)));
    let wrapped = home.wrap(&["--yes"]);
    for (client, path, before) in &files {
        wrapped.is(0, &[&format!("({client}, user")]);
        let after = fs::read_to_string(path).unwrap();
        assert!(after.contains(MENDLINE) && after != *before, "{client}: {after}");
    }
    home.wrap(&["--yes"]).is(0, &["Nothing to do."]);
    home.run(&["unwrap", "--yes"]).is(0, &[]);
    for (client, path, before) in &files {
        assert_eq!(fs::read_to_string(path).unwrap(), *before, "{client}");
    }
}

#[test]
fn entry_through_launcher_names_launcher_and_version() {
    let version = env!("CARGO_PKG_VERSION");
    let home = Home::new();
    let text = r#"{"mcpServers": {"a": {"command": "x", "args": ["y"]}}}"#;
    let file = home.write(".cursor/mcp.json", text);
    let cached = home.path(".cache/uv/archive-v0/Xk3f/bin/mendline");
    fs::create_dir_all(cached.parent().unwrap()).unwrap();
    fs::copy(MENDLINE, &cached).unwrap();
    let started = |program: &str, launcher: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).env_clear().env("HOME", home.path("")).env("MENDLINE_LAUNCHER", launcher);
        CommandOutput::from(command.current_dir(home.path("garden")).output().unwrap())
    };
    for (program, launcher, command, words) in [
        (MENDLINE, "npx", "npx", format!(r#""-y", "mendline@{version}""#)),
        (cached.to_str().unwrap(), "", "uvx", format!(r#""mendline@{version}""#)),
    ] {
        let printed = started(program, launcher, &["wrap", "--yes"]);
        let line = format!("{command} {}", words.replace(['"', ','], ""));
        printed.is(0, &[&format!("Entries run `{line}`"), &format!("Then `{line} status`")]);
        let entry = format!(r#"{{"command": "{command}", "args": [{words}, "run", "--name", "a", "--", "x", "y"]}}"#);
        assert_eq!(fs::read_to_string(&file).unwrap(), format!(r#"{{"mcpServers": {{"a": {entry}}}}}"#));
        home.wrap(&["--yes"]).is(0, &[&format!("already wrapped; through {line}\n")]);
        home.run(&["unwrap", "--yes"]).is(0, &["written"]);
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    // An installed npm package is a program like any other; this one is in a build directory.
    started(MENDLINE, "npm", &["wrap", "--yes"]).is(2, &["is in a build directory", "npm install"]);
}

#[test]
fn unknown_client_gets_nearest_name_and_missing_files_a_next_step() {
    let home = Home::new();
    home.wrap(&["--client", "cursr"]).is(3, &["did you mean \"cursor\"?", "windsurf, cline, roo, zed, goose"]);
    home.wrap(&[]).is(3, &["  goose           ~/.config/goose/config.yaml\n", "`mendline add`", "wrap --file FILE"]);
    home.wrap(&["--client", "zed"]).is(3, &["looked for\n  zed  ~/.config/zed/settings.json\n\nAdd a server in that"]);
}

#[test]
fn yaml_entry_that_cannot_be_changed_names_the_command() {
    let home = Home::new();
    let text = "base: &base\n  type: stdio\nextensions:\n  a:\n    type: stdio\n    cmd: &cmd x\n    args: [y]\n  b:\n    <<: *base\n    type: stdio\n    cmd: x\n  c:\n    type: stdio\n    cmd: x\n";
    let file = home.write(".config/goose/config.yaml", text);
    home.wrap(&["--yes"])
        .is(0, &["a  left: its command is not a text", "b  left: it is not a table", "run --name b --`", "c  wrapped"]);
    home.run(&["unwrap", "--yes"]).is(0, &["c  unwrapped"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    home.write(".config/goose/config.yaml", "extensions:\n  a: [\n");
    home.wrap(&["--yes"]).is(1, &["config.yaml: left, because it cannot be read as YAML: line "]);
}
