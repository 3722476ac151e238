//! The server of one cell, whose outage begins and ends when the cell says so.
//!
//! A URL is the fault server with an [`Outage`](mendline_faults::Outage). A command is [`crate::command_server`], which
//! reads its behaviour from a file. Both count executions and starts where they happen.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mendline_faults::{Answers, Authority, Certificate, Era, Server, Settings};
use rustix::process::{Pid, Signal};
use tokio::time::Instant;

use crate::cell::Cell;
use crate::command_server::{self, Behaviour};
use crate::form::Form;
use crate::observed::{Arrival, Observed};
use crate::syn_counter::SynCounter;

/// The interval of looking at files.
const GLANCE: Duration = Duration::from_millis(10);

/// The time that a busy machine gives to the counter of dials.
const CATCH_UP: Duration = Duration::from_secs(5);

/// The server of one cell.
pub(crate) enum Site {
    Url { server: Server, certificate: Option<PathBuf>, form: Form },
    Command { folder: PathBuf, form: Form },
}

/// How `mendline run` reaches a server.
pub(crate) struct Target {
    /// The last arguments: the URL, or the command.
    pub(crate) arguments: Vec<String>,
    /// Variables that it needs.
    pub(crate) environment: Vec<(&'static str, String)>,
}

impl Site {
    /// Starts the server without an outage.
    pub(crate) async fn start(cell: &Cell, folder: &Path) -> Result<Site, String> {
        let failed = |why: std::io::Error| format!("the server of the cell did not start: {why}");
        let form = cell.form;
        if form.is_command() {
            command_server::set(folder, Behaviour::Good).map_err(failed)?;
            return Ok(Site::Command { folder: folder.to_owned(), form });
        }
        // With a session the server answers with events and cannot resume them, as the SDKs do unless they are told to.
        let settings = Settings {
            era: Era::Legacy,
            sessions: cell.has_session,
            answers: if cell.has_session { Answers::Events } else { Answers::Json },
            ids: false,
            prime: false,
            ..Settings::default()
        };
        if form != Form::TlsAlert {
            let server = Server::start(settings).await.map_err(failed)?;
            return Ok(Site::Url { server, certificate: None, form });
        }
        let authority = Authority::new("An authority for outages").map_err(failed)?;
        let identity = authority.issue(Certificate { host: "127.0.0.1", until: 2200 }).map_err(failed)?;
        let certificate = folder.join("authority.pem");
        fs::write(&certificate, authority.pem()).map_err(failed)?;
        let server = Server::start_secure(settings, identity).await.map_err(failed)?;
        Ok(Site::Url { server, certificate: Some(certificate), form })
    }

    /// Returns how `mendline run` reaches the server.
    pub(crate) fn target(&self) -> Result<Target, String> {
        match self {
            Site::Url { server, certificate, .. } => {
                let trust = certificate.iter().map(|path| ("NODE_EXTRA_CA_CERTS", path.to_string_lossy().into_owned()));
                Ok(Target { arguments: vec![server.url()], environment: trust.collect() })
            }
            Site::Command { folder, .. } => {
                let this = std::env::current_exe().map_err(|why| format!("cannot find this program: {why}"))?;
                let words = ["--", &this.to_string_lossy(), command_server::WORD, &folder.to_string_lossy()];
                Ok(Target { arguments: words.map(str::to_owned).to_vec(), environment: Vec::new() })
            }
        }
    }

