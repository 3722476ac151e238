//! A tap between whoever speaks HTTP and the server that it speaks to.
//!
//! It stands on a port of its own and relays bytes as they come, in both directions. What goes up it also keeps, one copy for
//! each connection, so that afterwards the requests can be read as the server read them. It knows nothing of HTTP while it
//! relays: what it would not understand must arrive all the same.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::requests::{self, Request};

/// A tap before one server, for as long as the process lives.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Relay {
    /// Stands before the server on this port of loopback.
    ///
    /// # Errors
    ///
    /// When there is no port to stand on.
    pub fn before(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let relay = Self { address: listener.local_addr()?, received: Arc::default() };
        let received = Arc::clone(&relay.received);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // A server that does not listen is told by the end of the connection, as late as that.
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                let _ = relay_connection(client, server, &received);
            }
        });
        Ok(relay)
    }

    /// Where it is dialed.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// All requests that have gone up so far, connection by connection.
    ///
    /// # Errors
    ///
    /// When something went up that is no request, or not the whole of one.
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
        // Noted first: whoever saw an answer finds its request here.
        note(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            // Who sends to nobody is told so, or it would wait for an answer that cannot come.
            let _ = from.shutdown(Shutdown::Both);
            return;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
