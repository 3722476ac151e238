//! The runtime of the fault servers.

use std::future::pending;
use std::sync::{Once, OnceLock};

use tokio::runtime::{Builder, Handle, Runtime};

/// Returns the runtime of the fault servers: one thread until the process ends.
pub fn runtime() -> &'static Handle {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    static DRIVEN: Once = Once::new();
    let runtime = RUNTIME.get_or_init(|| Builder::new_current_thread().enable_all().build().unwrap());
    DRIVEN.call_once(|| {
        std::thread::spawn(|| runtime.block_on(pending::<()>()));
    });
    runtime.handle()
}
