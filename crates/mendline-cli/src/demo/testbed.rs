//! The processes of one side of a run: a server, and on one side Mendline before it.
//!
//! The ledgers, and the files that Mendline would keep, are in a temporary directory that only this user can read. It
//! is removed at the end.

use std::io::{BufRead, BufReader, Error, Result};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mendline::os::files::create_private_directory;
use mendline::os::processes::kill;

use super::client::Target;
use super::fault::{Fault, Transport};
use super::stop;
use crate::demo_server::LEDGER;

/// Downtime of a restarted server.
const DOWNTIME: Duration = Duration::from_millis(500);

/// Time limit for the start of a server, and for an entry of a ledger.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// Side of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Plain,
    Mended,
}

impl Side {
    pub(super) const BOTH: [Side; 2] = [Side::Plain, Side::Mended];

    pub(super) fn word(self) -> &'static str {
        match self {
            Side::Plain => "plain",
            Side::Mended => "mendline",
        }
    }
}

/// Temporary directory of the demo, removed on drop.
pub(super) struct Workspace {
    folder: PathBuf,
    program: PathBuf,
}

impl Workspace {
    pub(super) fn new() -> Result<Workspace> {
        let program = std::env::current_exe()?;
        let folder =
            std::env::temp_dir().join(format!("mendline-demo-{}-{:08x}", std::process::id(), fastrand::u32(..)));
        create_private_directory(&folder)?;
        Ok(Workspace { folder, program })
    }

    /// Returns a command of our own program with an environment for the demo.
    fn command(&self, ledger: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.env(LEDGER, ledger);
        for name in ["MENDLINE_STATE_DIR", "MENDLINE_RUNTIME_DIR"] {
            command.env(name, self.folder.join("kept"));
        }
        // Proxies and configurations for real servers must not affect the demo.
        for name in ["HTTP_PROXY", "http_proxy", "MENDLINE_CONFIG", "MENDLINE_LOG"] {
            command.env_remove(name);
        }
        command
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// One side of a run.
pub(super) struct Testbed<'a> {
    workspace: &'a Workspace,
    fault: Fault,
    side: Side,
    ledger: PathBuf,
    /// The server at a URL. A child belongs to its client or to Mendline.
    http_server: Arc<Mutex<Option<HttpServer>>>,
    url: String,
}

impl<'a> Testbed<'a> {
    /// Starts the server, if it is one at a URL.
    pub(super) fn open(workspace: &'a Workspace, fault: Fault, side: Side) -> Result<Testbed<'a>> {
        let ledger = workspace.folder.join(format!("{}-{fault:?}", side.word()));
        std::fs::write(&ledger, "")?;
        let mut testbed = Testbed { workspace, fault, side, ledger, http_server: Arc::default(), url: String::new() };
        if fault.transport() == Transport::Http {
            let http_server = HttpServer::start(&mut testbed.server("0"))?;
            testbed.url.clone_from(&http_server.url);
            *lock(&testbed.http_server) = Some(http_server);
        }
        Ok(testbed)
    }

    /// Returns the server of the client.
    pub(super) fn target(&self) -> Target {
        let transport = self.fault.transport();
        match self.side {
            Side::Plain if transport == Transport::Http => Target::Url(self.url.clone()),
            Side::Plain => Target::Process(self.server("")),
            Side::Mended => {
                let mut command = self.workspace.command(&self.ledger);
                command.args([
                    "run",
                    "--name",
                    "demo",
                    "--log-level",
                    "off",
                    "--no-log-files",
                    "--no-catalogue",
                    "--startup",
                    "wait",
                ]);
                command.args(self.fault.flags());
                match transport {
                    Transport::Http => command.arg(&self.url),
                    Transport::Stdio => {
                        let server = self.server("");
                        command.arg("--").arg(server.get_program()).args(server.get_args())
                    }
                };
                Target::Process(command)
            }
        }
    }

    /// Returns the command of the server; with a port, it serves HTTP.
    fn server(&self, port: &str) -> Command {
        let mut command = self.workspace.command(&self.ledger);
        command.arg("demo-server");
        if !port.is_empty() {
            command.args(["--http", port]);
        }
        for fault in self.fault.server_faults() {
            command.arg("--fault").arg(fault);
        }
        command
    }

    /// Returns the ledger of the server.
    pub(super) fn ledger(&self) -> String {
        read(&self.ledger)
    }

    /// Kills the child that started last. Returns whether there was one.
    pub(super) fn kill_child(&self) -> bool {
        kill_child(&self.ledger)
    }

    /// Kills the child as soon as it has run this call. The thread returns whether that happened.
    pub(super) fn kill_child_once_it_ran(&self, tool: &str, key: &str) -> JoinHandle<bool> {
        let (ledger, ran) = (self.ledger.clone(), format!("executed {tool} {key} "));
        thread::spawn(move || {
            let deadline = Instant::now() + START_TIMEOUT;
            while Instant::now() < deadline && !stop::is_wanted() {
                if read(&ledger).contains(&ran) {
                    return kill_child(&ledger);
                }
                thread::sleep(Duration::from_millis(2));
            }
            false
        })
    }

    /// Kills the server at the URL, and restarts it after a delay. The thread returns whether that happened.
    pub(super) fn restart_http_server(&self) -> JoinHandle<bool> {
        // Dropping the server kills it.
        let was_there = lock(&self.http_server).take().is_some();
        let port = self.url.rsplit(':').next().and_then(|rest| rest.split('/').next()).unwrap_or_default();
        let (http_server, mut command) = (Arc::clone(&self.http_server), self.server(port));
        thread::spawn(move || {
            stop::sleep(DOWNTIME);
            let deadline = Instant::now() + START_TIMEOUT;
            while Instant::now() < deadline && !stop::is_wanted() {
                // The port may be in use for a moment.
                if let Ok(started) = HttpServer::start(&mut command) {
                    *lock(&http_server) = Some(started);
                    return was_there;
                }
                stop::sleep(Duration::from_millis(100));
            }
            false
        })
    }
}

/// A server at a URL, killed on drop.
struct HttpServer {
    process: Child,
    url: String,
}

impl HttpServer {
    fn start(command: &mut Command) -> Result<HttpServer> {
        // The server ends when its stdin closes, so it never outlives this process.
        let process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut http_server = HttpServer { process, url: String::new() };
        let stdout = http_server.process.stdout.take().ok_or_else(|| Error::other("no stdout"))?;
        BufReader::new(stdout).read_line(&mut http_server.url)?;
        http_server.url.truncate(http_server.url.trim_end().len());
        if http_server.url.is_empty() {
            Err(Error::other("the server at a URL did not start"))
        } else {
            Ok(http_server)
        }
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn kill_child(ledger: &Path) -> bool {
    let text = read(ledger);
    let pid = text.lines().rev().find_map(|line| line.strip_prefix("start ")?.parse().ok());
    pid.is_some_and(kill)
}

fn read(ledger: &Path) -> String {
    std::fs::read_to_string(ledger).unwrap_or_default()
}

fn lock(http_server: &Mutex<Option<HttpServer>>) -> MutexGuard<'_, Option<HttpServer>> {
    http_server.lock().unwrap_or_else(PoisonError::into_inner)
}
