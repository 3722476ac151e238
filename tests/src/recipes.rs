//! The programs of `docs/recipes.md`, run as a reader runs them.
//!
//! A program finds `mendline` and the server `notes-server` by their names, as it would on the reader's machine. A
//! [`ReaderHome`] is a home directory with these two commands, for one test. The server is Mendline's demo server, which is
//! killed after it has run its first call, before it answers; a ledger outside of its process shows what ran.
//! `cargo xtask recipes` installs the packages that the programs import.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::processes::eventually;

/// The deadline of a program, on a busy machine and with a library that loads slowly.
const PATIENCE: Duration = Duration::from_secs(150);

/// The language and the installation of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// Python with `mcp` 1.x, and the libraries that need it.
    Python1,
    /// Python with `mcp` 2.x.
    Python2,
    /// Node.js.
    Node,
}

impl Runtime {
    /// Returns the interpreter.
    ///
    /// # Errors
    ///
    /// Fails if the packages are not installed.
    pub fn interpreter(self) -> Result<PathBuf, String> {
        match self {
            Self::Python1 => installed("python-1/bin/python"),
            Self::Python2 => installed("python-2/bin/python"),
            Self::Node => installed("node/node_modules").map(|_| "node".into()),
        }
    }

    fn folder(self) -> PathBuf {
        source().join(if self == Self::Node { "node" } else { "python" })
    }
}

/// The output of a program that has ended by itself.
#[derive(Debug)]
pub struct Printed {
    /// Whether it ended without an error.
    pub is_success: bool,
    /// Its lines on stdout.
    pub lines: Vec<String>,
    /// Everything that it wrote to stderr.
    pub stderr: String,
}

impl Printed {
    /// Returns the rest of the line with this beginning.
    pub fn after(&self, beginning: &str) -> Option<&str> {
        self.lines.iter().find_map(|line| line.strip_prefix(beginning)).map(str::trim)
    }
}

/// A home directory with the commands of the programs.
#[derive(Debug)]
pub struct ReaderHome {
    folder: PathBuf,
    mendline: PathBuf,
}

impl ReaderHome {
    /// Prepares a directory.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be written.
    pub fn new(folder: &Path, mendline: &Path) -> Result<Self, String> {
        let home = Self { folder: folder.to_owned(), mendline: mendline.to_owned() };
        fs::create_dir_all(home.bin()).map_err(|why| why.to_string())?;
        symlink(mendline, home.bin().join("mendline")).map_err(|why| why.to_string())?;
        Ok(home)
    }

    /// Adds the command `notes-server`, with a fault of the demo server.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be written.
    pub fn add_notes_server(&self, fault: Option<&str>) -> Result<(), String> {
        let fault = fault.map(|fault| format!(" --fault {fault}")).unwrap_or_default();
        let (mendline, ledger) = (self.mendline.display(), self.ledger_path());
        let script =
            format!("#!/bin/sh\nMENDLINE_DEMO_LEDGER='{}' exec '{mendline}' demo-server{fault}\n", ledger.display());
        let path = self.bin().join("notes-server");
        fs::write(&path, script).map_err(|why| why.to_string())?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(|why| why.to_string())
    }

    /// Runs a program of the repository.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be started or does not end in time.
    pub fn run(&self, runtime: Runtime, program: &str, arguments: &[&str]) -> Result<Printed, String> {
        let text = read(&runtime.folder().join(program))?;
        self.run_text(runtime, program, &text, arguments)
    }

    /// Runs a program with this text.
    ///
    /// # Errors
    ///
    /// As [`Self::run`].
    pub fn run_text(&self, runtime: Runtime, name: &str, text: &str, args: &[&str]) -> Result<Printed, String> {
        let script = self.copy(runtime, name, text)?;
        let (out, err) = (self.folder.join("stdout.txt"), self.folder.join("stderr.txt"));
        let file = |path: &Path| fs::File::create(path).map_err(|why| format!("{}: {why}", path.display()));
        let mut process = Command::new(runtime.interpreter()?)
            .arg(script)
            .args(args)
            .envs(self.environment())
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(file(&out)?)
            .stderr(file(&err)?)
            .process_group(0)
            .spawn()
            .map_err(|why| why.to_string())?;
        let mut status = None;
        let has_ended = eventually(PATIENCE, || {
            status = process.try_wait().ok().flatten();
            status.is_some()
        });
        let (stdout, stderr) = (read(&out)?, read(&err)?);
        if !has_ended {
            let group = Pid::from_raw(process.id().cast_signed());
            let _ = group.map(|group| rustix::process::kill_process_group(group, Signal::KILL));
            let _ = process.wait();
            return Err(format!("{name} did not end within {PATIENCE:?}:\n{stdout}\n{stderr}"));
        }
        let is_success = status.is_some_and(|status| status.success());
        Ok(Printed { is_success, lines: stdout.lines().map(ToOwned::to_owned).collect(), stderr })
    }

