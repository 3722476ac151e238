//! Has the network changed?
//!
//! The kernel tells whoever listens on a route socket about every interface, address and route that comes, goes or changes.
//! Joining a network, or a VPN, is dozens of such messages within a moment, so the first one starts a pause in which
//! nothing is read, and then all of it is one change; and one change is last_report at most every few seconds, because a machine
//! that starts containers all day changes its network all day. Messages that were lost because we did not read count as a
//! change as well.

use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

/// Changes come in flocks; one that begins is let by before it is last_report.
const DEBOUNCE: Duration = Duration::from_millis(500);

/// The shortest time between two changes that are last_report.
const MIN_INTERVAL: Duration = Duration::from_secs(5);

/// How many messages are read at a time. What is left then is lost or result later; it is a change either way.
const MESSAGES_PER_ITERATION: usize = 256;

/// Longer than any message about one thing; of a longer one the beginning says enough.
const MESSAGE_BYTES: usize = 8 * 1024;

/// Tells when the network has changed.
pub struct Network {
    socket: AsyncFd<OwnedFd>,
    debounce: Debounce,
}

impl Network {
    /// Watches from now on. Must be called inside a tokio runtime.
    pub fn watch() -> io::Result<Network> {
        Ok(Network { socket: crate::raw::watch(netlink::socket()?, Interest::READABLE)?, debounce: Debounce::default() })
    }

    /// Waits until the network has changed. May be dropped and called again; nothing is missed.
    pub async fn changed(&mut self) {
        let due = match self.debounce.due {
            Some(due) => due,
            None => {
                while !self.wait_for_messages().await {}
                self.debounce.changed_at(Instant::now())
            }
        };
        sleep_until(due).await;
        // What has come meanwhile belongs to the same change.
        self.read();
        self.debounce.reported_at(Instant::now());
    }

    /// Waits for messages. Says whether one of them is about a change.
    async fn wait_for_messages(&mut self) -> bool {
        match self.socket.readable().await {
            Ok(mut ready) => ready.clear_ready(),
            // The runtime is going.
            Err(_) => pending().await,
        }
        match self.read() {
            ReadResult::Change => true,
            ReadResult::Nothing => false,
            ReadResult::Failure => pending().await,
        }
    }

    /// Reads what there is.
    fn read(&self) -> ReadResult {
        let mut buffer = [0; MESSAGE_BYTES];
        let mut result = ReadResult::Nothing;
        for _ in 0..MESSAGES_PER_ITERATION {
            match netlink::receive(self.socket.get_ref(), &mut buffer) {
                Received::Message(length) if reports_change(&buffer[..length]) => result = ReadResult::Change,
                Received::Message(_) => {}
                Received::Overflow => result = ReadResult::Change,
                Received::Nothing => return result,
                Received::Failure => return ReadResult::Failure,
            }
        }
        // Readiness was cleared and there is more: as so much at once is a change, it will be read after the pause.
        ReadResult::Change
    }
}

/// What all messages together amount to.
enum ReadResult {
    Change,
    Nothing,
    /// The socket is of no use any more.
    Failure,
}

/// What one read gave.
enum Received {
    Message(usize),
    /// Messages were lost.
    Overflow,
    /// None for now.
    Nothing,
    Failure,
}

/// When a change may be last_report.
#[derive(Default)]
struct Debounce {
    due: Option<Instant>,
    last_report: Option<Instant>,
}

impl Debounce {
    /// Something has changed. Says when to reported_at.
    fn changed_at(&mut self, now: Instant) -> Instant {
        let settled = now + DEBOUNCE;
        let due = self.last_report.map_or(settled, |last_report| settled.max(last_report + MIN_INTERVAL));
        *self.due.get_or_insert(due)
    }

    /// It is last_report now.
    fn reported_at(&mut self, now: Instant) {
        self.due = None;
        self.last_report = Some(now);
    }
}

/// Is this about an interface, an address or a route? Wireless interfaces also report that they have looked around, which
/// changes nothing and happens every other minute.
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

