//! Log lines on stderr, without blocking calls.
//!
//! Many clients never read our stderr. A full pipe must not delay a call, so lines go through a bounded channel to one
//! thread, and only this thread may block on stderr. When the channel is full, lines are dropped and counted; the count
//! is written when stderr accepts lines again. On drop, the log waits for the thread, unless stderr blocks it.
//!
//! A line is `time LEVEL name  text`, and `time LEVEL name | text` for a child's stderr. The thread formats each line
//! separately: it redacts the text, escapes it, and cuts it, in this order. So a line cannot contain a part of a
//! secret, a line end or a terminal command, and a quote in one line does not affect the redaction of the next.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::SystemTime;

use super::escaped::Escaped;
use super::log::LogLevel;
use super::redact::Redactor;
use crate::background::Work;
use crate::os::output::write_to_stderr;

/// The limit of lines that wait for stderr.
pub(super) const QUEUE_LINES: usize = 256;

/// The limit of a line after escaping, in bytes.
pub(super) const MAX_LINE_BYTES: usize = 8 * 1024;

/// The limit of a text that is passed to the thread, in bytes.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// The size of one write, in bytes.
const BATCH_BYTES: usize = 32 * 1024;

/// The stack of the thread, which needs only a buffer.
const STACK_BYTES: usize = 64 * 1024;

/// Stderr and the thread that writes to it.
pub(super) struct Stderr {
    level: LogLevel,
    /// `None` only during drop.
    lines: Option<Arc<SyncSender<Line>>>,
    dropped: Arc<AtomicU64>,
    work: Work,
}

/// Writes to stderr while its thread runs.
#[derive(Clone)]
pub(super) struct StderrHandle {
    level: LogLevel,
    lines: Weak<SyncSender<Line>>,
    dropped: Arc<AtomicU64>,
}

/// A line before formatting.
struct Line {
    when: SystemTime,
    level: LogLevel,
    name: Box<str>,
    separator: &'static str,
    text: Box<[u8]>,
    /// The text was longer.
    is_cut: bool,
}

impl Stderr {
    pub(super) fn open(level: LogLevel, redactor: Redactor) -> Stderr {
        Stderr::to_writer(level, redactor, |batch| {
            // Not through `std::io::stderr`: its lock would be held while the client does not read.
            let mut rest = batch;
            while !rest.is_empty() {
                // This thread may wait.
                match write_to_stderr(rest) {
                    Ok(count) if count > 0 => rest = &rest[count..],
                    // The reader is gone.
                    _ => return,
                }
            }
        })
    }

    pub(super) fn to_writer(
        level: LogLevel,
        redactor: Redactor,
        mut write: impl FnMut(&[u8]) + Send + 'static,
    ) -> Stderr {
        let (lines, waiting) = sync_channel::<Line>(QUEUE_LINES);
        let (work, worker) = Work::new();
        let dropped = Arc::new(AtomicU64::new(0));
        let dropped_lines = Arc::clone(&dropped);
        let serve = move || {
            while let Ok(first) = waiting.recv() {
                let mut batch = first.write(&redactor);
                while batch.len() < BATCH_BYTES {
                    let Ok(line) = waiting.try_recv() else { break };
                    batch.push_str(&line.write(&redactor));
                }
                worker.risk(|| write(batch.as_bytes()));
                let count = dropped_lines.swap(0, Ordering::Relaxed);
                if count > 0 {
                    let text = format!("{count} log lines were dropped, because stderr was not read");
                    let line = Line::now(LogLevel::Warn, "mendline", " ", text.as_bytes()).write(&redactor);
                    worker.risk(|| write(line.as_bytes()));
                }
            }
        };
        if level > LogLevel::Off {
            // Without the thread every line is dropped; calls are not affected.
            let _ = thread::Builder::new().name("mendline-log".to_owned()).stack_size(STACK_BYTES).spawn(serve);
        }
        Stderr { level, lines: Some(Arc::new(lines)), dropped, work }
    }

    pub(super) fn wants(&self, level: LogLevel) -> bool {
        level <= self.level
    }

    pub(super) fn put(&self, level: LogLevel, name: &str, separator: &'static str, text: &[u8]) {
        if let Some(lines) = self.lines.as_ref().filter(|_| self.wants(level)) {
            send(lines, &self.dropped, Line::now(level, name, separator, text));
        }
    }

    pub(super) fn handle(&self) -> StderrHandle {
        let lines = self.lines.as_ref().map(Arc::downgrade).unwrap_or_default();
        StderrHandle { level: self.level, lines, dropped: Arc::clone(&self.dropped) }
    }

