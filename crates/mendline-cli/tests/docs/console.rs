//! Runs the commands of the documentation pages and compares their output with the page.
//!
//! A block ```` ```console ```` contains commands after `$ ` and their output. A block whose fence names a file
//! (```` ```jsonc ~/.config/mendline/config.json ````) is written to that file first. All blocks of a page share one
//! home directory and run in order. In the expected output `[..]` stands for any text within a line, and a line `[...]`
//! for any lines. A command that ends in `&` runs in the background until the end of the page; later commands are then
//! repeated for a while until their output matches. A block ```` ```console pending ```` is not run: it shows a command
//! that does not exist yet, and a test fails as soon as it exists.
//!
//! `MENDLINE_RECORD=1 cargo test -p mendline-cli --test docs` writes the real output into the page, for review.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{MENDLINE, root};

/// The time that a page may wait for its background commands.
const SOON: Duration = Duration::from_secs(30);

/// The directory of the program and the home directory as the page shows them.
const BIN: &str = "/usr/local/bin";
const HOME: &str = "/home/you";

/// A temporary home directory.
struct Sandbox {
    folder: TempDir,
    background: Vec<Child>,
}

impl Sandbox {
    fn new() -> Sandbox {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "bin", "run"] {
            fs::DirBuilder::new().mode(0o700).create(folder.path().join(name)).unwrap();
        }
        symlink(MENDLINE, folder.path().join("bin/mendline")).unwrap();
        Sandbox { folder, background: Vec::new() }
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.home().join(path.strip_prefix("~/").expect("files are written at home"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut options = fs::OpenOptions::new();
        let mut file = options.create(true).write(true).truncate(true).mode(0o600).open(&path).unwrap();
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    }

    fn command(&self, line: &str) -> Command {
        let bin = self.folder.path().join("bin");
        // A build directory is not an installation, so the test names the binary that the page would find.
        let installed = format!("mendline wrap --binary {}", bin.join("mendline").display());
        let line = if line.contains("--binary") { line.to_owned() } else { line.replace("mendline wrap", &installed) };
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(line)
            .env_clear()
            .env("MENDLINE_KEYRING", "never")
            .current_dir(self.home())
            .stdin(Stdio::null());
        command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display())).env("HOME", self.home());
        let run = self.folder.path().join("run");
        // Without the variable, processes of other tests are found, too.
        command.env("XDG_RUNTIME_DIR", &run).env("MENDLINE_RUNTIME_DIR", run.join("mendline"));
        command.env("LC_ALL", "C.UTF-8").env("COLUMNS", "100");
        command
    }

    /// Returns stdout and stderr of a command, with paths as the page shows them.
    fn output_of(&self, line: &str) -> String {
        let output = self.command(&format!("{{ {line}\n}} 2>&1")).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let text = text.replace(self.folder.path().join("bin").to_str().unwrap(), BIN);
        text.replace(self.home().to_str().unwrap(), HOME)
    }

    fn start(&mut self, line: &str) {
        // Stdin stays open until the end, because a bridge ends with its client.
        let mut command = self.command(line);
        self.background
            .push(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        for mut process in self.background.drain(..) {
            drop(process.stdin.take());
            let deadline = Instant::now() + SOON;
            while Instant::now() < deadline && matches!(process.try_wait(), Ok(None)) {
                sleep(Duration::from_millis(10));
            }
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Runs all commands of a page and returns the page with the real output.
fn followed(page: &str) -> Result<String, String> {
    let mut sandbox = Sandbox::new();
    let (mut now, mut wrong) = (String::new(), String::new());
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        now += &format!("{line}\n");
        let Some(fence) = line.strip_prefix("```").filter(|fence| !fence.is_empty()) else { continue };
        let mut body = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with("```")) {
            body.push(line);
        }
        match fence.split_once(' ') {
            None if fence == "console" => {
                for (command, shown) in entries(&body) {
                    let printed = run_command(&mut sandbox, command, &shown);
                    now += &format!("$ {command}\n");
                    if is_like(&printed, &shown) {
                        now += &shown.iter().map(|line| format!("{line}\n")).collect::<String>();
                    } else {
                        now += &printed;
                        wrong += &format!("$ {command}\n{printed}\n--- is shown as\n{}\n\n", shown.join("\n"));
                    }
                }
            }
            Some((_, path)) if path.starts_with("~/") => {
                sandbox.write(path, &(body.join("\n") + "\n"));
                now += &body.iter().map(|line| format!("{line}\n")).collect::<String>();
            }
            _ => now += &body.iter().map(|line| format!("{line}\n")).collect::<String>(),
        }
        now += &lines.next().map(|line| format!("{line}\n")).expect("a fence without an end");
    }
    if wrong.is_empty() { Ok(now) } else { Err(format!("{wrong}\u{0}{now}")) }
}

/// Runs a command, and repeats it while a background command may still change the output.
fn run_command(sandbox: &mut Sandbox, command: &str, shown: &[&str]) -> String {
    if let Some(command) = command.strip_suffix(" &") {
        sandbox.start(command);
        return String::new();
    }
    let deadline = Instant::now() + SOON;
    loop {
        let printed = sandbox.output_of(command);
        if is_like(&printed, shown) || sandbox.background.is_empty() || Instant::now() > deadline {
            return printed;
        }
        // Undoes the effect of a command whose output came too late, so that the repetition has the same effect.
        if let Some(opposite) = opposite(command) {
            sandbox.output_of(&opposite);
        }
        sleep(Duration::from_millis(100));
    }
}

/// Returns the command that undoes this one, for commands whose second run prints another text.
fn opposite(command: &str) -> Option<String> {
    let undoes = |one: &str, other: &str| {
        command.strip_prefix(&format!("mendline {one} ")).map(|rest| format!("mendline {other} {rest}"))
    };
    undoes("isolate", "resume").or_else(|| undoes("resume", "isolate"))
}

/// Returns the commands of a block, each with its expected output.
fn entries<'a>(body: &[&'a str]) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut entries: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in body {
        match line.strip_prefix("$ ") {
            Some(command) => entries.push((command, Vec::new())),
            None => entries.last_mut().expect("a block begins with a command").1.push(line),
        }
    }
    entries
}

