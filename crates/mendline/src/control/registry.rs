//! Finds and queries all running processes of this user.
//!
//! All requests are sent before the first response is read, and they share one deadline. So several unresponsive
//! processes cost that deadline once. The socket of a process that has ended refuses connections; the registry removes
//! it. Sockets of other users are rejected.
//!
//! The functions here block. They serve commands that run once and exit.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::call_report::CallAnswer;
use super::message::{Command, EventRecord, Level, RESPONSE_BYTES, Request, Response};
use super::runtime_dir;
use super::snapshot::Snapshot;
use crate::metrics::Sample;
use crate::observe::escaped::Escaped;
use crate::os::control_socket::{ClientStream, connect, is_ours, wait_for_any};
use crate::os::files::is_socket;
use crate::os::processes::is_gone;

/// The time that all processes together have to respond. One response takes milliseconds, but the machine may be under
/// load.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(1);

/// The limit of open connections, so that file descriptors do not run out.
const CONCURRENT_QUERIES: usize = 200;

/// The suffix of a socket's file name.
pub(super) const SUFFIX: &str = ".sock";

/// The suffix of a socket that does not listen yet.
pub(super) const TEMPORARY_SUFFIX: &str = ".new";

/// The directories that may contain sockets of running processes.
#[derive(Clone, Debug)]
pub struct Registry {
    directories: Vec<PathBuf>,
    untrusted: Vec<String>,
}

/// One running process, as its socket's file name describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The name before the process id: the name of the first server, possibly shortened.
    pub name: String,
    /// Its process id.
    pub pid: u32,
    path: PathBuf,
}

/// A process and its snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessStatus {
    /// The process.
    pub process: Process,
    /// Its snapshot, or the error of the query.
    pub snapshot: Result<Snapshot, QueryError>,
}

/// The error of a query to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// The process has ended.
    Gone,
    /// The process did not respond in time.
    TimedOut,
    /// The response cannot be parsed.
    Malformed(String),
    /// The process rejected the request.
    Refused(String),
    /// The socket cannot be used, or belongs to another user.
    Unreachable(String),
}

impl QueryError {
    /// Creates an error for a response that cannot be parsed. The text is escaped, because it may quote the response.
    fn malformed(error: &serde_json::Error) -> QueryError {
        QueryError::Malformed(Escaped(error.to_string().as_bytes()).to_string())
    }
}

impl std::fmt::Display for QueryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            QueryError::Gone => write!(f, "the process has ended"),
            QueryError::TimedOut => write!(f, "it does not answer"),
            QueryError::Malformed(why) => write!(f, "its response cannot be read: {why}"),
            QueryError::Refused(why) => write!(f, "it refused the request: {why}"),
            QueryError::Unreachable(why) => write!(f, "its socket cannot be used: {why}"),
        }
    }
}

impl Registry {
    /// Creates a registry of the user's directories, as the environment gives them.
    pub fn of_user() -> Registry {
        Registry::of(runtime_dir::candidates(|name| std::env::var_os(name)))
    }

    /// Creates a registry of those candidates that exist and are private to this user.
    pub fn of(candidates: Vec<PathBuf>) -> Registry {
        let mut registry = Registry { directories: Vec::new(), untrusted: Vec::new() };
        for candidate in candidates.into_iter().filter(|candidate| candidate.exists()) {
            match runtime_dir::verify(&candidate) {
                Ok(()) => registry.directories.push(candidate),
                Err(error) => registry.untrusted.push(format!("{}: {error}", candidate.display())),
            }
        }
        registry
    }

    /// Returns the directories that exist but are not private to this user, each with the reason.
    pub fn untrusted_directories(&self) -> &[String] {
        &self.untrusted
    }

    /// Returns every process that has a socket, sorted by name and process id. Some may have ended.
    pub fn processes(&self) -> Vec<Process> {
        let mut processes: Vec<Process> = self.directories.iter().flat_map(|directory| sockets(directory)).collect();
        processes.sort_by(|left, right| (&left.name, left.pid).cmp(&(&right.name, right.pid)));
        processes
    }