    #[cfg(test)]
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for Stderr {
    /// Waits for the last lines to be written, unless stderr blocks.
    fn drop(&mut self) {
        self.lines = None;
        self.work.wait();
    }
}

impl StderrHandle {
    pub(super) fn write(&self, level: LogLevel, text: &str) {
        if let Some(lines) = self.lines.upgrade().filter(|_| level <= self.level) {
            send(&lines, &self.dropped, Line::now(level, "mendline", " ", text.as_bytes()));
        }
    }
}

fn send(lines: &SyncSender<Line>, dropped: &AtomicU64, line: Line) {
    if let Err(TrySendError::Full(_)) = lines.try_send(line) {
        dropped.fetch_add(1, Ordering::Relaxed);
    }
}

impl Line {
    fn now(level: LogLevel, name: &str, separator: &'static str, text: &[u8]) -> Line {
        let is_cut = text.len() > MAX_TEXT_BYTES;
        let text = text[..text.len().min(MAX_TEXT_BYTES)].into();
        Line { when: SystemTime::now(), level, name: name.into(), separator, text, is_cut }
    }

    fn write(&self, redactor: &Redactor) -> String {
        let level = match self.level {
            LogLevel::Off => "",
            LogLevel::Error => "ERROR",
            LogLevel::Warn => "WARN",
            LogLevel::Info => "INFO",
            LogLevel::Debug => "DEBUG",
        };
        let (when, name, separator) = (humantime::format_rfc3339_millis(self.when), &self.name, self.separator);
        let text = if self.is_cut { redactor.redact_cut(&self.text) } else { redactor.redact(&self.text) };
        let text = Escaped(&text);
        let mut line = format!("{when} {level:<5} {name} {separator}{}{text}", if separator == "|" { " " } else { "" });
        if line.len() > MAX_LINE_BYTES {
            line.truncate(line.floor_char_boundary(MAX_LINE_BYTES));
            line.push('…');
        }
        line.push('\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_the_epoch(level: LogLevel, separator: &'static str, text: &[u8]) -> Line {
        Line { when: SystemTime::UNIX_EPOCH, ..Line::now(level, "notes", separator, text) }
    }

    fn from_child(text: &[u8]) -> String {
        at_the_epoch(LogLevel::Info, "|", text).write(&Redactor::default())
    }

    #[test]
    fn line_has_time_level_and_server() {
        let event = at_the_epoch(LogLevel::Warn, " ", b"ended by signal 9").write(&Redactor::default());
        assert_eq!(event, "1970-01-01T00:00:00.000Z WARN  notes  ended by signal 9\n");
        assert_eq!(from_child(b"hello"), "1970-01-01T00:00:00.000Z INFO  notes | hello\n");
    }

    #[test]
    fn control_characters_of_a_server_are_escaped() {
        assert!(from_child(b"a\r\x1b[2Jb\x00").ends_with("| a\\r\\u{1b}[2Jb\\u{0}\n"));
        assert!(from_child("a\u{202e}b\u{85}".as_bytes()).ends_with("| a\\u{202e}b\\u{85}\n"));
        assert!(from_child(b"bad \xff utf-8").ends_with("| bad \\xff utf-8\n"));
        assert!(from_child("Grüße 🦀".as_bytes()).ends_with("| Grüße 🦀\n"));
    }

    #[test]
    fn long_line_is_cut() {
        let long = from_child(&vec![0xff; 1 << 20]);
        assert!(long.len() < MAX_LINE_BYTES + 8);
        assert!(long.ends_with("…\n"));
    }

    #[test]
    fn s06_secret_across_the_end_of_a_line_is_hidden() {
        let secret = "CANARYsecretABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
        let redactor = Redactor::default();
        redactor.learn(&[mendline_core::Secret::new(secret)]);
        for limit in [MAX_LINE_BYTES, MAX_TEXT_BYTES] {
            for before in limit - 120..=limit + 2 {
                let text = format!("{}{secret} {}", "x".repeat(before), "y ".repeat(400));
                let line = at_the_epoch(LogLevel::Info, "|", text.as_bytes()).write(&redactor);
                assert!(!line.contains("CANARY"), "{before}");
            }
        }
    }

    #[test]
    fn s09_quote_in_one_line_hides_nothing_of_the_next() {
        let (sent, written) = std::sync::mpsc::channel();
        let stderr = Stderr::to_writer(LogLevel::Info, Redactor::default(), move |batch| {
            // The receiver may be gone at the end of the test.
            let _ = sent.send(String::from_utf8_lossy(batch).into_owned());
        });
        stderr.put(LogLevel::Info, "notes", "|", b"password='hide all that follows");
        stderr.put(LogLevel::Info, "notes", " ", b"Up to Waiting");
        stderr.put(LogLevel::Info, "notes", " ", b"it's back");
        drop(stderr);
        let written: String = written.iter().collect();
        assert!(written.contains("password='‹secret›\n"), "{written}");
        assert!(written.contains("Up to Waiting\n") && written.contains("it's back\n"), "{written}");
    }
}
