//! The control socket of a running process.
//!
//! It runs on the thread that serves calls, so everything is bounded: the number of connections, the size and duration
//! of requests, and the queue of each follower. A connection that sends no request in time is closed. A follower that
//! reads too slowly misses events and gets their number. Calls never wait for a connection.
//!
//! The socket gets its final name only when it listens. So a socket that refuses connections belongs to a process that
//! has ended, and may be removed.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mendline_core::Input;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::time::timeout;

use super::message::{Command, Level, REQUEST_BYTES, Request, Response};
use super::registry::{SUFFIX, StreamItem, TEMPORARY_SUFFIX};
use super::runtime_dir::{self, NoneUsable};
use super::store::{SharedStatus, lock};
use crate::os::control_socket::{Listener, ServerStream, is_of_this_user, listen};

/// The limit of open connections.
const CONNECTIONS: usize = 16;

/// The limit of connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// The time that a connection may take to send a request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// The time that a connection may take to read a response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// The delay after a failed `accept`, for instance without free file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The limit of a server's name in the name of the socket, in characters.
const NAME_LENGTH: usize = 32;

/// Sends an input to the engine; returns false if its queue is full.
pub type InputSender = Arc<dyn Fn(Input) -> bool + Send + Sync>;

/// The control socket of this process.
#[derive(Debug)]
pub struct Socket {
    listener: Listener,
    path: PathBuf,
}

/// Removes the socket's file when it is dropped.
#[derive(Debug)]
pub struct SocketGuard(PathBuf);

impl Drop for SocketGuard {
    fn drop(&mut self) {
        // The file may have been removed with its directory.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// An error: the control socket cannot be opened.
#[derive(Debug)]
pub enum OpenError {
    /// There is no directory for it.
    Directory(NoneUsable),
    /// The system refuses it.
    Io {
        /// The path of the socket.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Directory(why) => why.fmt(f),
            OpenError::Io { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for OpenError {}

impl Socket {
    /// Opens a socket in the first usable candidate directory. Its file name contains the name of the server. Must be
    /// called inside a tokio runtime.
    pub fn open(candidates: &[PathBuf], name: &str) -> Result<Socket, OpenError> {
        let directory = runtime_dir::first_usable(candidates).map_err(OpenError::Directory)?;
        let pid = std::process::id();
        let is_plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | ':');
        let plain = |character: char| if is_plain(character) { character } else { '-' };
        let name: String = name.chars().take(NAME_LENGTH).map(plain).collect();
        let path = directory.join(format!("{name}-{pid}{SUFFIX}"));
        match listen(&directory.join(format!("{pid}{TEMPORARY_SUFFIX}")), &path, BACKLOG) {
            Ok(listener) => Ok(Socket { listener, path }),
            Err(error) => Err(OpenError::Io { path, error }),
        }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Serves connections. The returned guard removes the socket's file.
    pub fn serve(self, store: SharedStatus, send_input: InputSender) -> SocketGuard {
        let Socket { listener, path } = self;
        tokio::spawn(async move {
            let connections = Arc::new(());
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    continue;
                };
                // The mode of the directory already excludes other users; this is a second check.
                if !is_of_this_user(&stream) {
                    continue;
                }
                if Arc::strong_count(&connections) > CONNECTIONS {
                    refuse(&stream, "too many are connected");
                    continue;
                }
                let (connection, store, send_input) =
                    (Arc::clone(&connections), Arc::clone(&store), Arc::clone(&send_input));
                tokio::spawn(async move {
                    // An error of one connection affects no other and has no receiver.
                    let _ = handle_connection(stream, &store, &send_input).await;
                    drop(connection);
                });
            }
        });
        SocketGuard(path)
    }
}

/// Rejects a connection without waiting: the buffer of a new socket has room for one line.
fn refuse(stream: &ServerStream, why: &str) {
    let _ = stream.try_write(&encode(&Response::Refused(why.to_owned())));
}

async fn handle_connection(stream: ServerStream, store: &SharedStatus, send_input: &InputSender) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::with_capacity(256, reader);
    let mut request = Vec::new();
    loop {
        request.clear();
        let mut bounded = (&mut reader).take(REQUEST_BYTES as u64);
        let read = timeout(IDLE_TIMEOUT, bounded.read_until(b'\n', &mut request)).await;
        let Ok(Ok(1..)) = read else { return Ok(()) };
        let response = match serde_json::from_slice(&request) {
            Ok(Request::Snapshot) => Response::Snapshot(Box::new(lock(store).snapshot())),
            Ok(Request::Metrics) => Response::Metrics(lock(store).metrics()),
            Ok(Request::Call { call, server }) => Response::Call(lock(store).call(call, server.as_deref())),
            Ok(Request::Command { command, server }) => run_command(command, server.as_deref(), store, send_input),
            Ok(Request::Events { level }) => return follow(level, reader, writer, store).await,
            Err(error) => {
                // The start of the next request is unknown after a malformed one.
                let why = format!("the request cannot be parsed: {error}");
                return write_response(&mut writer, &Response::Refused(why)).await;
            }
        };
        write_response(&mut writer, &response).await?;
    }
}

fn run_command(command: Command, server: Option<&str>, store: &SharedStatus, send_input: &InputSender) -> Response {
    let selected = lock(store).named(server);
    if selected.is_empty() {
        return Response::Refused(format!("there is no server {:?} in this process", server.unwrap_or_default()));
    }
    let input = |upstream| match command {
        Command::Reconnect => Input::Reconnect { upstream },
        Command::Isolate => Input::Isolate { upstream },
        Command::Resume => Input::Resume { upstream },
    };
    let mut servers = Vec::new();
    for (upstream, name) in selected {
        if !send_input(input(upstream)) {
            return Response::Refused("the queue of commands is full; try again".to_owned());
        }
        servers.push(name);
    }
    Response::Done { servers }
}

/// Sends events until the connection is closed or does not read.
async fn follow(
    level: Level,
    mut reader: impl AsyncReadExt + Unpin,
    mut writer: impl AsyncWriteExt + Unpin,
    store: &SharedStatus,
) -> io::Result<()> {
    let mut events = lock(store).follow(level);
    write_response(&mut writer, &Response::Following).await?;
    let mut ignored = [0; 64];
    loop {
        let response = tokio::select! {
            item = events.recv() => match item {
                Some(StreamItem::Event(record)) => Response::Event(record),
                Some(StreamItem::Missed(count)) => Response::Missed(count),
                None => return Ok(()),
            },
            read = reader.read(&mut ignored) => match read? {
                0 => return Ok(()),
                _ => continue,
            },
        };
        write_response(&mut writer, &response).await?;
    }
}

async fn write_response(writer: &mut (impl AsyncWriteExt + Unpin), response: &Response) -> io::Result<()> {
    timeout(WRITE_TIMEOUT, writer.write_all(&encode(response))).await?
}

fn encode(response: &Response) -> Vec<u8> {
    // Serialization cannot fail: all maps have string keys.
    let mut line = serde_json::to_vec(response).unwrap_or_default();
    line.push(b'\n');
    line
}