/// Returns true if the output matches the expected output.
fn is_like(printed: &str, shown: &[&str]) -> bool {
    let printed: Vec<_> = printed.lines().map(str::trim_end).collect();
    are_like(&printed, shown)
}

fn are_like(printed: &[&str], shown: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&"[...]", rest)) => (0..=printed.len()).any(|skipped| are_like(&printed[skipped..], rest)),
        Some((first, rest)) => {
            printed.first().is_some_and(|line| matches(line, first)) && are_like(&printed[1..], rest)
        }
    }
}

/// Returns true if a line matches a pattern with `[..]`.
fn matches(line: &str, pattern: &str) -> bool {
    match pattern.split_once("[..]") {
        None => line == pattern,
        Some((before, after)) => line
            .strip_prefix(before)
            .is_some_and(|rest| (0..=rest.len()).any(|at| rest.is_char_boundary(at) && matches(&rest[at..], after))),
    }
}

/// Checks a page of the repository.
pub(crate) fn follow(path: &str) {
    let file = root().join(path);
    let page = fs::read_to_string(&file).unwrap();
    assert!(page.contains("```console\n"), "{path} shows no commands");
    match followed(&page) {
        Ok(now) => assert_eq!(now, page),
        Err(wrong) => {
            let (wrong, now) = wrong.split_once('\u{0}').unwrap();
            if std::env::var_os("MENDLINE_RECORD").is_some() {
                fs::write(&file, now).unwrap();
            }
            panic!("{path} shows what is not so:\n\n{wrong}");
        }
    }
}

#[test]
fn guide_shows_real_output() {
    follow("docs/guide.md");
}

#[test]
fn page_with_wrong_output_is_detected() {
    let page = "```console\n$ echo one; echo 17\none\n[..]\n$ printf 'a\\nb\\nc\\n'\n[...]\nc\n```\n";
    assert_eq!(followed(page).as_deref(), Ok(page));
    let wrong = followed(&page.replace("\none\n", "\ntwo\n")).unwrap_err();
    assert!(wrong.starts_with("$ echo one; echo 17\none\n17\n"), "{wrong}");
    assert!(followed("```console\n$ true\nmore\n```\n").is_err(), "the command printed less than the page shows");
    assert!(followed("```console\n$ echo more\n```\n").is_err(), "the command printed more than the page shows");
}

#[test]
fn files_of_page_exist_in_isolated_home() {
    let page = "```json ~/a/b.json\n{}\n```\n```console\n$ cat a/b.json; pwd\n{}\n/home/you\n```\n";
    assert_eq!(followed(page).as_deref(), Ok(page));
}

#[test]
fn background_command_is_awaited_and_ends_with_page() {
    let page = "```console\n$ sh -c 'sleep 0.3; echo there > x; cat' &\n$ cat x\nthere\n```\n";
    assert_eq!(followed(page).as_deref(), Ok(page));
}

/// Returns the first commands of blocks that are not run yet.
pub(crate) fn pending(page: &str) -> Vec<String> {
    let blocks = super::blocks(page, "console pending");
    blocks
        .iter()
        .filter_map(|block| block.lines().rev().find_map(|line| line.strip_prefix("$ ")))
        .map(str::to_owned)
        .collect()
}

/// Returns every command line on a page.
pub(crate) fn lines_typed(path: &Path) -> Vec<String> {
    let page = fs::read_to_string(path).unwrap();
    let mut typed = Vec::new();
    for language in ["console", "sh"] {
        for block in super::blocks(&page, language) {
            let lines = block.lines().filter(|line| language == "sh" || line.starts_with("$ "));
            typed.extend(lines.map(|line| line.trim_start_matches("$ ").to_owned()));
        }
    }
    typed
}
