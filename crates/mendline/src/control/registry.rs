//! Every running Mendline of this user, and how to ask it.
//!
//! All are asked before the first is heard, and they share one deadline: a process that hangs costs that deadline once and
//! not once for each. A socket whose process is gone refuses connections; whoever finds one removes it. Nobody is believed
//! who does not run as this user.
//!
//! Everything here blocks, for a command that does one thing and ends.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Pid;

use super::message::{RESPONSE_BYTES, Response, Request, Command, Level, EventRecord};
use super::runtime_dir;
use super::snapshot::Snapshot;
use crate::observe::escaped::Escaped;

/// How long all processes together have to answer: each needs a blink, but people look when their machine is busy.
pub const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(1);

/// How many are asked at once, so that descriptors do not run out.
const CONCURRENT_QUERIES: usize = 200;

/// How the name of a socket ends.
pub(super) const SUFFIX: &str = ".sock";

/// How the name of one ends that does not listen yet.
pub(super) const TEMPORARY_SUFFIX: &str = ".new";

/// The directories where running processes can be found.
#[derive(Clone, Debug)]
pub struct Registry {
    directories: Vec<PathBuf>,
    untrusted: Vec<String>,
}

/// One running process, as far as its socket's name tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The name in front of the process id, which is the first server's, perhaps cut short.
    pub name: String,
    /// Its id.
    pub pid: u32,
    path: PathBuf,
}

/// A process, and what it reports about itself.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessStatus {
    /// Which process.
    pub process: Process,
    /// How it stands, or why nobody knows.
    pub snapshot: Result<Snapshot, QueryError>,
}

/// Why a process has not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// It is gone.
    Gone,
    /// It is there, but does not answer in time.
    TimedOut,
    /// It answers something that cannot be understood.
    Malformed(String),
    /// It understood, and will not.
    Refused(String),
    /// Its socket cannot be used, or belongs to somebody else.
    Unreachable(String),
}

impl QueryError {
    /// The words may quote what came, so they are made harmless.
    fn malformed(error: &serde_json::Error) -> QueryError {
        QueryError::Malformed(Escaped(error.to_string().as_bytes()).to_string())
    }
}

impl std::fmt::Display for QueryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            QueryError::Gone => write!(f, "it has ended"),
            QueryError::TimedOut => write!(f, "it does not answer"),
            QueryError::Malformed(why) => write!(f, "its answer cannot be read: {why}"),
            QueryError::Refused(why) => write!(f, "it refused: {why}"),
            QueryError::Unreachable(why) => write!(f, "it cannot be asked: {why}"),
        }
    }
}

impl Registry {
    /// The directories of this user, by the environment.
    pub fn of_user() -> Registry {
        Registry::of(runtime_dir::candidates(|name| std::env::var_os(name)))
    }

    /// These directories, as far as they are there and may be trusted.
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

    /// Places that are there and were not looked into, each with the reason.
    pub fn untrusted_directories(&self) -> &[String] {
        &self.untrusted
    }

    /// Every process that has a socket, alive or not, by name and id.
    pub fn processes(&self) -> Vec<Process> {
        let mut processes: Vec<Process> = self.directories.iter().flat_map(|directory| sockets(directory)).collect();
        processes.sort_by(|left, right| (&left.name, left.pid).cmp(&(&right.name, right.pid)));
        processes
    }

    /// Asks every process how it stands. Those that are gone are not in it, and neither are their sockets any more.
    pub fn snapshots(&self) -> Vec<ProcessStatus> {
        self.snapshots_within(SNAPSHOT_TIMEOUT)
    }

    /// The same, with this much time for all of them together.
    pub fn snapshots_within(&self, within: Duration) -> Vec<ProcessStatus> {
        let deadline = Instant::now() + within;
        self.directories.iter().for_each(|directory| remove_stale_temporaries(directory));
        let mut found = Vec::new();
        for processes in self.processes().chunks(CONCURRENT_QUERIES) {
            let connections: Vec<_> = processes.iter().map(|process| process.send(&Request::Snapshot)).collect();
            for (process, connection) in processes.iter().zip(connections) {
                let snapshot = connection.and_then(|mut connection| connection.snapshot(deadline));
                if snapshot != Err(QueryError::Gone) {
                    found.push(ProcessStatus { process: process.clone(), snapshot });
                }
            }
        }
        found
    }
}

