//! Writes in the background, and never in anybody's way.
//!
//! A disk may be slow, full or gone; the loop that carries calls must not notice. So one thread writes, started when there is
//! first something to write, and it writes the newest: what comes while it is busy replaces what waits. When everything ends it
//! is waited for, unless the disk hangs.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use mendline_core::{ListCache, UpstreamId};

use super::file::File;
use crate::background::{Work, Worker};
use crate::driver::Keeper;
use crate::observe::log::{LogHandle, LogLevel};
use crate::observe::redact::Redactor;

const STACK: usize = 256 << 10;

/// Keeps the catalogue of one server on disk.
pub struct DiskKeeper {
    slot: Arc<Slot>,
    /// Until there is something to write.
    writer: Option<Writer>,
    work: Option<Work>,
}

/// Where the loop and the thread meet.
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

/// What the thread needs.
pub(super) struct Writer {
    file: File,
    redactor: Redactor,
    log: LogHandle,
    has_warned: bool,
}

impl DiskKeeper {
    pub(super) fn new(writer: Writer) -> DiskKeeper {
        DiskKeeper { slot: Arc::default(), writer: Some(writer), work: None }
    }
}

impl Keeper for DiskKeeper {
    fn keep(&mut self, _: UpstreamId, what: ListCache) {
        let mut state = self.slot.lock();
        state.next = Some(what);
        drop(state);
        self.slot.changed.notify_all();
        if let Some(writer) = self.writer.take() {
            let slot = Arc::clone(&self.slot);
            let (work, worker) = Work::new();
            self.work = Some(work);
            // Without a thread nothing is kept, and the calls go on.
            let _ = thread::Builder::new()
                .name("mendline-keeper".to_owned())
                .stack_size(STACK)
                .spawn(move || slot.serve(writer, &worker));
        }
    }
}

impl Drop for DiskKeeper {
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
            worker.risk(|| writer.write(&next));
        }
    }
}

impl Writer {
    pub(super) fn new(file: File, redactor: Redactor, log: LogHandle) -> Writer {
        Writer { file, redactor, log, has_warned: false }
    }

    fn write(&mut self, what: &ListCache) {
        // A secret of ours that the server repeats, in whatever form, is not for a disk. What only looks like a credential
        // is the server's own text, an example in a description for instance.
        let written = if self.redactor.is_told_by(&what.write()) {
            Err("the server repeats a credential in what it says of itself".to_owned())
        } else {
            self.file.write(what).map_err(|error| error.to_string())
        };
        match written {
            Ok(()) => self.has_warned = false,
            Err(why) if !self.has_warned => {
                self.has_warned = true;
                let text = format!("what is known of the server cannot be kept for the next time: {why}");
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
        let log = Log::to_stderr(LogLevel::Off, Vec::new());
        let identity =
            Identity::remote("https://a.example/mcp").with("authorization", &Secret::new("Bearer s3cr3t-canary"));
        super::super::CatalogueFile::open(&state.join("mendline"), identity, log.pen()).unwrap()
    }

    #[test]
    fn the_newest_is_on_disk_when_the_keeper_has_gone() {
        let state = tempfile::tempdir().unwrap();
        let mut keeper = file(state.path()).keeper();
        for number in 0..50 {
            keeper.keep(UpstreamId(0), catalogue(&format!("tool{number}")));
        }
        drop(keeper);
        let kept = file(state.path()).read().unwrap().write();
        assert!(String::from_utf8(kept).unwrap().contains("tool49"));
    }

    #[test]
    fn what_repeats_a_credential_is_not_kept() {
        let state = tempfile::tempdir().unwrap();
        let mut keeper = file(state.path()).keeper();
        keeper.keep(UpstreamId(0), catalogue("s3cr3t-canary"));
        drop(keeper);
        assert!(file(state.path()).read().is_none());
    }

    #[test]
    fn s10_no_form_of_a_secret_is_kept() {
        let redactor = Redactor::default();
        let basic = Secret::new("Basic bWU6b3BlbiBzZXNhbWU=");
        let cookie = Secret::new("sid=0123456789; csrf=abcdefghij");
        redactor.learn(&[basic, cookie, Secret::new("with\"quote/and")]);
        redactor.learn(&secrets_of_url("https://h.example/mcp?key=query-canary-1"));
        for told in [
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
            let mut keeper = file(state.path()).hiding(redactor.clone()).keeper();
            keeper.keep(UpstreamId(0), catalogue(told));
            drop(keeper);
            assert!(file(state.path()).read().is_none(), "{told}");
        }
    }

    #[test]
    fn what_only_looks_like_a_credential_is_kept() {
        let state = tempfile::tempdir().unwrap();
        let mut keeper = file(state.path()).keeper();
        keeper.keep(UpstreamId(0), catalogue("Authorization: Bearer YOUR_TOKEN_HERE"));
        drop(keeper);
        assert!(file(state.path()).read().is_some());
    }

    #[test]
    fn a_folder_that_cannot_be_written_to_stops_nobody() {
        let state = tempfile::tempdir().unwrap();
        let mut keeper = file(state.path()).keeper();
        let folder = state.path().join("mendline/catalogue");
        std::fs::remove_dir(&folder).unwrap();
        std::fs::write(&folder, b"a file where a folder was").unwrap();
        for _ in 0..3 {
            keeper.keep(UpstreamId(0), catalogue("tool"));
        }
        drop(keeper);
    }
}
