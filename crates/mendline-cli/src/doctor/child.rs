//! The layers of a server that is a command: whether it exists, starts, and keeps its stdout clean.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use mendline::decisions::defaults;
use mendline::decisions::reason::Reason;
use mendline::os::files::can_execute;
use mendline::transport::child::ChildCommand;

use super::Limits;
use super::protocol::{self, Handshake, Pace};
use super::report::Section;
use super::step::{Step, Verdict, limit_text};
use crate::mcp_client::{Observed, RequestError};
use crate::plan::Plan;
use crate::untrusted_text::counted;

/// Maximum number of program names that are compared with one that was not found.
const NAMES: usize = 20_000;

const ABOVE: [&str; 5] = ["start", "handshake", "lists", "ping", "stdout"];

/// Examines the layers from the command to its pings.
pub(crate) async fn examine(plan: &Plan, command: &ChildCommand, limits: Limits, section: &mut Section) {
    let step = find_with_login_shell(command);
    let is_there = step.verdict == Verdict::Ok;
    section.add(step);
    if !is_there {
        return section.skip(&ABOVE, "not tried");
    }
    let limit = limits.start.unwrap_or(defaults::HANDSHAKE);
    section.begin("start");
    let handshake = match protocol::connect(plan, limit).await {
        Ok(handshake) => handshake,
        Err(why) => {
            section.add(Step::failed("start", why));
            return section.skip(&ABOVE[1..], "not tried");
        }
    };
    let Handshake { mut client, result, took } = handshake;
    let seen = client.events().seen();
    match result {
        Ok(info) => {
            section.add(Step::ok("start", "it runs; the time is that of its first answer").took(took));
            section.add(protocol::handshake_step(&info));
            section.begin("ping");
            let pace = Pace::measure(&mut client, limits.step).await;
            let is_examined = protocol::examine(&mut client, &info, limits.step, pace, section).await;
            section.add(stdout(&client.events().seen()));
            section.begin("eras");
            let mut eras = if is_examined { protocol::eras(&mut client, &info, limits.step).await } else { None };
            client.close().await;
            if eras.is_none() && is_examined {
                // The second start takes as long as the first, and the server need not answer at all.
                let limit = limit.min(took * 2 + protocol::OTHER_ERA);
                eras = protocol::eras_in_new_process(plan, &info, limit).await;
            }
            section.add_if_any(eras);
        }
        Err(trouble) => {
            let tried = match &seen.trouble {
                Some(why) if seen.was_up => {
                    section.add(ended(why, &seen).took(took));
                    1
                }
                Some(why) => {
                    section.add(not_started(why).took(took));
                    1
                }
                None => {
                    section.add(Step::ok("start", "it runs"));
                    section.add(handshake_failed(&trouble, &seen).took(took));
                    2
                }
            };
            // Its lines on stdout may be the reason.
            if seen.noise_lines > 0 {
                section.add(stdout(&seen));
                section.skip(&ABOVE[tried..4], "not tried");
            } else {
                section.skip(&ABOVE[tried..], "not tried");
            }
            client.close().await;
        }
    }
}

/// The reason why a command is not started.
#[derive(Clone, Copy)]
pub(crate) enum NotStarted {
    /// Its server runs already.
    Runs,
    /// Nothing is to be started.
    Passive,
}

/// Examines only the command of a server.
pub(crate) fn examine_command(command: &ChildCommand, why: NotStarted, section: &mut Section) {
    section.add(find_with_login_shell(command));
    section.skip(
        &ABOVE,
        match why {
            NotStarted::Runs => "not tried, because it runs already; --start starts another copy",
            NotStarted::Passive => "not tried (--passive)",
        },
    );
}

fn not_started(why: &Reason) -> Step {
    Step::failed("start", format!("it could not be started: {why}"))
        .advice("Run it manually, in the same directory, to see more")
}

fn ended(why: &Reason, seen: &Observed) -> Step {
    // The details below hold the whole stderr tail.
    let why = if let Reason::WithStderr { why, .. } = why { why } else { why };
    let step = Step::failed("start", format!("{why}, before it answered")).details(seen.said.iter().cloned());
    if seen.said.is_empty() {
        step.advice("It wrote nothing to stderr. Run it manually: are its arguments and variables right?")
    } else {
        step.advice("This is the end of its stderr; a missing argument, variable or package is the usual reason")
    }
}

