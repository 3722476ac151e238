//! A separate home directory for the commands. The tests search all its files at the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::canary::search;
use crate::client::{Client, MENDLINE, STATE};

/// A home directory, and beside it a directory with the input files of the commands, which hold the secrets.
pub(crate) struct Home {
    folder: TempDir,
    given: TempDir,
}

impl Home {
    pub(crate) fn new() -> Home {
        let home = Home { folder: tempfile::tempdir().unwrap(), given: tempfile::tempdir().unwrap() };
        for folder in ["tmp", "run"] {
            fs::create_dir(home.folder.path().join(folder)).unwrap();
        }
        home
    }

    /// Writes an input file for the commands.
    pub(crate) fn give(&self, name: &str, text: &str) -> String {
        let path = self.given.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let path = |name: &str| self.folder.path().join(name);
        let mut command = Command::new(MENDLINE);
        command.args(arguments).env_clear().env("MENDLINE_KEYRING", "never").current_dir(self.folder.path());
        // The system needs PATH to find `sh`. No other variable of the user who runs the tests is passed on.
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.folder.path()).env("TMPDIR", path("tmp")).env("XDG_RUNTIME_DIR", path("run"));
        command.env("XDG_CONFIG_HOME", path("config")).env(STATE, path("state"));
        command
            .env("MENDLINE_RUNTIME_DIR", path("run/mendline"))
            .env("MENDLINE_DEMO_LEDGER", self.given.path().join("ledger"));
        command.stdin(Stdio::null());
        command
    }

    /// Starts a bridge with this configuration and all logs enabled.
    pub(crate) fn bridge(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Client {
        let all = ["run", "--record-wire", "--log-file-level", "debug", "--log-level", "debug", "--startup", "wait"];
        let mut command = self.command(&[&all[..], arguments].concat());
        command.envs(variables.iter().copied());
        let mut client = Client::start(command.stdin(Stdio::piped()));
        client.read_log();
        client
    }

    /// Returns whether a process can be asked for its status and has logged this text. Both are set up beside the first
    /// calls.
    pub(crate) fn is_observable(&self, logged: &str) -> bool {
        let has_socket = fs::read_dir(self.folder.path().join("run/mendline")).is_ok_and(|mut it| it.next().is_some());
        let logs = files(&self.folder.path().join("state/logs"));
        has_socket && logs.iter().any(|file| fs::read_to_string(file).is_ok_and(|text| text.contains(logged)))
    }

    /// Runs commands concurrently, searches their output and returns it.
    pub(crate) fn search_commands(&self, lines: &[&[&str]], variables: &[(&str, &str)]) -> Vec<String> {
        let run = |line: &&[&str]| {
            let Output { stdout, stderr, .. } = self.command(line).envs(variables.iter().copied()).output().unwrap();
            let printed = [stdout, stderr].concat();
            search(&format!("mendline {}", line.join(" ")), &printed);
            String::from_utf8_lossy(&printed).into_owned()
        };
        thread::scope(|scope| {
            let running: Vec<_> = lines.iter().map(|line| scope.spawn(move || run(line))).collect();
            running.into_iter().map(|one| one.join().unwrap()).collect()
        })
    }

    /// Searches every file below the home directory.
    pub(crate) fn search_files(&self) -> String {
        let mut all = String::new();
        for path in files(self.folder.path()) {
            let text = fs::read(&path).unwrap_or_default();
            search(&path.display().to_string(), &text);
            search("the name of a file", path.to_str().unwrap().as_bytes());
            all.push_str(&String::from_utf8_lossy(&text));
        }
        all
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files(&entry.path())),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found
}

/// Searches the arguments of a process and of its descendants.
pub(crate) fn search_arguments(of: u32) {
    let mut family = vec![of];
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<u32>().ok());
        if parent == Some(of) {
            family.push(pid);
        }
    }
    for pid in family {
        search("an argument", &fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default());
    }
}

/// Ends a bridge at once, and searches its remaining output and its whole log.
pub(crate) fn search_to_the_end(mut client: Client) -> String {
    client.signal(Signal::TERM);
    client.signal(Signal::TERM);
    let log = client.whole_log();
    search("stderr of run", log.as_bytes());
    client.rest().iter().for_each(|line| search("an answer", line.as_bytes()));
    log
}
