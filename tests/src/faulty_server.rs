//! The fault server as a process of its own, which can be killed and started again at the same address.
//!
//! What ran is in its ledger, a file that survives every kill, so that it is known and not concluded.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::Value;
use tokio::net::TcpSocket;

/// A server that is killed now and then.
#[derive(Debug)]
pub struct FaultyServer {
    program: PathBuf,
    arguments: Vec<String>,
    ledger: PathBuf,
    /// With its stdin, which ends it with us.
    running: Option<(Child, Option<ChildStdin>)>,
    address: String,
    /// Bound to its port and never listened on, so that nobody else gets it while the server is away.
    _place: TcpSocket,
}

impl FaultyServer {
    /// Starts it on a port of its own.
    ///
    /// # Errors
    ///
    /// When the program is not there or does not say where it listens.
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
        faulty.come_back()?;
        Ok(faulty)
    }

    /// Starts it again where it was.
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    pub fn come_back(&mut self) -> Result<(), String> {
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
        // It says where it listens once it does.
        let mut line = String::new();
        let mut stdout = BufReader::new(stdout.ok_or("no stdout")?);
        stdout.read_line(&mut line).map_err(|why| why.to_string())?;
        serde_json::from_str::<Value>(&line).map_err(|why| format!("{line:?}: {why}"))?;
        Ok(())
    }

    /// Kills it, and comes back when nothing of it is left.
    pub fn kill(&mut self) {
        if let Some((mut child, _)) = self.running.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Where it is dialed.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Its process.
    pub fn id(&self) -> Option<u32> {
        self.running.as_ref().map(|(child, _)| child.id())
    }

    /// How often each call ran, by its key.
    pub fn executions(&self) -> BTreeMap<String, usize> {
        executions(&self.ledger)
    }
}

impl Drop for FaultyServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// How often each call ran, as a ledger has it.
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
