//! Every command with a closed reader, a full disk and closed descriptors: no panic, no signal, and the exit code of
//! the table.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use serde_json::json;

use crate::stage::{CommandOutput, MENDLINE, Stage, finish, initialize, wait};

/// The streams that a command line writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writes {
    /// Its result to stdout and nothing to stderr.
    Out,
    /// Nothing to stdout.
    Err,
    /// To stdout, and to stderr as well.
    Both,
}

/// A command line, and its exit code when all output can be written.
struct CommandLine {
    arguments: Vec<String>,
    code: i32,
    writes: Writes,
}

fn line(arguments: &[&str], code: i32, writes: Writes) -> CommandLine {
    CommandLine { arguments: arguments.iter().map(|&word| word.to_owned()).collect(), code, writes }
}

/// Creates a stage with a configuration file and a client's file.
fn stage() -> Stage {
    let demo = |faults: &[&str]| {
        let faults = faults.iter().flat_map(|fault| ["--fault", fault]);
        let arguments: Vec<&str> = ["demo-server"].into_iter().chain(faults).collect();
        json!({ "command": MENDLINE, "args": arguments })
    };
    let stage = Stage::new(&json!({ "mcpServers": { "demo": demo(&[]), "dies": demo(&["die-after=1"]) } }));
    fs::write(stage.path().join("client.json"), json!({ "mcpServers": { "demo": demo(&[]) } }).to_string()).unwrap();
    fs::write(stage.path().join("wrong.json"), "{ \"mcpServers\": 5 }").unwrap();
    stage
}

/// Returns every command, with one line for each form of output. The bridge `notes` runs meanwhile.
fn lines() -> Vec<CommandLine> {
    use Writes::{Both, Err, Out};
    vec![
        line(&["--help"], 0, Out),
        line(&["--version"], 0, Out),
        line(&[], 0, Out),
        line(&["--no-such-flag"], 2, Err),
        line(&["help", "run"], 0, Out),
        line(&["run", "--help"], 0, Out),
        line(&["run"], 2, Err),
        line(&["run", "nosuch"], 3, Err),
        line(&["serve", "--listen", "192.0.2.1:7337", "demo"], 1, Err),
        line(&["serve", "nosuch"], 3, Err),
        line(&["login", "demo"], 2, Err),
        line(&["login", "nosuch"], 3, Err),
        line(&["logout", "--all"], 3, Out),
        line(&["logout", "demo"], 2, Err),
        line(&["token", "demo"], 2, Err),
        line(&["token", "nosuch"], 3, Err),
        line(&["status"], 0, Out),
        line(&["status", "--json"], 0, Out),
        line(&["status", "--schema"], 0, Out),
        line(&["status", "--probe"], 0, Out),
        line(&["status", "nosuch"], 3, Err),
        line(&["status", "--json", "nosuch"], 3, Out),
        line(&["status", "--watch"], 2, Err),
        line(&["reconnect", "notes"], 0, Out),
        line(&["isolate", "notes"], 0, Out),
        line(&["resume", "notes"], 0, Out),
        line(&["resume", "nosuch"], 3, Err),
        line(&["stats"], 0, Out),
        line(&["stats", "--json"], 0, Out),
        line(&["stats", "nosuch"], 3, Err),
        line(&["metrics"], 0, Out),
        line(&["metrics", "--listen", "192.0.2.1:9464"], 1, Err),
        line(&["list"], 0, Out),
        line(&["list", "--json"], 0, Out),
        line(&["add", "other", "--dry-run", "https://mcp.example.com/mcp"], 0, Out),
        line(&["add", "demo", "https://mcp.example.com/mcp"], 2, Err),
        line(&["set", "demo", "--dry-run", "timeouts.call=2m"], 0, Out),
        line(&["set", "demo", "nosuch=1"], 2, Err),
        line(&["unset", "demo", "timeouts"], 3, Err),
        line(&["remove", "demo", "--dry-run"], 0, Out),
        line(&["remove", "nosuch"], 3, Err),
        line(&["check"], 0, Out),
        line(&["check", "wrong.json"], 2, Err),
        line(&["schema"], 0, Out),
        line(&["schema", "--table"], 0, Out),
        line(&["wrap", "--dry-run", "--binary", MENDLINE, "--file", "client.json"], 0, Out),
        line(&["unwrap", "--file", "nosuch.json"], 3, Err),
        line(&["unwrap", "--dry-run", "--file", "client.json"], 0, Out),
        line(&["doctor", "demo"], 0, Out),
        line(&["doctor", "--json", "demo"], 0, Out),
        line(&["doctor", "--", "/nonexistent/program"], 1, Out),
        line(&["doctor", "nosuch"], 3, Err),
        line(&["explain", "4711"], 3, Err),
        line(&["report"], 0, Out),
        line(&["report", "demo"], 0, Out),
        line(&["report", "nosuch"], 3, Err),
        line(&["tools", "demo"], 0, Out),
        line(&["tools", "demo", "lookup"], 0, Out),
        line(&["tools", "--json", "demo"], 0, Out),
        line(&["tools", "nosuch"], 3, Err),
        line(&["call", "demo", "lookup", "--arg", "key=k"], 0, Out),
        line(&["call", "--json", "demo", "lookup", "--arg", "key=k"], 0, Out),
        line(&["call", "demo", "big", "--arg", "bytes=300000"], 0, Out),
        // The tool may have run: the outcome is unknown.
        line(&["call", "dies", "create_note"], 4, Err),
        line(&["call", "--json", "dies", "create_note"], 4, Both),
        line(&["call", "demo", "nosuch"], 3, Err),
        line(&["call", "--", "/nonexistent/program"], 2, Err),
        line(&["logs", "--level", "debug"], 0, Out),
        line(&["logs", "--json"], 0, Out),
        line(&["logs", "nosuch"], 3, Err),
        line(&["demo", "--calls", "1"], 2, Err),
        line(&["completions", "bash"], 0, Out),
        line(&["completions", "zsh"], 0, Out),
        line(&["completions", "--names", "mendline run "], 0, Out),
        line(&["man"], 0, Out),
        line(&["man", "run"], 0, Out),
        line(&["man", "nosuch"], 3, Err),
        line(&["man", "--output", "other-pages"], 0, Out),
        line(&["demo-server", "--http"], 0, Out),
        line(&["demo-server", "--fault", "exit-at-once=0"], 0, Err),
        line(&["demo-server", "--fault", "stderr-flood=9"], 0, Err),
        line(&["tools", "--prompts", "--", "/nonexistent/program"], 5, Err),
    ]
}

