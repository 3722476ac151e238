//! Whether somebody wants the demonstration to end now.
//!
//! A thread of its own hears the signals and raises a flag; everything that waits looks at the flag while it does, so that
//! processes and files are put away on the ordinary path. A second signal does not wait for that.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

/// How long anything waits without looking.
pub(super) const GLANCE: Duration = Duration::from_millis(50);

static WANTED: AtomicBool = AtomicBool::new(false);

/// Whether it was asked for.
pub(super) fn is_wanted() -> bool {
    WANTED.load(Ordering::Relaxed)
}

/// Asks for it.
pub(super) fn ask() {
    WANTED.store(true, Ordering::Relaxed);
}

/// Listens to the signals that mean it, from now on.
pub(super) fn listen() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut interrupt, mut terminate, mut hang_up) = {
        let _within = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?)
    };
    thread::spawn(move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hang_up.recv() => {}
                }
                if is_wanted() {
                    std::process::exit(super::STOPPED.into());
                }
                ask();
            }
        });
    });
    Ok(())
}

/// Sleeps, unless it is asked for meanwhile.
pub(super) fn sleep(time: Duration) {
    let mut left = time;
    while !left.is_zero() && !is_wanted() {
        let nap = left.min(GLANCE);
        thread::sleep(nap);
        left -= nap;
    }
}
