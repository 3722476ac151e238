//! `mendline wrap` and `mendline unwrap` with real files in a home directory.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::Client;
use crate::support::{MENDLINE, SOON, eventually};

/// A home directory with a project.
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new() -> Home {
        let home = Home(tempfile::tempdir().unwrap());
        fs::create_dir(home.path("garden")).unwrap();
        home
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(MENDLINE);
        command
            .args(arguments)
            .env_clear()
            .env("MENDLINE_KEYRING", "never")
            .env("HOME", self.path(""))
            .current_dir(self.path("garden"));
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> CommandOutput {
        CommandOutput::from(self.command(arguments).output().unwrap())
    }

    /// Wraps with the binary under test, which is in a build directory.
    pub(crate) fn wrap(&self, arguments: &[&str]) -> CommandOutput {
        self.run(&[&["wrap", "--binary", MENDLINE], arguments].concat())
    }
}

/// The output and the exit code of a command.
pub(crate) struct CommandOutput {
    code: i32,
    all: String,
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> CommandOutput {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let all = format!("{}--- stderr\n{}", text(output.stdout), text(output.stderr));
        CommandOutput { code: output.status.code().unwrap(), all: all.replace(MENDLINE, "/usr/local/bin/mendline") }
    }
}

impl CommandOutput {
    #[track_caller]
    pub(crate) fn is(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{}", self.all);
        for part in parts {
            assert!(self.all.contains(part), "no {part:?} in\n{}", self.all);
        }
    }
}

const CURSOR: &str = r#"{
  // mine
  "mcpServers": {
    "notes": {
      "command": "npx",
      "args": ["-y", "notes-server"], // the good one
      "env": { "NOTES_TOKEN": "s3cret-1" },
    },
    "github": {
      "type": "http",
      "url": "https://api.example.com/mcp",
      "headers": { "Authorization": "Bearer s3cret-2", "X-Region": "${env:REGION}" }
    },
    "tracker": { "url": "https://tracker.example.com/mcp" },
    "desk": {
      "command": "npx",
      "args": ["mcp-remote", "https://desk.example.com/sse", "--header", "Authorization: Bearer s3cret-3"]
    }
  }
}
"#;

#[test]
fn u04_dry_run_from_build_directory_shows_changes_and_warns() {
    let home = Home::new();
    let file = home.write(".cursor/mcp.json", CURSOR);
    let dry = home.run(&["wrap", "--dry-run"]);
    dry.is(0, &["notes    wrapped", "+++ ~/.cursor/mcp.json", "this was a dry run", "--- stderr\n\nwarning: "]);
    dry.is(0, &["is in a build directory", "cargo install --locked --path crates/mendline-cli"]);
    let real = home.run(&["wrap", "--yes"]);
    real.is(2, &["error: ", "is in a build directory"]);
    assert_eq!(fs::read_to_string(file).unwrap(), CURSOR, "nothing is written");
}

#[test]
fn dry_run_shows_all_changes_and_writes_nothing() {
    let home = Home::new();
    let file = home.write(".cursor/mcp.json", CURSOR);
    let printed = home.wrap(&["--dry-run"]);
    assert_eq!(printed.code, 0, "{}", printed.all);
    insta::assert_snapshot!("wrap_dry_run", printed.all);
    assert!(!printed.all.contains("s3cret"), "{}", printed.all);
    assert_eq!(fs::read_to_string(file).unwrap(), CURSOR);
    assert_eq!(fs::read_dir(home.path(".cursor")).unwrap().count(), 1);
}

const CANARY: &str = "CANARYkey0123456789abcdef";

#[test]
fn s03_no_shown_line_holds_secret() {
    let home = Home::new();
    let text = format!(
        r#"{{ "mcpServers": {{
      // "headers": {{ "Authorization": "Bearer {CANARY}" }}
      // was {CANARY} until May
      "a": {{ "command": "npx", "args": ["-y", "notes-server", "-k", "swordfish", "--pat", "swordfish", "{CANARY}",
        "ghp_0123456789abcdefABCDEF0123456789abcd", "--conn=Server=db;Password=swordfish", "--root", "/srv/notes"] }},
      "b": {{ "url": "https://mcp.example.com/s/{CANARY}/mcp", "headers": {{ "X-Key": "swordfish" }} }},
      "c": {{ "type": "{CANARY}", "command": "x" }}
    }} }}
