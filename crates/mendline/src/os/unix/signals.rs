//! Signals: their names and numbers, and those that this process receives.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::SignalKind;

/// A signal: its name and its number on this system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemSignal {
    /// The name, as in `signal.h`.
    pub name: &'static str,
    /// The number on this system.
    pub number: i32,
}

const fn named(name: &'static str, signal: Signal) -> SystemSignal {
    SystemSignal { name, number: signal.as_raw() }
}

/// Signals that end or stop a process.
pub(crate) const SIGNALS: &[SystemSignal] = &[
    named("SIGHUP", Signal::HUP),
    named("SIGINT", Signal::INT),
    named("SIGQUIT", Signal::QUIT),
    named("SIGILL", Signal::ILL),
    named("SIGTRAP", Signal::TRAP),
    named("SIGABRT", Signal::ABORT),
    named("SIGBUS", Signal::BUS),
    named("SIGFPE", Signal::FPE),
    named("SIGKILL", Signal::KILL),
    named("SIGUSR1", Signal::USR1),
    named("SIGSEGV", Signal::SEGV),
    named("SIGUSR2", Signal::USR2),
    named("SIGPIPE", Signal::PIPE),
    named("SIGALRM", Signal::ALARM),
    named("SIGTERM", Signal::TERM),
    named("SIGSTOP", Signal::STOP),
    named("SIGXCPU", Signal::XCPU),
    named("SIGXFSZ", Signal::XFSZ),
    named("SIGSYS", Signal::SYS),
];

/// A signal that this process can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// SIGINT, by Ctrl-C or by another process.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP, also of a closed terminal.
    HangUp,
    /// SIGQUIT.
    Quit,
    /// SIGUSR1.
    User,
    /// SIGTSTP, by Ctrl-Z or by another process.
    Suspend,
    /// SIGCONT, after the process was stopped for an unknown time.
    Continued,
}

impl Received {
    /// Returns its number on this system.
    pub fn number(self) -> i32 {
        match self {
            Received::Interrupt => Signal::INT,
            Received::Terminate => Signal::TERM,
            Received::HangUp => Signal::HUP,
            Received::Quit => Signal::QUIT,
            Received::User => Signal::USR1,
            Received::Suspend => Signal::TSTP,
            Received::Continued => Signal::CONT,
        }
        .as_raw()
    }
}

/// Receives signals. From its creation on, these signals do not have their usual effect, even after it is dropped.
pub struct Signals(Vec<(Received, tokio::signal::unix::Signal)>);

impl Signals {
    /// Starts to listen for these signals. Must be called inside a tokio runtime.
    pub fn listen(which: &[Received]) -> io::Result<Signals> {
        let listen = |one: &Received| Ok((*one, listen(one.number())?));
        which.iter().map(listen).collect::<io::Result<_>>().map(Signals)
    }

    /// Waits for the next signal. Cancel-safe.
    pub async fn next(&mut self) -> Received {
        poll_fn(|cx| {
            let received = self.0.iter_mut().find_map(|(which, signal)| match signal.poll_recv(cx) {
                Poll::Ready(Some(())) => Some(*which),
                _ => None,
            });
            received.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Makes writes fail that exceed the limit of the size of a file. Without this, they end the process.
pub fn survive_file_size_limit() -> io::Result<()> {
    // A handler stays installed after its receiver is dropped.
    listen(Signal::XFSZ.as_raw()).map(drop)
}

fn listen(number: i32) -> io::Result<tokio::signal::unix::Signal> {
    tokio::signal::unix::signal(SignalKind::from_raw(number))
}
