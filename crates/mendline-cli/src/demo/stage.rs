//! The processes of one side of a run: a server, and on one side Mendline before it.
//!
//! The ledgers, and the files that Mendline would keep, are in a temporary directory that only this user can read. It
//! is removed at the end.

use std::io::{BufRead, BufReader, Error, Result};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::fault::{Fault, Over};
use super::peer::Whom;
use super::stop;
use crate::demo_server::LEDGER;

/// Downtime of a restarted server.
const AWAY: Duration = Duration::from_millis(500);

/// Time limit for the start of a server, and for an entry of a ledger.
const TRIES: Duration = Duration::from_secs(5);

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
pub(super) struct Workshop {
    folder: PathBuf,
    program: PathBuf,
}

impl Workshop {
    pub(super) fn new() -> Result<Workshop> {
        let program = std::env::current_exe()?;
        let folder =
            std::env::temp_dir().join(format!("mendline-demo-{}-{:08x}", std::process::id(), fastrand::u32(..)));
        std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Workshop { folder, program })
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

impl Drop for Workshop {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// One side of a run.
pub(super) struct Stage<'a> {
    workshop: &'a Workshop,
    fault: Fault,
    side: Side,
    ledger: PathBuf,
    /// The server at a URL. A child belongs to its client or to Mendline.
    site: Arc<Mutex<Option<Site>>>,
    url: String,
}

impl<'a> Stage<'a> {
    /// Starts the server, if it is one at a URL.
    pub(super) fn open(workshop: &'a Workshop, fault: Fault, side: Side) -> Result<Stage<'a>> {
        let ledger = workshop.folder.join(format!("{}-{fault:?}", side.word()));
        std::fs::write(&ledger, "")?;
        let mut stage = Stage { workshop, fault, side, ledger, site: Arc::default(), url: String::new() };
        if fault.over() == Over::Http {
            let site = Site::start(&mut stage.server("0"))?;
            stage.url.clone_from(&site.url);
            *lock(&stage.site) = Some(site);
        }
        Ok(stage)
    }

    /// Returns the server of the client.
    pub(super) fn whom(&self) -> Whom {
        let over = self.fault.over();
        match self.side {
            Side::Plain if over == Over::Http => Whom::Url(self.url.clone()),
            Side::Plain => Whom::Process(self.server("")),
            Side::Mended => {
                let mut command = self.workshop.command(&self.ledger);
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
                match over {
                    Over::Http => command.arg(&self.url),
                    Over::Stdio => {
                        let server = self.server("");
                        command.arg("--").arg(server.get_program()).args(server.get_args())
                    }
                };
                Whom::Process(command)
            }
        }
    }

    /// Returns the command of the server; with a port, it serves HTTP.
    fn server(&self, port: &str) -> Command {
        let mut command = self.workshop.command(&self.ledger);
        command.arg("demo-server");
        if !port.is_empty() {
            command.args(["--http", port]);
        }
        for temper in self.fault.tempers() {
            command.arg("--temper").arg(temper);
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
            let deadline = Instant::now() + TRIES;
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
    pub(super) fn restart_site(&self) -> JoinHandle<bool> {
        // Dropping the server kills it.
        let was_there = lock(&self.site).take().is_some();
        let port = self.url.rsplit(':').next().and_then(|rest| rest.split('/').next()).unwrap_or_default();
        let (site, mut command) = (Arc::clone(&self.site), self.server(port));
        thread::spawn(move || {
            stop::sleep(AWAY);
            let deadline = Instant::now() + TRIES;
            while Instant::now() < deadline && !stop::is_wanted() {
                // The port may be in use for a moment.
                if let Ok(started) = Site::start(&mut command) {
                    *lock(&site) = Some(started);
                    return was_there;
                }
                stop::sleep(Duration::from_millis(100));
            }
            false
        })
    }
}

/// A server at a URL, killed on drop.
struct Site {
    process: Child,
    url: String,
}

impl Site {
    fn start(command: &mut Command) -> Result<Site> {
        // The server ends when its stdin closes, so it never outlives this process.
        let process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut site = Site { process, url: String::new() };
        let stdout = site.process.stdout.take().ok_or_else(|| Error::other("no stdout"))?;
        BufReader::new(stdout).read_line(&mut site.url)?;
        site.url.truncate(site.url.trim_end().len());
        if site.url.is_empty() { Err(Error::other("the server at a URL did not start")) } else { Ok(site) }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn kill_child(ledger: &Path) -> bool {
    let text = read(ledger);
    let pid = text.lines().rev().find_map(|line| line.strip_prefix("start ")?.parse().ok());
    pid.and_then(Pid::from_raw).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
}

fn read(ledger: &Path) -> String {
    std::fs::read_to_string(ledger).unwrap_or_default()
}

fn lock(site: &Mutex<Option<Site>>) -> MutexGuard<'_, Option<Site>> {
    site.lock().unwrap_or_else(PoisonError::into_inner)
}
