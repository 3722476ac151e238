//! Reports of the kernel about changes of the network.
//!
//! The kernel reports every change of an interface, address or route on a netlink route socket. Lost messages count as
//! a change.

use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::raw;

/// The most messages that are read at a time. The remaining ones are lost or read later; both count as a change.
const MESSAGES_PER_ITERATION: usize = 256;

/// Longer than a usual message; the beginning of a longer one is enough.
const MESSAGE_BYTES: usize = 8 * 1024;

/// Interfaces, then addresses and routes of both families.
const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;

/// The changes of the network that the kernel reports.
pub(crate) struct NetworkChanges {
    socket: AsyncFd<OwnedFd>,
}

impl NetworkChanges {
    /// Starts to watch. Must be called inside a tokio runtime.
    pub(crate) fn watch() -> io::Result<NetworkChanges> {
        Ok(NetworkChanges { socket: raw::watch(socket()?, Interest::READABLE)? })
    }

    /// Waits until a change is reported. Cancel-safe.
    pub(crate) async fn next(&self) {
        while !self.wait_for_messages().await {}
    }

    /// Drops the changes that are reported already.
    pub(crate) fn skip(&self) {
        self.read();
    }

    /// Waits for messages. Returns whether one of them reports a change.
    async fn wait_for_messages(&self) -> bool {
        match self.socket.readable().await {
            Ok(mut ready) => ready.clear_ready(),
            // The runtime is shutting down.
            Err(_) => pending().await,
        }
        match self.read() {
            ReadResult::Change => true,
            ReadResult::Nothing => false,
            ReadResult::Failure => pending().await,
        }
    }

    /// Reads the available messages.
    fn read(&self) -> ReadResult {
        let mut buffer = [0; MESSAGE_BYTES];
        let mut result = ReadResult::Nothing;
        for _ in 0..MESSAGES_PER_ITERATION {
            match receive(self.socket.get_ref(), &mut buffer) {
                Received::Message(length) if reports_change(&buffer[..length]) => result = ReadResult::Change,
                Received::Message(_) => {}
                Received::Overflow => result = ReadResult::Change,
                Received::Nothing => return result,
                Received::Failure => return ReadResult::Failure,
            }
        }
        // Readiness was cleared and there may be more. So many messages are a change; the rest is read after the pause.
        ReadResult::Change
    }
}

/// The summary of all messages of a read.
enum ReadResult {
    Change,
    Nothing,
    /// The socket cannot be used any more.
    Failure,
}

/// The result of one receive call.
enum Received {
    Message(usize),
    /// Messages were lost.
    Overflow,
    /// No message is available.
    Nothing,
    Failure,
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // The route protocol has the number 0, which is the same as no protocol.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
    Ok(socket)
}

fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Received {
    match rustix::io::retry_on_intr(|| recv(socket, &mut *buffer, RecvFlags::DONTWAIT)) {
        Ok((length, _)) => Received::Message(length),
        Err(Errno::AGAIN) => Received::Nothing,
        Err(Errno::NOBUFS) => Received::Overflow,
        Err(_) => Received::Failure,
    }
}

/// Returns whether a datagram reports a change of an interface, an address or a route. Wireless interfaces also report
/// each scan, which changes nothing and happens every few minutes.
fn reports_change(datagram: &[u8]) -> bool {
    const HEADER: usize = 16;
    const OVERRUN: u16 = 4;
    const NEW_LINK: u16 = 16;
    const CHANGES: [u16; 6] = [NEW_LINK, 17, 20, 21, 24, 25];
    let mut rest = datagram;
    while let (Some(length), Some(kind)) = (read_u32(rest, 0), read_u16(rest, 4)) {
        let length = usize::try_from(length).unwrap_or(usize::MAX).max(HEADER);
        let message = &rest[..length.min(rest.len())];
        let is_scan = kind == NEW_LINK && is_wireless_event(message.get(HEADER..).unwrap_or_default());
        if kind == OVERRUN || (CHANGES.contains(&kind) && !is_scan) {
            return true;
        }
        rest = rest.get(aligned(length)..).unwrap_or_default();
    }
    false
}

/// Returns whether a message about an interface has a wireless attribute, as the report of a scan does.
fn is_wireless_event(body: &[u8]) -> bool {
    const INTERFACE_HEADER: usize = 16;
    const WIRELESS: u16 = 11;
    let mut rest = body.get(INTERFACE_HEADER..).unwrap_or_default();
    while let (Some(length), Some(kind)) = (read_u16(rest, 0), read_u16(rest, 2)) {
        if kind == WIRELESS {
            return true;
        }
        rest = rest.get(aligned(usize::from(length).max(4))..).unwrap_or_default();
    }
    false
}

fn aligned(length: usize) -> usize {
    length.saturating_add(3) & !3
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds one message of this kind with this body.
    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut message = Vec::new();
        message.extend(u32::try_from(16 + body.len()).unwrap().to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend([0; 10]);
        message.extend(body);
        message.resize(aligned(message.len()), 0);
        message
    }

    /// Builds a message about an interface with one attribute of this kind.
    fn link(attribute: u16) -> Vec<u8> {
        let mut body = vec![0; 16];
        body.extend(8_u16.to_ne_bytes());
        body.extend(attribute.to_ne_bytes());
        body.extend([0; 4]);
        message(16, &body)
    }

    #[test]
    fn only_interfaces_addresses_and_routes_are_changes() {
        for kind in [16, 17, 20, 21, 24, 25] {
            assert!(reports_change(&message(kind, &[0; 16])), "{kind}");
        }
        for kind in [1, 2, 3, 18, 28, 32, 68] {
            assert!(!reports_change(&message(kind, &[0; 16])), "{kind}");
        }
        assert!(reports_change(&message(4, &[])), "lost messages count as a change");
    }

    #[test]
    fn wireless_scan_is_no_change() {
        let (name, wireless) = (3, 11);
        assert!(reports_change(&link(name)));
        assert!(!reports_change(&link(wireless)));
        let both = [link(wireless), message(20, &[0; 8])].concat();
        assert!(reports_change(&both), "the second message is a change");
    }

    #[test]
    fn malformed_messages_are_ignored() {
        for datagram in [&[][..], &[1], &[0; 5], &[0; 64], &[0xff; 64]] {
            assert!(!reports_change(datagram), "{datagram:?}");
        }
        let mut endless = link(11);
        // An attribute with length zero must not cause an endless loop.
        endless[32..34].copy_from_slice(&[0, 0]);
        assert!(!reports_change(&endless));
    }
}