impl Process {
    /// How it stands now.
    pub fn snapshot(&self, within: Duration) -> Result<Snapshot, QueryError> {
        let deadline = Instant::now() + within;
        self.send(&Request::Snapshot)?.snapshot(deadline)
    }

    /// Tells it to do something to one of its servers, or to all of them. Gives the names of those that it was passed on to.
    pub fn command(&self, command: Command, server: Option<&str>, within: Duration) -> Result<Vec<String>, QueryError> {
        let deadline = Instant::now() + within;
        let request = Request::Command { command, server: server.map(str::to_owned) };
        match self.send(&request)?.response(deadline)? {
            Response::Done { servers } => Ok(servers),
            other => Err(unexpected(&other)),
        }
    }

    /// Follows what happens in it from now on, but for what is quieter than `level`.
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
            Err(Errno::CONNREFUSED) => {
                remove_stale(&self.path);
                return Err(QueryError::Gone);
            }
            Err(Errno::NOENT) => return Err(QueryError::Gone),
            // So many wait to be heard that there is no place for one more.
            Err(Errno::AGAIN) => return Err(QueryError::TimedOut),
            Err(error) => return Err(QueryError::Unreachable(error.to_string())),
        };
        let unreachable = |error: io::Error| QueryError::Unreachable(error.to_string());
        if !is_ours(&self.path) {
            return Err(QueryError::Unreachable("its socket belongs to another user".to_owned()));
        }
        let mut text = serde_json::to_vec(request).map_err(|error| QueryError::malformed(&error))?;
        text.push(b'\n');
        write_request(&stream, &text).map_err(unreachable)?;
        stream.set_nonblocking(false).map_err(unreachable)?;
        Ok(Connection { stream, buffer: Vec::new() })
    }
}

/// Puts a question. It is short, and the buffer of a fresh socket is not: this never waits.
fn write_request(mut stream: &UnixStream, request: &[u8]) -> io::Result<()> {
    match stream.write_all(request) {
        // Whoever refuses us closes at once, and why lies ready to be read.
        Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => Ok(()),
        done => done,
    }
}

/// What happens in one process.
#[derive(Debug)]
pub struct EventStream {
    connection: Connection,
}

/// What was heard of a process that is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamItem {
    /// Something happened.
    Event(EventRecord),
    /// So much happened that this many events were left out.
    Missed(u64),
}

impl EventStream {
    /// What comes next, or nothing within this time. The process is gone, or has dropped us, when it is an error.
    pub fn next_within(&mut self, within: Duration) -> Result<Option<StreamItem>, QueryError> {
        match self.connection.response(Instant::now() + within) {
            Ok(Response::Event(record)) => Ok(Some(StreamItem::Event(record))),
            Ok(Response::Missed(count)) => Ok(Some(StreamItem::Missed(count))),
            Ok(other) => Err(unexpected(&other)),
            Err(QueryError::TimedOut) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for EventStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.stream.as_fd()
    }
}

/// A connection on which something was asked.
#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    buffer: Vec<u8>,
}

impl Connection {
    fn snapshot(&mut self, deadline: Instant) -> Result<Snapshot, QueryError> {
        match self.response(deadline)? {
            Response::Snapshot(snapshot) => Ok(*snapshot),
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
                return Err(QueryError::Malformed("it has no end".to_owned()));
            }
            // What has come already is read, however late it is.
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let mut chunk = [0; 16 * 1024];
            let read = self.stream.set_read_timeout(Some(left)).and_then(|()| self.stream.read(&mut chunk));
            match read {
                Ok(0) if self.buffer.is_empty() => return Err(QueryError::Gone),
                Ok(0) => return Err(QueryError::Malformed("it breaks off".to_owned())),
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
        _ => QueryError::Malformed("it answers another question".to_owned()),
    }
}

fn sockets(directory: &Path) -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let process = |entry: std::fs::DirEntry| {
        let file = entry.file_name().into_string().ok()?;
        let (name, pid) = file.strip_suffix(SUFFIX)?.rsplit_once('-')?;
        let is_socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
        is_socket.then_some(())?;
        Some(Process { name: name.to_owned(), pid: pid.parse().ok()?, path: entry.path() })
    };
    entries.filter_map(|entry| process(entry.ok()?)).collect()
}

/// Removes what is left of processes that were killed before their socket had its name.
fn remove_stale_temporaries(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name().into_string().unwrap_or_default();
        let pid = name.strip_suffix(TEMPORARY_SUFFIX).and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
        if pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(Errno::SRCH)) {
            remove_stale(&entry.path());
        }
    }
}