    /// Queries the snapshots of all processes. Omits processes that have ended, and removes their sockets.
    pub fn snapshots(&self) -> Vec<ProcessStatus> {
        self.snapshots_within(SNAPSHOT_TIMEOUT)
    }

    /// Does the same as [`Registry::snapshots`] within this time.
    pub fn snapshots_within(&self, within: Duration) -> Vec<ProcessStatus> {
        let found = self.query(&Request::Snapshot, within, Connection::snapshot);
        found.into_iter().map(|(process, snapshot)| ProcessStatus { process, snapshot }).collect()
    }

    /// Queries the metrics of all processes within this time. Omits processes that have ended.
    pub fn metrics_within(&self, within: Duration) -> Vec<(Process, Result<Vec<Sample>, QueryError>)> {
        self.query(&Request::Metrics, within, Connection::metrics)
    }

    fn query<T>(
        &self,
        request: &Request,
        within: Duration,
        read: impl Fn(&mut Connection, Instant) -> Result<T, QueryError>,
    ) -> Vec<(Process, Result<T, QueryError>)> {
        let deadline = Instant::now() + within;
        self.directories.iter().for_each(|directory| remove_stale_temporaries(directory));
        let mut found = Vec::new();
        for processes in self.processes().chunks(CONCURRENT_QUERIES) {
            let connections: Vec<_> = processes.iter().map(|process| process.send(request)).collect();
            for (process, connection) in processes.iter().zip(connections) {
                let response = connection.and_then(|mut connection| read(&mut connection, deadline));
                if !matches!(response, Err(QueryError::Gone)) {
                    found.push((process.clone(), response));
                }
            }
        }
        found
    }
}

impl Process {
    /// Returns its snapshot.
    pub fn snapshot(&self, within: Duration) -> Result<Snapshot, QueryError> {
        let deadline = Instant::now() + within;
        self.send(&Request::Snapshot)?.snapshot(deadline)
    }

