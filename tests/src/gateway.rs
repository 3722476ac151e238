//! A running `mendline serve`, which a test can kill and start again at the same address.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::stage::Programs;

/// The deadline for the start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The interval of reading the log.
const GLANCE: Duration = Duration::from_millis(20);

/// The name of the server behind the gateway.
const NAME: &str = "peer";

/// A gateway with one server.
#[derive(Debug)]
pub struct Gateway {
    process: Child,
    port: u16,
    mendline: PathBuf,
    arguments: Vec<OsString>,
    folder: PathBuf,
    starts: usize,
}

impl Gateway {
    /// Starts a gateway. `server` is a URL, or `--` and a command. Its logs and its state are in `folder`.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be started or does not say where it listens.
    pub fn start(programs: &Programs, folder: &Path, server: &[OsString]) -> Result<Self, String> {
        let flags = ["--name", NAME, "--no-log-files", "--no-catalogue", "--startup", "wait"].map(OsString::from);
        let arguments = flags.into_iter().chain(server.iter().cloned()).collect::<Vec<_>>();
        let mendline = programs.mendline.clone();
        let (process, port) = launch(&mendline, folder, "127.0.0.1:0", &arguments, 1)?;
        Ok(Self { process, port, mendline, arguments, folder: folder.to_owned(), starts: 1 })
    }

    /// The URL for clients of Streamable HTTP.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Kills the process.
    ///
    /// # Errors
    ///
    /// Fails if it has ended already.
    pub fn kill(&mut self) -> Result<(), String> {
        self.process.kill().map_err(|why| why.to_string())?;
        self.process.wait().map(drop).map_err(|why| why.to_string())
    }

    /// Starts it again at the same address, after it was killed.
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    pub fn restart(&mut self) -> Result<(), String> {
        self.starts += 1;
        let address = format!("127.0.0.1:{}", self.port);
        (self.process, self.port) = launch(&self.mendline, &self.folder, &address, &self.arguments, self.starts)?;
        Ok(())
    }

    /// Returns the log of the last start.
    pub fn log(&self) -> String {
        fs::read_to_string(log_file(&self.folder, self.starts)).unwrap_or_default()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn log_file(folder: &Path, start: usize) -> PathBuf {
    folder.join(format!("gateway-{start}.log"))
}

fn launch(
    mendline: &Path,
    folder: &Path,
    listen: &str,
    arguments: &[OsString],
    start: usize,
) -> Result<(Child, u16), String> {
    let log = log_file(folder, start);
    let file = File::create(&log).map_err(|why| format!("{}: {why}", log.display()))?;
    let mut process = Command::new(mendline)
        .args(["serve", "--listen", listen])
        .args(arguments)
        .env("MENDLINE_STATE_DIR", folder.join("state"))
        .env("MENDLINE_RUNTIME_DIR", folder.join("run"))
        .env_remove("MENDLINE_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file)
        .spawn()
        .map_err(|why| format!("{}: {why}", mendline.display()))?;
    let begun = Instant::now();
    loop {
        let ended = process.try_wait().map_err(|why| why.to_string())?;
        let text = fs::read_to_string(&log).map_err(|why| why.to_string())?;
        if let Some(port) = announced(&text) {
            return Ok((process, port));
        }
        if ended.is_some() || begun.elapsed() > PATIENCE {
            let _ = process.kill();
            let _ = process.wait();
            return Err(format!("the gateway does not listen:\n{text}"));
        }
        std::thread::sleep(GLANCE);
    }
}

/// Returns the port in a complete line of the log.
fn announced(log: &str) -> Option<u16> {
    let lines = log.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    lines.filter_map(|line| line.split_once(" at http://127.0.0.1:")?.1.split('/').next()?.parse().ok()).next()
}

#[cfg(test)]
mod tests {
    use super::announced;

    #[test]
    fn port_is_read_from_complete_line() {
        assert_eq!(announced("info serving peer at http://127.0.0.1:4"), None);
        assert_eq!(announced("info serving peer at http://127.0.0.1:40817/mcp/peer\n"), Some(40817));
        assert_eq!(announced("info starting\n"), None);
    }
}