/// Does a message about an interface carry nothing but news of its radio?
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

#[cfg(target_os = "linux")]
mod netlink {
    use std::io;
    use std::os::fd::OwnedFd;

    use rustix::io::Errno;
    use rustix::net::netlink::SocketAddrNetlink;
    use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

    use super::Received;

    /// Interfaces, then addresses and routes of both families.
    const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;

    pub(super) fn socket() -> io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // The protocol that is about routes has the number 0, which is what no protocol means.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
        Ok(socket)
    }

    pub(super) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Received {
        match rustix::io::retry_on_intr(|| recv(socket, &mut *buffer, RecvFlags::DONTWAIT)) {
            Ok((length, _)) => Received::Message(length),
            Err(Errno::AGAIN) => Received::Nothing,
            Err(Errno::NOBUFS) => Received::Overflow,
            Err(_) => Received::Failure,
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod netlink {
    use std::io;
    use std::os::fd::OwnedFd;

    use super::Received;

    pub(super) fn socket() -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn receive(_socket: &OwnedFd, _buffer: &mut [u8]) -> Received {
        Received::Failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One message of this kind with this body.
    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut message = Vec::new();
        message.extend(u32::try_from(16 + body.len()).unwrap().to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend([0; 10]);
        message.extend(body);
        message.resize(aligned(message.len()), 0);
        message
    }

    /// A message about an interface with one attribute of this kind.
    fn link(attribute: u16) -> Vec<u8> {
        let mut body = vec![0; 16];
        body.extend(8_u16.to_ne_bytes());
        body.extend(attribute.to_ne_bytes());
        body.extend([0; 4]);
        message(16, &body)
    }

    #[test]
    fn interfaces_addresses_and_routes_are_changes_and_the_rest_is_not() {
        for kind in [16, 17, 20, 21, 24, 25] {
            assert!(reports_change(&message(kind, &[0; 16])), "{kind}");
        }
        for kind in [1, 2, 3, 18, 28, 32, 68] {
            assert!(!reports_change(&message(kind, &[0; 16])), "{kind}");
        }
        assert!(reports_change(&message(4, &[])), "lost messages may have been about anything");
    }

    #[test]
    fn a_wireless_interface_that_looked_around_has_not_changed() {
        let (name, wireless) = (3, 11);
        assert!(reports_change(&link(name)));
        assert!(!reports_change(&link(wireless)));
        let both = [link(wireless), message(20, &[0; 8])].concat();
        assert!(reports_change(&both), "the second message is one");
    }

    #[test]
    fn odd_bytes_end_the_reading_and_nothing_else() {
        for datagram in [&[][..], &[1], &[0; 5], &[0; 64], &[0xff; 64]] {
            assert!(!reports_change(datagram), "{datagram:?}");
        }
        let mut endless = link(11);
        // An attribute of no length must not be read for ever.
        endless[32..34].copy_from_slice(&[0, 0]);
        assert!(!reports_change(&endless));
    }

    #[test]
    fn a_flock_is_one_change_and_the_next_one_waits_its_turn() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let mut debounce = Debounce::default();
        assert_eq!(debounce.changed_at(start), start + DEBOUNCE);
        assert_eq!(debounce.changed_at(start + ms(400)), start + DEBOUNCE, "the rest of the flock moves nothing");
        debounce.reported_at(start + DEBOUNCE);
        assert_eq!(debounce.changed_at(start + ms(600)), start + DEBOUNCE + MIN_INTERVAL);
        debounce.reported_at(start + DEBOUNCE + MIN_INTERVAL);
        let later = start + Duration::from_secs(60);
        assert_eq!(debounce.changed_at(later), later + DEBOUNCE, "after a quiet minute it is quick again");
    }

    #[tokio::test]
    async fn the_real_socket_tells_nothing_before_a_flock_can_have_passed() {
        let mut network = Network::watch().unwrap();
        let last_report = tokio::time::timeout(Duration::from_millis(50), network.changed()).await;
        assert!(last_report.is_err());
    }
}
