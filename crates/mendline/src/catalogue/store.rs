//! Writes the list cache on a background thread.
//!
//! A disk may be slow, full or missing; the driver's loop must not block on it. So one thread writes, started with the
//! first write. It writes the latest value only: a new value replaces one that is still waiting. On drop the keeper
//! waits for the thread, unless the disk hangs.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use mendline_core::ListCache;

use super::file::File;
use crate::background::{Work, Worker};
use crate::driver::CacheStore;
use crate::observe::log::{LogHandle, LogLevel};
use crate::observe::redact::Redactor;

const STACK: usize = 256 << 10;

/// A keeper that writes the catalogue of one server to disk.
pub struct DiskStore {
    slot: Arc<Slot>,
    /// Taken by the thread when it starts.
    writer: Option<Writer>,
    work: Option<Work>,
}

/// The latest value, shared by the driver's loop and the thread.
#[derive(Default)]
struct Slot {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    next: Option<ListCache>,
    is_over: bool,
}

/// The state of the writing thread.
pub(super) struct Writer {
    file: File,
    redactor: Redactor,
    log: LogHandle,
    has_warned: bool,
}

impl DiskStore {
    pub(super) fn new(writer: Writer) -> DiskStore {
        DiskStore { slot: Arc::default(), writer: Some(writer), work: None }
    }
}

impl CacheStore for DiskStore {
    fn store(&mut self, what: ListCache) {
        let mut state = self.slot.lock();
        state.next = Some(what);
        drop(state);
        self.slot.changed.notify_all();
        if let Some(writer) = self.writer.take() {
            let slot = Arc::clone(&self.slot);
            let (work, worker) = Work::new();
            self.work = Some(work);
            // Without a thread nothing is written, and calls continue.
            let _ = thread::Builder::new()
                .name("mendline-cache".to_owned())
                .stack_size(STACK)
                .spawn(move || slot.serve(writer, &worker));
        }
    }
}

impl Drop for DiskStore {
    fn drop(&mut self) {
        self.slot.lock().is_over = true;
        self.slot.changed.notify_all();
        if let Some(work) = &self.work {
            work.wait();
        }
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut writer: Writer, worker: &Worker) {
        loop {
            let state = self.lock();
            let waits = |state: &mut State| state.next.is_none() && !state.is_over;
            let mut state = self.changed.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
            let Some(next) = state.next.take() else { break };
            drop(state);
            writer.write(&next, worker);
        }
    }
}

impl Writer {
    pub(super) fn new(file: File, redactor: Redactor, log: LogHandle) -> Writer {
        Writer { file, redactor, log, has_warned: false }
    }

    /// Writes a list cache. Only the disk can block; the search for secrets takes its time on a busy machine, too.
    fn write(&mut self, what: &ListCache, worker: &Worker) {
        // A configured secret that the server repeats, in any form, is not written to disk. Text that only looks like a
        // credential is the server's own, such as an example in a description.
        let written = if self.redactor.contains_secret(&what.write()) {
            Err("the server repeats a credential in its lists or its handshake".to_owned())
        } else {
            worker.risk(|| self.file.write(what)).map_err(|error| error.to_string())
        };
        match written {
            Ok(()) => self.has_warned = false,
            Err(why) if !self.has_warned => {
                self.has_warned = true;
                let text = format!("cannot write the catalogue of the server: {why}; its lists are not cached on disk");
                self.log.write(LogLevel::Warn, &text);
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Identity;
    use mendline_core::Secret;

    use super::*;
    use crate::observe::log::Log;
    use crate::observe::redact::secrets_of_url;

    fn catalogue(tool: &str) -> ListCache {
        let text = format!(
            r#"{{"jsonrpc":"2.0","method":"catalogue","params":{{"entries":[{{"version":"2025-11-25","method":"tools/list","answer":{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{{"name":"{tool}"}}]}}}}}}]}}}}"#
        );
        ListCache::read(text.as_bytes()).unwrap()
    }

    fn file(state: &std::path::Path) -> super::super::CatalogueFile {
        let log = Log::of_gateway(LogLevel::Off, Vec::new());
        let identity =
            Identity::remote("https://a.example/mcp").with("authorization", &Secret::new("Bearer s3cr3t-canary"));
        super::super::CatalogueFile::open(&state.join("mendline"), identity, log.handle()).unwrap()
    }

    #[test]
    fn dropped_keeper_has_written_the_latest_value() {
        let state = tempfile::tempdir().unwrap();
        let mut store = file(state.path()).store();
        for number in 0..50 {
            store.store(catalogue(&format!("tool{number}")));
        }
        drop(store);
        let kept = file(state.path()).read().unwrap().write();
        assert!(String::from_utf8(kept).unwrap().contains("tool49"));
    }

    #[test]
    fn list_cache_with_credential_is_not_written() {
        let state = tempfile::tempdir().unwrap();
        let mut store = file(state.path()).store();
        store.store(catalogue("s3cr3t-canary"));
        drop(store);
        assert!(file(state.path()).read().is_none());
    }

    #[test]
    fn s10_no_form_of_a_secret_is_kept() {
        let redactor = Redactor::default();
        let basic = Secret::new("Basic bWU6b3BlbiBzZXNhbWU=");
        let cookie = Secret::new("sid=0123456789; csrf=abcdefghij");
        redactor.learn(&[basic, cookie, Secret::new("with\"quote/and")]);
        redactor.learn(&secrets_of_url("https://h.example/mcp?key=query-canary-1"));
        for text in [
            "open sesame",
            "me:open sesame",
            "b3BlbiBzZXNhbWU",
            "0123456789",
            "abcdefghij",
            "query-canary-1",
            r#"with\"quote\/and"#,
            r"query\u002dcanary\u002d1",
            "query%2Dcanary%2D1",
        ] {
            let state = tempfile::tempdir().unwrap();
            let mut store = file(state.path()).hiding(redactor.clone()).store();
            store.store(catalogue(text));
            drop(store);
            assert!(file(state.path()).read().is_none(), "{text}");
        }
    }

    #[test]
    fn text_that_only_resembles_a_credential_is_written() {
        let state = tempfile::tempdir().unwrap();
        let mut store = file(state.path()).store();
        store.store(catalogue("Authorization: Bearer YOUR_TOKEN_HERE"));
        drop(store);
        assert!(file(state.path()).read().is_some());
    }

    #[test]
    fn unwritable_directory_stops_no_call() {
        let state = tempfile::tempdir().unwrap();
        let mut store = file(state.path()).store();
        let folder = state.path().join("mendline/catalogue");
        std::fs::remove_dir(&folder).unwrap();
        std::fs::write(&folder, b"a file instead of a directory").unwrap();
        for _ in 0..3 {
            store.store(catalogue("tool"));
        }
        drop(store);
    }
}
