//! The socket of a running process: its own user asks, it answers.
//!
//! It is one task on the thread that carries the calls, so everything about it has an end: how many may be connected, how
//! long a question may be and take, how much is kept for somebody who follows and does not read. Whoever stays silent is
//! dropped; whoever follows too slowly misses events and is told how many. A call never waits for any of them.
//!
//! The socket gets its name only when it listens. So whoever finds one that refuses connections knows that its process is
//! gone, and may remove it.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mendline_core::Input;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use super::message::{REQUEST_BYTES, Response, Request, Command, Level};
use super::runtime_dir;
use super::registry::{StreamItem, SUFFIX, TEMPORARY_SUFFIX, address};
use super::store::{SharedStatus, lock};

/// How many may be connected at once.
const CONNECTIONS: usize = 16;

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 64;

/// How long somebody who is connected may say nothing.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long somebody may take to read what was said to him.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long we wait when no connection can be accepted, for want of descriptors for instance.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// How much of a server's name is in the name of the socket.
const NAME_LENGTH: usize = 32;

/// Passes something on to the engine; says whether there was a place for it.
pub type InputSender = Arc<dyn Fn(Input) -> bool + Send + Sync>;

/// The socket of this process, which is gone when this is.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

/// Removes the socket's name in the end.
#[derive(Debug)]
pub struct SocketGuard(PathBuf);

impl Drop for SocketGuard {
    fn drop(&mut self) {
        // It may have been swept away with its directory; nobody can be told anyway.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Socket {
    /// A socket in the first of these directories that can be used, for a process that looks after a server of this name.
    /// Must be called inside a tokio runtime.
    pub fn open(candidates: &[PathBuf], name: &str) -> Result<Socket, String> {
        let directory = runtime_dir::first_usable(candidates)?;
        let pid = std::process::id();
        let plain =
            |character: char| if character.is_ascii_alphanumeric() || character == '_' { character } else { '-' };
        let name: String = name.chars().take(NAME_LENGTH).map(plain).collect();
        let path = directory.join(format!("{name}-{pid}{SUFFIX}"));
        let listener = listen(&directory.join(format!("{pid}{TEMPORARY_SUFFIX}")), &path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Socket { listener, path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Answers everybody who comes, until what this gives is dropped.
    pub fn serve(self, store: SharedStatus, send_input: InputSender) -> SocketGuard {
        let Socket { listener, path } = self;
        tokio::spawn(async move {
            let connections = Arc::new(());
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    continue;
                };
                // The directory keeps others out; this is the wall behind it.
                let is_ours = |uid| uid == rustix::process::geteuid().as_raw();
                if !stream.peer_cred().is_ok_and(|peer| is_ours(peer.uid())) {
                    continue;
                }
                if Arc::strong_count(&connections) > CONNECTIONS {
                    refuse(&stream, "too many are connected");
                    continue;
                }
                let (connection, store, send_input) = (Arc::clone(&connections), Arc::clone(&store), Arc::clone(&send_input));
                tokio::spawn(async move {
                    // However it ends, there is nobody to tell.
                    let _ = handle_connection(stream, &store, &send_input).await;
                    drop(connection);
                });
            }
        });
        SocketGuard(path)
    }
}

/// Listens under a name that nobody looks at, and takes the right one then.
fn listen(temporary: &Path, path: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Of one who had this id before us and was killed.
    let _ = std::fs::remove_file(temporary);
    let (address, _directory) = address(temporary)?;
    rustix::net::bind(&socket, &address)?;
    let named = std::fs::set_permissions(temporary, std::fs::Permissions::from_mode(0o600))
        .and_then(|()| Ok(rustix::net::listen(&socket, BACKLOG)?))
        .and_then(|()| std::fs::rename(temporary, path));
    if let Err(error) = named {
        let _ = std::fs::remove_file(temporary);
        return Err(error);
    }
    UnixListener::from_std(std::os::unix::net::UnixListener::from(socket))
}

/// Does not wait: a temporary socket has a place for one line.
fn refuse(stream: &UnixStream, why: &str) {
    let _ = stream.try_write(&encode(&Response::Refused(why.to_owned())));
}

async fn handle_connection(stream: UnixStream, store: &SharedStatus, send_input: &InputSender) -> io::Result<()> {
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
            Ok(Request::Command { command, server }) => run_command(command, server.as_deref(), store, send_input),
            Ok(Request::Events { level }) => return follow(level, reader, writer, store).await,
            Err(error) => {
                // Where one line is wrong, nobody knows where the next begins.
                let why = format!("this question is not understood: {error}");
                return write_response(&mut writer, &Response::Refused(why)).await;
            }
        };
        write_response(&mut writer, &response).await?;
    }
}

fn run_command(command: Command, server: Option<&str>, store: &SharedStatus, send_input: &InputSender) -> Response {
    let selected = lock(store).named(server);
    if selected.is_empty() {
        return Response::Refused(format!("there is no server {:?} here", server.unwrap_or_default()));
    }
    let input = |upstream| match command {
        Command::Reconnect => Input::Reconnect { upstream },
        Command::Isolate => Input::Isolate { upstream },
        Command::Resume => Input::Resume { upstream },
    };
    let mut servers = Vec::new();
    for (upstream, name) in selected {
        if !send_input(input(upstream)) {
            return Response::Refused("too much is to be done already".to_owned());
        }
        servers.push(name);
    }
    Response::Done { servers }
}

/// Tells what happens until the other side leaves or does not read.
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
    // Nothing in it can fail to be written: no map has keys that are not text.
    let mut line = serde_json::to_vec(response).unwrap_or_default();
    line.push(b'\n');
    line
}
