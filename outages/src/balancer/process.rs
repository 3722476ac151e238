//! The processes of haproxy and nginx, with a complete configuration for one row.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::net::{TcpSocket, TcpStream};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use super::backend::reserve;
use super::{Event, Kind, Row};

/// The time for the start and for the end.
const LIMIT: Duration = Duration::from_secs(20);
/// The interval of looking whether it listens.
const GLANCE: Duration = Duration::from_millis(20);

/// A running balancer.
pub(super) struct Balancer {
    kind: Kind,
    folder: PathBuf,
    port: u16,
    /// The process and, after a reload of haproxy, the one that it replaces.
    processes: Vec<Child>,
    /// Bound to the port without a listener, so that no other process gets it.
    _place: TcpSocket,
}

impl Balancer {
    /// Starts it, and waits until it listens.
    pub(super) async fn start(row: &Row, backend: u16, folder: &Path) -> Result<Balancer, String> {
        let (place, port) = reserve()?;
        let text = match row.balancer {
            Kind::Haproxy => haproxy(row.event, port, backend),
            Kind::Nginx => nginx(row.event, port, backend, folder),
        };
        fs::write(folder.join("balancer.conf"), text).map_err(|why| why.to_string())?;
        let (kind, folder) = (row.balancer, folder.to_owned());
        let mut balancer = Balancer { kind, folder, port, processes: Vec::new(), _place: place };
        balancer.spawn(&[])?;
        let until = Instant::now() + LIMIT;
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            if Instant::now() > until {
                let log = fs::read_to_string(balancer.folder.join("balancer.txt")).unwrap_or_default();
                return Err(format!("{} does not listen: {log}", balancer.program()));
            }
            sleep(GLANCE).await;
        }
        Ok(balancer)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    fn program(&self) -> &'static str {
        match self.kind {
            Kind::Haproxy => "haproxy",
            Kind::Nginx => "nginx",
        }
    }

    /// Returns the command with the configuration. Debian keeps both programs in a folder for the administrator.
    fn command(&self) -> Result<Command, String> {
        let configuration = self.folder.join("balancer.conf");
        let log = fs::File::options().create(true).append(true).open(self.folder.join("balancer.txt"));
        let log = log.map_err(|why| why.to_string())?;
        let folders = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/usr/local/sbin";
        let found =
            std::env::split_paths(&folders).map(|folder| folder.join(self.program())).find(|path| path.exists());
        let program = found.ok_or_else(|| {
            let packages = "on Debian: apt-get install haproxy nginx-light";
            format!("{} is not installed; install it ({packages})", self.program())
        })?;
        let mut command = Command::new(program);
        match self.kind {
            Kind::Haproxy => command.arg("-db").arg("-f").arg(configuration),
            Kind::Nginx => command.arg("-p").arg(&self.folder).arg("-c").arg(configuration),
        };
        let output = log.try_clone().map_err(|why| why.to_string())?;
        command.stdin(Stdio::null()).stdout(output).stderr(log);
        Ok(command)
    }

    fn spawn(&mut self, arguments: &[&str]) -> Result<(), String> {
        let process = self.command()?.args(arguments).spawn();
        self.processes.push(process.map_err(|why| format!("{}: {why}", self.program()))?);
        Ok(())
    }

    /// Reloads the configuration as an administrator does.
    pub(super) async fn reload(&mut self) -> Result<(), String> {
        match self.kind {
            // A new process takes the port over and tells the old one to finish.
            Kind::Haproxy => {
                let old = self.processes.last().and_then(Child::id).ok_or("haproxy has ended")?;
                self.spawn(&["-sf", &old.to_string()])
            }
            Kind::Nginx => {
                let status = self.command()?.args(["-s", "reload"]).status().await;
                match status {
                    Ok(status) if status.success() => Ok(()),
                    Ok(status) => Err(format!("nginx -s reload: {status}")),
                    Err(why) => Err(format!("nginx: {why}")),
                }
            }
        }
    }

    /// Ends the processes and waits for them.
    pub(super) async fn stop(mut self) {
        self.terminate();
        for process in &mut self.processes {
            // A balancer that does not end is left to the operator; killing nginx would leave its workers behind.
            let _ = timeout(LIMIT, process.wait()).await;
        }
        self.processes.clear();
    }

    /// Asks every process that this value has started to end.
    fn terminate(&self) {
        for process in &self.processes {
            let pid = process.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
            if let Some(pid) = pid {
                let _ = rustix::process::kill_process(pid, Signal::TERM);
            }
        }
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.terminate();
    }
}

/// The timeouts of a row: of the server, and of an idle connection of the client.
fn timeouts(event: Event) -> (&'static str, &'static str) {
    match event {
        Event::Slow => ("1s", "30s"),
        Event::IdleTimeout => ("60s", "500ms"),
        Event::Reload | Event::Down(_) => ("60s", "30s"),
    }
}

/// The configuration that `docs/recipes/operators.md` shows.
const HAPROXY: &str = include_str!("../../balancers/haproxy.cfg");
const NGINX: &str = include_str!("../../balancers/nginx.conf");

/// Returns a configuration of the page with the ports and the timeouts of a row.
fn adapted(page: &str, event: Event, port: u16, backend: u16) -> String {
    let (server, idle) = timeouts(event);
    // The limit of a silent server: nginx has one directive for it, haproxy another one for its client.
    page.replace(" 127.0.0.1:8080", &format!(" 127.0.0.1:{port}"))
        .replace("127.0.0.1:8000", &format!("127.0.0.1:{backend}"))
        .replace("timeout server 310s", &format!("timeout server {server}"))
        .replace("proxy_read_timeout 310s", &format!("proxy_read_timeout {server}"))
        .replace(" 75s", &format!(" {idle}"))
}

fn haproxy(event: Event, port: u16, backend: u16) -> String {
    format!("global\n    maxconn 1000\n    hard-stop-after 5s\n\n{}", adapted(HAPROXY, event, port, backend))
}

fn nginx(event: Event, port: u16, backend: u16, folder: &Path) -> String {
    let server = adapted(NGINX, event, port, backend);
    let folder = folder.display();
    format!(
        "\
daemon off;
worker_processes 1;
worker_shutdown_timeout 5s;
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log;

events {{
    worker_connections 1000;
}}

http {{
    access_log off;
    client_body_temp_path {folder}/client-body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;

{server}}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_the_page_is_replaced() {
        let folder = Path::new("/tmp/f");
        for text in [haproxy(Event::Slow, 4001, 4002), nginx(Event::Slow, 4001, 4002, folder)] {
            assert!(text.contains(" 127.0.0.1:4001") && text.contains("127.0.0.1:4002"), "{text}");
            assert!(text.contains("timeout server 1s") || text.contains("proxy_read_timeout 1s"), "{text}");
            assert!(text.contains("alive 30s") || text.contains("keepalive_timeout 30s"), "{text}");
            assert!(!text.contains(":80") && !text.contains("75s"), "{text}");
        }
    }
}
