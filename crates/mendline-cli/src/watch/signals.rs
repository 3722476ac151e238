//! Signals, as messages for the screen.
//!
//! The terminal must be restored even if the screen hangs: if the screen has not ended shortly after a stop signal,
//! this thread ends the process.

use std::io;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use mendline::os::signals::{Received, Signals};

use super::screen::restore;

/// Time limit for the screen to end by itself.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Offset of the exit code of a process that a signal ended, as shells use it.
const ENDED: i32 = 128;

/// A received signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceivedSignal {
    /// SIGINT, by Ctrl-C on a terminal that is not in raw mode, or by another process.
    Interrupt,
    /// SIGTERM, SIGQUIT, or SIGHUP of a closed terminal.
    Stop,
    /// SIGTSTP.
    Suspend,
    /// SIGCONT.
    Continued,
}

/// Starts to listen.
pub(crate) fn listen(sender: Sender<ReceivedSignal>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _inside = runtime.enter();
        Signals::listen(&HANDLED)?
    };
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            loop {
                let signal = meaning(signals.next().await);
                // At the end there may be no receiver.
                let _ = sender.send(signal);
                if signal == ReceivedSignal::Stop {
                    tokio::time::sleep(EXIT_TIMEOUT).await;
                    restore();
                    std::process::exit(ENDED + Received::Terminate.number());
                }
            }
        });
    })?;
    Ok(())
}

const HANDLED: [Received; 6] = [
    Received::Interrupt,
    Received::Terminate,
    Received::Quit,
    Received::HangUp,
    Received::Suspend,
    Received::Continued,
];

fn meaning(signal: Received) -> ReceivedSignal {
    match signal {
        Received::Interrupt => ReceivedSignal::Interrupt,
        Received::Suspend => ReceivedSignal::Suspend,
        Received::Continued => ReceivedSignal::Continued,
        Received::Terminate | Received::Quit | Received::HangUp | Received::User => ReceivedSignal::Stop,
    }
}
