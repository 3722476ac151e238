//! The live screen in a real terminal with real processes: its content, its keys, and its exit.

use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::client::{MENDLINE, eventually, kill};
use crate::stage::{LATER, Stage, child, kind};
use crate::terminal::Terminal;

impl Stage {
    /// Starts the live screen in its own terminal.
    fn watch(&self) -> Terminal {
        let terminal = Terminal::start(&self.command(&["status", "--watch", "--interval", "200ms"]), 120, 30);
        terminal.until_page(true);
        terminal
    }

    /// Returns a shell command with the environment of this stage.
    fn shell(&self, command: &[&str]) -> Command {
        let mut shell = Command::new(command[0]);
        shell.args(&command[1..]).env("MENDLINE", MENDLINE);
        for (name, value) in self.command(&[]).get_envs() {
            value.map(|value| shell.env(name, value));
        }
        shell
    }
}

/// Returns the state letter of a process; T means stopped.
fn state_of(id: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Returns the only child of a process.
fn child_of(parent: u32) -> i32 {
    let mut pids =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let is_child = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent_of = |rest: &str| rest.split_whitespace().nth(1).and_then(|parent| parent.parse().ok());
        stat.rsplit_once(')').and_then(|(_, rest)| parent_of(rest)) == Some(parent)
    };
    pids.find(is_child).unwrap()
}

#[test]
fn watch_shows_server_and_keys_control_it() {
    let stage = Stage::new();
    let _bridge = stage.bridge("notes");
    let before = child(&stage.server("notes"));
    let terminal = stage.watch();
    terminal.until("1 server: 1 ready");
    terminal.until("▸ notes");
    terminal.until("used by     test 1");
    terminal.press("r");
    terminal.until("notes reconnects");
    stage.until("notes", "another child is ready", |server| kind(server) == "ready" && child(server) != before);
    terminal.until("session replayed");
    terminal.press("i");
    terminal.until("Isolate notes? y/n");
    terminal.press("y");
    terminal.until("1 isolated");
    assert_eq!(kind(&stage.server("notes")), "isolated");
    terminal.press("i");
    terminal.until("notes is resumed");
    stage.until("notes", "it is back", |server| kind(server) != "isolated");
}

#[test]
fn watch_shows_processes_that_start_and_end() {
    let stage = Stage::new();
    let terminal = stage.watch();
    terminal.until("No Mendline is running.");
    let bridge = stage.bridge("notes");
    terminal.until("1 server: 1 ready");
    let _other = stage.bridge("files");
    terminal.until("2 servers: 2 ready");
    terminal.until("files  has started");
    drop(bridge);
    terminal.until("1 server: 1 ready");
    terminal.until("notes  has ended");
}

#[test]
fn hanging_process_does_not_freeze_watch() {
    let stage = Stage::new();
    let bridge = stage.bridge("notes");
    let _other = stage.bridge("files");
    let terminal = stage.watch();
    terminal.until("2 servers: 2 ready");
    bridge.signal(Signal::STOP);
    terminal.until("does not answer");
    terminal.until("2 servers: 1 ready, 1 unresponsive");
    terminal.press("?");
    terminal.until("any key returns");
    terminal.press("x");
    terminal.press("jr");
    // The screen reports an answer that does not come, and its keys continue to work.
    terminal.press("s");
    terminal.until("by state");
    terminal.until("notes: it does not answer");
    bridge.signal(Signal::CONT);
    terminal.until("2 servers: 2 ready");
}

