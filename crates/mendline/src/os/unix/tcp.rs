//! Options and state of TCP connections.

use std::io;
use std::os::fd::AsFd as _;
use std::time::Duration;

use rustix::net::{RecvFlags, sockopt};
use tokio::net::TcpStream;

/// The times after which the kernel ends a connection to a dead peer.
pub(crate) struct DeadPeer {
    /// The idle time before the first keepalive probe.
    pub(crate) idle: Duration,
    /// The time between probes.
    pub(crate) interval: Duration,
    /// The number of unanswered probes.
    pub(crate) probes: u32,
    /// The time after which a peer that acknowledges no sent data is gone.
    pub(crate) unacknowledged: Duration,
}

/// Makes the kernel detect a dead peer of this connection. An option that the system does not support is skipped.
pub(crate) fn detect_dead_peer(stream: &TcpStream, after: &DeadPeer) {
    let fd = stream.as_fd();
    let _ = sockopt::set_socket_keepalive(fd, true);
    let _ = sockopt::set_tcp_keepidle(fd, after.idle);
    let _ = sockopt::set_tcp_keepintvl(fd, after.interval);
    let _ = sockopt::set_tcp_keepcnt(fd, after.probes);
    #[cfg(target_os = "linux")]
    let _ = sockopt::set_tcp_user_timeout(fd, u32::try_from(after.unacknowledged.as_millis()).unwrap_or(u32::MAX));
}

/// Returns whether the peer has not closed the connection. Asks the kernel, because the reactor may not know of the end
/// yet, and reads nothing.
pub(crate) fn looks_open(stream: &TcpStream) -> bool {
    let mut byte = [0_u8; 1];
    match rustix::net::recv(stream.as_fd(), &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        // Zero bytes are the end. If there is data, the connection itself reads it.
        Ok((count, _)) => count > 0,
        Err(error) => error == rustix::io::Errno::AGAIN,
    }
}

/// Tells the peer that nothing more will be sent.
pub(crate) fn end_writing(stream: &TcpStream) -> io::Result<()> {
    match rustix::net::shutdown(stream.as_fd(), rustix::net::Shutdown::Write) {
        // A peer that is already gone needs no shutdown.
        Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