"#
    );
    let file = home.write(".cursor/mcp.json", &text);
    let is_clean = |printed: &CommandOutput| {
        for secret in [CANARY, "swordfish", "ghp_0123"] {
            assert!(!printed.all.contains(secret), "{secret} is in\n{}", printed.all);
        }
    };
    let dry = home.wrap(&["--dry-run"]);
    is_clean(&dry);
    dry.is(
        0,
        &[
            "a  wrapped",
            "\"notes-server\", \"-k\", \"…\", \"--pat\", \"…\"",
            "\"--conn=…\", \"--root\", \"/srv/notes\"",
        ],
    );
    is_clean(&home.wrap(&["--yes"]));
    let unwrapped = home.run(&["unwrap", "--yes"]);
    is_clean(&unwrapped);
    assert_eq!(fs::read_to_string(file).unwrap(), text);
}

#[test]
fn s11_backups_are_private_named_by_unwrap_and_deleted_by_clean() {
    let home = Home::new();
    let file = home.write(".cursor/mcp.json", CURSOR);
    home.wrap(&["--yes"]).is(0, &["written"]);
    let backup = |number: u32| home.path(&format!(".cursor/mcp.json.mendline-backup-{number}"));
    assert_eq!(backup(1).metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let foreign = home.write(".cursor/mcp.json.mendline-backup-old", "not ours");
    symlink("mcp.json.mendline-backup-old", backup(7)).unwrap();

    let listed = home.run(&["unwrap", "--clean", "--dry-run"]);
    listed.is(0, &["~/.cursor/mcp.json.mendline-backup-1: a backup, to be deleted", "Nothing was written or deleted"]);
    assert!(backup(1).exists());
    home.run(&["unwrap", "--clean"]).is(2, &["no terminal for the confirmation"]);
    assert!(backup(1).exists());

    let unwrapped = home.run(&["unwrap", "--yes"]);
    unwrapped.is(0, &["credentials included", "  ~/.cursor/mcp.json.mendline-backup-1\n", "mendline unwrap --clean"]);
    assert!(unwrapped.all.contains("  ~/.cursor/mcp.json.mendline-backup-2\n"), "{}", unwrapped.all);
    assert_eq!(fs::read_to_string(&file).unwrap(), CURSOR);

    // No entry is wrapped any more.
    home.run(&["unwrap", "--clean", "--yes"])
        .is(0, &["not wrapped", "mendline-backup-1: deleted", "mendline-backup-2: deleted"]);
    assert!(!backup(1).exists() && !backup(2).exists());
    assert!(foreign.exists() && backup(7).symlink_metadata().is_ok(), "what is not ours stays");
    home.run(&["unwrap", "--clean", "--yes"]).is(0, &["Nothing to do."]);
    assert_eq!(fs::read_to_string(&file).unwrap(), CURSOR);
}

#[test]
fn s11_clean_deletes_its_own_backup_and_keeps_needed_ones() {
    let home = Home::new();
    let file = home.write(".cursor/mcp.json", CURSOR);
    home.wrap(&["--yes"]).is(0, &["written"]);
    home.run(&["unwrap", "--clean", "--yes"]).is(0, &["unwrapped", "written", "deleted"]);
    assert_eq!((fs::read_to_string(&file).unwrap().as_str(), names(&home.path(".cursor")).len()), (CURSOR, 1));

    // The backups of a deleted file remain.
    home.wrap(&["--yes"]).is(0, &["written"]);
    fs::remove_file(&file).unwrap();
    home.run(&["unwrap"]).is(0, &["mcp.json.mendline-backup-1"]);
    home.run(&["unwrap", "--clean", "--yes"]).is(0, &["mcp.json.mendline-backup-1: deleted"]);
    assert_eq!(names(&home.path(".cursor")).len(), 0);

    // An entry that cannot be unwrapped may need them.
    let lost = r#"{"mcpServers": {"a": {"command": "mendline", "args": ["run", "--url-env", "GONE"]}}}"#;
    home.write(".cursor/mcp.json", lost);
    home.write(".cursor/mcp.json.mendline-backup-1", "old");
    home.run(&["unwrap", "--clean", "--yes"]).is(0, &["kept: a server in its file stays wrapped", "Nothing to do."]);
    assert!(home.path(".cursor/mcp.json.mendline-backup-1").exists());
    home.run(&["unwrap", "--clean", "--server", "a"]).is(2, &["cannot be used with"]);
}

#[test]
fn s11_real_path_is_shown_before_linked_file_is_changed() {
    let home = Home::new();
    home.write("elsewhere/mcp.json", CURSOR);
    home.write("dotfiles/cursor.json", CURSOR);
    symlink("../elsewhere/mcp.json", home.path("garden/.mcp.json")).unwrap();
    fs::create_dir(home.path(".cursor")).unwrap();
    symlink("../dotfiles/cursor.json", home.path(".cursor/mcp.json")).unwrap();
    home.write("garden/shared.json", CURSOR);
    symlink("garden", home.path("plot")).unwrap();
    let printed = home.wrap(&["--dry-run"]);
    printed
        .is(0, &["~/.cursor/mcp.json (Cursor, user)\n  reached through a link; the file is ~/dotfiles/cursor.json\n"]);
    home.wrap(&["--dry-run", "--scope", "project"])
        .is(0, &["reached through a link that leads out of this project; the file is ~/elsewhere/mcp.json\n"]);
    let inside = home.path("plot/shared.json");
    home.wrap(&["--dry-run", "--file", inside.to_str().unwrap()])
        .is(0, &["reached through a link; the file is ~/garden/shared.json\n"]);
    let direct = home.wrap(&["--dry-run", "--file", "shared.json"]);
    assert!(direct.code == 0 && !direct.all.contains("through a link"), "{}", direct.all);
}

#[test]
fn unwrap_restores_entries_without_backup() {
    let home = Home::new();
    let file = home.write(".cursor/mcp.json", CURSOR);
    home.wrap(&["--yes"]).is(0, &["~/.cursor/mcp.json: written"]);
    let wrapped = fs::read_to_string(&file).unwrap();
    assert_ne!(wrapped, CURSOR);
    assert_eq!(fs::read_to_string(home.path(".cursor/mcp.json.mendline-backup-1")).unwrap(), CURSOR);
    home.wrap(&["--yes"]).is(0, &["already wrapped", "Nothing to do."]);
    assert_eq!(fs::read_to_string(&file).unwrap(), wrapped);
    for entry in fs::read_dir(home.path(".cursor")).unwrap().map(|entry| entry.unwrap().path()) {
        if entry != file {
            fs::remove_file(entry).unwrap();
        }
    }
    home.run(&["unwrap", "--yes"]).is(0, &["unwrapped", "written"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), CURSOR);
    home.run(&["unwrap", "--yes"]).is(0, &["not wrapped", "Nothing to do."]);
}

#[test]
fn only_named_server_is_wrapped() {
    let home = Home::new();
    let file = home.write(".cursor/mcp.json", CURSOR);
    home.wrap(&["--server", "tracker", "--yes"]).is(0, &["tracker  wrapped"]);
    let wrapped = fs::read_to_string(file).unwrap();
    assert_eq!(wrapped.matches("/mendline\"").count(), 1, "{wrapped}");
}

#[test]
fn every_client_is_found_and_project_files_need_request() {
    let home = Home::new();
    let entry = json!({ "command": "x", "args": [] });
    let servers = json!({ "mcpServers": { "a": entry } }).to_string();
    let here = home.path("garden").to_str().unwrap().to_owned();
    let claude = json!({ "mcpServers": { "mine": entry }, "projects": { here: { "mcpServers": { "local": entry } }, "/other": { "mcpServers": { "foreign": entry } } } });
    home.write(".claude.json", claude.to_string());
    home.write(".config/Claude/claude_desktop_config.json", &servers);
    home.write(".cursor/mcp.json", &servers);
    home.write(".config/Code/User/mcp.json", json!({ "servers": { "a": entry } }).to_string());
    home.write(".codex/config.toml", "[mcp_servers.a]\ncommand = \"x\"\n");
    let shared = home.write("garden/.mcp.json", &servers);
    let printed = home.wrap(&["--yes"]);
    printed.is(
        0,
        &[
            "~/garden/.mcp.json: skipped",
            "(Claude Code, user and local)",
            "(Claude Desktop, user)",
            "(VS Code, user)",
            "(Codex, user)",
        ],
    );
    assert_eq!(printed.all.matches(": written").count(), 5, "{}", printed.all);
    let changed: Value = serde_json::from_str(&fs::read_to_string(home.path(".claude.json")).unwrap()).unwrap();
    assert_eq!(changed["mcpServers"]["mine"]["command"], MENDLINE);
    assert_eq!(changed["projects"][home.path("garden").to_str().unwrap()]["mcpServers"]["local"]["command"], MENDLINE);
    assert_eq!(changed["projects"]["/other"]["mcpServers"]["foreign"]["command"], "x");
    assert_eq!(fs::read_to_string(&shared).unwrap(), servers);
    home.wrap(&["--yes", "--scope", "project", "--client", "claude-code"]).is(0, &["~/garden/.mcp.json: written"]);
    assert!(fs::read_to_string(&shared).unwrap().contains("--name"));
    home.run(&["unwrap", "--yes"]).is(0, &[]);
    assert_eq!(fs::read_to_string(home.path(".claude.json")).unwrap(), claude.to_string());
}

#[test]
fn without_terminal_no_prompt_and_no_change() {
    let home = Home::new();
    let file = home.write(".cursor/mcp.json", CURSOR);
    home.wrap(&[]).is(2, &["no terminal for the confirmation", "--yes"]);
    assert_eq!(fs::read_to_string(file).unwrap(), CURSOR);
}

/// Answers the prompt on a terminal.
fn answered(home: &Home, answer: &str) -> (i32, String) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = fs::File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut process = home
        .command(&["wrap", "--binary", MENDLINE])
        .stdin(slave.try_clone().unwrap())
        .stdout(slave)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut terminal = fs::File::from(master);
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&seen).contains("[y/N] ") {
        let count = terminal.read(&mut buffer).expect("the prompt never came");
        seen.extend_from_slice(&buffer[..count]);
    }
    terminal.write_all(answer.as_bytes()).unwrap();
    let code = process.wait().unwrap().code().unwrap();
    (code, String::from_utf8_lossy(&seen).into_owned())
}