    /// Waits until the counter has seen every connection so far, so that none of them counts for the outage.
    pub(crate) async fn settle_dials(&self, counter: Option<&SynCounter>) {
        let (Site::Url { server, .. }, Some(counter)) = (self, counter) else { return };
        let until = Instant::now() + CATCH_UP;
        let is_behind = || counter.dials_of(server.address().port()).len() < server.timeline().connections.len();
        while is_behind() && Instant::now() < until {
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Begins the outage. A running command is killed.
    pub(crate) fn begin(&self) -> Result<(), String> {
        match self {
            Site::Url { server, form, .. } => {
                if form.loses_sessions() {
                    server.forget_sessions();
                }
                server.hold_calls(false);
                server.begin_outage(form.outage().ok_or("a URL has an outage of the fault server")?);
            }
            Site::Command { folder, form } => {
                let behaviour = match form {
                    Form::ExitsAtStart => Behaviour::ExitsAtStart,
                    Form::HangsAtStart => Behaviour::HangsAtStart,
                    _ => Behaviour::DiesAtCall,
                };
                command_server::set(folder, behaviour).map_err(|why| why.to_string())?;
                // The last process that this cell has started; it may have ended already.
                let last = self.starts().last().map(|(pid, _)| *pid).filter(|pid| is_of(*pid, folder));
                if let Some(pid) = last.and_then(Pid::from_raw) {
                    let _ = rustix::process::kill_process(pid, Signal::KILL);
                }
            }
        }
        Ok(())
    }

    /// Ends the outage. A command that hangs goes on hanging; its next start works.
    pub(crate) fn end(&self) -> Result<(), String> {
        match self {
            Site::Url { server, .. } => server.end_outage(),
            Site::Command { folder, .. } => {
                command_server::set(folder, Behaviour::Good).map_err(|why| why.to_string())?;
            }
        }
        Ok(())
    }

    /// Lets calls wait at the server without running, where the outage will refuse them. A call that ran cannot be
    /// refused.
    pub(crate) fn hold_calls(&self) {
        if let Site::Url { server, form, .. } = self {
            server.hold_calls(form.refuses_calls());
        }
    }

    /// Waits until these calls are at the server. Returns whether they came in time.
    pub(crate) async fn has_received(&self, keys: &[String], until: Instant) -> bool {
        loop {
            let received = match self {
                Site::Url { server, .. } => {
                    let requests = server.timeline().requests;
                    keys.iter().all(|key| requests.iter().any(|arrival| arrival.key.as_ref() == Some(key)))
                }
                Site::Command { .. } => {
                    let executions = self.executions();
                    keys.iter().all(|key| executions.contains_key(key))
                }
            };
            if received || Instant::now() > until {
                return received;
            }
            tokio::time::sleep(GLANCE).await;
        }
    }

    fn executions(&self) -> BTreeMap<String, u64> {
        match self {
            Site::Url { server, .. } => server.oracle().counts().executions,
            Site::Command { folder, .. } => {
                let mut executions = BTreeMap::new();
                for key in command_server::lines(folder).iter().filter_map(|line| line.strip_prefix("executed ")) {
                    *executions.entry(key.to_owned()).or_default() += 1;
                }
                executions
            }
        }
    }

    /// Returns the pid and the time of every start of the command.
    fn starts(&self) -> Vec<(i32, SystemTime)> {
        let Site::Command { folder, .. } = self else { return Vec::new() };
        let start = |line: &String| {
            let (pid, milliseconds) = line.strip_prefix("start ")?.split_once(' ')?;
            Some((pid.parse().ok()?, UNIX_EPOCH + Duration::from_millis(milliseconds.parse().ok()?)))
        };
        command_server::lines(folder).iter().filter_map(start).collect()
    }

    /// Adds what the server knows to the facts of the cell.
    pub(crate) fn report(&self, epoch: Instant, counter: Option<&SynCounter>, observed: &mut Observed) {
        observed.executions = self.executions();
        match self {
            Site::Url { server, form, .. } => {
                let timeline = server.timeline();
                let since = |at: &Instant| at.saturating_duration_since(epoch);
                observed.dials = match (form, counter) {
                    (_, Some(counter)) => Some(counter.dials_of(server.address().port()).iter().map(since).collect()),
                    (Form::Refused, None) => None,
                    (_, None) => Some(timeline.connections.iter().map(since).collect()),
                };
                observed.elsewhere = server.oracle().counts().elsewhere.len();
                let arrival = |request: &mendline_faults::Arrival| Arrival {
                    at: since(&request.at),
                    what: if request.verb == "POST" { request.method.clone() } else { request.verb.clone() },
                    key: request.key.clone(),
                    met_outage: request.met_outage,
                };
                observed.arrivals = timeline.requests.iter().map(arrival).collect();
            }
            Site::Command { .. } => {
                let began = SystemTime::now() - epoch.elapsed();
                let since = |(_, at): &(i32, SystemTime)| at.duration_since(began).unwrap_or_default();
                observed.dials = Some(self.starts().iter().map(since).collect());
            }
        }
    }
}

/// Returns whether this is a process of the command in this folder, and not another one with its old number.
fn is_of(pid: i32, folder: &Path) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).any(|word| word == folder.as_os_str().as_encoded_bytes())
}
