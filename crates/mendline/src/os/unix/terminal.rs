//! The terminal: its size, its modes and its input.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// The number of columns; 0 if the terminal does not know.
    pub columns: u16,
    /// The number of rows; 0 if the terminal does not know.
    pub rows: u16,
}

/// A stream that may be a terminal: stdout or stderr.
pub trait OutputStream: AsFd {}

impl OutputStream for io::Stdout {}
impl OutputStream for io::Stderr {}
impl<T: OutputStream> OutputStream for &T {}

/// Returns the size of the terminal behind a stream; `None` if there is none.
pub fn size(of: impl OutputStream) -> Option<TerminalSize> {
    tcgetwinsize(of).ok().map(|size| TerminalSize { columns: size.ws_col, rows: size.ws_row })
}

/// The modes of the terminal that stdin is, as they were before [`Modes::make_raw`].
pub struct Modes(Termios);

impl Modes {
    /// Returns the present modes.
    pub fn read() -> io::Result<Modes> {
        Ok(Modes(tcgetattr(io::stdin())?))
    }

    /// Makes the terminal pass every key on at once and show none.
    pub fn make_raw(&self) -> io::Result<()> {
        let mut raw = self.0.clone();
        raw.make_raw();
        Ok(tcsetattr(io::stdin(), OptionalActions::Now, &raw)?)
    }

    /// Gives the terminal these modes again. An error is ignored: the terminal may be gone.
    pub fn restore(&self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// Waits until stdin has input or has ended. Returns whether it has. Fails with `Interrupted` after a signal.
pub fn wait_for_input(within: Duration) -> io::Result<bool> {
    let stdin = rustix::stdio::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    let within = Timespec::try_from(within).unwrap_or_default();
    Ok(poll(&mut fds, Some(&within))? > 0)
}

/// Reads the available input of stdin; `None` at its end.
pub fn read_input(into: &mut [u8]) -> io::Result<Option<usize>> {
    match rustix::io::read(rustix::stdio::stdin(), into) {
        Ok(0) => Ok(None),
        Ok(count) => Ok(Some(count)),
        Err(Errno::INTR | Errno::AGAIN) => Ok(Some(0)),
        Err(error) => Err(error.into()),
    }
}

/// Stops this process and its group, as Ctrl-Z does in a shell. Returns false if that is not possible.
pub fn stop_process_group() -> bool {
    rustix::process::kill_current_process_group(Signal::STOP).is_ok()
}
