//! A TCP proxy that spoils what it carries.
//!
//! It knows nothing of what passes: bytes go up from the client to the upstream and down again, and the toxics that are in
//! place decide when and whether. They are put in and taken out while connections are open. How a direction of one
//! connection is carried is in [`pump`], what both make of a connection in [`connection`], who is let in here.

mod connection;
mod counts;
mod packet_filter;
mod pump;
mod shared;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;

pub use counts::{DirectionCounts, ProxyCounts};

use crate::Ending;
use crate::task::Task;
use crate::toxic::{AcceptMode, Toxic};
use shared::Shared;

/// How many may wait to be accepted.
const BACKLOG: u32 = 1024;

/// A way through the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Direction {
    /// From the client to the upstream.
    Up,
    /// From the upstream to the client.
    Down,
    /// Both ways.
    Both,
}

impl Direction {
    /// Whether this is, or includes, the other.
    fn covers(self, other: Direction) -> bool {
        self == Direction::Both || self == other
    }
}

/// A TCP proxy that spoils what it carries. It stops when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    _accepting: Task,
}

impl Proxy {
    /// Starts on a free port of 127.0.0.1, before this upstream.
    pub async fn start(upstream: SocketAddr) -> std::io::Result<Proxy> {
        Proxy::start_on((Ipv4Addr::LOCALHOST, 0).into(), upstream).await
    }

    /// Starts on this address, before this upstream.
    pub async fn start_on(address: SocketAddr, upstream: SocketAddr) -> std::io::Result<Proxy> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(upstream));
        let accepting = Task::spawn(accept(Port::Listening(listener), address, Arc::clone(&shared)));
        Ok(Proxy { shared, address, _accepting: accepting })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Puts a toxic in. What is given back takes it out again.
    pub fn add(&self, direction: Direction, toxic: Toxic) -> u64 {
        self.shared.add(direction, toxic)
    }

    /// Takes a toxic out. Says whether it was there.
    pub fn remove(&self, number: u64) -> bool {
        self.shared.remove(number)
    }

    /// Takes all toxics out.
    pub fn clear(&self) {
        self.shared.clear();
    }

    /// The toxics that are in place, with the numbers that take them out.
    pub fn toxics(&self) -> Vec<(u64, Direction, Toxic)> {
        self.shared.toxics()
    }

    /// Ends every connection there is, once.
    pub fn cut(&self, ending: Ending) {
        self.shared.end_all(ending);
    }

    /// The connections there are, in the order in which they came.
    pub fn connections(&self) -> Vec<u64> {
        self.shared.connections()
    }

    /// Stops one connection: nothing passes on it, nothing is lost. Says whether it is there.
    pub fn clog(&self, connection: u64) -> bool {
        self.shared.clog(connection, true)
    }

    /// Lets a connection go on that was stopped. Says whether it is still there.
    pub fn unclog(&self, connection: u64) -> bool {
        self.shared.clog(connection, false)
    }

    /// What it has counted.
    pub fn counts(&self) -> ProxyCounts {
        self.shared.counts.now()
    }

    /// Waits until the counts are as they should be. Gives them back either way: `Err` when they were not so in time.
    pub async fn until(
        &self,
        timeout: Duration,
        condition: impl Fn(&ProxyCounts) -> bool,
    ) -> Result<ProxyCounts, ProxyCounts> {
        self.shared.counts.until(timeout, condition).await
    }
}

/// What stands at the port.
enum Port {
    Listening(TcpListener),
    /// Bound and deaf: whoever dials is refused, and nobody else can have the port.
    Reserved(TcpSocket),
    /// The port could not be kept. It is tried again at the next change.
    Lost,
}

impl Port {
    /// The same port with or without somebody who listens.
    fn switched(self, accept_mode: AcceptMode, address: SocketAddr) -> Port {
        match (self, accept_mode) {
            (Port::Listening(listener), AcceptMode::Refuse) => {
                drop(listener);
                reserve(address).map_or(Port::Lost, Port::Reserved)
            }
            (Port::Reserved(socket), AcceptMode::Accept | AcceptMode::Reset) => {
                socket.listen(BACKLOG).map_or(Port::Lost, Port::Listening)
            }
            (Port::Lost, AcceptMode::Refuse) => reserve(address).map_or(Port::Lost, Port::Reserved),
            (Port::Lost, _) => {
                reserve(address).and_then(|socket| socket.listen(BACKLOG)).map_or(Port::Lost, Port::Listening)
            }
            (same, _) => same,
        }
    }
}

fn reserve(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

async fn accept(mut port: Port, address: SocketAddr, shared: Arc<Shared>) {
    // Dropped with this task, and the connections with it.
    let mut connections = JoinSet::new();
    let mut changed = shared.watch();
    let mut was = AcceptMode::Accept;
    loop {
        changed.mark_unchanged();
        let (accept_mode, lasts) = shared.accept_mode();
        port = port.switched(accept_mode, address);
        if accept_mode != was {
            shared.accept_mode_changed(accept_mode);
            was = accept_mode;
        }
        let dialed = async {
            match &port {
                Port::Listening(listener) => listener.accept().await,
                Port::Reserved(_) | Port::Lost => std::future::pending().await,
            }
        };
        let over = async {
            match lasts {
                Some(lasts) => tokio::time::sleep(lasts).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = changed.changed() => {}
            () = over => {}
            Some(_) = connections.join_next() => {}
            accepted = dialed => {
                if let Ok((client, _)) = accepted {
                    connections.spawn(connection::serve(client, accept_mode, Arc::clone(&shared)));
                }
            }
        }
    }
}
