//! A proxy that records all bytes from the client, for what the fault server does not count.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A proxy and its record.
pub(crate) struct RecordingProxy {
    address: SocketAddr,
    recorded: Arc<Mutex<Vec<u8>>>,
}

impl RecordingProxy {
    /// Forwards connections from a free port of loopback to this address until the process ends.
    pub(crate) fn before(upstream: SocketAddr) -> RecordingProxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let recorder = RecordingProxy { address: listener.local_addr().unwrap(), recorded: Arc::default() };
        let recorded = Arc::clone(&recorder.recorded);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(upstream) else { continue };
                let (up, down) = ((client.try_clone(), server.try_clone()), (server, client));
                let (Ok(from), Ok(to)) = up else { continue };
                let recorded = Arc::clone(&recorded);
                thread::spawn(move || relay(from, to, |bytes| recorded.lock().unwrap().extend_from_slice(bytes)));
                thread::spawn(move || relay(down.0, down.1, |_| {}));
            }
        });
        recorder
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Returns all bytes from clients.
    pub(crate) fn recorded(&self) -> String {
        String::from_utf8_lossy(&self.recorded.lock().unwrap()).into_owned()
    }
}

fn relay(mut from: TcpStream, mut to: TcpStream, note: impl Fn(&[u8])) {
    let mut buffer = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        note(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