#[test]
fn watch_restores_terminal_after_key_and_signal() {
    let stage = Stage::new();
    let _bridge = stage.bridge("notes");
    type Quit<'a> = &'a dyn Fn(&Terminal);
    let ways: [(&str, Quit<'_>); 4] = [
        ("q", &|terminal| terminal.press("q")),
        ("Ctrl-C", &|terminal| terminal.press("\x03")),
        ("TERM", &|terminal| terminal.signal(Signal::TERM)),
        ("INT", &|terminal| terminal.signal(Signal::INT)),
    ];
    // A terminal without changes.
    let untouched = Terminal::start(&Command::new("true"), 120, 30).modes();
    for (way, leave) in ways {
        let mut terminal = stage.watch();
        terminal.until("1 server: 1 ready");
        assert_ne!(terminal.modes(), untouched, "it is in raw mode meanwhile");
        leave(&terminal);
        let ended = terminal.process.wait().unwrap();
        assert!(ended.success(), "{way}: {ended:?}");
        eventually(way, LATER, || terminal.is_usual());
        assert_eq!(terminal.modes(), untouched, "{way}");
    }
}

#[test]
fn watch_suspends_to_shell_and_resumes() {
    let stage = Stage::new();
    let _bridge = stage.bridge("notes");
    let terminal = Terminal::start(&stage.shell(&["sh", "-i"]), 120, 30);
    terminal.press("stty -g > \"$HOME/before\"\r");
    terminal.press("\"$MENDLINE\" status --watch\r");
    terminal.until_page(true);
    terminal.until("1 server: 1 ready");
    terminal.press("\x1a");
    terminal.until_page(false);
    assert!(terminal.is_usual());
    terminal.press("echo in the $((1+1))nd shell; stty -g > \"$HOME/between\"\r");
    terminal.until("in the 2nd shell");
    terminal.press("fg\r");
    terminal.until_page(true);
    terminal.until("▸ notes");
    // The same with a signal from another process.
    kill(child_of(terminal.process.id()), Signal::TSTP);
    terminal.until_page(false);
    terminal.press("echo in the $((1+2))rd shell\r");
    terminal.until("in the 3rd shell");
    terminal.press("fg\r");
    terminal.until_page(true);
    terminal.until("▸ notes");
    terminal.press("q");
    terminal.until_page(false);
    let read = |name: &str| std::fs::read_to_string(stage.folder().join(name)).unwrap();
    terminal.press("stty -g > \"$HOME/after\"; echo that was $((6*7))\r");
    terminal.until("that was 42");
    assert!(!read("before").is_empty());
    assert_eq!(read("before"), read("between"));
    assert_eq!(read("before"), read("after"));
}

/// The session leader is outside of the namespace and has no pid inside. The test is skipped, with the reason printed,
/// only where the kernel does not allow namespaces.
#[test]
fn watch_suspends_to_container_shell_and_resumes() {
    let isolated = ["unshare", "--map-root-user", "--pid", "--mount-proc", "--fork", "--kill-child"];
    let attempt = Command::new(isolated[0]).args(&isolated[1..]).arg("true").output().expect("unshare, of util-linux");
    if !attempt.status.success() {
        println!("left out, no namespaces here: {}", String::from_utf8_lossy(&attempt.stderr));
        return;
    }
    let stage = Stage::new();
    let _bridge = stage.bridge("notes");
    let terminal = Terminal::start(&stage.shell(&[&isolated[..], &["sh", "-i"]].concat()), 120, 30);
    terminal.press("\"$MENDLINE\" status --watch\r");
    terminal.until("1 server: 1 ready");
    terminal.press("\x1a");
    terminal.until_page(false);
    terminal.press("echo in the $((1+1))nd shell\r");
    terminal.until("in the 2nd shell");
    terminal.press("fg\r");
    terminal.until_page(true);
    terminal.until("▸ notes");
}

#[test]
fn watch_ends_when_terminal_closes() {
    let stage = Stage::new();
    let _bridge = stage.bridge("notes");
    let mut terminal = stage.watch();
    terminal.until("1 server: 1 ready");
    terminal.close();
    let mut ended = None;
    eventually("it ends", LATER, || {
        ended = terminal.process.try_wait().unwrap();
        ended.is_some()
    });
    let code = ended.unwrap().code();
    assert!(matches!(code, Some(0 | 1)), "it ended by itself, and in order: {ended:?}");
}

#[test]
fn watch_without_shell_does_not_suspend() {
    let stage = Stage::new();
    let _bridge = stage.bridge("notes");
    let terminal = stage.watch();
    terminal.until("1 server: 1 ready");
    terminal.press("\x1a");
    terminal.until("there is no shell to suspend to");
    assert_ne!(state_of(terminal.process.id()), Some('T'));
    terminal.press("?");
    terminal.until("any key returns");
}

#[test]
fn watch_follows_terminal_resize() {
    let stage = Stage::new();
    let _bridge = stage.bridge("notes");
    let terminal = stage.watch();
    terminal.until("── events");
    terminal.resize(20, 5);
    terminal.until("40×8 needed");
    terminal.resize(60, 15);
    terminal.until("▸ notes");
    terminal.until("── events");
}

#[test]
fn watch_without_terminal_names_alternative() {
    let stage = Stage::new();
    let printed = stage.query(&["status", "--watch"]);
    assert_eq!((printed.code, printed.stdout.as_str()), (Some(2), ""));
    assert!(printed.stderr.contains("stdout is not a terminal"), "{printed:?}");
    assert!(printed.stderr.contains("`mendline status`") && printed.stderr.contains("--json"), "{printed:?}");
    let mut dumb = stage.command(&["status", "--watch"]);
    dumb.env("TERM", "dumb");
    Terminal::start(&dumb, 120, 30).until("TERM is not set, or dumb");
}

#[test]
fn u08_escape_does_not_quit() {
    let stage = Stage::new();
    let _bridge = stage.bridge("notes");
    let mut terminal = stage.watch();
    terminal.until("1 server: 1 ready");
    terminal.press("\x1b");
    terminal.until("q quits");
    terminal.press("?");
    terminal.until("Esc goes back");
    terminal.press("\x1b");
    terminal.until("▸ notes");
    assert!(terminal.process.try_wait().unwrap().is_none(), "it runs");
    terminal.press("q");
    terminal.until_page(false);
}

#[test]
fn u07_log_on_a_terminal_has_local_times() {
    let stage = Stage::new();
    let state = stage.folder().join("state");
    let mut command = stage.command(&["run", "--name", "notes", "--startup", "wait", "--", MENDLINE, "demo-server"]);
    let mut client = crate::client::Client::start(command.env("MENDLINE_STATE_DIR", &state).stdin(Stdio::piped()));
    client.read_log();
    client.initialize();
    let mut logs = stage.command(&["logs", "--json", "--grep", "ready after"]);
    let mut time = String::new();
    eventually("the line is in the log", LATER, || {
        let output = logs.env("MENDLINE_STATE_DIR", &state).output().unwrap();
        let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        time = line["time"].as_str().unwrap_or_default().to_owned();
        !time.is_empty()
    });
    let mut logs = stage.command(&["logs", "--grep", "ready after"]);
    // 50 minutes ahead of UTC: no zone of a machine where the test runs.
    logs.env("MENDLINE_STATE_DIR", &state).env("TZ", "XXX-0:50");
    let screen = Terminal::start(&logs, 120, 30).until("ready after");
    let (hour, minute) = (time[11..13].parse::<u32>().unwrap(), time[14..16].parse::<u32>().unwrap());
    let local = (hour * 60 + minute + 50) % (24 * 60);
    let expected = format!(" {:02}:{:02}:{} INFO", local / 60, local % 60, &time[17..23]);
    assert!(screen.contains(&expected) && !screen.contains('Z'), "{expected} of {time}:\n{screen}");
}
