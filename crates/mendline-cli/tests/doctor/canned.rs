//! Servers with one fixed answer, for answers that no MCP server would give.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType};

/// A server that listens on a port.
pub(crate) struct Canned {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Canned {
    /// Answers every connection with these bytes after the first request, and closes it.
    pub(crate) fn answer(bytes: impl Into<Vec<u8>>) -> Canned {
        let bytes = bytes.into();
        Canned::serve(move |mut stream| {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
            let mut asked = [0_u8; 16 * 1024];
            let _ = stream.read(&mut asked);
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            // Reads until the client closes, so that no reset discards the answer.
            while stream.read(&mut asked).is_ok_and(|count| count > 0) {}
        })
    }

    /// Answers with this status, content type and body.
    pub(crate) fn http(status: &str, kind: &str, body: &str) -> Canned {
        Canned::answer(format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        ))
    }

    /// Answers every request with this member and the id of the request.
    pub(crate) fn json_rpc(member: &'static str, value: impl Into<String>) -> Canned {
        Canned::slow_json_rpc(Duration::ZERO, member, value)
    }

    /// Does the same, and takes this long for every answer.
    pub(crate) fn slow_json_rpc(delay: Duration, member: &'static str, value: impl Into<String>) -> Canned {
        let value = value.into();
        Canned::serve(move |mut stream| {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
            let mut asked = Vec::new();
            let mut piece = [0_u8; 4096];
            // A connection carries several requests. Each ends with the brace that closes its object.
            while let Ok(count @ 1..) = stream.read(&mut piece) {
                asked.extend_from_slice(&piece[..count]);
                let text = String::from_utf8_lossy(&asked).into_owned();
                let Some((_, body)) = text.split_once("\r\n\r\n") else { continue };
                let Ok(message) = serde_json::from_str::<serde_json::Value>(body) else { continue };
                let body = format!(r#"{{"jsonrpc":"2.0","id":{},"{member}":{value}}}"#, message["id"]);
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length";
                thread::sleep(delay);
                let _ = stream.write_all(format!("{head}: {}\r\n\r\n{body}", body.len()).as_bytes());
                asked.clear();
            }
        })
    }

    /// Answers requests to post with one answer and others with another.
    pub(crate) fn by_method(post: &'static str, other: &'static str) -> Canned {
        Canned::serve(move |mut stream| {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
            let mut asked = [0_u8; 16 * 1024];
            let count = stream.read(&mut asked).unwrap_or(0);
            let answer = if asked[..count].starts_with(b"POST ") { post } else { other };
            let _ = stream.write_all(answer.as_bytes());
            let _ = stream.shutdown(std::net::Shutdown::Write);
            while stream.read(&mut asked).is_ok_and(|count| count > 0) {}
        })
    }

    /// Accepts connections and sends nothing.
    pub(crate) fn silent() -> Canned {
        Canned::serve(|mut stream| {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(30)));
            let mut asked = [0_u8; 1024];
            while stream.read(&mut asked).is_ok_and(|count| count > 0) {}
        })
    }

    fn serve(each: impl Fn(TcpStream) + Send + Sync + 'static) -> Canned {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, each) = (Arc::clone(&is_over), Arc::new(each));
        let thread = thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let each = Arc::clone(&each);
                thread::spawn(move || each(stream));
            }
        });
        Canned { address, is_over, thread: Some(thread) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }
}

impl Drop for Canned {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A port without a listener. It stays bound, so that no other process can take it.
pub(crate) struct ClosedPort {
    _reserved: OwnedFd,
    address: SocketAddr,
}

impl ClosedPort {
    pub(crate) fn new() -> ClosedPort {
        let reserved = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&reserved, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = SocketAddr::try_from(rustix::net::getsockname(&reserved).unwrap()).unwrap();
        ClosedPort { _reserved: reserved, address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }
}
