//! The sockets of this machine as the kernel reports them.

use std::fs;

use mendline_faults::Ending;

use crate::client::{SOON, eventually};
use crate::site::Site;

const ESTABLISHED: &str = "01";
const CLOSE_WAIT: &str = "08";

/// One end of a TCP connection over IPv4.
pub(crate) struct Socket {
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
    /// Both sides are open.
    pub(crate) is_established: bool,
    /// The other side has closed it, and this side has not.
    pub(crate) is_closed_by_peer: bool,
    /// The number of sent bytes that are not acknowledged.
    pub(crate) unacknowledged: u64,
    /// The number of received bytes that are not read.
    pub(crate) unread: u64,
}

/// Returns all IPv4 TCP sockets.
pub(crate) fn sockets() -> Vec<Socket> {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().skip(1).map(|line| parsed(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

/// Parses number, local address, remote address, state, send queue and receive queue, all hexadecimal.
fn parsed(line: &str) -> Option<Socket> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let port = |address: &str| u16::from_str_radix(address.split_once(':')?.1, 16).ok();
    let (unacknowledged, unread) = fields.get(4)?.split_once(':')?;
    Some(Socket {
        local_port: port(fields.get(1)?)?,
        remote_port: port(fields.get(2)?)?,
        is_established: *fields.get(3)? == ESTABLISHED,
        is_closed_by_peer: *fields.get(3)? == CLOSE_WAIT,
        unacknowledged: u64::from_str_radix(unacknowledged, 16).ok()?,
        unread: u64::from_str_radix(unread, 16).ok()?,
    })
}

/// Ends every connection of a server, including those in the backlog, and waits until the clients' kernel knows it.
pub(crate) fn cut_all(site: &Site, ending: Ending) {
    let port = site.address().port();
    eventually("no connection is left", SOON, || {
        site.cut(ending);
        let is_known = || !sockets().iter().any(|socket| socket.remote_port == port && socket.is_established);
        site.counts().open_connections == 0 && is_known()
    });
}
