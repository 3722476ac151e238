//! Ctrl-C in commands that wait for a server.

use mendline::os::signals::{Received, Signals};

/// Completes at SIGINT (Ctrl-C) or SIGTERM.
pub(crate) async fn signalled() {
    match Signals::listen(&[Received::Interrupt, Received::Terminate]) {
        Ok(mut signals) => drop(signals.next().await),
        Err(_) => drop(tokio::signal::ctrl_c().await),
    }
}

/// Completes at the first signal, after a message: what follows may take seconds.
pub(crate) async fn cancelled() {
    signalled().await;
    eprintln!("cancelling…");
}