/// A fault of the standard streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputFault {
    /// Stdout is a pipe whose reader has gone before the command starts, as with `| true`.
    NoReader,
    /// The reader goes after the first line, as with `| head -1`.
    OneLine,
    /// Stdout is a file on a full disk.
    FullDisk,
    /// Stdout is closed, as with `>&-`.
    Closed,
    /// Stderr is a pipe whose reader has gone.
    NoReaderOfErrors,
    /// Stderr is a file on a full disk.
    FullDiskForErrors,
    /// Stderr is closed.
    ClosedErrors,
    /// All three are closed.
    ClosedAll,
}

/// Returns the write end of a pipe without a reader.
fn unread() -> OwnedFd {
    rustix::pipe::pipe().unwrap().1
}

fn full() -> fs::File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

impl OutputFault {
    fn run(self, stage: &Stage, arguments: &[String]) -> CommandOutput {
        match self {
            OutputFault::NoReader => finish(stage.command(arguments).stdout(unread())),
            OutputFault::OneLine => one_line(&mut stage.command(arguments)),
            OutputFault::FullDisk => finish(stage.command(arguments).stdout(full())),
            OutputFault::Closed => finish(&mut stage.through_shell(">&-", arguments)),
            OutputFault::NoReaderOfErrors => finish(stage.command(arguments).stderr(unread())),
            OutputFault::FullDiskForErrors => finish(stage.command(arguments).stderr(full())),
            OutputFault::ClosedErrors => finish(&mut stage.through_shell("2>&-", arguments)),
            OutputFault::ClosedAll => finish(&mut stage.through_shell("<&- >&- 2>&-", arguments)),
        }
    }

    /// Returns the exit code that a line must have.
    fn code(self, line: &CommandLine) -> i32 {
        match self {
            // A write error turns success into failure. Every other code is kept.
            OutputFault::FullDisk if line.writes != Writes::Err && line.code == 0 => 1,
            _ => line.code,
        }
    }
}

/// Reads one line and closes the pipe.
fn one_line(command: &mut Command) -> CommandOutput {
    let mut process = command.spawn().unwrap();
    let stdout = process.stdout.take().unwrap();
    let mut stderr = process.stderr.take().unwrap();
    let errors = thread::spawn(move || {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut stderr, &mut bytes).unwrap();
        bytes
    });
    let mut first = Vec::new();
    // The smallest buffer takes only this line from the pipe.
    BufReader::with_capacity(1, stdout).read_until(b'\n', &mut first).unwrap();
    let status = wait(&mut process, command);
    CommandOutput { status, stdout: first, stderr: errors.join().unwrap() }
}

fn assert_calm(what: &str, status: ExitStatus, stderr: &str) {
    assert!(status.signal().is_none(), "{what}: ended by a signal: {status}");
    assert!(!stderr.contains("panicked"), "{what}: {stderr}");
}

