//! A server that listens on a port, for one conversation.
//!
//! It takes a free port and prints `listening on PORT` once it accepts connections. Its output goes to a file, so no
//! pipe can fill up. Dropping the value kills the process.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The text before the port.
const ANNOUNCEMENT: &str = "listening on ";

/// The deadline for the start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The interval of reading the file.
const GLANCE: Duration = Duration::from_millis(20);

/// A server that accepts connections.
#[derive(Debug)]
pub struct ListeningServer {
    child: Child,
    port: u16,
}

impl ListeningServer {
    /// Starts a server and waits until it listens.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be started, exits, or does not print its port in time.
    pub fn start(command: &[OsString], log: &Path) -> Result<Self, String> {
        let [program, args @ ..] = command else { return Err("no server".into()) };
        let file = File::create(log).map_err(|why| format!("{}: {why}", log.display()))?;
        let errors = file.try_clone().map_err(|why| why.to_string())?;
        let child = Command::new(program)
            .args(args)
            .env("PORT", "0")
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .map_err(|why| format!("{}: {why}", program.display()))?;
        // Created before the wait, so that a server that never listens is killed too.
        let mut listening = Self { child, port: 0 };
        let begun = Instant::now();
        loop {
            // Checked before the log is read, so that the log is complete if the server has exited.
            let ended = listening.child.try_wait().map_err(|why| why.to_string())?;
            let output = fs::read_to_string(log).map_err(|why| why.to_string())?;
            if let Some(port) = announced(&output) {
                listening.port = port;
                return Ok(listening);
            }
            if let Some(status) = ended {
                return Err(format!("the server ended ({status}) before it listened:\n{output}"));
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("the server did not listen within {PATIENCE:?}:\n{output}"));
            }
            std::thread::sleep(GLANCE);
        }
    }

    /// Returns its port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for ListeningServer {
    fn drop(&mut self) {
        // Killed without SIGTERM: some servers wait for their last connection, and they have no state to save.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the port in the output so far. An incomplete line may contain half a number.
fn announced(output: &str) -> Option<u16> {
    let lines = output.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    lines.filter_map(|line| line.strip_prefix(ANNOUNCEMENT)?.trim().parse().ok()).next()
}

#[cfg(test)]
mod tests {
    use super::{ListeningServer, announced};

    #[test]
    fn port_is_read_from_complete_line() {
        assert_eq!(announced("Starting…\nlistening on 4"), None);
        assert_eq!(announced("Starting…\nlistening on 41001\nmore"), Some(41001));
        assert_eq!(announced("listening on port 41001\n"), None);
    }

    #[test]
    fn exit_before_listening_is_reported_with_stderr_tail() {
        let log = std::env::temp_dir().join(format!("mendline-peers-listening-{}", std::process::id()));
        let command = ["sh", "-c", "echo the port is taken >&2; exit 3"].map(Into::into);
        let why = ListeningServer::start(&command, &log).unwrap_err();
        std::fs::remove_file(&log).unwrap();
        assert!(why.contains("exit status: 3") && why.contains("the port is taken"), "{why}");
    }
}
