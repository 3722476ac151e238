//! A TCP proxy that delays, cuts and drops what it forwards.
//!
//! The proxy does not interpret bytes. They go up from the client to the upstream and down again, and the installed
//! toxics decide when and whether they pass. Toxics can be added and removed while connections are open. [`pump`]
//! forwards one direction of a connection, [`connection`] handles a whole connection, and this module accepts
//! connections.

mod connection;
mod counts;
mod packet_filter;
mod pump;
mod shared;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use counts::{DirectionCounts, ProxyCounts};

use crate::Ending;
use crate::port::Port;
use crate::task::Task;
use crate::toxic::{AcceptMode, Toxic};
use shared::Shared;

/// A direction through the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Direction {
    /// From the client to the upstream.
    Up,
    /// From the upstream to the client.
    Down,
    /// Both directions.
    Both,
}

impl Direction {
    /// Returns whether this direction includes the other.
    fn covers(self, other: Direction) -> bool {
        self == Direction::Both || self == other
    }
}

/// A TCP proxy that delays, cuts and drops what it forwards. It stops when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    _accepting: Task,
}

impl Proxy {
    /// Starts on a free port of 127.0.0.1, in front of this upstream.
    pub async fn start(upstream: SocketAddr) -> std::io::Result<Proxy> {
        Proxy::start_on((Ipv4Addr::LOCALHOST, 0).into(), upstream).await
    }

    /// Starts on this address, in front of this upstream.
    pub async fn start_on(address: SocketAddr, upstream: SocketAddr) -> std::io::Result<Proxy> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(upstream));
        let accepting = Task::spawn(accept(Port::Listening(listener), address, Arc::clone(&shared)));
        Ok(Proxy { shared, address, _accepting: accepting })
    }

    /// The address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a toxic and returns its number.
    pub fn add(&self, direction: Direction, toxic: Toxic) -> u64 {
        self.shared.add(direction, toxic)
    }

    /// Removes a toxic by its number. Returns whether it was installed.
    pub fn remove(&self, number: u64) -> bool {
        self.shared.remove(number)
    }

    /// Removes all toxics.
    pub fn clear(&self) {
        self.shared.clear();
    }

    /// Returns the installed toxics and their numbers.
    pub fn toxics(&self) -> Vec<(u64, Direction, Toxic)> {
        self.shared.toxics()
    }

    /// Ends all open connections once.
    pub fn cut(&self, ending: Ending) {
        self.shared.end_all(ending);
    }

    /// Returns the open connections in the order in which they were accepted.
    pub fn connections(&self) -> Vec<u64> {
        self.shared.connections()
    }

    /// Stops one connection without losing bytes. Returns whether the connection exists.
    pub fn clog(&self, connection: u64) -> bool {
        self.shared.clog(connection, true)
    }

    /// Resumes a stopped connection. Returns whether the connection still exists.
    pub fn unclog(&self, connection: u64) -> bool {
        self.shared.clog(connection, false)
    }

    /// Returns the current counts.
    pub fn counts(&self) -> ProxyCounts {
        self.shared.counts.now()
    }

    /// Waits until the counts meet the condition. Returns the counts: `Ok` when they do, `Err` at the timeout.
    pub async fn until(
        &self,
        timeout: Duration,
        condition: impl Fn(&ProxyCounts) -> bool,
    ) -> Result<ProxyCounts, ProxyCounts> {
        self.shared.counts.until(timeout, condition).await
    }
}

async fn accept(mut port: Port, address: SocketAddr, shared: Arc<Shared>) {
    // The connections end when this task is dropped.
    let mut connections = JoinSet::new();
    let mut changed = shared.watch();
    let mut was = AcceptMode::Accept;
    loop {
        changed.mark_unchanged();
        let (accept_mode, lasts) = shared.accept_mode();
        port = port.switched(accept_mode == AcceptMode::Refuse, address);
        if accept_mode != was {
            shared.accept_mode_changed(accept_mode);
            was = accept_mode;
        }
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
            accepted = port.accept() => {
                if let Ok(client) = accepted {
                    connections.spawn(connection::serve(client, accept_mode, Arc::clone(&shared)));
                }
            }
        }
    }
}