#[test]
fn prompt_on_terminal_decides() {
    let home = Home::new();
    let file = home.write(".cursor/mcp.json", CURSOR);
    let (code, seen) = answered(&home, "\n");
    assert_eq!((code, fs::read_to_string(&file).unwrap().as_str()), (1, CURSOR));
    assert!(seen.contains("\u{1b}[32m+"), "a terminal gets colours: {seen}");
    let (code, _) = answered(&home, "y\n");
    assert_eq!(code, 0);
    assert!(fs::read_to_string(&file).unwrap().contains("--name"));
}

#[test]
fn unusable_files_are_named_and_unchanged() {
    let home = Home::new();
    let servers = r#"{"mcpServers": {"a": {"command": "x"}}}"#;
    let read_only = home.write("garden/fixed.json", servers);
    fs::set_permissions(&read_only, fs::Permissions::from_mode(0o444)).unwrap();
    symlink("loop.json", home.path("garden/loop.json")).unwrap();
    symlink("nowhere.json", home.path("garden/dangling.json")).unwrap();
    fs::create_dir(home.path("garden/folder.json")).unwrap();
    home.write("garden/broken.json", "{\n  \"mcpServers\": {\n    \"a\": {\"command\": }\n");
    home.write("garden/twice.json", "{\"mcpServers\": {\"a\": {\"command\": \"x\"},\n\"a\": {\"command\": \"y\"}}}");
    home.write("garden/list.json", "[]");
    home.write("garden/latin.json", b"{\"mcpServers\": {\"\xe4\": {}}}");
    home.write("garden/broken.toml", "[mcp_servers.a]\ncommand = npx\n");
    fs::File::create(home.path("garden/huge.json")).unwrap().set_len(64 << 20).unwrap();
    for (file, words) in [
        ("fixed.json", "it is read-only"),
        ("loop.json", "cannot be found"),
        ("dangling.json", "a link to nothing"),
        ("folder.json", "it is a directory"),
        ("broken.json", "cannot be read as JSON: line 3"),
        ("twice.json", "line 2: the key \"a\" is there twice"),
        ("list.json", "not an object"),
        ("latin.json", "not UTF-8"),
        ("broken.toml", "cannot be read as TOML: line 2"),
        ("huge.json", "larger than 32 MiB"),
    ] {
        let path = home.path("garden").join(file);
        let before = fs::read(&path).ok();
        let printed = home.wrap(&["--yes", "--file", file]);
        printed.is(1, &["left, because", words]);
        assert_eq!(fs::read(&path).ok(), before, "{file} was touched");
    }
    let left: Vec<String> = names(&home.path("garden")).into_iter().filter(|name| name.contains("mendline")).collect();
    assert!(left.is_empty(), "something was left behind: {left:?}");
}

