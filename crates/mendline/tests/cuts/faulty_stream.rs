//! Cables in memory that count what they carry, and that one fault strikes at one byte.
//!
//! All cables of a conversation share one [`Meter`]: bytes are counted over all of them, in each direction, so a byte has
//! one number however many connections there are. The fault strikes the cable that carried the byte before it, once;
//! cables that are laid afterwards are whole. A cable is held by our end; the peer has the plain other end of it.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// How much a cable holds.
const CAPACITY: usize = 64 * 1024;

/// Which way bytes go: up to the server, or down from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Up,
    Down,
}

/// What happens to a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is reset: nothing goes either way, and what lay unread for us is lost.
    Cut,
    /// This way comes to a clean end; the other goes on.
    End,
    /// What goes this way from here on is accepted and never arrives.
    Stall,
    /// Writing fails; what the peer says still arrives.
    WriteError,
    /// From here on everything comes and goes one byte at a time. Nothing may come of it.
    Drip,
}

/// One fault at one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: Kind,
    pub direction: Direction,
    /// So many bytes arrive before it strikes.
    pub at: usize,
}

impl Fault {
    /// Every kind of fault, with the ways in which it makes sense.
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

/// Counts what all cables of one conversation carry.
#[derive(Clone, Default)]
pub struct Meter(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    up: usize,
    down: usize,
    /// Where writes began and reads ended: the seams between messages.
    seams_up: Vec<usize>,
    seams_down: Vec<usize>,
    fault: Option<Fault>,
    struck: bool,
}

impl Meter {
    pub fn new(fault: Option<Fault>) -> Meter {
        Meter(Arc::new(Mutex::new(Counts { fault, ..Counts::default() })))
    }

    /// Whether the fault has struck.
    pub fn struck(&self) -> bool {
        self.0.lock().unwrap().struck
    }

    /// Bytes that went this way, and the seams between messages.
    pub fn carried(&self, direction: Direction) -> (usize, Vec<usize>) {
        let counts = self.0.lock().unwrap();
        match direction {
            Direction::Up => (counts.up, counts.seams_up.clone()),
            Direction::Down => (counts.down, counts.seams_down.clone()),
        }
    }

    /// How many of so many bytes may still go this way before the fault strikes.
    fn allowance(&self, direction: Direction, wanted: usize) -> usize {
        let counts = self.0.lock().unwrap();
        match counts.fault {
            Some(fault) if fault.direction == direction && !counts.struck => wanted.min(fault.at - counts.of(direction)),
            _ => wanted,
        }
    }

    /// Notes what went, and says which fault strikes right behind it.
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

/// Our end of a cable.
pub struct FaultyStream {
    io: Option<DuplexStream>,
    meter: Meter,
    fault: Option<Fault>,
    /// Whoever waits for bytes must hear of a reset.
    reader: Option<Waker>,
    closed: Arc<AtomicBool>,
    on_cut: Option<Box<dyn Fn() + Send>>,
}

impl FaultyStream {
    /// A cable, and the peer's end of it.
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

    /// Does this when it is cut.
    pub fn on_cut(mut self, act: impl Fn() + Send + 'static) -> FaultyStream {
        self.on_cut = Some(Box::new(act));
        self
    }

    /// False once the peer, as far as we can see without reading, has gone.
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

    /// The most bytes that may go this way in one piece.
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
                    // In memory a shutdown is done at once.
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
        // Dripping may just have begun.
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
        // Through a way that stalls not even the end arrives.
        if self.has(Kind::Stall, Direction::Up) {
            return Poll::Ready(Ok(()));
        }
        self.io.as_mut().map_or(Poll::Ready(Ok(())), |io| Pin::new(io).poll_shutdown(cx))
    }
}