    /// Runs a command for one of its servers, or for all. Returns the names of the servers that it was passed to.
    pub fn command(&self, command: Command, server: Option<&str>, within: Duration) -> Result<Vec<String>, QueryError> {
        let deadline = Instant::now() + within;
        let request = Request::Command { command, server: server.map(str::to_owned) };
        match self.send(&request)?.response(deadline)? {
            Response::Done { servers } => Ok(servers),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the course of one of its calls: the one with this number, or the newest that had trouble, else the newest.
    pub fn call(&self, call: Option<u64>, server: Option<&str>, within: Duration) -> Result<CallAnswer, QueryError> {
        let deadline = Instant::now() + within;
        self.send(&Request::Call { call, server: server.map(str::to_owned) })?.call(deadline)
    }

    /// Follows its events from this level up.
    pub fn follow(&self, level: Level, within: Duration) -> Result<EventStream, QueryError> {
        let deadline = Instant::now() + within;
        let mut connection = self.send(&Request::Events { level })?;
        match connection.response(deadline)? {
            Response::Following => Ok(EventStream { connection }),
            other => Err(unexpected(&other)),
        }
    }

    fn send(&self, request: &Request) -> Result<Connection, QueryError> {
        let stream = match connect(&self.path) {
            Ok(stream) => stream,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                remove_stale(&self.path);
                return Err(QueryError::Gone);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(QueryError::Gone),
            // The backlog of the socket is full.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(QueryError::TimedOut),
            Err(error) => return Err(QueryError::Unreachable(error.to_string())),
        };
        let unreachable = |error: io::Error| QueryError::Unreachable(error.to_string());
        if !is_ours(&self.path) {
            return Err(QueryError::Unreachable("it belongs to another user".to_owned()));
        }
        let mut text = serde_json::to_vec(request).map_err(|error| QueryError::malformed(&error))?;
        text.push(b'\n');
        write_request(&stream, &text).map_err(unreachable)?;
        stream.set_nonblocking(false).map_err(unreachable)?;
        Ok(Connection { stream, buffer: Vec::new() })
    }
}

/// Writes a request. Never blocks: a request is smaller than the buffer of a new socket.
fn write_request(mut stream: &ClientStream, request: &[u8]) -> io::Result<()> {
    match stream.write_all(request) {
        // A process that rejects the connection closes it at once; its reason can still be read.
        Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => Ok(()),
        done => done,
    }
}

/// The events of one process.
#[derive(Debug)]
pub struct EventStream {
    connection: Connection,
}

/// An item of an event stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamItem {
    /// An event.
    Event(EventRecord),
    /// The number of events that were dropped, because we read too slowly.
    Missed(u64),
}

impl EventStream {
    /// Returns the next item, or `None` after this time. Fails if the process has ended or has closed the connection.
    pub fn next_within(&mut self, within: Duration) -> Result<Option<StreamItem>, QueryError> {
        match self.connection.response(Instant::now() + within) {
            Ok(Response::Event(record)) => Ok(Some(StreamItem::Event(record))),
            Ok(Response::Missed(count)) => Ok(Some(StreamItem::Missed(count))),
            Ok(other) => Err(unexpected(&other)),
            Err(QueryError::TimedOut) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits until one of these streams has an item or has ended, and returns which.
    pub fn wait_for_any<'a>(streams: impl Iterator<Item = &'a EventStream>, within: Duration) -> Vec<bool> {
        wait_for_any(streams.map(|events| &events.connection.stream), within)
    }
}

/// A connection on which a request was sent.
#[derive(Debug)]
struct Connection {
    stream: ClientStream,
    buffer: Vec<u8>,
}

impl Connection {
    fn snapshot(&mut self, deadline: Instant) -> Result<Snapshot, QueryError> {
        match self.response(deadline)? {
            Response::Snapshot(snapshot) => Ok(*snapshot),
            other => Err(unexpected(&other)),
        }
    }

    fn metrics(&mut self, deadline: Instant) -> Result<Vec<Sample>, QueryError> {
        match self.response(deadline)? {
            Response::Metrics(samples) => Ok(samples),
            other => Err(unexpected(&other)),
        }
    }

    fn call(&mut self, deadline: Instant) -> Result<CallAnswer, QueryError> {
        match self.response(deadline)? {
            Response::Call(answer) => Ok(answer),
            other => Err(unexpected(&other)),
        }
    }

    fn response(&mut self, deadline: Instant) -> Result<Response, QueryError> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.buffer) {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return serde_json::from_slice(&line).map_err(|error| QueryError::malformed(&error));
            }
            if self.buffer.len() > RESPONSE_BYTES {
                return Err(QueryError::Malformed("it is too long".to_owned()));
            }
            // Bytes that have already arrived are read even after the deadline.
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let mut chunk = [0; 16 * 1024];
            let read = self.stream.set_read_timeout(Some(left)).and_then(|()| self.stream.read(&mut chunk));
            match read {
                Ok(0) if self.buffer.is_empty() => return Err(QueryError::Gone),
                Ok(0) => return Err(QueryError::Malformed("it is incomplete".to_owned())),
                Ok(count) => self.buffer.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Err(QueryError::TimedOut);
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Err(QueryError::Gone),
                Err(error) => return Err(QueryError::Unreachable(error.to_string())),
            }
        }
    }
}

fn unexpected(response: &Response) -> QueryError {
    match response {
        Response::Refused(why) => QueryError::Refused(Escaped(why.as_bytes()).to_string()),
        _ => QueryError::Malformed("it does not match the request".to_owned()),
    }
}

fn sockets(directory: &Path) -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let process = |entry: std::fs::DirEntry| {
        let file = entry.file_name().into_string().ok()?;
        let (name, pid) = file.strip_suffix(SUFFIX)?.rsplit_once('-')?;
        entry.file_type().is_ok_and(is_socket).then_some(())?;
        Some(Process { name: name.to_owned(), pid: pid.parse().ok()?, path: entry.path() })
    };
    entries.filter_map(|entry| process(entry.ok()?)).collect()
}

