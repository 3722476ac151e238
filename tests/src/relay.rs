//! A tap between an HTTP client and its server.
//!
//! It listens on its own port and relays bytes in both directions. It keeps the bytes from each client connection, so
//! that a test can read the requests afterwards. It does not parse HTTP while it relays.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::requests::{self, Request};

/// A tap before one server, until the process ends.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Relay {
    /// Starts a tap before the server on this loopback port.
    ///
    /// # Errors
    ///
    /// Fails if there is no free port.
    pub fn before(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let relay = Self { address: listener.local_addr()?, received: Arc::default() };
        let received = Arc::clone(&relay.received);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // If the server does not listen, the client sees a closed connection.
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                let _ = relay_connection(client, server, &received);
            }
        });
        Ok(relay)
    }

    /// Returns its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns all requests so far, connection by connection.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not complete requests.
    pub fn requests(&self) -> Result<Vec<Request>, String> {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let read = received.iter().map(|bytes| requests::parse(bytes)).collect::<Result<Vec<_>, _>>()?;
        Ok(read.into_iter().flatten().collect())
    }
}

fn relay_connection(client: TcpStream, server: TcpStream, received: &Arc<Mutex<Vec<Vec<u8>>>>) -> io::Result<()> {
    let number = {
        let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
        received.push(Vec::new());
        received.len() - 1
    };
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
    let received = Arc::clone(received);
    thread::spawn(move || {
        relay(from_client, to_server, |bytes| {
            received.lock().unwrap_or_else(PoisonError::into_inner)[number].extend_from_slice(bytes);
        });
    });
    thread::spawn(move || relay(server, client, |_| {}));
    Ok(())
}

fn relay(mut from: TcpStream, mut to: TcpStream, note: impl Fn(&[u8])) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        // Recorded first, so that the request of every answer is in the record.
        note(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            // Closes the other direction too, because its peer would wait for an answer that cannot come.
            let _ = from.shutdown(Shutdown::Both);
            return;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
