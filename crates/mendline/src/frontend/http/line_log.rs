//! Log files of the gateway with a line of JSON for each event.
//!
//! A thread of its own writes the lines, so a slow disk delays no request. If it does not keep up, lines are dropped and
//! counted, and the next line says how many. A full file is followed by the next, and the oldest are deleted.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use serde_json::{Map, Value};

use crate::background::{Work, Worker};
use crate::observe::escaped::is_harmless;
use crate::os::files::append_private_file;
use crate::state::own_folder;

/// The size from which a new file is begun.
const FILE_BYTES: u64 = 8 << 20;

/// Older files that are kept.
const OLDER_FILES: u32 = 8;

/// Lines that wait for the disk.
const WAITING_LINES: usize = 4096;

/// A log file.
pub(super) struct LineLog {
    writer: Mutex<Option<Writer>>,
    dropped: AtomicU64,
}

struct Writer {
    lines: SyncSender<String>,
    work: Work,
}

impl LineLog {
    /// Opens the log of this name in the state directory.
    pub(super) fn open(state: &Path, name: &str) -> io::Result<LineLog> {
        own_folder(state)?;
        let file = LineFile::open(state.join(name))?;
        let (lines, received) = sync_channel(WAITING_LINES);
        let (work, worker) = Work::new();
        thread::Builder::new().name(format!("mendline-{name}")).spawn(move || write(file, &received, &worker))?;
        Ok(LineLog { writer: Mutex::new(Some(Writer { lines, work })), dropped: AtomicU64::new(0) })
    }

    /// Writes a line.
    pub(super) fn write(&self, mut line: Map<String, Value>) {
        let dropped = self.dropped.load(Ordering::Relaxed);
        if dropped > 0 {
            line.insert("droppedBefore".into(), dropped.into());
        }
        let text = format!("{}\n", Value::Object(line));
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        match writer.as_ref().map(|writer| writer.lines.try_send(text)) {
            Some(Ok(())) => self.dropped.fetch_sub(dropped, Ordering::Relaxed),
            _ => self.dropped.fetch_add(1, Ordering::Relaxed),
        };
    }

    /// Waits for the last lines to be written, unless the disk blocks.
    pub(super) fn close(&self) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Writer { lines, work }) = writer {
            drop(lines);
            work.wait();
        }
    }
}

impl Drop for LineLog {
    fn drop(&mut self) {
        self.close();
    }
}

/// Returns a text from outside without characters that control a terminal.
pub(super) fn harmless(text: &str) -> String {
    text.chars().map(|c| if is_harmless(c) { c } else { '\u{fffd}' }).collect()
}

fn write(mut file: LineFile, lines: &Receiver<String>, worker: &Worker) {
    while let Ok(first) = lines.recv() {
        let mut text = first;
        lines.try_iter().take(WAITING_LINES).for_each(|line| text.push_str(&line));
        // A full disk loses these lines; the next ones are tried again.
        let _ = worker.risk(|| file.append(text.as_bytes()));
    }
}

/// The file, which is replaced when it is full.
struct LineFile {
    path: PathBuf,
    file: File,
    length: u64,
}

impl LineFile {
    fn open(path: PathBuf) -> io::Result<LineFile> {
        let file = append_private_file().open(&path)?;
        let length = file.metadata()?.len();
        Ok(LineFile { path, file, length })
    }

    fn append(&mut self, text: &[u8]) -> io::Result<()> {
        if self.length >= FILE_BYTES {
            self.rotate()?;
        }
        self.file.write_all(text)?;
        self.length += text.len() as u64;
        Ok(())
    }

    /// Renames the full file and the older ones, and begins a new one.
    fn rotate(&mut self) -> io::Result<()> {
        let older = |number: u32| self.path.with_extension(format!("log.{number}"));
        for number in (1..OLDER_FILES).rev() {
            // The first ones do not exist yet.
            let _ = fs::rename(older(number), older(number + 1));
        }
        fs::rename(&self.path, older(1))?;
        *self = LineFile::open(self.path.clone())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_file_is_followed_by_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let mut file = LineFile::open(path.clone()).unwrap();
        file.append(b"old\n").unwrap();
        for _ in 0..OLDER_FILES + 3 {
            file.length = FILE_BYTES;
            file.append(b"new\n").unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "new\n");
        let files = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(files, OLDER_FILES as usize + 1, "the oldest are gone");
    }
}