#[test]
fn files_without_permission_are_named_and_unchanged() {
    let home = Home::new();
    let servers = r#"{"mcpServers": {"a": {"command": "x"}}}"#;
    let (locked, secret) = (home.write("locked/mcp.json", servers), home.write("secret.json", servers));
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(&home.path(""), 0o755);
    mode(&secret, 0o000);
    mode(locked.parent().unwrap(), 0o555);
    for (path, words) in [(&locked, "its directory is read-only"), (&secret, "it cannot be read: Permission denied")] {
        let mut command = home.command(&["wrap", "--yes", "--binary", MENDLINE, "--file", path.to_str().unwrap()]);
        if rustix::process::geteuid().is_root() {
            // Permissions do not restrict root.
            command.uid(65_534).gid(65_534);
        }
        CommandOutput::from(command.output().unwrap()).is(1, &["left, because", words]);
    }
    mode(locked.parent().unwrap(), 0o755);
    assert_eq!((fs::read_to_string(&locked).unwrap().as_str(), names(locked.parent().unwrap()).len()), (servers, 1));
}

#[test]
fn two_paths_to_one_file_change_it_once() {
    let home = Home::new();
    let file = home.write("garden/a.json", CURSOR);
    symlink("a.json", home.path("garden/b.json")).unwrap();
    home.wrap(&["--yes", "--file", "a.json", "--file", "b.json", "--file", "./a.json"]).is(0, &["a.json: written"]);
    home.run(&["unwrap", "--yes", "--file", "b.json"]).is(0, &["b.json: written"]);
    assert_eq!(fs::read_to_string(file).unwrap(), CURSOR);
}

