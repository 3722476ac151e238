//! Ctrl-C in commands that wait for a server.

use tokio::signal::unix::{SignalKind, signal};

/// Completes at SIGINT (Ctrl-C) or SIGTERM.
pub(crate) async fn signalled() {
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        },
        Err(_) => drop(tokio::signal::ctrl_c().await),
    }
}

/// Completes at the first signal, after a message: what follows may take seconds.
pub(crate) async fn cancelled() {
    signalled().await;
    eprintln!("cancelling…");
}
