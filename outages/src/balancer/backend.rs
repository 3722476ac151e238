//! The server behind the balancer. It can be stopped and started again on the same port.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use mendline_faults::{Answers, Era, Outage, Server, Settings};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpSocket;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use super::ServerKind;
use crate::play::Stage;

/// The time for the start of a Python process on a busy machine.
const START: Duration = Duration::from_secs(60);

/// The interval of looking at counts.
const GLANCE: Duration = Duration::from_millis(10);

/// A running or stopped backend.
pub(super) enum Backend {
    Faults(Server),
    Python(PythonServer),
}

/// A server on the Python SDK.
pub(super) struct PythonServer {
    python: PathBuf,
    ledger: PathBuf,
    port: u16,
    process: Option<Child>,
    /// Bound to the port without a listener, so that no other process gets it while the server is down.
    _place: TcpSocket,
}

impl Backend {
    pub(super) async fn start(kind: ServerKind, stage: &Stage, folder: &Path) -> Result<Backend, String> {
        match kind {
            ServerKind::Faults => {
                let settings = Settings { era: Era::Legacy, answers: Answers::Json, ..Settings::default() };
                let server = Server::start(settings).await.map_err(|why| why.to_string())?;
                Ok(Backend::Faults(server))
            }
            ServerKind::Python => {
                let python = stage.folder.with_file_name("peers").join("python-2/bin/python");
                if !python.exists() {
                    return Err(format!("{} is missing: run `cargo xtask peers --install`", python.display()));
                }
                let (place, port) = reserve()?;
                let ledger = folder.join("ledger.txt");
                let mut server = PythonServer { python, ledger, port, process: None, _place: place };
                server.start().await?;
                Ok(Backend::Python(server))
            }
        }
    }

    pub(super) fn port(&self) -> u16 {
        match self {
            Backend::Faults(server) => server.address().port(),
            Backend::Python(server) => server.port,
        }
    }

    /// Stops it like a crash: connections end, and the port is refused.
    pub(super) async fn stop(&mut self) {
        match self {
            Backend::Faults(server) => {
                server.forget_sessions();
                server.begin_outage(Outage::Refused);
            }
            Backend::Python(server) => {
                if let Some(mut process) = server.process.take() {
                    let _ = process.kill().await;
                }
            }
        }
    }

    /// Starts it again, and waits until it listens.
    pub(super) async fn restart(&mut self) -> Result<(), String> {
        match self {
            Backend::Faults(server) => {
                server.end_outage();
                Ok(())
            }
            Backend::Python(server) => server.start().await,
        }
    }

    /// Returns how often each call ran.
    pub(super) fn executions(&self) -> BTreeMap<String, u64> {
        match self {
            Backend::Faults(server) => server.oracle().counts().executions,
            Backend::Python(server) => {
                let mut executions = BTreeMap::new();
                let text = fs::read_to_string(&server.ledger).unwrap_or_default();
                for key in text.lines().filter_map(|line| line.strip_prefix("executed ")) {
                    *executions.entry(key.to_owned()).or_default() += 1;
                }
                executions
            }
        }
    }

    /// Waits until these calls have begun. Returns whether they did in time.
    pub(super) async fn has_run(&self, keys: &[String], until: Instant) -> bool {
        loop {
            let executions = self.executions();
            let has_run = keys.iter().all(|key| executions.contains_key(key));
            if has_run || Instant::now() > until {
                return has_run;
            }
            sleep(GLANCE).await;
        }
    }
}

impl PythonServer {
    async fn start(&mut self) -> Result<(), String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/server.py");
        let log = self.ledger.with_file_name("server.txt");
        let log = fs::File::options().create(true).append(true).open(log).map_err(|why| why.to_string())?;
        let mut process = Command::new(&self.python)
            .arg(script)
            .arg(self.port.to_string())
            .arg(&self.ledger)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .map_err(|why| format!("{}: {why}", self.python.display()))?;
        let mut lines = BufReader::new(process.stdout.take().ok_or("no stdout")?).lines();
        let first = timeout(START, lines.next_line()).await;
        self.process = Some(process);
        match first {
            Ok(Ok(Some(_))) => Ok(()),
            _ => Err(format!("the Python server did not listen within {START:?}; see server.txt")),
        }
    }
}

/// Reserves a free port of 127.0.0.1 for a process that will listen there.
pub(super) fn reserve() -> Result<(TcpSocket, u16), String> {
    let place = TcpSocket::new_v4().map_err(|why| why.to_string())?;
    let bound = place.set_reuseaddr(true).and_then(|()| place.bind(([127, 0, 0, 1], 0).into()));
    let address = bound.and_then(|()| place.local_addr()).map_err(|why| why.to_string())?;
    Ok((place, address.port()))
}