fn handshake_failed(trouble: &RequestError, seen: &Observed) -> Step {
    let step = match trouble {
        RequestError::Timeout(limit) => Step::failed(
            "handshake",
            format!("it runs, but did not answer the handshake within {}", limit_text(*limit)),
        )
        .advice("Is it an MCP server on stdio? --timeout gives a slow start more time"),
        other => Step::failed("handshake", format!("it rejects the handshake: {}", other.words()))
            .advice(protocol::SERVER_MESSAGE_ADVICE),
    };
    step.details(seen.said.iter().cloned())
}

/// Judges whether stdout holds only protocol.
fn stdout(seen: &Observed) -> Step {
    match seen.noise_lines {
        0 => Step::ok("stdout", "nothing but protocol"),
        lines => {
            let count = counted(usize::try_from(lines).unwrap_or(usize::MAX), "line");
            let words = format!("{count} on stdout that {} not protocol", if lines == 1 { "is" } else { "are" });
            Step::warning("stdout", words)
                .details(seen.noise.iter().map(|line| without_reason(line).to_owned()))
                .advice("Mendline drops such lines; most clients fail on them. The server should log to stderr")
        }
    }
    .fact("noiseLines", seen.noise_lines)
}

/// Removes the reason from a line that is not protocol.
fn without_reason(line: &str) -> &str {
    line.rsplit_once(" (not JSON").map_or(line, |(line, _)| line)
}

/// Finds the program as the engine does: also on the PATH of the login shell.
fn find_with_login_shell(command: &ChildCommand) -> Step {
    let found = command.clone().found_by_login_shell();
    let step = find(&found);
    if found.environment == command.environment {
        return step;
    }
    step.details(["it is not on the PATH of this process, but on that of your login shell, which is used".to_owned()])
}

/// Finds the program, and checks whether it can be run.
fn find(command: &ChildCommand) -> Step {
    const LAYER: &str = "command";
    let shown = command.program.to_string_lossy().into_owned();
    if let Some(directory) = command.directory.as_ref().filter(|directory| !directory.is_dir()) {
        return Step::failed(LAYER, format!("its directory {} does not exist", directory.display()))
            .advice("Create it, or change `cwd` in the configuration file");
    }
    let found = if command.program.as_encoded_bytes().contains(&b'/') {
        let path =
            command.directory.as_ref().map_or_else(|| PathBuf::from(&command.program), |it| it.join(&command.program));
        if path.exists() { Found::At(path) } else { Found::Nowhere }
    } else {
        on_path(&command.program, &command.search_path())
    };
    let path = match found {
        Found::At(path) => path,
        Found::NotExecutable(path) => return not_executable(&shown, &path),
        Found::Nowhere if shown.contains('/') => {
            return Step::failed(LAYER, format!("{shown} does not exist"))
                .advice("Is the path right? A relative path is looked up in the directory that the command runs in");
        }
        Found::Nowhere => return not_found(&shown, &command.search_path()),
    };
    if path.is_dir() {
        return Step::failed(LAYER, format!("{} is a directory", path.display())).advice("Name the program in it");
    }
    if !can_execute(&path) {
        return not_executable(&shown, &path);
    }
    if let Some(interpreter) = missing_interpreter(&path, &command.search_path()) {
        return Step::failed(LAYER, format!("{} is a script for {interpreter}, which does not exist", path.display()))
            .advice(
                install(&interpreter)
                    .unwrap_or_else(|| format!("Install {interpreter}, or run the script with another program")),
            );
    }
    let shown = if Path::new(&command.program) == path {
        format!("{} exists", path.display())
    } else {
        format!("{shown} is {}", path.display())
    };
    Step::ok(LAYER, shown).fact("path", path.to_string_lossy().into_owned())
}

enum Found {
    At(PathBuf),
    NotExecutable(PathBuf),
    Nowhere,
}

fn on_path(program: &OsStr, path: &OsStr) -> Found {
    let mut best = Found::Nowhere;
    for directory in std::env::split_paths(path) {
        let candidate = directory.join(program);
        if !candidate.is_file() {
            continue;
        }
        if can_execute(&candidate) {
            return Found::At(candidate);
        }
        best = Found::NotExecutable(candidate);
    }
    best
}

