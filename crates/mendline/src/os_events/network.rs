//! Has the network changed?
//!
//! The kernel tells whoever listens on a route socket about every interface, address and route that comes, goes or changes.
//! Joining a network, or a VPN, is dozens of such messages within a moment, so the first one starts a pause in which
//! nothing is read, and then all of it is one change; and one change is told at most every few seconds, because a machine
//! that starts containers all day changes its network all day. Messages that were lost because we did not read count as a
//! change as well.

use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

/// Changes come in flocks; one that begins is let by before it is told.
const FLOCK: Duration = Duration::from_millis(500);

/// The shortest time between two changes that are told.
const APART: Duration = Duration::from_secs(5);

/// How many messages are read at a time. What is left then is lost or heard later; it is a change either way.
const MESSAGES_PER_ITERATION: usize = 256;

/// Longer than any message about one thing; of a longer one the beginning says enough.
const MESSAGE: usize = 8 * 1024;

/// Tells when the network has changed.
pub struct Network {
    socket: AsyncFd<OwnedFd>,
    calm: Calm,
}

impl Network {
    /// Watches from now on. Must be called inside a tokio runtime.
    pub fn watch() -> io::Result<Network> {
        Ok(Network { socket: crate::raw::watch(system::socket()?, Interest::READABLE)?, calm: Calm::default() })
    }

    /// Waits until the network has changed. May be dropped and called again; nothing is missed.
    pub async fn changed(&mut self) {
        let due = match self.calm.due {
            Some(due) => due,
            None => {
                while !self.hear().await {}
                self.calm.disturb(Instant::now())
            }
        };
        sleep_until(due).await;
        // What has come meanwhile belongs to the same change.
        self.read();
        self.calm.tell(Instant::now());
    }

    /// Waits for messages. Says whether one of them is about a change.
    async fn hear(&mut self) -> bool {
        match self.socket.readable().await {
            Ok(mut ready) => ready.clear_ready(),
            // The runtime is going.
            Err(_) => pending().await,
        }
        match self.read() {
            Heard::Change => true,
            Heard::Nothing => false,
            Heard::Failure => pending().await,
        }
    }

    /// Reads what there is.
    fn read(&self) -> Heard {
        let mut buffer = [0; MESSAGE];
        let mut heard = Heard::Nothing;
        for _ in 0..MESSAGES_PER_ITERATION {
            match system::receive(self.socket.get_ref(), &mut buffer) {
                Received::Message(length) if tells_of_a_change(&buffer[..length]) => heard = Heard::Change,
                Received::Message(_) => {}
                Received::Overflow => heard = Heard::Change,
                Received::Nothing => return heard,
                Received::Failure => return Heard::Failure,
            }
        }
        // Readiness was cleared and there is more: as so much at once is a change, it will be read after the pause.
        Heard::Change
    }
}

/// What all messages together amount to.
enum Heard {
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

/// When a change may be told.
#[derive(Default)]
struct Calm {
    due: Option<Instant>,
    told: Option<Instant>,
}

impl Calm {
    /// Something has changed. Says when to tell.
    fn disturb(&mut self, now: Instant) -> Instant {
        let passed = now + FLOCK;
        let due = self.told.map_or(passed, |told| passed.max(told + APART));
        *self.due.get_or_insert(due)
    }

    /// It is told now.
    fn tell(&mut self, now: Instant) {
        self.due = None;
        self.told = Some(now);
    }
}

/// Is this about an interface, an address or a route? Wireless interfaces also report that they have looked around, which
/// changes nothing and happens every other minute.
fn tells_of_a_change(datagram: &[u8]) -> bool {
    const HEADER: usize = 16;
    const OVERRUN: u16 = 4;
    const NEW_LINK: u16 = 16;
    const CHANGES: [u16; 6] = [NEW_LINK, 17, 20, 21, 24, 25];
    let mut rest = datagram;
    while let (Some(length), Some(kind)) = (number32(rest, 0), number16(rest, 4)) {
        let length = usize::try_from(length).unwrap_or(usize::MAX).max(HEADER);
        let message = &rest[..length.min(rest.len())];
        let is_scan = kind == NEW_LINK && is_wireless_report(message.get(HEADER..).unwrap_or_default());
        if kind == OVERRUN || (CHANGES.contains(&kind) && !is_scan) {
            return true;
        }
        rest = rest.get(aligned(length)..).unwrap_or_default();
    }
    false
}

/// Does a message about an interface carry nothing but news of its radio?
fn is_wireless_report(body: &[u8]) -> bool {
    const ABOUT_THE_INTERFACE: usize = 16;
    const WIRELESS: u16 = 11;
    let mut rest = body.get(ABOUT_THE_INTERFACE..).unwrap_or_default();
    while let (Some(length), Some(kind)) = (number16(rest, 0), number16(rest, 2)) {
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

fn number16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

fn number32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

#[cfg(target_os = "linux")]
mod system {
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
mod system {
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
            assert!(tells_of_a_change(&message(kind, &[0; 16])), "{kind}");
        }
        for kind in [1, 2, 3, 18, 28, 32, 68] {
            assert!(!tells_of_a_change(&message(kind, &[0; 16])), "{kind}");
        }
        assert!(tells_of_a_change(&message(4, &[])), "lost messages may have been about anything");
    }

    #[test]
    fn a_wireless_interface_that_looked_around_has_not_changed() {
        let (name, wireless) = (3, 11);
        assert!(tells_of_a_change(&link(name)));
        assert!(!tells_of_a_change(&link(wireless)));
        let both = [link(wireless), message(20, &[0; 8])].concat();
        assert!(tells_of_a_change(&both), "the second message is one");
    }

    #[test]
    fn odd_bytes_end_the_reading_and_nothing_else() {
        for datagram in [&[][..], &[1], &[0; 5], &[0; 64], &[0xff; 64]] {
            assert!(!tells_of_a_change(datagram), "{datagram:?}");
        }
        let mut endless = link(11);
        // An attribute of no length must not be read for ever.
        endless[32..34].copy_from_slice(&[0, 0]);
        assert!(!tells_of_a_change(&endless));
    }

    #[test]
    fn a_flock_is_one_change_and_the_next_one_waits_its_turn() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let mut calm = Calm::default();
        assert_eq!(calm.disturb(start), start + FLOCK);
        assert_eq!(calm.disturb(start + ms(400)), start + FLOCK, "the rest of the flock moves nothing");
        calm.tell(start + FLOCK);
        assert_eq!(calm.disturb(start + ms(600)), start + FLOCK + APART);
        calm.tell(start + FLOCK + APART);
        let later = start + Duration::from_secs(60);
        assert_eq!(calm.disturb(later), later + FLOCK, "after a quiet minute it is quick again");
    }

    #[tokio::test]
    async fn the_real_socket_tells_nothing_before_a_flock_can_have_passed() {
        let mut network = Network::watch().unwrap();
        let told = tokio::time::timeout(Duration::from_millis(50), network.changed()).await;
        assert!(told.is_err());
    }
}
