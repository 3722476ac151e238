//! The documentation pages of these commands against their real output.
//!
//! Every `console` block runs line by line, and the output must match except for times and ports. The test starts the
//! servers of the pages and replaces their addresses.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use mendline_faults::{Authority, Certificate};

use crate::canned::{Canned, ClosedPort};
use crate::scrubbed::scrubbed;
use crate::site::{Site, json_answers};
use crate::stage::{CommandOutput, MENDLINE, Stage, legacy};

/// The path of the binary on the pages.
const INSTALLED: &str = "/usr/local/bin/mendline";

/// The servers of the pages, with their addresses on the pages.
struct Servers {
    well: Site,
    login: Canned,
    expired: Site,
    closed: ClosedPort,
}

impl Servers {
    fn start() -> Servers {
        let challenge =
            "WWW-Authenticate: Bearer error=\"invalid_token\", error_description=\"The access token expired\"";
        let authority = Authority::new("Example Authority").unwrap();
        Servers {
            well: legacy(),
            login: Canned::answer(format!("HTTP/1.1 401 Unauthorized\r\n{challenge}\r\nContent-Length: 0\r\n\r\n")),
            expired: Site::start_secure(
                json_answers(),
                authority.issue(Certificate { host: "127.0.0.1", until: 2024 }).unwrap(),
            ),
            closed: ClosedPort::new(),
        }
    }

    /// Replaces the addresses of the pages in a command line.
    fn replace_addresses(&self, line: &str) -> String {
        [
            ("http://127.0.0.1:8080/mcp", self.well.url()),
            ("http://127.0.0.1:8081/mcp", self.login.url()),
            ("https://127.0.0.1:8443/mcp", self.expired.url()),
            ("http://127.0.0.1:8082/mcp", self.closed.url()),
        ]
        .iter()
        .fold(line.to_owned(), |line, (there, here)| line.replace(there, here))
    }
}

/// Returns the commands of a page, each with its output.
fn shown(page: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for block in page.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for line in block.lines() {
            match line.strip_prefix("$ ") {
                Some(command) => all.push((command.to_owned(), String::new())),
                None => all.last_mut().unwrap().1.push_str(&format!("{line}\n")),
            }
        }
    }
    all
}

/// Replaces variable parts in JSON output as well.
fn reviewed(text: &str) -> String {
    let line = |line: &str| {
        let number = line.trim_start().starts_with("\"ms\": ") && !line.contains("null");
        if number { line.split_once(": ").unwrap().0.to_owned() + ": N," } else { line.to_owned() }
    };
    let text: Vec<String> = text.replace(INSTALLED, "‹mendline›").lines().map(line).collect();
    scrubbed(&text.join("\n")).trim_end().to_owned()
}

fn assert_page_is_correct(name: &str) {
    let servers = Servers::start();
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)).unwrap();
    let commands = shown(&page);
    assert!(commands.len() >= 5, "{name} shows hardly anything");
    for (command, expected) in commands {
        // Each command has a new home, so that no command affects the next.
        let stage = Stage::new();
        let (folder, rest) = (Path::new(MENDLINE).parent().unwrap().display(), "/usr/bin:/bin");
        let mut run = Command::new("sh");
        for (name, value) in stage.command(&[]).get_envs() {
            match value {
                Some(value) => run.env(name, value),
                None => run.env_remove(name),
            };
        }
        let line = format!("exec 2>&1; {}", servers.replace_addresses(&command));
        run.args(["-c", &line]).env("PATH", format!("{folder}:{rest}")).current_dir(stage.path());
        let printed = CommandOutput::of(run.stdin(Stdio::null()).output().unwrap());
        let printed = printed.stdout.replace(stage.path().to_str().unwrap(), "/home/me").replace(MENDLINE, INSTALLED);
        assert_eq!(
            reviewed(&printed),
            reviewed(&expected),
            "{name} shows for `{command}`:\n{expected}\nbut it prints:\n{printed}"
        );
    }
}

#[test]
fn doctor_page_shows_real_output() {
    assert_page_is_correct("doctor.md");
}

#[test]
fn call_page_shows_real_output() {
    assert_page_is_correct("call.md");
}
