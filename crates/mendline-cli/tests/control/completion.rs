//! Completion in real shells, with servers that are configured, that run, or that ran before.
//!
//! In the shell a function replaces `mendline` and writes each argument in brackets; the completion scripts call the
//! real binary. A shell that is not installed is skipped, and the test prints this.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{Client, MENDLINE, STATE, kill};
use crate::stage::{LATER, Stage};
use crate::terminal::Terminal;

/// A server name that a shell must not execute.
const NASTY: &str = "x$(touch pwned)`touch pwned`;touch 'pwned\" *";

/// Creates a home with configured servers, some with names that need quoting.
fn home() -> Stage {
    let stage = Stage::new();
    let entry = || json!({ "command": MENDLINE, "args": ["demo-server"] });
    let mut servers = json!({
        "notes": entry(),
        "my notes": entry(),
        "plugin:git:hub": entry(),
        "zz\u{1b}[2J": entry(),
        "nowhere": { "command": "x", "disabled": true },
    });
    servers[NASTY] = entry();
    fs::create_dir(stage.folder().join("mendline")).unwrap();
    configure(&stage, "mendline/config.json", &servers);
    configure(&stage, "other.json", &json!({ "elsewhere": entry() }));
    fs::create_dir(stage.folder().join(".cursor")).unwrap();
    configure(&stage, ".cursor/mcp.json", &json!({ "wrapped": entry() }));
    stage
}

fn configure(stage: &Stage, file: &str, servers: &Value) {
    fs::write(stage.folder().join(file), json!({ "mcpServers": servers }).to_string()).unwrap();
}

/// A shell in a terminal, with the completions of Mendline.
struct ShellSession {
    terminal: Terminal,
    started: PathBuf,
}

impl ShellSession {
    /// Starts this shell, or returns nothing if it is not installed.
    #[expect(clippy::print_stdout, reason = "a skipped test prints the reason")]
    fn at(shell: &str, stage: &Stage) -> Option<ShellSession> {
        if Command::new(shell).arg("--version").output().is_err() {
            println!("left out: {shell} is not installed");
            return None;
        }
        let at = |name: &str| stage.folder().join(name);
        let put = |name: &str, text: &str| {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), text).unwrap();
        };
        let script = stage.query(&["completions", shell]).stdout;
        let mut command = Command::new(shell);
        command.arg("-i");
        let prepare = "cd ~/empty; PS1='ready> '; mendline() { { printf '<%s>' \"$@\"; echo; } >>~/started; }\n";
        match shell {
            "bash" => {
                put("script", &script);
                put(".bashrc", &format!("source ~/script; {prepare}"));
            }
            "zsh" => {
                put("functions/_mendline", &script);
                put(".zshrc", &format!("fpath=(~/functions $fpath); autoload -Uz compinit; compinit -u -D; {prepare}"));
            }
            _ => {
                put("fish/completions/mendline.fish", &script);
                let prompt = "function fish_prompt; echo 'ready> '; end";
                let mendline = "function mendline; begin; printf '<%s>' $argv; echo; end >>~/started; end";
                put("fish/config.fish", &format!("cd ~/empty; {prompt}; {mendline}\n"));
            }
        }
        fs::create_dir_all(at("empty")).unwrap();
        fs::create_dir_all(at("bin")).unwrap();
        symlink(MENDLINE, at("bin/mendline")).unwrap();
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", at("bin").display())).env("LC_ALL", "C.UTF-8");
        let ours = stage.command(&[]);
        command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env(STATE, at("state")).env_remove("MENDLINE_CONFIG").env_remove("ZDOTDIR");
        let terminal = Terminal::start(&command, 160, 50);
        terminal.until("ready>");
        Some(ShellSession { terminal, started: at("started") })
    }

    /// Types keys after the command name and returns the arguments that a program would get.
    fn type_keys(&self, keys: &str) -> String {
        let started = || fs::read_to_string(&self.started).unwrap_or_default();
        let before = started().lines().count();
        self.terminal.press(&format!("mendline {keys}\r"));
        self.terminal.until_fact(keys, || started().lines().count() > before);
        started().lines().last().unwrap().to_owned()
    }

    /// Types the keys until the condition holds, because completion gives up on names that do not arrive quickly on a
    /// busy machine. Returns the last result.
    fn type_keys_until(&self, keys: &str, is_so: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + LATER;
        loop {
            let typed = self.type_keys(keys);
            if is_so(&typed) || Instant::now() > deadline {
                return typed;
            }
        }
    }
}

fn names_and_values_are_completed(shell: &str) {
    let stage = home();
    let Some(typist) = ShellSession::at(shell, &stage) else { return };
    for (keys, expected) in [
        ("run no\t", "<run><notes>"),
        ("doctor --timeout 5s no\t", "<doctor><--timeout><5s><notes>"),
        ("tools my\t", "<tools><my notes>"),
        ("tools my\\ no\t", "<tools><my notes>"),
        ("tools 'my no\t", "<tools><my notes>"),
        ("tools \"my no\t", "<tools><my notes>"),
        ("call pl\t", "<call><plugin:git:hub>"),
        ("call plugin:gi\t", "<call><plugin:git:hub>"),
        ("run --config ~/other.json el\t", "<elsewhere>"),
        ("run --config=../other.json el\t", "<elsewhere>"),
        // A word that is not a server name is not offered.
        ("run zz\t", "<run><zz>"),
        ("run -- no\t", "<run><--><no>"),
        ("call notes no\t", "<call><notes><no>"),
        ("run --call-timeout no\t", "<run><--call-timeout><no>"),
        // The values of options.
        ("logs --level de\t", "<logs><--level><debug>"),
        ("run --log-level wa\t", "<run><--log-level><warn>"),
        ("wrap --client cur\t", "<wrap><--client><cursor>"),
        ("wrap --scope pro\t", "<wrap><--scope><project>"),
        ("unwrap --server wra\t", "<unwrap><--server><wrapped>"),
        ("man sch\t", "<man><schema>"),
    ] {
        let typed = typist.type_keys_until(keys, |typed| typed.ends_with(expected));
        assert!(typed.ends_with(expected), "{shell}: {keys:?} became {typed}");
    }
    for keys in ["run x\t", "run \"x\t", "run 'x\t"] {
        let expected = format!("<run><{NASTY}>");
        assert_eq!(typist.type_keys_until(keys, |typed| typed == expected), expected, "{shell}: {keys:?}");
    }
    assert!(!stage.folder().join("empty/pwned").exists(), "{shell} took a name for a command");
}

