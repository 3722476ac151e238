//! Interruption of the demo.
//!
//! A thread listens for signals and sets a flag. Everything that waits polls the flag, so that processes and files are
//! cleaned up on the normal path. A second signal exits at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use mendline::os::signals::{Received, Signals};

/// Interval at which waiting code polls the flag.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);

static WANTED: AtomicBool = AtomicBool::new(false);

/// Returns whether the demo should stop.
pub(super) fn is_wanted() -> bool {
    WANTED.load(Ordering::Relaxed)
}

/// Stops the demo.
pub(super) fn ask() {
    WANTED.store(true, Ordering::Relaxed);
}

/// Listens for SIGINT, SIGTERM and SIGHUP from now on.
pub(super) fn listen() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut signals = {
        let _within = runtime.enter();
        Signals::listen(&[Received::Interrupt, Received::Terminate, Received::HangUp])?
    };
    thread::spawn(move || {
        runtime.block_on(async {
            loop {
                signals.next().await;
                if is_wanted() {
                    std::process::exit(super::STOPPED.into());
                }
                ask();
            }
        });
    });
    Ok(())
}

/// Sleeps, but returns early if the demo should stop.
pub(super) fn sleep(time: Duration) {
    let mut left = time;
    while !left.is_zero() && !is_wanted() {
        let nap = left.min(POLL_INTERVAL);
        thread::sleep(nap);
        left -= nap;
    }
}
