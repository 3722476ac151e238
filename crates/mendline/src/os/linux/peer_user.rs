//! The user at the other end of a loopback connection.
//!
//! A TCP connection has no credentials of its peer, but on loopback the peer is a socket of this machine, and the kernel
//! knows its owner: socket diagnostics answer for one connection, and `/proc/net/tcp` lists all of them where the first
//! is forbidden, in some sandboxes.
//!
//! A socket that its process has closed has no inode any more, and the kernel then names user 0. Such an answer is worth
//! nothing: a process could send a request, close its socket and pass for the administrator.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with};

/// The type of a request for one socket, and of its answer.
const SOCK_DIAG_BY_FAMILY: u16 = 20;

/// The flag of a request.
const NLM_F_REQUEST: u16 = 1;

/// The length of the header of a netlink message.
const HEADER: usize = 16;

/// The length of a request: the header, 8 bytes of options and the socket.
const REQUEST: usize = HEADER + 8 + 48;

/// The answer: where the state of the socket, its addresses, its owner and its inode are.
const ADDRESSES: usize = HEADER + 4;
const UID: usize = ADDRESSES + 48 + 12;
const INODE: usize = UID + 4;

/// Asks the kernel for the owners of sockets.
pub(crate) struct PeerUsers {
    /// The socket for diagnostics, if the system has it.
    diagnostics: Option<OwnedFd>,
    sequence: u32,
}

impl PeerUsers {
    /// Prepares to ask.
    pub(crate) fn new() -> PeerUsers {
        PeerUsers { diagnostics: diagnostics(), sequence: 0 }
    }

    /// Returns the user who owns the socket at `peer` that is connected to `local`; nothing if it is not known.
    pub(crate) fn user_of(&mut self, peer: SocketAddr, local: SocketAddr) -> Option<u32> {
        let (peer, local) = (canonical(peer), canonical(local));
        match self.ask(peer, local) {
            Answer::User(uid) => Some(uid),
            Answer::NoSocket => None,
            Answer::Failed => from_table(peer, local),
        }
    }

    fn ask(&mut self, peer: SocketAddr, local: SocketAddr) -> Answer {
        let Some(socket) = &self.diagnostics else { return Answer::Failed };
        self.sequence = self.sequence.wrapping_add(1);
        let request = request(peer, local, self.sequence);
        if send(socket, &request, SendFlags::DONTWAIT) != Ok(REQUEST) {
            return Answer::Failed;
        }
        let mut buffer = [0; 1024];
        // The kernel answers before `send` returns. Answers to earlier requests are skipped.
        while let Ok((length, _)) = recv(socket, &mut buffer, RecvFlags::DONTWAIT) {
            let answer = &buffer[..length.min(buffer.len())];
            if word(answer, 8) == Some(self.sequence) {
                return read_answer(answer, &request);
            }
        }
        Answer::Failed
    }
}

/// The answer of the kernel.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    User(u32),
    /// There is no such socket, or its process has closed it.
    NoSocket,
    /// The kernel does not answer such requests.
    Failed,
}

fn diagnostics() -> Option<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(SOCK_DIAG)).ok()?;
    // A connected socket receives from the kernel only.
    connect(&socket, &SocketAddrNetlink::new(0, 0)).ok()?;
    Some(socket)
}

/// Returns an IPv4 address in the form of IPv6 as IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn request(peer: SocketAddr, local: SocketAddr, sequence: u32) -> [u8; REQUEST] {
    let mut text = Vec::with_capacity(REQUEST);
    text.extend((REQUEST as u32).to_ne_bytes());
    text.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    text.extend(NLM_F_REQUEST.to_ne_bytes());
    text.extend(sequence.to_ne_bytes());
    text.extend(0_u32.to_ne_bytes());
    let family = if peer.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    // TCP, no extensions, padding; then all states.
    text.extend([family.as_raw() as u8, 6, 0, 0]);
    text.extend(u32::MAX.to_ne_bytes());
    text.extend(peer.port().to_be_bytes());
    text.extend(local.port().to_be_bytes());
    text.extend(sixteen(peer.ip()));
    text.extend(sixteen(local.ip()));
    // Any interface, and no cookie.
    text.extend(0_u32.to_ne_bytes());
    text.extend([0xff; 8]);
    let mut request = [0; REQUEST];
    request.copy_from_slice(&text);
    request
}