    /// Writes a program where its packages are found.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be written.
    pub fn copy(&self, runtime: Runtime, name: &str, text: &str) -> Result<PathBuf, String> {
        let script = self.folder.join(name);
        fs::write(&script, text).map_err(|why| why.to_string())?;
        let packages = self.folder.join("node_modules");
        if runtime == Runtime::Node && !packages.exists() {
            symlink(installed("node/node_modules")?, packages).map_err(|why| why.to_string())?;
        }
        Ok(script)
    }

    /// Returns the command of a server of the repository that is killed when it first uses its file.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be written.
    pub fn crashing(&self, runtime: Runtime, name: &str, method: &str, file: &Path) -> Result<Vec<OsString>, String> {
        let script = self.copy(runtime, name, &read(&runtime.folder().join(name))?)?;
        let (marker, support) = (self.folder.join("crashed"), source().join("support"));
        let mut command: Vec<OsString> = vec![runtime.interpreter()?.into()];
        if runtime == Runtime::Node {
            let import = format!("file://{}?{}&{method}", support.join("crash.mjs").display(), marker.display());
            command.extend(["--import".into(), import.into()]);
        } else {
            command.extend([support.join("crash.py").into(), marker.into(), method.into()]);
        }
        command.extend([script.into(), file.into()]);
        Ok(command)
    }

    /// Returns whether the server of [`Self::crashing`] was killed.
    pub fn has_crashed(&self) -> bool {
        self.folder.join("crashed").exists()
    }

    /// Returns the variables of a program: this home, and no reports to the authors of libraries.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let mut path = self.bin().into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let texts = ["DO_NOT_TRACK", "PYTHONDONTWRITEBYTECODE", "MASTRA_TELEMETRY_DISABLED"];
        let mut variables: Vec<(&'static str, OsString)> = texts.map(|name| (name, "1".into())).into();
        variables.extend([("PATH", path), ("HOME", self.folder.clone().into())]);
        variables.extend([("MENDLINE_STATE_DIR", self.folder.join("state").into())]);
        variables
    }

    /// Returns the number of lines in the ledger of `notes-server` with this beginning.
    pub fn count(&self, beginning: &str) -> usize {
        let ledger = fs::read_to_string(self.ledger_path()).unwrap_or_default();
        ledger.lines().filter(|line| line.starts_with(beginning)).count()
    }

    fn bin(&self) -> PathBuf {
        self.folder.join("bin")
    }

    fn ledger_path(&self) -> PathBuf {
        self.folder.join("ledger.txt")
    }
}

/// Returns the text of a program before the change that the page shows: the lines that its `diff` block adds are
/// replaced by those that it removes.
///
/// # Errors
///
/// Fails if the page does not show this program after a `diff` block, or if the block does not match the program.
pub fn before_the_change(page: &str, program: &str) -> Result<String, String> {
    let mut change = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line == "```diff" {
            change = lines.by_ref().take_while(|line| *line != "```").collect();
        } else if line.starts_with("```") && line.ends_with(&format!("/{program}")) {
            let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            return revert(&text, &change).ok_or_else(|| format!("{program} does not have the lines of its diff"));
        }
    }
    Err(format!("the page does not show {program}"))
}

fn revert(text: &[&str], change: &[&str]) -> Option<String> {
    let mut text: Vec<&str> = text.to_vec();
    let mut rest = change;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let removed = rest.iter().take_while(|line| line.starts_with('-')).count();
        let added = rest[removed..].iter().take_while(|line| line.starts_with('+')).count();
        let (hunk, after) = rest.split_at((removed + added).max(1));
        rest = after;
        if removed + added == 0 {
            continue;
        }
        let old: Vec<&str> = hunk[..removed].iter().map(|line| &line[1..]).collect();
        let new: Vec<&str> = hunk[removed..].iter().map(|line| &line[1..]).collect();
        let at = text.windows(new.len()).position(|lines| lines == new)?;
        text.splice(at..at + new.len(), old);
    }
    Some(text.join("\n") + "\n")
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes")
}

/// Returns the path of an installed file.
fn installed(path: &str) -> Result<PathBuf, String> {
    let home = std::env::var_os("MENDLINE_RECIPES")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/recipes"), PathBuf::from);
    let path = home.join(path);
    if path.exists() {
        return Ok(path);
    }
    Err(format!("{} is missing; `cargo xtask recipes` installs what these tests need", path.display()))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::before_the_change;

    const PAGE: &str = "\
```diff
-old()
+new()
@@
-    twice(1)
-    twice(2)
+    once()
```
```python tests/recipes/python/a.py
new()
if x:
    once()
end()
```
";

    #[test]
    fn change_of_the_page_is_reverted() {
        assert_eq!(before_the_change(PAGE, "a.py").unwrap(), "old()\nif x:\n    twice(1)\n    twice(2)\nend()\n");
        before_the_change(PAGE, "b.py").unwrap_err();
        before_the_change(&PAGE.replace("+new()", "+other()"), "a.py").unwrap_err();
        before_the_change(&PAGE.replace("```diff", "```text"), "a.py").unwrap_err();
    }
}