/// Removes a socket that nobody listens on, if it is one and ours.
fn remove_stale(path: &Path) {
    if is_ours(path) {
        // Somebody else may have been quicker, which is as good.
        let _ = std::fs::remove_file(path);
    }
}

/// Is there a socket that this user made? The directory keeps others out, so that its owner is who listens. The kernel
/// could be asked who that is, but for a process outside our container its answer has no process id, and rustix takes
/// that for an error.
fn is_ours(path: &Path) -> bool {
    std::fs::symlink_metadata(path)
        .is_ok_and(|metadata| metadata.file_type().is_socket() && metadata.uid() == rustix::process::geteuid().as_raw())
}

/// Never waits: a process that takes no more connections is as good as one that does not answer.
fn connect(path: &Path) -> Result<UnixStream, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let (address, _directory) = address(path)?;
    rustix::net::connect(&socket, &address)?;
    Ok(UnixStream::from(socket))
}

/// The address of a socket at this path. One that is too long for an address is reached through its directory, which must
/// stay open for as long as the address is used.
pub(super) fn address(path: &Path) -> Result<(SocketAddrUnix, Option<OwnedFd>), Errno> {
    match SocketAddrUnix::new(path) {
        Err(Errno::NAMETOOLONG) => {
            let (Some(parent), Some(file)) = (path.parent(), path.file_name()) else { return Err(Errno::INVAL) };
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let directory = rustix::fs::open(parent, flags, Mode::empty())?;
            let short = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(file);
            Ok((SocketAddrUnix::new(&short)?, Some(directory)))
        }
        other => other.map(|address| (address, None)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn registry() -> (tempfile::TempDir, Registry) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let registry = Registry::of(vec![folder.path().to_owned(), folder.path().join("missing")]);
        (folder, registry)
    }

    /// One who answers every question with this.
    fn serve_text(path: &Path, answer: &'static str) {
        let listener = UnixListener::bind(path).unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let _ = stream.read(&mut [0; 256]);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
    }

    #[test]
    fn whoever_is_refused_before_it_has_asked_learns_why() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let refusal = serde_json::to_string(&Response::Refused("too many".to_owned())).unwrap();
        theirs.write_all(format!("{refusal}\n").as_bytes()).unwrap();
        drop(theirs);
        write_request(&ours, b"{}\n").unwrap();
        let snapshot = Connection { stream: ours, buffer: Vec::new() }.snapshot(Instant::now());
        assert_eq!(snapshot.unwrap_err(), QueryError::Refused("too many".to_owned()));
    }

    #[test]
    fn a_socket_without_a_listener_is_gone_and_swept_and_one_with_a_listener_stays() {
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
    fn what_was_never_born_is_swept_when_its_process_is_gone() {
        let (folder, registry) = registry();
        let ours = folder.path().join(format!("{}.new", std::process::id()));
        // No process has the highest number that there can be.
        let dead = folder.path().join(format!("{}.new", i32::MAX));
        let _listeners = [&ours, &dead].map(|path| UnixListener::bind(path).unwrap());
        assert_eq!(registry.snapshots(), []);
        assert!(ours.exists() && !dead.exists());
    }

    #[test]
    fn an_answer_that_quotes_escapes_is_harmless() {
        let (folder, registry) = registry();
        serve_text(&folder.path().join("liar-1.sock"), "{\"\\u001b[2J\": 1}\n");
        serve_text(&folder.path().join("rude-2.sock"), "{\"refused\": \"\\u001b[2J\"}\n");
        let found = registry.snapshots_within(Duration::from_secs(10));
        let texts: Vec<String> = found.iter().map(|found| found.snapshot.as_ref().unwrap_err().to_string()).collect();
        assert!(texts[0].contains("cannot be read") && texts[1].contains("refused"), "{texts:?}");
        assert!(texts.iter().all(|text| text.contains("u{1b}") && !text.contains('\u{1b}')), "{texts:?}");
    }

    #[test]
    fn an_answer_without_an_end_is_not_read_to_its_end() {
        let (folder, registry) = registry();
        let listener = UnixListener::bind(folder.path().join("flood-1.sock")).unwrap();
        std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            while stream.write_all(&[b' '; 4096]).is_ok() {}
        });
        let found = registry.snapshots_within(Duration::from_secs(10));
        assert_eq!(found[0].snapshot, Err(QueryError::Malformed("it has no end".to_owned())));
    }
}
