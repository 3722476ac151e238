//! One connection through the proxy, from accept to close.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Direction;
use super::packet_filter::PacketFilter;
use super::pump::{self, Pump};
use super::shared::{ConnectionControl, Shared};
use crate::Ending;
use crate::toxic::{AcceptMode, Flow};

/// The time for which a socket is still read after a FIN was sent.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Handles an accepted connection.
pub(super) async fn serve(client: TcpStream, accept_mode: AcceptMode, shared: Arc<Shared>) {
    let (number, control) = shared.open_connection();
    let proxied = ProxiedConnection { number, shared, control };
    if accept_mode == AcceptMode::Reset {
        proxied.cut(Ending::Reset, client, None).await;
        return;
    }
    // Small pieces must not be coalesced by the kernel.
    let _ = client.set_nodelay(true);
    proxied.run(client).await;
}

/// An open connection. It is counted until this is dropped.
struct ProxiedConnection {
    number: u64,
    shared: Arc<Shared>,
    control: Arc<ConnectionControl>,
}

impl Drop for ProxiedConnection {
    fn drop(&mut self) {
        self.shared.close_connection(self.number);
    }
}

impl ProxiedConnection {
    async fn run(&self, mut client: TcpStream) {
        let control = &self.control;
        let mut upstream = tokio::select! {
            biased;
            ending = end_requested(control) => return self.cut(ending, client, None).await,
            dialed = self.dial(&mut client) => match dialed {
                Some(upstream) => upstream,
                // The upstream cannot be reached: the client gets a reset, as from a dead host.
                None => return self.end(Ending::Reset, client, None).await,
            },
        };
        let ended = {
            let filter = PacketFilter::new(&client);
            let (from_client, to_client) = client.split();
            let (from_upstream, to_upstream) = upstream.split();
            let up = Pump::new(&self.shared, control, Direction::Up).run(from_client, to_upstream);
            let down = Pump::new(&self.shared, control, Direction::Down).run(from_upstream, to_client);
            tokio::select! {
                biased;
                ending = end_requested(control) => Some(pump::Broken::Cut(ending)),
                () = filter.follow(&self.shared, control) => None,
                both = async { tokio::try_join!(up, down) } => both.err(),
            }
        };
        match ended {
            None => {}
            Some(pump::Broken::Cut(ending)) => self.cut(ending, client, Some(upstream)).await,
            Some(pump::Broken::ByPeer) => self.end(Ending::Reset, client, Some(upstream)).await,
        }
    }

    /// Dials the upstream as soon as bytes may pass. Returns `None` when the dial fails or the client has gone.
    async fn dial(&self, client: &mut TcpStream) -> Option<TcpStream> {
        if self.flow(Direction::Up).await == Flow::Dead {
            pump::discard(client, &self.shared, Direction::Up).await;
            return None;
        }
        match TcpStream::connect(self.shared.upstream).await {
            Ok(upstream) => {
                self.shared.counts.record(|counts| counts.dialed += 1);
                let _ = upstream.set_nodelay(true);
                Some(upstream)
            }
            Err(_) => {
                self.shared.counts.record(|counts| counts.dial_failures += 1);
                None
            }
        }
    }

    /// Returns the flow of a direction as soon as it is not held.
    async fn flow(&self, direction: Direction) -> Flow {
        let mut changed = self.shared.watch();
        loop {
            changed.mark_unchanged();
            match self.shared.flow(&self.control, direction) {
                Flow::Hold => drop(changed.changed().await),
                flow => return flow,
            }
        }
    }

    /// Cuts a connection for a toxic or a test. It is counted when both sockets have been closed.
    async fn cut(&self, ending: Ending, client: TcpStream, upstream: Option<TcpStream>) {
        let half_closed = close(ending, client, upstream).await;
        self.shared.counts.record(|counts| counts.cut += 1);
        self.drain(half_closed).await;
    }

    async fn end(&self, ending: Ending, client: TcpStream, upstream: Option<TcpStream>) {
        let half_closed = close(ending, client, upstream).await;
        self.drain(half_closed).await;
    }

    /// Reads the sockets after a FIN, because closing a socket with unread bytes would send a RST. A direction that is
    /// held is not read.
    async fn drain(&self, half_closed: HalfClosed) {
        let drain_socket = async |socket: Option<TcpStream>, direction: Direction| {
            let Some(mut socket) = socket else { return };
            self.flow(direction).await;
            let mut rest = [0; 4096];
            while matches!(socket.read(&mut rest).await, Ok(1..)) {}
        };
        let client = timeout(DRAIN_TIMEOUT, drain_socket(half_closed.client, Direction::Up));
        let upstream = timeout(DRAIN_TIMEOUT, drain_socket(half_closed.upstream, Direction::Down));
        let _ = tokio::join!(client, upstream);
    }
}

/// The sockets of a connection after a FIN was sent on both.
#[derive(Default)]
struct HalfClosed {
    client: Option<TcpStream>,
    upstream: Option<TcpStream>,
}

/// Closes both sockets.
async fn close(ending: Ending, mut client: TcpStream, mut upstream: Option<TcpStream>) -> HalfClosed {
    match ending {
        Ending::Reset => {
            for socket in std::iter::once(client).chain(upstream) {
                // The option cannot be set if the peer has already gone.
                let _ = socket.set_zero_linger();
            }
            HalfClosed::default()
        }
        Ending::Fin => {
            let _ = client.shutdown().await;
            if let Some(upstream) = &mut upstream {
                let _ = upstream.shutdown().await;
            }
            HalfClosed { client: Some(client), upstream }
        }
    }
}

/// Waits until the connection is told to end.
async fn end_requested(control: &ConnectionControl) -> Ending {
    let mut requested = control.ending.subscribe();
    match requested.wait_for(Option::is_some).await.map(|ending| *ending) {
        Ok(Some(ending)) => ending,
        _ => std::future::pending().await,
    }
}
