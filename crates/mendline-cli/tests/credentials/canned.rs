//! Servers that answer every connection with the same bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A server that records what it reads.
pub(crate) struct Recording {
    address: SocketAddr,
    recorded: Arc<Mutex<Vec<u8>>>,
}

impl Recording {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn recorded(&self) -> String {
        String::from_utf8_lossy(&self.recorded.lock().unwrap()).into_owned()
    }
}

/// Answers every connection with these bytes, until the process ends.
pub(crate) fn answering(answer: &str) -> SocketAddr {
    recording(answer).address
}

/// The same, and records the requests.
pub(crate) fn recording(answer: &str) -> Recording {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let seen = Recording { address: listener.local_addr().unwrap(), recorded: Arc::default() };
    let (recorded, answer) = (Arc::clone(&seen.recorded), answer.to_owned());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (recorded, answer) = (Arc::clone(&recorded), answer.clone());
            thread::spawn(move || serve(stream, &recorded, &answer));
        }
    });
    seen
}

fn serve(mut stream: TcpStream, recorded: &Mutex<Vec<u8>>, answer: &str) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        request.extend_from_slice(&buffer[..count]);
        if is_whole(&request) {
            recorded.lock().unwrap().extend_from_slice(&request);
            let _ = stream.write_all(answer.as_bytes());
            return;
        }
    }
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    body.len() >= length.unwrap_or(0)
}
