//! The sockets through which `mendline status` talks to running processes.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// The client's end of a connection.
pub(crate) use std::os::unix::net::UnixStream as ClientStream;
/// The listening socket, and the server's end of a connection.
pub(crate) use tokio::net::{UnixListener as Listener, UnixStream as ServerStream};

use crate::os::files::{make_private, user_id};

/// Connects without waiting. Fails with `WouldBlock` if the backlog of the process is full.
pub(crate) fn connect(path: &Path) -> io::Result<ClientStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let (address, _directory) = address(path)?;
    rustix::net::connect(&socket, &address)?;
    Ok(ClientStream::from(socket))
}

/// Binds a socket to a temporary name, listens, and renames it to its final name. Must be called inside a tokio
/// runtime.
pub(crate) fn listen(temporary: &Path, path: &Path, backlog: i32) -> io::Result<Listener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // A killed process with the same id may have left this file.
    let _ = std::fs::remove_file(temporary);
    let (address, _directory) = address(temporary)?;
    rustix::net::bind(&socket, &address)?;
    let named = make_private(temporary)
        .and_then(|()| Ok(rustix::net::listen(&socket, backlog)?))
        .and_then(|()| std::fs::rename(temporary, path));
    if let Err(error) = named {
        let _ = std::fs::remove_file(temporary);
        return Err(error);
    }
    Listener::from_std(std::os::unix::net::UnixListener::from(socket))
}

/// Returns whether a process of this user is at the other end.
pub(crate) fn is_of_this_user(stream: &ServerStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == user_id())
}

/// Returns whether the path is a socket of this user. Others cannot write to the directory, so its owner is the
/// listener. `SO_PEERCRED` would also tell, but it has no process id for a process outside of our container, which
/// rustix treats as an error.
pub(crate) fn is_ours(path: &Path) -> bool {
    std::fs::symlink_metadata(path)
        .is_ok_and(|metadata| metadata.file_type().is_socket() && metadata.uid() == user_id())
}

/// Returns whether no process listens on a socket.
pub fn is_dead(path: &Path) -> bool {
    ClientStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Waits until something can be read from one of these connections, and returns from which. A signal ends the wait.
pub(crate) fn wait_for_any<'a>(streams: impl Iterator<Item = &'a ClientStream>, within: Duration) -> Vec<bool> {
    let mut fds: Vec<PollFd<'_>> =
        streams.map(|stream| PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN)).collect();
    let within = Timespec::try_from(within).unwrap_or_default();
    // An interruption counts as a timeout: the next wait finds the rest.
    let _ = poll(&mut fds, Some(&within));
    fds.iter().map(|fd| !fd.revents().is_empty()).collect()
}

/// Returns the address of a socket. A path that is too long for an address is reached through its directory, whose
/// descriptor must stay open while the address is used.
fn address(path: &Path) -> Result<(SocketAddrUnix, Option<OwnedFd>), Errno> {
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
