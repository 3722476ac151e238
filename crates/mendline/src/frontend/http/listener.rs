//! Accepts connections and serves HTTP/1.1 and HTTP/2 on them.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::gateway::Gateway;

/// The limit of open connections. Further ones wait to be accepted.
const CONNECTIONS: usize = 16 * 1024;

/// The limit of the time in which a client sends the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(15);

/// The limit of the head of a request.
const HEAD_BYTES: usize = 64 * 1024;

/// The limit of streams of one HTTP/2 connection.
const H2_STREAMS: u32 = 256;

/// The interval in which idle sessions are looked for.
const EXPIRE_INTERVAL: Duration = Duration::from_secs(30);

/// A listening address.
pub struct Listener {
    listener: TcpListener,
}

impl Listener {
    /// Binds an address.
    pub async fn bind(address: SocketAddr) -> io::Result<Listener> {
        Ok(Listener { listener: TcpListener::bind(address).await? })
    }

    /// Uses a socket that listens already and does not block.
    pub fn from_socket(socket: std::net::TcpListener) -> io::Result<Listener> {
        Ok(Listener { listener: TcpListener::from_std(socket)? })
    }

    /// The bound address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves connections until the task is dropped.
    pub async fn serve(self, gateway: Arc<Gateway>) {
        let limit = Arc::new(Semaphore::new(CONNECTIONS));
        let mut expire = tokio::time::interval(EXPIRE_INTERVAL);
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = expire.tick() => {
                    gateway.expire();
                    continue;
                }
            };
            let Ok((connection, _)) = accepted else {
                // Out of file descriptors: connections end in the meantime.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Ok(permit) = Arc::clone(&limit).acquire_owned().await else { return };
            let _ = connection.set_nodelay(true);
            let gateway = Arc::clone(&gateway);
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let gateway = Arc::clone(&gateway);
                    async move { Ok::<_, Infallible>(gateway.answer(request).await) }
                });
                let mut builder = auto::Builder::new(TokioExecutor::new());
                builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES);
                builder.http2().timer(TokioTimer::new()).max_concurrent_streams(H2_STREAMS);
                // A client that breaks its connection is an ordinary event.
                let _ = builder.serve_connection(TokioIo::new(connection), service).await;
                drop(permit);
            });
        }
    }
}
