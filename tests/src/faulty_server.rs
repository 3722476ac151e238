//! The fault server as a separate process, which can be killed and restarted at the same address.
//!
//! Its ledger, a file that survives every kill, shows what ran.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::Value;
use tokio::net::TcpSocket;

/// A server process that tests kill and restart.
#[derive(Debug)]
pub struct FaultyServer {
    program: PathBuf,
    arguments: Vec<String>,
    ledger: PathBuf,
    /// The process and its stdin, whose end ends it.
    running: Option<(Child, Option<ChildStdin>)>,
    address: String,
    /// Bound to the port without a listener, so that no other process gets it while the server is down.
    _place: TcpSocket,
}

impl FaultyServer {
    /// Starts the server on a free port.
    ///
    /// # Errors
    ///
    /// Fails if the program is missing or does not print its address.
    pub fn start(program: &Path, arguments: &[&str], ledger: &Path) -> Result<Self, String> {
        let place = TcpSocket::new_v4().map_err(|why| why.to_string())?;
        let bound = place.set_reuseaddr(true).and_then(|()| place.bind(([127, 0, 0, 1], 0).into()));
        let address = bound.and_then(|()| place.local_addr()).map_err(|why| why.to_string())?;
        let mut faulty = Self {
            program: program.to_owned(),
            arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
            ledger: ledger.to_owned(),
            running: None,
            address: address.to_string(),
            _place: place,
        };
        faulty.restart()?;
        Ok(faulty)
    }

    /// Starts it again on the same port.
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    pub fn restart(&mut self) -> Result<(), String> {
        let mut child = Command::new(&self.program)
            .arg("server")
            .arg(format!("listen={}", self.address))
            .arg(format!("ledger={}", self.ledger.display()))
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|why| format!("{}: {why}; `cargo xtask peers` builds it", self.program.display()))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        self.running = Some((child, stdin));
        // It prints its address once it listens.
        let mut line = String::new();
        let mut stdout = BufReader::new(stdout.ok_or("no stdout")?);
        stdout.read_line(&mut line).map_err(|why| why.to_string())?;
        serde_json::from_str::<Value>(&line).map_err(|why| format!("{line:?}: {why}"))?;
        Ok(())
    }

    /// Kills it and waits until it is reaped.
    pub fn kill(&mut self) {
        if let Some((mut child, _)) = self.running.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Returns its URL.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns its pid.
    pub fn id(&self) -> Option<u32> {
        self.running.as_ref().map(|(child, _)| child.id())
    }

    /// Returns how often each call ran, by key.
    pub fn executions(&self) -> BTreeMap<String, usize> {
        executions(&self.ledger)
    }
}

impl Drop for FaultyServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns how often each call ran, from a ledger.
pub fn executions(ledger: &Path) -> BTreeMap<String, usize> {
    let mut ran = BTreeMap::new();
    for line in fs::read_to_string(ledger).unwrap_or_default().lines() {
        let mut arguments = line.split(' ');
        if let (Some("executed"), Some(_), Some(key)) = (arguments.next(), arguments.next(), arguments.next()) {
            *ran.entry(key.to_owned()).or_default() += 1;
        }
    }
    ran
}
