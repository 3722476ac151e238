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
//! One property of a pipe is changed: its capacity is raised when the client gets its first message that exceeds it. A
//! large result then takes a few writes instead of dozens; no program can observe it otherwise.
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

use super::raw;

const SCRATCH: usize = 64 * 1024;

/// The capacity of a client's pipe after its first large message. The kernel limits the sum over all pipes of a user,
/// so it is not the most that is possible.
const LARGE_PIPE: usize = 256 * 1024;

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
    Pipe { pipe: Sender, is_large: bool },
    Socket(AsyncFd<OwnedFd>),
    Plain(OwnedFd),
}

impl Output {
    /// A stream over a descriptor of any kind, which stays open and unchanged.
    pub fn open(fd: BorrowedFd<'_>) -> io::Result<Output> {
        let own = rustix::io::fcntl_dupfd_cloexec(fd, 3)?;
        let writing = match kind(&own)? {
            Kind::Blocking => match reopen(&own, OFlags::WRONLY).and_then(Sender::from_owned_fd_unchecked) {
                Ok(pipe) => Writing::Pipe { pipe, is_large: false },
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
            Writing::Pipe { pipe, .. } => Pin::new(pipe).poll_write(cx, bytes),
            _ => self.poll_write_vectored(cx, &[IoSlice::new(bytes)]),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Writing::Pipe { pipe, is_large } => {
                let written = ready!(Pin::new(&mut *pipe).poll_write_vectored(cx, slices))?;
                enlarge(pipe, is_large, written, total(slices));
                Poll::Ready(Ok(written))
            }
            Writing::Socket(socket) => loop {
                let mut ready = ready!(socket.poll_write_ready(cx))?;
                let attempt = ready.try_io(|socket| {
                    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                    Ok(rustix::net::sendmsg(socket, slices, &mut SendAncillaryBuffer::default(), flags)?)
                });
                match attempt {
                    Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                    Ok(result) => {
                        // A short write means that the socket is full, which saves another call.
                        if result.as_ref().is_ok_and(|count| *count < total(slices)) {
                            ready.clear_ready();
                        }
                        return Poll::Ready(result);
                    }
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
            Writing::Pipe { pipe, .. } => is_abandoned(pipe.as_fd()),
            Writing::Socket(socket) => is_abandoned(socket.get_ref().as_fd()),
            Writing::Plain(_) => false,
        };
        Poll::Ready(if is_abandoned { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) })
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn total(slices: &[IoSlice<'_>]) -> usize {
    slices.iter().map(|slice| slice.len()).sum()
}

/// Raises the capacity of a pipe once, if a write shows that it is smaller than a message. If the kernel refuses, the
/// pipe stays as it is. The pipe must still count as writable: some kernels do not report the room that this makes, so
/// the next write must be tried at once. After a short write of several slices that is so, after one of a single slice
/// it is not.
fn enlarge(pipe: &Sender, is_large: &mut bool, written: usize, length: usize) {
    if *is_large || written == length || length < SCRATCH {
        return;
    }
    *is_large = true;
    if rustix::pipe::fcntl_getpipe_size(pipe).is_ok_and(|size| size < LARGE_PIPE) {
        let _ = rustix::pipe::fcntl_setpipe_size(pipe, LARGE_PIPE);
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

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    fn capacity(output: &Output) -> usize {
        let Writing::Pipe { pipe, .. } = &output.0 else { panic!("stdout is a pipe here") };
        rustix::pipe::fcntl_getpipe_size(pipe).unwrap()
    }

    #[tokio::test]
    async fn p03_first_large_message_enlarges_pipe_of_client() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut output = Output::open(writer.as_fd()).unwrap();
        let before = capacity(&output);
        output.write_all(b"small\n").await.unwrap();
        assert_eq!(capacity(&output), before);

        let large = vec![b'x'; LARGE_PIPE - 4096];
        let slices = [IoSlice::new(b"{"), IoSlice::new(&large)];
        let mut written = output.write_vectored(&slices).await.unwrap();
        assert_eq!(capacity(&output), LARGE_PIPE);
        // The pipe now holds all of it, although nothing was read.
        while written < 1 + large.len() {
            written += output.write(&large[written - 1..]).await.unwrap();
        }
        drop(reader);
    }

    #[tokio::test]
    async fn full_pipe_accepts_more_after_it_is_read() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut output = Output::open(writer.as_fd()).unwrap();
        drop(writer);
        let large = vec![b'x'; 4 * LARGE_PIPE];
        let write = async {
            let mut written = output.write_vectored(&[IoSlice::new(b"{"), IoSlice::new(&large)]).await.unwrap() - 1;
            while written < large.len() {
                written += output.write(&large[written..]).await.unwrap();
            }
            drop(output);
        };
        let read = tokio::task::spawn_blocking(move || {
            let (mut total, mut buffer) = (0, vec![0; SCRATCH]);
            // At most as many reads as there are bytes.
            for _ in 0..=4 * LARGE_PIPE {
                match rustix::io::read(&reader, &mut buffer).unwrap() {
                    0 => break,
                    count => total += count,
                }
            }
            total
        });
        let (read, ()) = tokio::join!(read, write);
        assert_eq!(read.unwrap(), 1 + 4 * LARGE_PIPE);
    }
}
