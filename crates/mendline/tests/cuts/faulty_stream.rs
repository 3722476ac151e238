//! In-memory streams that count their bytes and fail at one byte.
//!
//! All streams of a conversation share one [`Meter`]. It counts the bytes of all streams in each direction, so a byte
//! has one number over all connections. The fault hits the stream that carried the byte before it, once; later streams
//! have no fault. The client side holds the [`FaultyStream`]; the peer has the plain other end.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// The capacity of a stream.
const CAPACITY: usize = 64 * 1024;

/// The direction of bytes: up to the server, or down from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Up,
    Down,
}

/// The effect on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A reset: no byte passes in either direction, and unread bytes are lost.
    Cut,
    /// A clean end of this direction; the other continues.
    End,
    /// Bytes in this direction are accepted and never arrive.
    Stall,
    /// Writes fail; bytes from the peer still arrive.
    WriteError,
    /// All later bytes pass one at a time. This must have no effect.
    Drip,
}

/// One fault at one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: Kind,
    pub direction: Direction,
    /// The number of bytes that arrive before the fault.
    pub at: usize,
}

impl Fault {
    /// Every kind of fault, with the directions in which it makes sense.
    pub const KINDS: [(&'static str, Kind, Direction); 8] = [
        ("cut-up", Kind::Cut, Direction::Up),
        ("cut-down", Kind::Cut, Direction::Down),
        ("end-up", Kind::End, Direction::Up),
        ("end-down", Kind::End, Direction::Down),
        ("stall-up", Kind::Stall, Direction::Up),
        ("stall-down", Kind::Stall, Direction::Down),
        ("write-error", Kind::WriteError, Direction::Up),
        ("drip", Kind::Drip, Direction::Up),
    ];

    pub fn name(&self) -> &'static str {
        let known = Fault::KINDS.iter().find(|(_, kind, direction)| (*kind, *direction) == (self.kind, self.direction));
        known.map_or("unknown", |(name, _, _)| name)
    }
}

/// The byte counts of all streams of one conversation.
#[derive(Clone, Default)]
pub struct Meter(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    up: usize,
    down: usize,
    /// The offsets at which writes began and reads ended: the boundaries of messages.
    seams_up: Vec<usize>,
    seams_down: Vec<usize>,
    fault: Option<Fault>,
    struck: bool,
}

impl Meter {
    pub fn new(fault: Option<Fault>) -> Meter {
        Meter(Arc::new(Mutex::new(Counts { fault, ..Counts::default() })))
    }

    /// Returns true if the fault has happened.
    pub fn struck(&self) -> bool {
        self.0.lock().unwrap().struck
    }

    /// Returns the number of bytes in this direction, and the boundaries of messages.
    pub fn carried(&self, direction: Direction) -> (usize, Vec<usize>) {
        let counts = self.0.lock().unwrap();
        match direction {
            Direction::Up => (counts.up, counts.seams_up.clone()),
            Direction::Down => (counts.down, counts.seams_down.clone()),
        }
    }

    /// Returns how many bytes may still pass in this direction before the fault.
    fn allowance(&self, direction: Direction, wanted: usize) -> usize {
        let counts = self.0.lock().unwrap();
        match counts.fault {
            Some(fault) if fault.direction == direction && !counts.struck => {
                wanted.min(fault.at - counts.of(direction))
            }
            _ => wanted,
        }
    }

    /// Counts bytes, and returns the fault that follows them.
    fn count(&self, direction: Direction, count: usize) -> Option<Fault> {
        let mut counts = self.0.lock().unwrap();
        match direction {
            Direction::Up => counts.up += count,
            Direction::Down => counts.down += count,
        }
        let at = counts.of(direction);
        match direction {
            Direction::Up => counts.seams_up.push(at),
            Direction::Down => counts.seams_down.push(at),
        }
        let strikes = counts.fault.filter(|fault| !counts.struck && fault.direction == direction && fault.at == at);
        counts.struck |= strikes.is_some();
        strikes
    }
}

impl Counts {
    fn of(&self, direction: Direction) -> usize {
        match direction {
            Direction::Up => self.up,
            Direction::Down => self.down,
        }
    }
}

/// The client side of a stream.
pub struct FaultyStream {
    io: Option<DuplexStream>,
    meter: Meter,
    fault: Option<Fault>,
    /// A reader that waits for bytes must see a reset.
    reader: Option<Waker>,
    closed: Arc<AtomicBool>,
    on_cut: Option<Box<dyn Fn() + Send>>,
}