/// Runs every line with this fault.
fn all(fault: OutputFault) {
    let stage = stage();
    let _bridge = stage.bridge("notes");
    for line in lines() {
        let what = format!("{fault:?} {:?}", line.arguments);
        let ended = fault.run(&stage, &line.arguments);
        let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_calm(&what, ended.status, &stderr);
        assert_eq!(ended.status.code(), Some(fault.code(&line)), "{what}: {stderr}");
        let complaints = stderr.matches("cannot write to stdout").count();
        match fault {
            OutputFault::FullDisk if line.writes != Writes::Err => {
                assert!(
                    stderr.contains("error: cannot write to stdout: No space left on device\n"),
                    "{what}: {stderr}"
                );
                assert_eq!(complaints, 1, "{what}: {stderr}");
            }
            _ => assert_eq!(complaints, 0, "{what}: {stderr}"),
        }
        if matches!(fault, OutputFault::NoReaderOfErrors | OutputFault::FullDiskForErrors | OutputFault::ClosedErrors) {
            assert_eq!(ended.stdout.is_empty(), line.writes == Writes::Err, "{what}");
        }
        if matches!(fault, OutputFault::NoReader | OutputFault::OneLine | OutputFault::Closed)
            && line.writes == Writes::Out
        {
            assert_eq!(stderr, "", "{what}");
        }
    }
}

#[test]
fn u01_output_that_is_never_read_causes_no_failure() {
    all(OutputFault::NoReader);
}

#[test]
fn u01_reader_of_one_line_causes_no_failure() {
    all(OutputFault::OneLine);
}

#[test]
fn u01_full_disk_is_reported_once_with_exit_code() {
    all(OutputFault::FullDisk);
}

#[test]
fn u01_closed_stdout_causes_no_failure() {
    all(OutputFault::Closed);
}

#[test]
fn u01_stderr_without_reader_causes_no_failure() {
    all(OutputFault::NoReaderOfErrors);
}

#[test]
fn u01_stderr_on_full_disk_causes_no_failure() {
    all(OutputFault::FullDiskForErrors);
}

#[test]
fn u01_closed_stderr_causes_no_failure() {
    all(OutputFault::ClosedErrors);
}

#[test]
fn u01_closed_descriptors_cause_no_failure() {
    all(OutputFault::ClosedAll);
}

#[test]
fn u01_every_command_is_in_the_table() {
    let listed: BTreeSet<String> = lines().into_iter().filter_map(|line| line.arguments.into_iter().next()).collect();
    let missing: Vec<String> = stage().commands().difference(&listed).cloned().collect();
    assert_eq!(missing, Vec::<String>::new(), "add a line for each of them to `lines`");
}

/// The demo takes long. Without a reader it ends early.
#[test]
fn u01_demo_ends_when_its_output_fails() {
    let stage = stage();
    for (fault, code) in [(OutputFault::NoReader, 0), (OutputFault::OneLine, 0), (OutputFault::FullDisk, 1)] {
        let ended = fault.run(&stage, &["demo".to_owned()]);
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_calm("demo", ended.status, &stderr);
        assert_eq!(ended.status.code(), Some(code), "{fault:?}: {stderr}");
        assert_eq!(stderr.lines().count(), usize::from(code == 1), "{fault:?}: {stderr}");
    }
}

/// A bridge ends when its client is gone, with any descriptors.
#[test]
fn u01_bridge_ends_when_its_output_fails() {
    let stage = stage();
    let arguments = ["run", "--startup", "wait", "--", MENDLINE, "demo-server"].map(str::to_owned);
    for fault in [
        OutputFault::NoReader,
        OutputFault::FullDisk,
        OutputFault::Closed,
        OutputFault::NoReaderOfErrors,
        OutputFault::FullDiskForErrors,
        OutputFault::ClosedErrors,
    ] {
        let mut command = match fault {
            OutputFault::Closed => stage.through_shell(">&-", &arguments),
            OutputFault::ClosedErrors => stage.through_shell("2>&-", &arguments),
            _ => stage.command(&arguments),
        };
        match fault {
            OutputFault::NoReader => command.stdout(unread()),
            OutputFault::FullDisk => command.stdout(full()),
            OutputFault::NoReaderOfErrors => command.stderr(unread()),
            OutputFault::FullDiskForErrors => command.stderr(full()),
            _ => &mut command,
        };
        let requests = stage.path().join("requests");
        fs::File::create(&requests).unwrap().write_all(initialize().as_bytes()).unwrap();
        let ended = finish(command.stdin(Stdio::from(fs::File::open(&requests).unwrap())));
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_calm(&format!("run, {fault:?}"), ended.status, &stderr);
        assert_eq!(ended.status.code(), Some(0), "{fault:?}: {stderr}");
    }
}