fn names(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn empty_files_have_nothing_to_wrap() {
    let home = Home::new();
    for (name, text) in [("a.json", ""), ("b.json", "{}"), ("c.json", "// later\n"), ("d.toml", "\n")] {
        let file = home.write(&format!("garden/{name}"), text);
        home.wrap(&["--yes", "--file", name]).is(0, &["no servers", "Nothing to do."]);
        assert_eq!(fs::read_to_string(file).unwrap(), text);
    }
}

#[test]
fn one_bad_file_does_not_stop_the_others() {
    let home = Home::new();
    home.write(".claude.json", "{");
    let file = home.write(".cursor/mcp.json", CURSOR);
    home.wrap(&["--yes"]).is(1, &["~/.claude.json: left", "~/.cursor/mcp.json: written"]);
    assert!(fs::read_to_string(file).unwrap().contains("--name"));
}

#[test]
fn symlink_is_followed_and_kept() {
    let home = Home::new();
    let real = home.write("dotfiles/mcp.json", CURSOR);
    fs::create_dir(home.path(".cursor")).unwrap();
    symlink("../dotfiles/mcp.json", home.path(".cursor/mcp.json")).unwrap();
    home.wrap(&["--yes"]).is(0, &["~/dotfiles/mcp.json.mendline-backup-1"]);
    assert!(home.path(".cursor/mcp.json").symlink_metadata().unwrap().is_symlink());
    assert!(fs::read_to_string(real).unwrap().contains("--name"));
}

#[test]
fn unknown_names_are_reported_with_known_names() {
    let home = Home::new();
    home.wrap(&["--yes"])
        .is(3, &["no client's configuration was found", "~/.claude.json", "~/.codex/config.toml", "--file"]);
    home.write(".cursor/mcp.json", CURSOR);
    home.wrap(&["--client", "emacs"]).is(3, &["no client is called \"emacs\"", "claude-desktop"]);
    home.wrap(&["--client", "codex"]).is(3, &["~/.codex/config.toml"]);
    home.wrap(&["--client", "claude-desktop", "--scope", "local"]).is(3, &["of that scope"]);
    home.wrap(&["--server", "git", "--yes"]).is(3, &["no server is called \"git\"", "desk, github, notes, tracker"]);
    home.wrap(&["--file", "nothing.json"]).is(3, &["there is no file nothing.json"]);
    assert_eq!(fs::read_to_string(home.path(".cursor/mcp.json")).unwrap(), CURSOR);
}

#[test]
fn named_server_left_unwrapped_exits_with_1() {
    let home = Home::new();
    home.write("garden/a.json", r#"{"mcpServers": {"a": {"type": "sdk"}, "b": {"command": "x"}}}"#);
    home.wrap(&["--yes", "--file", "a.json", "--server", "a"]).is(1, &["a  left: it has neither"]);
    home.wrap(&["--yes", "--file", "a.json"]).is(0, &["a  left: it has neither", "b  wrapped"]);
}

#[test]
fn temporary_binary_is_rejected_unless_named() {
    let home = Home::new();
    let copy = home.path("garden/mendline");
    fs::copy(MENDLINE, &copy).unwrap();
    let file = home.write(".cursor/mcp.json", CURSOR);
    let printed = CommandOutput::from(Command::new(&copy).arg("wrap").env("HOME", home.path("")).output().unwrap());
    printed.is(2, &["temporary directory", "cargo install", "--binary"]);
    home.run(&["wrap", "--binary", "/bin/sh"]).is(2, &["begin with `mendline`"]);
    home.run(&["wrap", "--binary", "./mendline-none"]).is(2, &["No such file"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), CURSOR);
    home.run(&["wrap", "--yes", "--binary", "./mendline"]).is(0, &["written"]);
    assert!(fs::read_to_string(&file).unwrap().contains(copy.to_str().unwrap()), "the whole path is written");
    home.wrap(&["--yes"]).is(0, &[&format!("already wrapped; through {}\n", copy.display())]);
    fs::remove_file(&copy).unwrap();
    home.wrap(&["--yes"]).is(0, &["which is gone: unwrap it, and wrap it again"]);
    home.run(&["unwrap", "--yes"]).is(0, &["written"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), CURSOR);
}

#[test]
fn wrapped_command_answers_like_server() {
    let home = Home::new();
    let ledger = home.path("ledger");
    // Under its own name the server would be taken for Mendline.
    let server = home.path("demo");
    fs::copy(MENDLINE, &server).unwrap();
    let entry = json!({ "command": server, "args": ["demo-server"], "env": { "MENDLINE_DEMO_LEDGER": ledger } });
    home.write("garden/.mcp.json", json!({ "mcpServers": { "demo": entry } }).to_string());
    home.wrap(&["--yes", "--scope", "project"]).is(0, &["written"]);
    let text = fs::read_to_string(home.path("garden/.mcp.json")).unwrap();
    let wrapped: Value = serde_json::from_str(&text).unwrap();
    let mut client = started(&wrapped["mcpServers"]["demo"]);
    // The server is up, so no provisional answer is needed, and its environment has arrived.
    eventually("it serves", SOON, || fs::read_to_string(&ledger).is_ok_and(|ledger| ledger.contains("serves")));
    assert_eq!(client.initialize(), "demo-server");
}

/// Starts an entry like its client does.
fn started(entry: &Value) -> Client {
    let mut command = Command::new(entry["command"].as_str().unwrap());
    command.args(entry["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()));
    for (name, value) in entry["env"].as_object().unwrap() {
        command.env(name, value.as_str().unwrap());
    }
    Client::start(command.stdin(Stdio::piped()))
}
