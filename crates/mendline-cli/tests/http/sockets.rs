//! The sockets of this machine as its kernel knows them: what has arrived before anybody has looked.

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
    /// Neither side has ended it.
    pub(crate) is_established: bool,
    /// The other side has ended it, and this one has not.
    pub(crate) is_closed_by_peer: bool,
    /// What it has sent and the other side's kernel has not acknowledged.
    pub(crate) unacknowledged: u64,
    /// What has arrived and is not read.
    pub(crate) unread: u64,
}

/// All of them.
pub(crate) fn sockets() -> Vec<Socket> {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().skip(1).map(|line| parsed(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

/// Number, local address, remote address, state, what waits to be sent and to be read; all in hexadecimal digits.
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

/// Ends every connection of a server, also one that is only on its way, and waits until the kernel has told its clients.
pub(crate) fn cut_all(site: &Site, ending: Ending) {
    let port = site.address().port();
    eventually("no connection is left", SOON, || {
        site.cut(ending);
        let is_known = || !sockets().iter().any(|socket| socket.remote_port == port && socket.is_established);
        site.counts().open_connections == 0 && is_known()
    });
}
