//! A record of the server's effects, in a file that outlives it.
//!
//! It has one line for each start, each received call and each execution. A line is appended by a single write, so that
//! several lifetimes of the server share one file. Without a file, only the calls of this lifetime are counted.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The environment variable that names the file.
pub(crate) const VARIABLE: &str = "MENDLINE_DEMO_LEDGER";

/// The file, if there is one.
pub(super) struct Ledger {
    file: Option<(PathBuf, Mutex<File>)>,
    calls: AtomicUsize,
}

impl Ledger {
    /// Opens the ledger that the environment names.
    pub(super) fn with_environment() -> Ledger {
        let path = std::env::var_os(VARIABLE).map(PathBuf::from);
        let file = path.and_then(|path| {
            let file = OpenOptions::new().create(true).append(true).open(&path).ok()?;
            Some((path, Mutex::new(file)))
        });
        Ledger { file, calls: AtomicUsize::new(0) }
    }

    /// Records an event with our process id.
    pub(super) fn note(&self, what: &str) {
        let Some((_, file)) = &self.file else { return };
        if let Ok(mut file) = file.lock() {
            let line = format!("{what} {}\n", std::process::id());
            // A full disk cannot be handled here; the reader of the ledger misses the line.
            let _ = file.write_all(line.as_bytes());
        }
    }

    /// Records a received call, and returns its number: over all lifetimes if there is a file, else of this one.
    pub(super) fn count_call(&self, tool: &str) -> usize {
        self.note(&format!("call {tool}"));
        let here = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let everywhere = self.file.as_ref().and_then(|(path, _)| std::fs::read_to_string(path).ok());
        everywhere.map_or(here, |text| text.lines().filter(|line| line.starts_with("call ")).count())
    }

    /// Records the execution of a tool.
    pub(super) fn executed(&self, tool: &str, key: &str) {
        self.note(&format!("executed {tool} {key}"));
    }
}
