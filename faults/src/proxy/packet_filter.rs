//! Drops all packets of one client connection.
//!
//! The kernel acknowledges packets for a proxy that does not read, so a keep-alive probe still succeeds. A host that
//! has vanished acknowledges nothing. A packet filter on the socket has the same effect: every packet of the client,
//! including probes, is dropped before TCP sees it. The filter needs no privileges. On systems without it, an unplugged
//! connection is only silent.

use std::os::fd::AsFd as _;

#[cfg(target_os = "linux")]
use socket2::SockFilter;
use socket2::Socket;
use tokio::net::TcpStream;

use super::shared::{ConnectionControl, Shared};

/// `BPF_RET | BPF_K`: returns a constant, the number of bytes of the packet to keep.
#[cfg(target_os = "linux")]
const KEEP: u16 = 0x06;

/// The client socket of a connection, on which the filter is set.
pub(super) struct PacketFilter(Option<Socket>);

impl PacketFilter {
    pub(super) fn new(client: &TcpStream) -> PacketFilter {
        PacketFilter(client.as_fd().try_clone_to_owned().ok().map(Socket::from))
    }

    /// Sets and removes the filter as toxics change, for as long as it is polled.
    pub(super) async fn follow(&self, shared: &Shared, control: &ConnectionControl) {
        let mut changed = shared.watch();
        let mut was_filtered = false;
        loop {
            changed.mark_unchanged();
            let is_filtered = shared.is_filtered(control);
            if is_filtered != was_filtered {
                self.set(is_filtered);
                shared.counts.record(|counts| counts.unplugged += u64::from(is_filtered));
                was_filtered = is_filtered;
            }
            if changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn set(&self, is_filtered: bool) {
        let Some(socket) = &self.0 else { return };
        // A connection that has just ended needs no filter.
        let _ = if is_filtered { drop_packets(socket) } else { accept_packets(socket) };
    }
}

#[cfg(target_os = "linux")]
fn drop_packets(socket: &Socket) -> std::io::Result<()> {
    socket.attach_filter(&[SockFilter::new(KEEP, 0, 0, 0)])
}

#[cfg(target_os = "linux")]
fn accept_packets(socket: &Socket) -> std::io::Result<()> {
    socket.detach_filter()
}

#[cfg(not(target_os = "linux"))]
fn drop_packets(_: &Socket) -> std::io::Result<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn accept_packets(_: &Socket) -> std::io::Result<()> {
    Ok(())
}