impl FaultyStream {
    /// Creates a stream and the peer's end of it.
    pub fn new(meter: &Meter) -> (FaultyStream, DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(CAPACITY);
        let cable = FaultyStream {
            io: Some(ours),
            meter: meter.clone(),
            fault: None,
            reader: None,
            closed: Arc::default(),
            on_cut: None,
        };
        (cable, theirs)
    }

    /// Sets an action for a reset.
    pub fn on_cut(mut self, act: impl Fn() + Send + 'static) -> FaultyStream {
        self.on_cut = Some(Box::new(act));
        self
    }

    /// Returns a check that is false once the peer is visibly gone, without reading.
    pub fn looks_open(&self) -> impl Fn() -> bool + Send + 'static {
        let closed = Arc::clone(&self.closed);
        move || !closed.load(Ordering::Relaxed)
    }

    fn has(&self, kind: Kind, direction: Direction) -> bool {
        self.fault.is_some_and(|fault| (fault.kind, fault.direction) == (kind, direction))
    }

    fn is_cut(&self) -> bool {
        self.fault.is_some_and(|fault| fault.kind == Kind::Cut)
    }

    /// Returns the number of bytes that may pass at once in this direction.
    fn piece(&self, direction: Direction, wanted: usize) -> usize {
        let drips = self.fault.is_some_and(|fault| fault.kind == Kind::Drip);
        self.meter.allowance(direction, wanted.min(if drips { 1 } else { CAPACITY }))
    }

    fn strike(&mut self, fault: Fault, cx: &mut Context<'_>) {
        self.fault = Some(fault);
        match (fault.kind, fault.direction) {
            (Kind::Cut, _) => {
                self.io = None;
                self.closed.store(true, Ordering::Relaxed);
                if let Some(act) = &self.on_cut {
                    act();
                }
            }
            (Kind::End, Direction::Up) => {
                if let Some(io) = &mut self.io {
                    // In memory a shutdown completes at once.
                    let _ = Pin::new(io).poll_shutdown(cx);
                }
            }
            (Kind::End, Direction::Down) => self.closed.store(true, Ordering::Relaxed),
            (Kind::Stall | Kind::WriteError | Kind::Drip, _) => {}
        }
        cx.waker().wake_by_ref();
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl AsyncRead for FaultyStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let most = this.piece(Direction::Down, buf.remaining());
        if most == 0
            && let Some(fault) = this.meter.count(Direction::Down, 0)
        {
            this.strike(fault, cx);
        }
        if this.is_cut() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if this.has(Kind::End, Direction::Down) {
            return Poll::Ready(Ok(()));
        }
        this.reader = Some(cx.waker().clone());
        if this.has(Kind::Stall, Direction::Down) {
            return Poll::Pending;
        }
        let Some(io) = &mut this.io else { return Poll::Ready(Ok(())) };
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(most));
        let read = Pin::new(io).poll_read(cx, &mut part);
        let count = part.filled().len();
        buf.advance(count);
        if count > 0
            && let Some(fault) = this.meter.count(Direction::Down, count)
        {
            this.strike(fault, cx);
        }
        read
    }
}

impl AsyncWrite for FaultyStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let most = this.piece(Direction::Up, bytes.len());
        if most == 0
            && !bytes.is_empty()
            && let Some(fault) = this.meter.count(Direction::Up, 0)
        {
            this.strike(fault, cx);
        }
        if this.is_cut() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if this.has(Kind::WriteError, Direction::Up) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if this.has(Kind::Stall, Direction::Up) || this.has(Kind::End, Direction::Up) {
            return Poll::Ready(Ok(bytes.len()));
        }
        // Dripping may have started just now.
        let most = if most == 0 { bytes.len().min(1) } else { most };
        let Some(io) = &mut this.io else { return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) };
        let written = Pin::new(io).poll_write(cx, &bytes[..most]);
        if let Poll::Ready(Ok(count)) = written
            && count > 0
            && let Some(fault) = this.meter.count(Direction::Up, count)
        {
            this.strike(fault, cx);
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Through a stalled direction not even the end arrives.
        if self.has(Kind::Stall, Direction::Up) {
            return Poll::Ready(Ok(()));
        }
        self.io.as_mut().map_or(Poll::Ready(Ok(())), |io| Pin::new(io).poll_shutdown(cx))
    }
}