fn not_executable(shown: &str, path: &Path) -> Step {
    Step::failed("command", format!("{shown} is not executable"))
        .advice(format!("chmod +x {}, or run it with the program that it is written for", path.display()))
}

fn not_found(program: &str, path: &OsStr) -> Step {
    let step = Step::failed("command", format!("{program} is not on PATH"));
    let mut names: Vec<String> = Vec::new();
    for directory in std::env::split_paths(path) {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        names.extend(entries.take(NAMES - names.len()).filter_map(|entry| entry.file_name().into_string().ok()));
    }
    // Every short name is near some other one.
    let near = mendline_config::nearest(program, names.iter().map(String::as_str)).filter(|_| program.len() > 2);
    let advice = match (near, install(program)) {
        (_, Some(advice)) => format!("{advice}."),
        (Some(near), None) => format!("Did you mean `{near}`?"),
        (None, None) => "Install it, or write its whole path.".to_owned(),
    };
    let more =
        "A client that is started from a desktop may have another PATH than a shell: the whole path always works";
    step.advice(format!("{advice} {more}")).fact("path", path.to_string_lossy().into_owned())
}

/// Returns how to install a program that servers often need.
fn install(program: &str) -> Option<String> {
    let what = match program {
        "npx" | "node" | "npm" => "Node.js (https://nodejs.org)",
        "uvx" | "uv" => "uv (https://docs.astral.sh/uv)",
        "docker" => "Docker",
        "deno" => "Deno (https://deno.com)",
        "bun" | "bunx" => "Bun (https://bun.sh)",
        "python" | "python3" => "Python 3",
        "pipx" => "pipx",
        _ => return None,
    };
    Some(format!("Install {what}: `{program}` comes with it"))
}

/// Returns the interpreter of a script, if it does not exist.
fn missing_interpreter(path: &Path, search: &OsStr) -> Option<String> {
    let mut head = [0_u8; 256];
    let count = fs::File::open(path).and_then(|mut file| file.read(&mut head)).ok()?;
    let line = head[..count].strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    let interpreter = words.next()?;
    if !Path::new(interpreter).exists() {
        return Some(interpreter.to_owned());
    }
    if !interpreter.ends_with("/env") {
        return None;
    }
    let named = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
    let is_there =
        named.contains('/') && Path::new(named).exists() || matches!(on_path(OsStr::new(named), search), Found::At(_));
    (!is_there).then(|| named.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn script(folder: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn said(program: &Path) -> String {
        find(&ChildCommand::new(program, [])).words
    }

    #[test]
    fn program_is_found_or_its_problem_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let good = script(folder.path(), "good", "#!/bin/sh\n", 0o755);
        assert!(said(&good).ends_with("good exists"));
        let shut = script(folder.path(), "shut", "#!/bin/sh\n", 0o644);
        assert!(said(&shut).ends_with("shut is not executable"));
        assert!(said(folder.path()).ends_with("is a directory"));
        assert!(said(&folder.path().join("none")).ends_with("none does not exist"));
    }

    #[test]
    fn missing_interpreter_differs_from_missing_script() {
        let folder = tempfile::tempdir().unwrap();
        let direct = script(folder.path(), "a", "#!/nonexistent/python\n", 0o755);
        assert!(said(&direct).ends_with("a is a script for /nonexistent/python, which does not exist"));
        let through_env = script(folder.path(), "b", "#!/usr/bin/env -S no-such-program-here --flag\n", 0o755);
        assert!(said(&through_env).contains("a script for no-such-program-here"));
        let fine = script(folder.path(), "c", "#!/usr/bin/env sh\n", 0o755);
        assert!(said(&fine).ends_with("c exists"));
    }

    #[test]
    fn path_of_the_entry_is_searched_and_similar_names_offered() {
        let folder = tempfile::tempdir().unwrap();
        script(folder.path(), "notes-server", "#!/bin/sh\n", 0o755);
        let mut command = ChildCommand::new("notes-server", []);
        command.environment = vec![("PATH".into(), folder.path().into())];
        assert!(find(&command).words.ends_with("/notes-server"));
        command.program = "notes-servr".into();
        let step = find(&command);
        assert_eq!(step.words, "notes-servr is not on PATH");
        assert!(step.advice.unwrap().starts_with("Did you mean `notes-server`?"));
    }
}
