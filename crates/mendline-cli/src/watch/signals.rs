//! Signals, as something that the screen hears when it has time.
//!
//! Somebody who ends us must not find the terminal spoilt, even if the screen itself hangs: who has not ended a moment after
//! it was told to is ended here.

use std::io;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::screen::give_back;

/// How long the screen has to end by itself.
const PATIENCE: Duration = Duration::from_secs(2);

/// The code of a process that was ended by a signal, as shells have it.
const ENDED: i32 = 128;

/// What was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// By Ctrl-C of a terminal that is not in raw mode, or by hand.
    Interrupt,
    /// Somebody wants us to end, or the terminal is gone.
    Stop,
    /// To the background.
    Suspend,
    /// We were stopped, and go on.
    Continued,
}

/// Listens from now on.
pub(crate) fn listen(heard: Sender<Heard>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _inside = runtime.enter();
        Signals::listen()?
    };
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            loop {
                let signal = signals.next().await;
                // Nobody listens any more when we are at the end anyway.
                let _ = heard.send(signal);
                if signal == Heard::Stop {
                    tokio::time::sleep(PATIENCE).await;
                    give_back();
                    std::process::exit(ENDED + SignalKind::terminate().as_raw_value());
                }
            }
        });
    })?;
    Ok(())
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    quit: Signal,
    hang_up: Signal,
    suspend: Signal,
    go_on: Signal,
}

impl Signals {
    fn listen() -> io::Result<Signals> {
        let other = |which: rustix::process::Signal| signal(SignalKind::from_raw(which.as_raw()));
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            hang_up: signal(SignalKind::hangup())?,
            suspend: other(rustix::process::Signal::TSTP)?,
            go_on: other(rustix::process::Signal::CONT)?,
        })
    }

    async fn next(&mut self) -> Heard {
        tokio::select! {
            _ = self.interrupt.recv() => Heard::Interrupt,
            _ = self.terminate.recv() => Heard::Stop,
            _ = self.quit.recv() => Heard::Stop,
            _ = self.hang_up.recv() => Heard::Stop,
            _ = self.suspend.recv() => Heard::Suspend,
            _ = self.go_on.recv() => Heard::Continued,
        }
    }
}