/// Removes temporary sockets of processes that were killed before they listened.
fn remove_stale_temporaries(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name().into_string().unwrap_or_default();
        let pid = name.strip_suffix(TEMPORARY_SUFFIX).and_then(|pid| pid.parse().ok());
        if pid.is_some_and(is_gone) {
            remove_stale(&entry.path());
        }
    }
}

/// Removes a socket without a listener, if this user owns it.
fn remove_stale(path: &Path) {
    if is_ours(path) {
        // Another process may have removed it first.
        let _ = std::fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    fn registry() -> (tempfile::TempDir, Registry) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let registry = Registry::of(vec![folder.path().to_owned(), folder.path().join("missing")]);
        (folder, registry)
    }

    /// Answers every request with this text.
    fn serve_text(path: &Path, response: &'static str) {
        let listener = UnixListener::bind(path).unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let _ = stream.read(&mut [0; 256]);
                let _ = stream.write_all(response.as_bytes());
            }
        });
    }

    #[test]
    fn refusal_before_the_request_is_reported() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let refusal = serde_json::to_string(&Response::Refused("too many".to_owned())).unwrap();
        theirs.write_all(format!("{refusal}\n").as_bytes()).unwrap();
        drop(theirs);
        write_request(&ours, b"{}\n").unwrap();
        let snapshot = Connection { stream: ours, buffer: Vec::new() }.snapshot(Instant::now());
        assert_eq!(snapshot.unwrap_err(), QueryError::Refused("too many".to_owned()));
    }

    #[test]
    fn only_sockets_without_a_listener_are_removed() {
        let (folder, registry) = registry();
        drop(UnixListener::bind(folder.path().join("dead-1.sock")).unwrap());
        let _alive = UnixListener::bind(folder.path().join("alive-2.sock")).unwrap();
        assert_eq!(registry.processes().len(), 2);
        let found = registry.snapshots_within(Duration::from_millis(20));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].process.name.as_str(), &found[0].snapshot), ("alive", &Err(QueryError::TimedOut)));
        assert_eq!(registry.processes().len(), 1);
    }

    #[test]
    fn temporary_socket_of_an_ended_process_is_removed() {
        let (folder, registry) = registry();
        let ours = folder.path().join(format!("{}.new", std::process::id()));
        // No process has the highest possible id.
        let dead = folder.path().join(format!("{}.new", i32::MAX));
        let _listeners = [&ours, &dead].map(|path| UnixListener::bind(path).unwrap());
        assert_eq!(registry.snapshots(), []);
        assert!(ours.exists() && !dead.exists());
    }

    #[test]
    fn control_characters_in_responses_are_escaped() {
        let (folder, registry) = registry();
        serve_text(&folder.path().join("malformed-1.sock"), "{\"\\u001b[2J\": 1}\n");
        serve_text(&folder.path().join("refusing-2.sock"), "{\"refused\": \"\\u001b[2J\"}\n");
        let found = registry.snapshots_within(Duration::from_secs(10));
        let texts: Vec<String> = found.iter().map(|found| found.snapshot.as_ref().unwrap_err().to_string()).collect();
        assert!(texts[0].contains("cannot be read") && texts[1].contains("refused"), "{texts:?}");
        assert!(texts.iter().all(|text| text.contains("u{1b}") && !text.contains('\u{1b}')), "{texts:?}");
    }

    #[test]
    fn endless_response_is_not_read_to_its_end() {
        let (folder, registry) = registry();
        let listener = UnixListener::bind(folder.path().join("flood-1.sock")).unwrap();
        std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            while stream.write_all(&[b' '; 4096]).is_ok() {}
        });
        let found = registry.snapshots_within(Duration::from_secs(10));
        assert_eq!(found[0].snapshot, Err(QueryError::Malformed("it is too long".to_owned())));
    }
}