fn what_runs_and_what_ran_is_completed(shell: &str) {
    let stage = home();
    let Some(typist) = ShellSession::at(shell, &stage) else { return };
    let state = stage.folder().join("state");
    let run = |name: &str| {
        let mut command = stage.command(&["run", "--name", name, "--", MENDLINE, "demo-server"]);
        let mut client = Client::start(command.env(STATE, &state).stdin(Stdio::piped()));
        client.initialize();
        client
    };
    let (_swift, _still) = (run("swift"), run("still"));
    let mut gone = run("gone");
    gone.stdin = None;
    assert_eq!(gone.exit_code(LATER), Some(0));
    used(&stage, "notes");
    assert_eq!(stage.control(&["isolate", "still"]).code, Some(0));
    for (keys, expected) in [
        ("status sw\t", "<status><swift>"),
        ("reconnect --no-wait sw\t", "<reconnect><--no-wait><swift>"),
        ("status --probe no\t", "<status><--probe><notes>"),
        ("isolate s\t", "<isolate><swift>"),
        ("resume s\t", "<resume><still>"),
        ("logs -f go\t", "<logs><-f><gone>"),
        ("call notes cre\t", "<call><notes><create_note>"),
        ("call --json notes --timeout 5s lo\t", "<call><--json><notes><--timeout><5s><lookup>"),
        ("tools 'notes' bi\t", "<tools><notes><big>"),
        // Arguments of the tool are not completed, and the other server has no cached tools.
        ("call notes lookup lo\t", "<call><notes><lookup><lo>"),
        ("call elsewhere cre\t", "<call><elsewhere><cre>"),
        // A server that is only configured cannot be controlled.
        ("reconnect no\t", "<reconnect><no>"),
    ] {
        assert_eq!(typist.type_keys_until(keys, |typed| typed == expected), expected, "{shell}: {keys:?}");
    }
}

/// Runs this configured server once from the directory of the shell, so that its tools are cached.
fn used(stage: &Stage, name: &str) {
    let mut command = stage.command(&["run", name]);
    command.current_dir(stage.folder().join("empty")).env(STATE, stage.folder().join("state"));
    let mut client = Client::start(command.stdin(Stdio::piped()));
    client.initialize();
    client.stdin = None;
    assert_eq!(client.exit_code(LATER), Some(0));
}

#[test]
fn u09_bash_completes_names_and_values() {
    names_and_values_are_completed("bash");
    what_runs_and_what_ran_is_completed("bash");
}

#[test]
fn u09_zsh_completes_names_and_values() {
    names_and_values_are_completed("zsh");
    what_runs_and_what_ran_is_completed("zsh");
}

#[test]
fn u09_fish_completes_names_and_values() {
    names_and_values_are_completed("fish");
    what_runs_and_what_ran_is_completed("fish");
}

#[test]
fn servers_with_same_name_are_completed_with_pid() {
    let stage = Stage::new();
    let bridges = [stage.bridge("notes"), stage.bridge("notes")];
    let mut pids = bridges.each_ref().map(|bridge| bridge.process.id());
    pids.sort_unstable();
    let names = format!("notes\nnotes#{}\nnotes#{}\n", pids[0], pids[1]);
    stage.query_until(&["completions", "--names", "mendline reconnect "], |printed| printed.stdout == names);
}

#[test]
fn completion_is_fast_and_prints_no_error() {
    let stage = Stage::new();
    let hung = stage.bridge("hung");
    kill(hung.process.id().try_into().unwrap(), Signal::STOP);
    let pipe = stage.folder().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    fs::write(stage.folder().join("broken"), "{ \"mcpServers\": [").unwrap();
    for (line, code, names) in [
        ("mendline reconnect ", 0, "hung\n"),
        (&*format!("mendline run --config {} ", pipe.display()), 0, ""),
        (&*format!("mendline run --config {}/broken ", stage.folder().display()), 0, ""),
        (&*format!("mendline run --config {}/none ", stage.folder().display()), 0, ""),
        ("mendline run ", 0, ""),
        ("mendline logs ", 0, ""),
        ("mendline run --", 1, ""),
        ("nonsense \u{1b} '", 1, ""),
        ("", 1, ""),
    ] {
        let printed = stage.query(&["completions", "--names", line]);
        assert_eq!((printed.code, printed.stdout.as_str(), printed.stderr.as_str()), (Some(code), names, ""), "{line}");
        assert!(printed.took < Duration::from_secs(5), "{line}: {:?}", printed.took);
    }
    kill(hung.process.id().try_into().unwrap(), Signal::CONT);
}
