//! The measurement of one gateway: `mendline-bench gateway-run`.
//!
//! It is a process of its own, because it sets CPU affinity and adopts orphans for the whole process. The client and the
//! upstream share one processor; the gateway has the other.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::contender::PORT;
use crate::affinity::{Affinity, Placement};
use crate::client::{Client, Endpoint};
use crate::http::remote::Remote;
use crate::load::{in_flight, one_at_a_time, sample, watchdog};
use crate::plan::URL;
use crate::processes::{self, Processes};
use crate::sample::micros;

/// The time that a gateway has to answer its first request; interpreters need seconds on a busy machine.
const START: Duration = Duration::from_secs(60);
/// The idle time before the memory is read.
const REST: Duration = Duration::from_millis(500);
/// The widths at which the throughput is measured.
pub(super) const WIDTHS: [usize; 2] = [8, 64];

/// The amount of work.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) calls: usize,
    pub(super) warmup: usize,
    pub(super) throughput_for: Duration,
}

impl Work {
    pub(super) const FULL: Self = Self { calls: 5_000, warmup: 1_000, throughput_for: Duration::from_secs(2) };
    pub(super) const QUICK: Self = Self { calls: 1_000, warmup: 300, throughput_for: Duration::from_millis(700) };
}

/// Reads `[--quick] BEHIND PATH [-- CMD ARGS…]` and returns the figures.
pub(crate) fn run(args: &[String]) -> Result<Value, String> {
    let mut parts = args.splitn(2, |arg| arg == "--");
    let options = parts.next().unwrap_or_default();
    let command = parts.next().unwrap_or_default();
    let (work, behind, path) = match options {
        [quick, behind, path] if quick == "--quick" => (Work::QUICK, behind, path),
        [behind, path] => (Work::FULL, behind, path),
        _ => return Err("the kind of upstream and the path are needed".into()),
    };
    let affinity = Affinity::take(2).map_err(|error| format!("cannot choose the processors: {error}"))?;
    processes::adopt_orphans().map_err(|error| format!("cannot adopt orphans: {error}"))?;
    thread::spawn(watchdog);
    let remote = match behind.as_str() {
        "http" => Some(Remote::start().map_err(|error| error.to_string())?),
        _ => None,
    };
    if command.is_empty() {
        let endpoint = match &remote {
            Some(remote) => Endpoint::Url(remote.url().to_owned()),
            None => Endpoint::Command(vec![current_exe()?, "upstream".into()]),
        };
        let mut client = Client::start(&endpoint)?;
        client.handshake().map_err(|error| error.to_string())?;
        let upstream = processes::descendants().map_err(|error| error.to_string())?;
        let processes = Processes::with_upstream(upstream);
        let figures = measure(&work, &affinity, &mut client, &processes).map_err(|error| error.to_string());
        client.end().map_err(|error| error.to_string())?;
        return figures;
    }
    let url = remote.as_ref().map(Remote::url);
    let mut gateway = Gateway::start(command, url, path)?;
    let measured = gateway.connect().and_then(|mut client| {
        one_at_a_time(&mut client, 1)?;
        thread::sleep(REST);
        let processes = Processes::since(&[])?;
        measure(&work, &affinity, &mut client, &processes)
    });
    measured.map_err(|error| format!("{error}\n{}", gateway.stderr_tail()))
}

fn current_exe() -> Result<String, String> {
    std::env::current_exe().map(|path| path.display().to_string()).map_err(|error| error.to_string())
}

fn measure(work: &Work, affinity: &Affinity, client: &mut Client, processes: &Processes) -> io::Result<Value> {
    let idle = processes.memory()?;
    affinity.place(Placement::Apart, processes.middle(), processes.upstream())?;
    one_at_a_time(client, work.warmup)?;
    let before = processes.cpu()?;
    let round_trips = sample(one_at_a_time(client, work.calls)?)?;
    let lone = processes.cpu()?.saturating_sub(before);
    let mut figures = json!({
        "p50_us": round_trips.percentile_us(50),
        "p99_us": round_trips.percentile_us(99),
        "cpu_1_us": micros(lone) / work.calls as f64,
        "idle_pss_kib": idle.pss,
    });
    for width in WIDTHS {
        in_flight(client, width, work.throughput_for / 5)?;
        let before = processes.cpu()?;
        let (calls, took) = in_flight(client, width, work.throughput_for)?;
        let cpu = processes.cpu()?.saturating_sub(before);
        figures[format!("calls_{width}")] = json!(calls as f64 / took.as_secs_f64());
        figures[format!("cpu_{width}_us")] = json!(micros(cpu) / calls as f64);
    }
    figures["after_pss_kib"] = json!(processes.memory()?.pss);
    Ok(figures)
}

/// A gateway that listens on a free port.
pub(super) struct Gateway {
    process: Child,
    url: String,
    port: u16,
    stderr: File,
}

impl Gateway {
    /// Starts a command with [`PORT`] and [`URL`] replaced.
    pub(super) fn start(command: &[String], upstream: Option<&str>, path: &str) -> Result<Self, String> {
        let port = free_port().map_err(|error| error.to_string())?;
        let arguments = command.iter().map(|arg| {
            let arg = arg.replace(PORT, &port.to_string());
            upstream.map_or(arg.clone(), |url| arg.replace(URL, url))
        });
        let arguments: Vec<String> = arguments.collect();
        let stderr = memfd_create("stderr", MemfdFlags::CLOEXEC).map(File::from).map_err(|error| error.to_string())?;
        let process = Command::new(&arguments[0])
            .args(&arguments[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr.try_clone().map_err(|error| error.to_string())?)
            .spawn()
            .map_err(|error| format!("{}: {error}", arguments[0]))?;
        Ok(Self { process, url: format!("http://127.0.0.1:{port}{path}"), port, stderr })
    }

    /// Connects a client as soon as the gateway answers.
    pub(super) fn connect(&mut self) -> io::Result<Client> {
        let begun = Instant::now();
        loop {
            let connected = Client::start(&Endpoint::Url(self.url.clone())).map_err(io::Error::other);
            let connected = connected.and_then(|mut client| client.handshake().map(|()| client));
            let has_ended = self.process.try_wait()?.is_some();
            match connected {
                Ok(client) => return Ok(client),
                Err(error) if has_ended || begun.elapsed() > START => return Err(error),
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Waits until the port accepts connections.
    pub(super) fn wait_until_listening(&self) -> io::Result<()> {
        let begun = Instant::now();
        while let Err(error) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)) {
            if begun.elapsed() > START {
                return Err(error);
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Tells the gateway to stop and waits for its end.
    pub(super) fn stop(mut self) -> io::Result<()> {
        if let Some(pid) = Pid::from_raw(self.process.id() as i32) {
            kill_process(pid, Signal::TERM)?;
        }
        self.process.wait().map(drop)
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn stderr_tail(&mut self) -> String {
        let mut text = String::new();
        let read = self.stderr.seek(SeekFrom::Start(0)).and_then(|_| self.stderr.read_to_string(&mut text));
        let lines: Vec<_> = text.lines().collect();
        read.map_or_else(|error| error.to_string(), |_| lines[lines.len().saturating_sub(10)..].join("\n"))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Its children are descendants of this process, because it adopts orphans.
        let _ = self.process.kill();
        let _ = self.process.wait();
        for pid in processes::descendants().unwrap_or_default() {
            let is_ours = std::fs::read_link(format!("/proc/{pid}/exe")).ok() == std::env::current_exe().ok();
            if let (false, Some(pid)) = (is_ours, Pid::from_raw(pid as i32)) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// Returns a port that is free now.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
