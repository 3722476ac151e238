//! The log: lines on stderr and in files.
//!
//! The log passes everything to two outputs with separate levels: stderr (`stderr`), which a client may show or never
//! read, and [`files`](super::files) for later. A slow output delays neither the other one nor a call.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use mendline_core::{Event, Level, UpstreamId};

use super::files::{FileOptions, Files, FilesHandle};
use super::names::Names;
use super::redact::Redactor;
use super::stderr::{Stderr, StderrHandle};
use crate::driver::{At, Direction, Observer};

/// The level of a log. Each level includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// Final failures.
    Error,
    /// Problems that the operator may want to know.
    Warn,
    /// Normal operation, and the stderr of servers.
    #[default]
    Info,
    /// Every decision of the engine.
    Debug,
}

impl LogLevel {
    /// The names of all levels, in order.
    pub const NAMES: [&str; 5] = ["off", "error", "warn", "info", "debug"];

    /// Returns the name of this level.
    pub fn word(self) -> &'static str {
        LogLevel::NAMES[self as usize]
    }
}

/// An error: a text is not the name of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownLogLevel;

impl fmt::Display for UnknownLogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a log level; use one of {}", LogLevel::NAMES.join(", "))
    }
}

impl std::error::Error for UnknownLogLevel {}

impl FromStr for LogLevel {
    type Err = UnknownLogLevel;

    fn from_str(text: &str) -> Result<LogLevel, UnknownLogLevel> {
        match text.to_ascii_lowercase().as_str() {
            "off" => Ok(LogLevel::Off),
            "error" => Ok(LogLevel::Error),
            "warn" => Ok(LogLevel::Warn),
            "info" => Ok(LogLevel::Info),
            "debug" => Ok(LogLevel::Debug),
            _ => Err(UnknownLogLevel),
        }
    }
}

impl From<Level> for LogLevel {
    fn from(level: Level) -> LogLevel {
        match level {
            Level::Debug => LogLevel::Debug,
            Level::Info => LogLevel::Info,
            Level::Warn => LogLevel::Warn,
            Level::Error => LogLevel::Error,
        }
    }
}

/// The log of this process.
pub struct Log {
    names: Names,
    redactor: Redactor,
    /// Declared before stderr, so that it is dropped first and can still write there.
    files: Option<Files>,
    stderr: Stderr,
}

impl Log {
    /// Creates the log of a process with one server, on stderr.
    pub fn of_server(level: LogLevel, name: &str) -> Log {
        Log::to_stderr(level, Names::of_server(name))
    }

    /// Creates the log of a gateway for upstreams of these names, in the order of the configuration, on stderr.
    pub fn of_gateway(level: LogLevel, names: Vec<String>) -> Log {
        Log::to_stderr(level, Names::of_gateway(names))
    }

    fn to_stderr(level: LogLevel, names: Names) -> Log {
        let redactor = Redactor::default();
        let stderr = Stderr::open(level, redactor.clone());
        Log { names, redactor, files: None, stderr }
    }

    /// Adds log files.
    pub fn add_files(&mut self, options: &FileOptions) {
        self.files = Some(Files::open(options, self.names.clone(), self.redactor.clone(), self.stderr.handle()));
    }

    /// Returns the redactor of this log. Secrets that it learns later are hidden from then on.
    pub fn redactor(&self) -> Redactor {
        self.redactor.clone()
    }

    /// Writes a line that is not an event of the engine.
    pub fn write(&self, level: LogLevel, text: &str) {
        self.stderr.put(level, "mendline", " ", text.as_bytes());
        if let Some(files) = &self.files {
            files.write(level, text);
        }
    }

    /// Returns a handle for other writers. It does not keep the log open.
    pub fn handle(&self) -> LogHandle {
        LogHandle { stderr: self.stderr.handle(), files: self.files.as_ref().map(Files::handle) }
    }

    /// Learns the name of an upstream that was added.
    fn learn_name(&self, event: &Event) {
        if let Event::UpstreamAdded { upstream, name, .. } = event {
            self.names.set(*upstream, name);
        }
    }

    fn name(&self, upstream: Option<UpstreamId>) -> Arc<str> {
        upstream.and_then(|upstream| self.names.get(upstream)).unwrap_or_else(|| Arc::from("mendline"))
    }
}

/// Writes to a log while it is open.
#[derive(Clone)]
pub struct LogHandle {
    stderr: StderrHandle,
    files: Option<FilesHandle>,
}

impl LogHandle {
    /// Writes a line that is not an event of the engine.
    pub fn write(&self, level: LogLevel, text: &str) {
        self.stderr.write(level, text);
        if let Some(files) = &self.files {
            files.write(level, text);
        }
    }
}

impl Observer for Log {
    fn on_event(&mut self, event: &Event, at: At) {
        self.learn_name(event);
        let level = LogLevel::from(event.level());
        if self.stderr.wants(level) {
            self.stderr.put(level, &self.name(event.upstream()), " ", event.to_string().as_bytes());
        }
        if let Some(files) = &mut self.files {
            files.on_event(event, at);
        }
    }

    fn on_stderr(&mut self, upstream: UpstreamId, line: &[u8]) {
        self.stderr.put(LogLevel::Info, &self.name(Some(upstream)), "|", line);
        if let Some(files) = &mut self.files {
            files.on_stderr(upstream, line);
        }
    }

    fn wants_wire(&self) -> bool {
        self.files.as_ref().is_some_and(Files::wants_wire)
    }

    fn on_message(&mut self, upstream: UpstreamId, direction: Direction, message: &[u8]) {
        if let Some(files) = &mut self.files {
            files.on_message(upstream, direction, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    use mendline_core::Secret;

    use super::super::stderr::QUEUE_LINES;
    use super::*;

    fn log(level: LogLevel, write: impl FnMut(&[u8]) + Send + 'static) -> Log {
        let redactor = Redactor::default();
        let stderr = Stderr::to_writer(level, redactor.clone(), write);
        let names = Names::of_gateway(vec!["files".to_owned(), "notes".to_owned()]);
        Log { names, redactor, files: None, stderr }
    }

    #[test]
    fn unread_stderr_drops_lines_and_does_not_block() {
        let (release, blocked) = channel::<()>();
        let (started, start) = channel();
        let written = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&written);
        let log = log(LogLevel::Info, move |batch| {
            // Blocks on the first batch, like a full pipe, until the test releases it.
            let _ = started.send(());
            let _ = blocked.recv();
            sink.lock().unwrap().push_str(std::str::from_utf8(batch).unwrap());
        });
        log.write(LogLevel::Info, "the first line");
        start.recv().unwrap();
        for number in 0..10 * QUEUE_LINES {
            log.write(LogLevel::Info, &format!("line {number}"));
        }
        assert_eq!(log.stderr.dropped(), (9 * QUEUE_LINES) as u64, "one full channel waits, and the rest is dropped");
        drop(release);
        drop(log);
        let written = written.lock().unwrap();
        assert!(written.contains("log lines were dropped, because stderr was not read"), "{written}");
    }

    #[test]
    fn lines_below_the_level_and_secrets_are_not_written() {
        let written = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&written);
        let mut log = log(LogLevel::Warn, move |batch| {
            sink.lock().unwrap().push_str(std::str::from_utf8(batch).unwrap());
        });
        log.redactor().learn(&[Secret::new("open sesame")]);
        log.on_stderr(UpstreamId(1), b"chatter");
        log.write(LogLevel::Warn, "trouble with open sesame");
        drop(log);
        let written = written.lock().unwrap();
        assert!(written.contains("trouble with ‹secret›") && !written.contains("chatter"), "{written}");
    }
}
