//! The host of the driver: a child over two streams, or a server over dialed streams.

use std::future::Future;
use std::time::Duration;

use mendline::Host;
use mendline::decisions::port::{Exit, SpawnError};
use mendline::decisions::reason::ConnectError;
use mendline::decisions::{LinkId, UpstreamId};
use mendline::transport::http::{Dial, Dialed, HostPort, Http, Protocol, Target};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};

use super::child::{ExitSlot, FakeChild};
use super::conversation::Wire;
use super::faulty_stream::{FaultyStream, Meter};
use super::site::Site;
use super::{http1, http2, tls};

/// The capacity of the child's stderr.
const CAPACITY: usize = 64 * 1024;

/// One upstream: the server and its transport.
pub struct Stage {
    pub wire: Wire,
    pub site: Site,
    pub meter: Meter,
}

impl Host for Stage {
    type Child = FakeChild<FaultyStream>;
    type Dial = FaultyDialer;

    fn remote(&mut self, _: UpstreamId) -> Option<Http<FaultyDialer>> {
        let (url, protocol) = match self.wire {
            Wire::Stdio => return None,
            Wire::Http1 => ("http://notes.test/mcp", Protocol::Http1),
            Wire::Http2 => ("http://notes.test/mcp", Protocol::Http2),
            Wire::Tls1 => ("https://notes.test/mcp", Protocol::Http1),
            Wire::Tls2 => ("https://notes.test/mcp", Protocol::Http2),
        };
        let mut target = Target::parse(url).unwrap().protocol(protocol);
        if self.wire.is_secure() {
            target = target.tls(tls::trust());
        }
        Some(Http::new(target, FaultyDialer { wire: self.wire, site: self.site.clone(), meter: self.meter.clone() }))
    }

    fn spawn(&mut self, _: LinkId) -> Result<FakeChild<FaultyStream>, SpawnError> {
        let exit_slot = ExitSlot::default();
        let dies = |exit_slot: &ExitSlot| {
            let exit_slot = exit_slot.clone();
            move || exit_slot.set(Exit::Signal(9))
        };
        let (stdin, program_stdin) = FaultyStream::new(&self.meter);
        let (stdout, program_stdout) = FaultyStream::new(&self.meter);
        let (stderr, program_stderr) = tokio::io::duplex(CAPACITY);
        tokio::spawn(program(program_stdin, program_stdout, program_stderr, self.site.clone(), exit_slot.clone()));
        let pipes = (stdin.on_cut(dies(&exit_slot)), stdout.on_cut(dies(&exit_slot)), stderr);
        Ok(FakeChild::new(pipes, exit_slot))
    }
}

/// A server program: reads lines, answers lines, and ends with its stdin.
async fn program(stdin: DuplexStream, mut stdout: DuplexStream, stderr: DuplexStream, site: Site, exit_slot: ExitSlot) {
    let mut lines = BufReader::new(stdin).split(b'\n');
    let mut code = 0;
    while let Ok(Some(line)) = lines.next_segment().await {
        // The last line may be incomplete; half a message is ignored.
        let Ok(message) = serde_json::from_slice(&line) else {
            code = 1;
            continue;
        };
        let (reply, goes_on) = site.handle(&message);
        if let Some(reply) = reply {
            // The reader may be gone. The call has run in any case.
            let _ = stdout.write_all(format!("{reply}\n").as_bytes()).await;
        }
        if !goes_on {
            code = 3;
            break;
        }
    }
    drop(stderr);
    exit_slot.set(Exit::Code(code));
}

/// A dialer of the server.
pub struct FaultyDialer {
    wire: Wire,
    site: Site,
    meter: Meter,
}

impl Dial for FaultyDialer {
    type Io = FaultyStream;

    fn dial(
        &self,
        _: &HostPort,
        _: Duration,
    ) -> impl Future<Output = Result<Dialed<FaultyStream>, ConnectError>> + Send + 'static {
        let (wire, site, meter) = (self.wire, self.site.clone(), self.meter.clone());
        async move {
            let (cable, theirs) = FaultyStream::new(&meter);
            tokio::spawn(async move {
                match wire {
                    Wire::Stdio | Wire::Http1 => http1::serve(theirs, site).await,
                    Wire::Http2 => http2::serve(theirs, site).await,
                    Wire::Tls1 | Wire::Tls2 => {
                        let Ok(stream) = tls::acceptor().accept(theirs).await else { return };
                        match wire {
                            Wire::Tls2 => http2::serve(stream, site).await,
                            _ => http1::serve(stream, site).await,
                        }
                    }
                }
            });
            let looks_open = Box::new(cable.looks_open());
            Ok(Dialed { io: cable, looks_open: Some(looks_open) })
        }
    }
}
