//! Runs other programs in the workspace. Errors contain the command line in a form for the shell.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root of the workspace.
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// The target directory of cargo, which also holds everything that is installed or generated.
pub fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root().join(target)
}

/// Reads the options of a command that has only `--write`. Returns whether it is given, or nothing once the help is
/// printed.
pub fn write_option(args: &[String], help: &str) -> Result<Option<bool>, String> {
    match args {
        [] => Ok(Some(false)),
        [only] if only == "--write" => Ok(Some(true)),
        [only] if only == "--help" || only == "-h" => {
            print!("{help}");
            Ok(None)
        }
        _ => Err(format!("unknown options\n{help}")),
    }
}

/// A command line that runs in the root of the workspace.
pub struct CommandLine {
    command: Command,
    text: String,
}

impl CommandLine {
    /// A program and its arguments.
    pub fn new(program: impl AsRef<Path>, args: &[&str]) -> Self {
        let program = program.as_ref();
        let mut command = Command::new(program);
        command.args(args).current_dir(root());
        let mut text = quoted(&program.display().to_string());
        for arg in args {
            let _ = write!(text, " {}", quoted(arg));
        }
        Self { command, text }
    }

    /// `cargo` and its arguments.
    pub fn cargo(args: &[&str]) -> Self {
        // These variables of the parent cargo would look like settings of the user to the next cargo.
        let mut line = Self::new("cargo", args);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
                line.command.env_remove(name);
            }
        }
        line
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self.text = format!("{name}={} {}", quoted(value), self.text);
        self
    }

    /// Runs in another folder.
    pub fn within(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self.text = format!("(cd {} && {})", quoted(&folder.display().to_string()), self.text);
        self
    }

    /// The command as text for a shell.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Runs the command.
    ///
    /// # Errors
    ///
    /// When it cannot be started or fails; the text is the command.
    pub fn run(mut self) -> Result<(), String> {
        let status = self.command.status().map_err(|why| format!("{}: {why}", self.text))?;
        if status.success() { Ok(()) } else { Err(format!("{} ({status})", self.text)) }
    }

    /// Runs the command and returns its stdout.
    ///
    /// # Errors
    ///
    /// When it cannot be started or fails.
    pub fn output(mut self) -> Result<String, String> {
        let done = self.command.stderr(Stdio::inherit()).output().map_err(|why| format!("{}: {why}", self.text))?;
        if !done.status.success() {
            return Err(format!("{} ({})", self.text, done.status));
        }
        String::from_utf8(done.stdout).map_err(|why| format!("{}: {why}", self.text))
    }

    /// Runs the command and returns its exit code.
    ///
    /// # Errors
    ///
    /// When it cannot be started or is killed.
    pub fn code(mut self) -> Result<i32, String> {
        let status = self.command.status().map_err(|why| format!("{}: {why}", self.text))?;
        status.code().ok_or_else(|| format!("{} ({status})", self.text))
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::{CommandLine, quoted};

    #[test]
    fn command_text_is_quoted_for_a_shell() {
        let line = CommandLine::new("cargo", &["nextest", "-E", "not test(x)"]).env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(line.text(), "RUSTDOCFLAGS='-D warnings' cargo nextest -E 'not test(x)'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn failed_command_reports_its_status() {
        let why = CommandLine::new("sh", &["-c", "exit 3"]).run().unwrap_err();
        assert_eq!(why, "sh -c 'exit 3' (exit status: 3)");
        let why = CommandLine::new("sh", &["-c", "echo half; exit 3"]).output().unwrap_err();
        assert_eq!(why, "sh -c 'echo half; exit 3' (exit status: 3)");
    }

    #[test]
    fn output_returns_stdout() {
        assert_eq!(CommandLine::new("echo", &["printed"]).output().as_deref(), Ok("printed\n"));
    }
}
