//! Counts dials by their first packet.
//!
//! A server cannot count connections that its kernel refuses. A raw socket sees the first packet of every dial on this
//! machine, refused or not. It needs the right to open raw sockets (root); without it, refused dials are not counted.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use tokio::time::Instant;

/// The length of an IPv4 header without options, as on loopback.
const IP_HEADER: usize = 20;

/// The number of dials that are kept, of all programs on this machine.
const KEPT: usize = 10_000_000;

/// Counts the dials of all ports while the program runs.
pub(crate) struct SynCounter(Arc<Mutex<Vec<(u16, Instant)>>>);

impl SynCounter {
    /// Starts counting.
    pub(crate) fn start() -> io::Result<SynCounter> {
        let mut socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::TCP))?;
        // Passes packets with SYN and without ACK: the 14th byte after the IP header has the flags.
        socket.attach_filter(&[
            SockFilter::new(0x30, 0, 0, 33),
            SockFilter::new(0x54, 0, 0, 0x12),
            SockFilter::new(0x15, 0, 1, 0x02),
            SockFilter::new(0x06, 0, 0, 0xffff),
            SockFilter::new(0x06, 0, 0, 0),
        ])?;
        let dials = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&dials);
        thread::spawn(move || {
            let mut packet = [0; 128];
            // The thread ends with the program.
            while let Ok(length) = socket.read(&mut packet) {
                let mut dials = shared.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(port) = destination(&packet[..length]).filter(|_| dials.len() < KEPT) {
                    dials.push((port, Instant::now()));
                }
            }
        });
        Ok(SynCounter(dials))
    }

    /// Returns the times at which this port was dialed.
    pub(crate) fn dials_of(&self, port: u16) -> Vec<Instant> {
        let dials = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        dials.iter().filter(|(dialed, _)| *dialed == port).map(|(_, at)| *at).collect()
    }
}

/// Returns the destination port of a packet.
fn destination(packet: &[u8]) -> Option<u16> {
    let bytes = packet.get(IP_HEADER + 2..IP_HEADER + 4)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;

    #[test]
    fn refused_and_accepted_dials_are_counted() {
        // Without the right to open a raw socket there is nothing to test.
        let Ok(counter) = SynCounter::start() else { return };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = TcpStream::connect(address).unwrap();
        drop((accepted, listener));
        assert!(TcpStream::connect(address).is_err());
        let deadline = Instant::now() + Duration::from_secs(5);
        while counter.dials_of(address.port()).len() < 2 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(counter.dials_of(address.port()).len(), 2);
    }
}
