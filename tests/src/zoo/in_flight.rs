//! Kills a server while it has a call.
//!
//! A server without a slow tool is stopped before the call, so that it cannot answer, and killed when the call has
//! arrived: in its stdin pipe, or in the receive queue of its socket.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::processes::{children_of, eventually, has_ended, is_gone, is_stopped};

/// The deadline for anything that should happen at once, on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// Returns the server among the children of Mendline; the other child is its guard, which runs the same program.
///
/// # Errors
///
/// Fails if there is no single server in time.
pub fn server_behind(mendline: i32) -> Result<i32, String> {
    let program = |pid: i32| fs::read_link(format!("/proc/{pid}/exe")).ok();
    let mut found = Vec::new();
    let one = eventually(SOON, || {
        let ours = program(mendline);
        found = children_of(mendline).into_iter().filter(|pid| !is_gone(*pid) && program(*pid) != ours).collect();
        found.len() == 1
    });
    if one { Ok(found[0]) } else { Err(format!("Mendline has the servers {found:?} instead of one")) }
}

/// Kills a process and waits for its end.
///
/// # Errors
///
/// Fails if it does not end in time.
pub fn kill(pid: i32) -> Result<(), String> {
    signal(pid, Signal::KILL)?;
    if eventually(SOON, || has_ended(pid)) { Ok(()) } else { Err(format!("process {pid} survived SIGKILL")) }
}

/// Stops a process.
///
/// # Errors
///
/// Fails if it does not stop in time.
pub fn stop(pid: i32) -> Result<(), String> {
    signal(pid, Signal::STOP)?;
    if eventually(SOON, || is_stopped(pid)) { Ok(()) } else { Err(format!("process {pid} did not stop")) }
}

fn signal(pid: i32, signal: Signal) -> Result<(), String> {
    let process = Pid::from_raw(pid).ok_or("no process")?;
    rustix::process::kill_process(process, signal).map_err(|why| format!("signal for process {pid}: {why}"))
}

/// The input of a stopped server.
#[derive(Clone, Copy, Debug)]
pub enum Input {
    /// The pipes that this process reads. Some servers move their stdin to another descriptor.
    Pipes(i32),
    /// The sockets at this port.
    Port(u16),
}

impl Input {
    /// Returns the number of bytes and connections that wait to be read.
    pub fn waiting(self) -> u64 {
        match self {
            Self::Pipes(pid) => pipes_read_by(pid).iter().map(|pipe| bytes_in_pipe(pipe)).sum(),
            Self::Port(port) => ["/proc/net/tcp", "/proc/net/tcp6"]
                .iter()
                .map(|table| receive_queues(&fs::read_to_string(table).unwrap_or_default(), port))
                .sum(),
        }
    }

    /// Waits until more than this waits to be read.
    ///
    /// # Errors
    ///
    /// Fails if nothing arrives in time.
    pub fn wait_for_more_than(self, before: u64) -> Result<(), String> {
        if eventually(SOON, || self.waiting() > before) {
            Ok(())
        } else {
            Err(format!("the call did not arrive: {self:?}"))
        }
    }
}

/// Returns one descriptor for each pipe that a process reads.
fn pipes_read_by(pid: i32) -> Vec<PathBuf> {
    let mut pipes = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().filter_map(Result::ok) {
        let Ok(link) = fs::read_link(entry.path()) else { continue };
        let info = format!("/proc/{pid}/fdinfo/{}", entry.file_name().to_string_lossy());
        if link.to_string_lossy().starts_with("pipe:") && is_read_only(&fs::read_to_string(info).unwrap_or_default()) {
            pipes.insert(link, entry.path());
        }
    }
    pipes.into_values().collect()
}

/// Returns whether a descriptor is open for reading only, from the text of its `fdinfo`: `flags:` and an octal number.
fn is_read_only(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| flags & 0o3 == 0)
}

fn bytes_in_pipe(path: &Path) -> u64 {
    fs::File::open(path).ok().and_then(|pipe| rustix::io::ioctl_fionread(&pipe).ok()).unwrap_or_default()
}

/// Returns the sum of the receive queues of all sockets at this local port, from the text of `/proc/net/tcp`.
fn receive_queues(table: &str, port: u16) -> u64 {
    let local = format!(":{port:04X}");
    let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
    let ours = rows.filter(|row| row.get(1).is_some_and(|address| address.ends_with(&local)));
    let queue = |row: Vec<&str>| u64::from_str_radix(row.get(4)?.split_once(':')?.1, 16).ok();
    ours.filter_map(queue).sum()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};
    use std::process::{Command, Stdio};

    use super::{Input, kill, receive_queues, stop};

    #[test]
    fn input_of_stopped_process_is_counted() {
        let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = i32::try_from(cat.id()).unwrap();
        stop(pid).unwrap();
        let input = Input::Pipes(pid);
        assert_eq!(input.waiting(), 0);
        cat.stdin.as_mut().unwrap().write_all(b"call").unwrap();
        assert_eq!(input.waiting(), 4);
        input.wait_for_more_than(3).unwrap();
        kill(pid).unwrap();
        cat.wait().unwrap();
    }

    #[test]
    fn stdin_on_another_descriptor_is_found() {
        let mut shell = Command::new("sh")
            .args(["-c", "exec 7<&0 </dev/null; echo moved; exec sleep 1000"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = i32::try_from(shell.id()).unwrap();
        let mut moved = String::new();
        BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut moved).unwrap();
        shell.stdin.as_mut().unwrap().write_all(b"call").unwrap();
        assert_eq!(Input::Pipes(pid).waiting(), 4);
        kill(pid).unwrap();
        shell.wait().unwrap();
    }

    #[test]
    fn unread_bytes_at_a_port_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let input = Input::Port(port);
        let before = input.waiting();
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (_accepted, _) = listener.accept().unwrap();
        client.write_all(b"call").unwrap();
        input.wait_for_more_than(before).unwrap();
    }

    #[test]
    fn only_rows_of_the_port_are_counted() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue\n\
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000001 00:00\n\
            1: 0100007F:1F90 0100007F:9C40 01 00000000:0000000A 00:00\n\
            2: 0100007F:9C40 0100007F:1F90 01 00000000:000000FF 00:00\n";
        assert_eq!(receive_queues(table, 0x1F90), 11);
    }
}
