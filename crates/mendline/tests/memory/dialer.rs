//! A dialer whose connections are streams in memory.

use std::future::Future;
use std::time::Duration;

use mendline::decisions::reason::ConnectError;
use mendline::transport::http::{Dial, Dialed, HostPort};
use tokio::io::DuplexStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A dialer of connections with a capacity in bytes. It sends the server side of each to the test.
pub struct MemoryDialer {
    capacity: usize,
    servers: UnboundedSender<DuplexStream>,
}

impl MemoryDialer {
    /// Creates a dialer, and the receiver of the server sides in the order of the dials.
    pub fn new(capacity: usize) -> (MemoryDialer, UnboundedReceiver<DuplexStream>) {
        let (servers, receiver) = unbounded_channel();
        (MemoryDialer { capacity, servers }, receiver)
    }
}

impl Dial for MemoryDialer {
    type Io = DuplexStream;

    fn dial(
        &self,
        place: &HostPort,
        _: Duration,
    ) -> impl Future<Output = Result<Dialed<DuplexStream>, ConnectError>> + Send + 'static {
        let (near, far) = tokio::io::duplex(self.capacity);
        let sent = self
            .servers
            .send(far)
            .map_err(|_| ConnectError::Other { target: place.to_string(), error: "the test has ended".to_owned() });
        async move { sent.map(|()| Dialed { io: near, looks_open: None }) }
    }
}