fn sixteen(address: IpAddr) -> [u8; 16] {
    let mut bytes = [0; 16];
    match address {
        IpAddr::V4(address) => bytes[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => bytes = address.octets(),
    }
    bytes
}

fn read_answer(answer: &[u8], request: &[u8; REQUEST]) -> Answer {
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    match kind {
        Some(SOCK_DIAG_BY_FAMILY) => {
            // Ports and addresses: a listening socket at the same port has no peer.
            let is_same = answer.get(ADDRESSES..ADDRESSES + 36) == request.get(HEADER + 8..HEADER + 44);
            match (word(answer, UID), word(answer, INODE)) {
                (Some(uid), Some(inode)) if is_same && inode != 0 => Answer::User(uid),
                _ => Answer::NoSocket,
            }
        }
        // An error with its number: no such entry, or the reason why there is no answer.
        Some(_) => {
            let number = word(answer, HEADER).map(|number| number.wrapping_neg());
            let is_absent = number == Some(rustix::io::Errno::NOENT.raw_os_error() as u32);
            if is_absent { Answer::NoSocket } else { Answer::Failed }
        }
        None => Answer::Failed,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes)
}

/// Searches the table of all sockets.
fn from_table(peer: SocketAddr, local: SocketAddr) -> Option<u32> {
    // An IPv6 socket with an IPv4 peer is in the other table.
    let tables = if peer.is_ipv4() { &["/proc/net/tcp", "/proc/net/tcp6"][..] } else { &["/proc/net/tcp6"] };
    tables.iter().find_map(|path| search(&fs::read_to_string(path).ok()?, peer, local))
}

fn search(table: &str, peer: SocketAddr, local: SocketAddr) -> Option<u32> {
    table.lines().skip(1).find_map(|line| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let (own, other) = (parse_address(columns.get(1)?)?, parse_address(columns.get(2)?)?);
        let (uid, inode) = (columns.get(7)?.parse().ok()?, columns.get(9)?.parse::<u64>().ok()?);
        (own == peer && other == local && inode != 0).then_some(uid)
    })
}

/// Reads an address: groups of four bytes in the order of this machine, then the port.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (digits, port) = text.split_once(':')?;
    let mut bytes = Vec::new();
    for group in digits.as_bytes().chunks(8) {
        bytes.extend(u32::from_str_radix(std::str::from_utf8(group).ok()?, 16).ok()?.to_ne_bytes());
    }
    let address = match <[u8; 4]>::try_from(&bytes[..]) {
        Ok(bytes) => IpAddr::from(bytes),
        Err(_) => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical(),
    };
    Some(SocketAddr::new(address, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::os::files::user_id;

    fn connection(address: &str) -> (TcpListener, TcpStream, SocketAddr, SocketAddr) {
        let listener = TcpListener::bind(address).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, local) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        (listener, client, peer, local)
    }

    #[test]
    fn own_connection_belongs_to_the_own_user() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            if TcpListener::bind(address).is_err() {
                continue; // no IPv6 here
            }
            let (_listener, _client, peer, local) = connection(address);
            assert_eq!(PeerUsers::new().user_of(peer, local), Some(user_id()), "{address}");
            let mut without = PeerUsers { diagnostics: None, sequence: 0 };
            assert_eq!(without.user_of(peer, local), Some(user_id()), "the table: {address}");
        }
    }

    #[test]
    fn closed_socket_has_no_user() {
        let (_listener, client, peer, local) = connection("127.0.0.1:0");
        drop(client);
        for mut users in [PeerUsers::new(), PeerUsers { diagnostics: None, sequence: 0 }] {
            assert_eq!(users.user_of(peer, local), None, "its process has closed it");
            assert_eq!(users.user_of(local, peer), None, "it was not accepted, so no process owns it");
        }
    }

    #[test]
    fn listening_socket_is_not_a_peer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(PeerUsers::new().user_of(address, SocketAddr::from(([127, 0, 0, 1], 1))), None);
    }

    #[test]
    fn table_of_the_kernel_is_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                     0: 0100007F:1CA9 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 77 1\n\
                     1: 0100007F:C001 0100007F:1CA9 01 00000000:00000000 00:00000000 00000000  1001        0 78 1\n\
                     2: 0100007F:C002 0100007F:1CA9 06 00000000:00000000 00:00000000 00000000     0        0 0 3\n";
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        if cfg!(target_endian = "little") {
            assert_eq!(search(table, at(0xC001), at(7337)), Some(1001));
            assert_eq!(search(table, at(0xC002), at(7337)), None, "closed: the kernel names user 0");
            assert_eq!(search(table, at(0xC003), at(7337)), None);
        }
        assert_eq!(search("", at(1), at(2)), None);
    }
}
