//! The process that started this one.
//!
//! A client names itself in its handshake, but not before that, and some names are those of a library. The parent
//! process tells the same from the first moment on. Only the name of a program or script is read, no arguments.

use std::path::Path;

use super::snapshot::ParentInfo;
use crate::os::processes::{command_line, own_parent, parent_of};

/// The limit of shells between a client and this process.
const SHELLS: usize = 4;

/// The limit of the name, in characters.
const NAME_LENGTH: usize = 40;

/// Returns the process that started this one. A shell that only runs a command is skipped.
pub(super) fn parent() -> Option<ParentInfo> {
    let mut pid = own_parent()?;
    for _ in 0..SHELLS {
        let words = command_line(pid)?;
        if !runs_one_command(&words) {
            let name = name_of(&words)?;
            return Some(ParentInfo { pid, name });
        }
        pid = parent_of(pid)?;
    }
    None
}

/// Returns whether a command line is that of a shell that runs one command: `sh -c …`.
fn runs_one_command(words: &[String]) -> bool {
    let is_shell = matches!(program(words).as_deref(), Some("sh" | "bash" | "dash" | "zsh" | "ash" | "ksh" | "fish"));
    is_shell && words.iter().skip(1).take_while(|word| word.starts_with('-')).any(|word| word.ends_with('c'))
}

/// Returns the name of the program, without its directory. A changed process title may have spaces.
fn program(words: &[String]) -> Option<String> {
    let first = words.first()?.trim_start_matches('-');
    let first = first.split(" -").next().unwrap_or(first);
    Path::new(first).file_name().map(|name| name.to_string_lossy().trim().to_owned()).filter(|name| !name.is_empty())
}

/// Returns the name of the program that a command line runs: of a script, if the program is an interpreter.
fn name_of(words: &[String]) -> Option<String> {
    let program = program(words)?;
    if matches!(program.as_str(), "init" | "systemd" | "tini" | "docker-init" | "dumb-init") {
        return None;
    }
    let base = program.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
    let is_interpreter = matches!(base, "node" | "python" | "bun" | "deno" | "ruby" | "electron");
    let script = words.get(1).filter(|word| is_interpreter && !word.starts_with('-')).and_then(|word| script(word));
    Some(script.unwrap_or(program).chars().take(NAME_LENGTH).collect())
}

/// Returns the name of a script, or of its directory if the name is too general.
fn script(path: &str) -> Option<String> {
    let stem = |path: &Path| path.file_stem().map(|name| name.to_string_lossy().into_owned());
    let is_general = |name: &str| {
        matches!(name, "index" | "main" | "__main__" | "cli" | "app" | "dist" | "build" | "src" | "lib" | "bin" | "out")
    };
    let names = Path::new(path).ancestors().filter_map(stem);
    names.into_iter().find(|name| !is_general(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn u08_parent_is_named_by_its_program_or_script() {
        for (line, expected) in [
            ("/usr/bin/claude --resume", "claude"),
            ("-bash", "bash"),
            ("/usr/bin/node /usr/lib/node_modules/@anthropic-ai/claude-code/cli.js", "claude-code"),
            ("python3.12 /srv/agent.py --token x", "agent"),
            ("node --inspect /srv/agent.js", "node"),
            ("python -m agent", "python"),
            ("node dist/index.js", "node"),
        ] {
            assert_eq!(name_of(&words(line)).as_deref(), Some(expected), "{line}");
        }
        assert_eq!(name_of(&["/usr/share/code/code --type=utility".to_owned()]).as_deref(), Some("code"));
        assert_eq!(name_of(&words("/sbin/init")), None);
        assert_eq!(name_of(&[]), None);
    }

    #[test]
    fn shell_that_runs_one_command_is_skipped() {
        assert!(runs_one_command(&words("/bin/sh -c mendline")) && runs_one_command(&words("bash -lc mendline")));
        assert!(!runs_one_command(&words("bash")) && !runs_one_command(&words("python -c x")));
    }

    #[test]
    fn parent_of_a_test_is_its_runner() {
        let parent = parent().unwrap();
        assert!(parent.pid > 0 && !parent.name.is_empty() && !parent.name.contains('/'), "{parent:?}");
    }
}
