//! A listening port that can refuse connections for a time without losing its number.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// The backlog of the listener.
const BACKLOG: u32 = 1024;

/// The state of a port.
pub(crate) enum Port {
    Listening(TcpListener),
    /// Bound without a listener: connections are refused, and no other process can bind the port.
    Reserved(TcpSocket),
    /// The port could not be bound. The next change tries again.
    Lost,
}

impl Port {
    /// Refuses connections from now on, or accepts them again.
    pub(crate) fn switched(self, refuses: bool, address: SocketAddr) -> Port {
        match (self, refuses) {
            (Port::Listening(listener), true) => {
                drop(listener);
                reserve(address).map_or(Port::Lost, Port::Reserved)
            }
            (Port::Reserved(socket), false) => socket.listen(BACKLOG).map_or(Port::Lost, Port::Listening),
            (Port::Lost, true) => reserve(address).map_or(Port::Lost, Port::Reserved),
            (Port::Lost, false) => {
                reserve(address).and_then(|socket| socket.listen(BACKLOG)).map_or(Port::Lost, Port::Listening)
            }
            (same, _) => same,
        }
    }

    /// Accepts the next connection. Waits without end while connections are refused.
    pub(crate) async fn accept(&self) -> io::Result<TcpStream> {
        match self {
            Port::Listening(listener) => listener.accept().await.map(|(stream, _)| stream),
            Port::Reserved(_) | Port::Lost => std::future::pending().await,
        }
    }
}

fn reserve(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}
