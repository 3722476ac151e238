//! The stdin and stdout of this process as byte streams that never block.
//!
//! Standard descriptors are shared: O_NONBLOCK on the open file behind them also applies to the shell, the client or a
//! sibling process that holds the same file, and breaks such programs. So nothing shared is changed. The kind of
//! descriptor decides:
//!
//! - pipes and terminals are opened again through `/proc/self/fd`, which gives an open file of our own;
//! - sockets (Node gives its children socket pairs) cannot be opened again, but accept a flag per call not to block;
//! - regular files and `/dev/null` never block and are read and written directly.
//!
//! End of file, errors and a closed reader are passed on; the driver reports them to the engine.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::unix::pipe::{Receiver, Sender};

use crate::raw;

const SCRATCH: usize = 64 * 1024;

/// Opens stdin and stdout. Must be called inside a tokio runtime.
pub fn open() -> io::Result<(Input, Output)> {
    Ok((Input::open(rustix::stdio::stdin())?, Output::open(rustix::stdio::stdout())?))
}

/// The stream from the client.
pub struct Input(Reading);

enum Reading {
    Pipe(Receiver),
    Socket { socket: AsyncFd<OwnedFd>, scratch: Box<[u8]> },
    Plain { file: OwnedFd, scratch: Box<[u8]> },
}

impl Input {
    /// A stream over a descriptor of any kind, which stays open and unchanged.
    pub fn open(fd: BorrowedFd<'_>) -> io::Result<Input> {
        let own = rustix::io::fcntl_dupfd_cloexec(fd, 3)?;
        let reading = match kind(&own)? {
            Kind::Blocking => match reopen(&own, OFlags::RDONLY).and_then(Receiver::from_owned_fd_unchecked) {
                Ok(pipe) => Reading::Pipe(pipe),
                Err(error) if refused_by_epoll(&error) => Reading::Plain { file: own, scratch: scratch() },
                Err(error) => return Err(error),
            },
            Kind::Socket => {
                let socket = raw::watch(own, Interest::READABLE)?;
                Reading::Socket { socket, scratch: scratch() }
            }
            Kind::Plain => Reading::Plain { file: own, scratch: scratch() },
        };
        Ok(Input(reading))
    }
}

impl AsyncRead for Input {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Reading::Pipe(pipe) => Pin::new(pipe).poll_read(cx, buf),
            Reading::Socket { socket, scratch } => {
                let wanted = buf.remaining().min(scratch.len());
                loop {
                    let mut ready = ready!(socket.poll_read_ready(cx))?;
                    let attempt = ready.try_io(|socket| {
                        let (count, _) = rustix::net::recv(socket, &mut scratch[..wanted], RecvFlags::DONTWAIT)?;
                        Ok(count)
                    });
                    match attempt {
                        Ok(Ok(count)) => {
                            // A short read means that the socket is empty, which saves another call.
                            if count < wanted {
                                ready.clear_ready();
                            }
                            buf.put_slice(&scratch[..count]);
                            return Poll::Ready(Ok(()));
                        }
                        Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                        Ok(Err(error)) => return Poll::Ready(Err(error)),
                        Err(_would_block) => {}
                    }
                }
            }
            Reading::Plain { file, scratch } => {
                let wanted = buf.remaining().min(scratch.len());
                let count = rustix::io::retry_on_intr(|| rustix::io::read(&*file, &mut scratch[..wanted]))?;
                buf.put_slice(&scratch[..count]);
                Poll::Ready(Ok(()))
            }
        }
    }
}

/// The stream to the client.
pub struct Output(Writing);

enum Writing {
    Pipe(Sender),
    Socket(AsyncFd<OwnedFd>),
    Plain(OwnedFd),
}

impl Output {
    /// A stream over a descriptor of any kind, which stays open and unchanged.
    pub fn open(fd: BorrowedFd<'_>) -> io::Result<Output> {
        let own = rustix::io::fcntl_dupfd_cloexec(fd, 3)?;
        let writing = match kind(&own)? {
            Kind::Blocking => match reopen(&own, OFlags::WRONLY).and_then(Sender::from_owned_fd_unchecked) {
                Ok(pipe) => Writing::Pipe(pipe),
                Err(error) if refused_by_epoll(&error) => Writing::Plain(own),
                Err(error) => return Err(error),
            },
            Kind::Socket => Writing::Socket(raw::watch(own, Interest::WRITABLE)?),
            Kind::Plain => Writing::Plain(own),
        };
        Ok(Output(writing))
    }
}

impl AsyncWrite for Output {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Writing::Pipe(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            _ => self.poll_write_vectored(cx, &[IoSlice::new(bytes)]),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Writing::Pipe(pipe) => Pin::new(pipe).poll_write_vectored(cx, slices),
            Writing::Socket(socket) => loop {
                let mut ready = ready!(socket.poll_write_ready(cx))?;
                let attempt = ready.try_io(|socket| {
                    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                    Ok(rustix::net::sendmsg(socket, slices, &mut SendAncillaryBuffer::default(), flags)?)
                });
                match attempt {
                    Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                    Ok(result) => return Poll::Ready(result),
                    Err(_would_block) => {}
                }
            },
            Writing::Plain(file) => {
                let count = rustix::io::retry_on_intr(|| rustix::io::writev(&*file, slices))?;
                Poll::Ready(Ok(count))
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing is buffered, so there is nothing to flush. The flush reports whether the client has closed its end.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let is_abandoned = match &self.0 {
            Writing::Pipe(pipe) => is_abandoned(pipe.as_fd()),
            Writing::Socket(socket) => is_abandoned(socket.get_ref().as_fd()),
            Writing::Plain(_) => false,
        };
        Poll::Ready(if is_abandoned { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) })
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Returns whether the other end of a pipe or a socket is closed, without writing to it.
fn is_abandoned(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::empty())];
    let polled = rustix::event::poll(&mut fds, Some(&Timespec::default()));
    polled.is_ok() && fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

enum Kind {
    /// A pipe or a terminal.
    Blocking,
    Socket,
    /// A file that never blocks.
    Plain,
}

fn kind(fd: &OwnedFd) -> io::Result<Kind> {
    let mode = rustix::fs::fstat(fd)?.st_mode;
    Ok(match FileType::from_raw_mode(mode) {
        FileType::Fifo | FileType::CharacterDevice => Kind::Blocking,
        FileType::Socket => Kind::Socket,
        _ => Kind::Plain,
    })
}

/// Opens the same pipe or terminal as an open file of our own.
fn reopen(fd: &OwnedFd, access: OFlags) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(own) => Ok(own),
        // A pipe of another user (`sudo -u`) must not be opened again, one without a reader cannot be, and without
        // /proc none can. Then only the shared file is left, and not blocking matters more than leaving it unchanged.
        Err(Errno::ACCESS | Errno::PERM | Errno::NOENT | Errno::NXIO) => {
            let shared = fd.try_clone()?;
            let flags = rustix::fs::fcntl_getfl(&shared)?;
            rustix::fs::fcntl_setfl(&shared, flags | OFlags::NONBLOCK)?;
            Ok(shared)
        }
        Err(error) => Err(error.into()),
    }
}

/// epoll refuses `/dev/null` and similar files.
fn refused_by_epoll(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::PERM.raw_os_error())
}

fn scratch() -> Box<[u8]> {
    vec![0; SCRATCH].into_boxed_slice()
}
