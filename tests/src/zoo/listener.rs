//! A server at a URL: its process, which a check kills and starts again on the same port.
//!
//! The kernel chooses the port. A bound socket that does not listen reserves it, so that no other process gets it while
//! the server is down; the server can still bind it, because both set `SO_REUSEADDR`.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tokio::net::TcpSocket;

/// The deadline for the start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// The interval of dialing.
const INTERVAL: Duration = Duration::from_millis(20);

/// A server that listens on a port.
#[derive(Debug)]
pub struct Listener {
    command: Vec<OsString>,
    environment: Vec<(String, OsString)>,
    folder: PathBuf,
    address: SocketAddr,
    child: Option<Child>,
    _reservation: TcpSocket,
}

impl Listener {
    /// Reserves a port. The command line and the variables may depend on it.
    ///
    /// # Errors
    ///
    /// Fails if the kernel has no port.
    pub fn new(
        folder: &Path,
        command: impl FnOnce(u16) -> (Vec<OsString>, Vec<(String, OsString)>),
    ) -> Result<Self, String> {
        let reservation = TcpSocket::new_v4().map_err(|why| why.to_string())?;
        let bound = reservation.set_reuseaddr(true).and_then(|()| reservation.bind(([127, 0, 0, 1], 0).into()));
        let address = bound.and_then(|()| reservation.local_addr()).map_err(|why| why.to_string())?;
        let (command, environment) = command(address.port());
        let folder = folder.to_owned();
        Ok(Self { command, environment, folder, address, child: None, _reservation: reservation })
    }

    /// Starts the server and waits until it accepts connections.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be started, exits, or does not listen in time.
    pub fn start(&mut self) -> Result<(), String> {
        let [program, args @ ..] = &self.command[..] else { return Err("no server".into()) };
        let log = self.folder.join("server.txt");
        let file = OpenOptions::new().create(true).append(true).open(&log).map_err(|why| why.to_string())?;
        let errors = file.try_clone().map_err(|why| why.to_string())?;
        let child = Command::new(program)
            .args(args)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(|why| format!("{}: {why}", program.display()))?;
        let child = self.child.insert(child);
        let begun = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            let ended = child.try_wait().map_err(|why| why.to_string())?;
            let output = || std::fs::read_to_string(&log).unwrap_or_default();
            if let Some(status) = ended {
                return Err(format!("the server ended ({status}) before it listened:\n{}", output()));
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("the server did not listen on {} in time:\n{}", self.address, output()));
            }
            std::thread::sleep(INTERVAL);
        }
        Ok(())
    }

    /// Kills the server and its children.
    pub fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        let _ = child.wait();
    }

    /// Returns the pid of the server.
    pub fn id(&self) -> Option<i32> {
        self.child.as_ref().and_then(|child| i32::try_from(child.id()).ok())
    }

    /// Returns its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::Listener;

    #[test]
    fn server_gets_the_reserved_port_again_after_a_kill() {
        let folder = std::env::temp_dir().join(format!("mendline-zoo-listener-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let serve = "import socketserver, sys\n\
            socketserver.TCPServer.allow_reuse_address = True\n\
            socketserver.TCPServer(('127.0.0.1', int(sys.argv[1])), None).serve_forever()";
        let command = |port: u16| vec!["python3".into(), "-c".into(), serve.into(), port.to_string().into()];
        let mut listener = Listener::new(&folder, |port| (command(port), Vec::new())).unwrap();
        listener.start().unwrap();
        let (port, first) = (listener.port(), listener.id());
        listener.kill();
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err(), "it is down");
        listener.start().unwrap();
        assert!(listener.port() == port && listener.id() != first);
        drop(listener);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn exit_before_listening_is_reported_with_output() {
        let folder = std::env::temp_dir().join(format!("mendline-zoo-exit-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let command = ["sh", "-c", "echo no such option >&2; exit 3"].map(Into::into).to_vec();
        let why = Listener::new(&folder, |_| (command, Vec::new())).unwrap().start().unwrap_err();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(why.contains("exit status: 3") && why.contains("no such option"), "{why}");
    }
}
