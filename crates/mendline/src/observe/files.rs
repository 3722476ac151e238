//! Log files.
//!
//! ```text
//! $XDG_STATE_HOME/mendline/logs/                   0700
//!   notes.20261115T122012Z.4711.1.jsonl            0600: server, start time, process id, sequence number
//!   serve.20261115T122012Z.4712.1.jsonl            of a gateway, whose lines name their servers
//!   notes.20261115T122012Z.4711.1.wire.jsonl       the messages on the wire, if configured
//! ```
//! Each process writes its own files, so no line interleaves and no lock is needed; `mendline logs` merges them by
//! time. Each line is a JSON object (`record`). A full file is followed by the next one, and the oldest files are
//! removed when the directory is too large (`rotation`).
//!
//! The thread that serves calls only puts entries on a queue (`queue`). A second thread formats, redacts and writes
//! them, at most a few times per second, and sleeps when there are none. If the disk is slow, full or gone, lines are
//! dropped and counted; nothing else is affected.
//!
//! At level `info`, successful calls are not logged. A call that fails or is retried is logged with its history
//! (`open_calls`): its arrival, its last attempt, and every later event.

mod open_calls;
mod queue;
mod record;
mod rotation;

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mendline_core::{Event, UpstreamId};

use super::log::LogLevel;
use super::names::Names;
use super::redact::Redactor;
use super::stderr::StderrHandle;
use crate::background::{Work, Worker};
use crate::driver::{At, Direction};
use open_calls::OpenCalls;
use queue::{Entry, Payload, Queue};
use record::Encoder;
use rotation::{RotatingFiles, WriteError};

/// The directory of the log files inside of the state directory.
pub const FOLDER: &str = "logs";

/// The first part of the file names of a gateway.
pub const GATEWAY: &str = "serve";

/// The suffix of log files.
pub const SUFFIX: &str = ".jsonl";

/// The suffix of files with messages on the wire.
pub const WIRE_SUFFIX: &str = ".wire.jsonl";

/// The default size of one file: enough for days, and fast to read.
pub const FILE_BYTES: u64 = 8 << 20;

/// The default size of all files together.
pub const FOLDER_BYTES: u64 = 64 << 20;

/// The limit of a logged message, in bytes.
const MAX_MESSAGE_BYTES: usize = 16 * 1024;

/// The size of one write, in bytes.
const BATCH_BYTES: usize = 32 * 1024;

/// The delay before the next write after an error.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// The stack of the thread, which only formats and writes.
const STACK_BYTES: usize = 128 * 1024;

/// The options of log files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// The directory of the files.
    pub folder: PathBuf,
    /// The level of lines.
    pub level: LogLevel,
    /// The limit of one file, in bytes.
    pub file_bytes: u64,
    /// The limit of all files together, in bytes.
    pub folder_bytes: u64,
    /// Messages on the wire are logged.
    pub wire: bool,
}

/// The log files of this process, and the thread that writes them.
pub(super) struct Files {
    level: LogLevel,
    wire: bool,
    open_calls: OpenCalls,
    queue: Arc<Queue>,
    work: Work,
}

/// Writes to the log files while they are open.
#[derive(Clone)]
pub(super) struct FilesHandle {
    level: LogLevel,
    queue: Weak<Queue>,
}

impl Files {
    pub(super) fn open(options: &FileOptions, names: Names, redactor: Redactor, stderr: StderrHandle) -> Files {
        let (level, wire) = (options.level, options.wire);
        let (work, worker) = Work::new();
        let queue = Arc::new(Queue::default());
        let writer = Writer::new(options, names, redactor, stderr, worker);
        let served = Arc::clone(&queue);
        let serve = move || writer.serve(&served);
        // Without the thread the queue fills up and further lines are dropped; calls are not affected.
        let _ = thread::Builder::new().name("mendline-files".to_owned()).stack_size(STACK_BYTES).spawn(serve);
        Files { level, wire, open_calls: OpenCalls::default(), queue, work }
    }

    pub(super) fn handle(&self) -> FilesHandle {
        FilesHandle { level: self.level, queue: Arc::downgrade(&self.queue) }
    }

    pub(super) fn write(&self, level: LogLevel, text: &str) {
        if level <= self.level {
            self.queue.put(Entry::now(level, None, Payload::Message(text.into())));
        }
    }

    pub(super) fn on_event(&mut self, event: &Event, at: At) {
        let level = LogLevel::from(event.level());
        if self.level == LogLevel::Info && is_about_call(event) {
            // Messages on the wire have their own ids. Only the start of an attempt has both the id and the call.
            let is_key = self.wire && matches!(event, Event::AttemptStarted { .. });
            let logged = self.open_calls.observe(event, level, at.unix_micros);
            if let Some((level, before)) = logged.or(is_key.then_some((LogLevel::Info, None))) {
                let payload = Payload::Event(event.clone(), before);
                self.queue.put(Entry { at: at.unix_micros, level, upstream: event.upstream(), payload });
            }
        } else if level <= self.level {
            let payload = Payload::Event(event.clone(), None);
            self.queue.put(Entry { at: at.unix_micros, level, upstream: event.upstream(), payload });
        }
    }

    pub(super) fn on_stderr(&mut self, upstream: UpstreamId, line: &[u8]) {
        if LogLevel::Info <= self.level {
            self.queue.put(Entry::now(LogLevel::Info, Some(upstream), Payload::Stderr(line.into())));
        }
    }

    pub(super) fn wants_wire(&self) -> bool {
        self.wire
    }

    pub(super) fn on_message(&mut self, upstream: UpstreamId, direction: Direction, message: &[u8]) {
        if self.wire {
            let text = message[..message.len().min(MAX_MESSAGE_BYTES)].into();
            let payload = Payload::Wire { direction, length: message.len(), text };
            self.queue.put(Entry::now(LogLevel::Debug, Some(upstream), payload));
        }
    }
}

impl Drop for Files {
    /// Waits for the last lines to be written, unless the disk blocks.
    fn drop(&mut self) {
        self.queue.close();
        self.work.wait();
    }
}

impl FilesHandle {
    pub(super) fn write(&self, level: LogLevel, text: &str) {
        if let Some(queue) = self.queue.upgrade().filter(|_| level <= self.level) {
            queue.put(Entry::now(level, None, Payload::Message(text.into())));
        }
    }
}

/// Returns whether an event belongs to the history of one call.
fn is_about_call(event: &Event) -> bool {
    matches!(
        event,
        Event::CallAccepted { .. }
            | Event::AttemptStarted { .. }
            | Event::AttemptEnded { .. }
            | Event::CallRetried { .. }
            | Event::VerdictAwaited { .. }
            | Event::HintsAwaited { .. }
            | Event::CallSilent { .. }
            | Event::SilenceEnded { .. }
            | Event::CallAnswered { .. }
            | Event::CallFailed { .. }
            | Event::CallCancelled { .. }
            | Event::CallAbandoned { .. }
            | Event::RateLimited { .. }
            | Event::RetryRefused { .. }
            | Event::ResponseResumed { .. }
    )
}

/// Returns microseconds since 1970: within one millisecond a call can be accepted, sent and answered.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// The state of the writer thread.
struct Writer {
    encoder: Encoder,
    log: RotatingFiles,
    wire: RotatingFiles,
    worker: Worker,
    stderr: StderrHandle,
    lines: Vec<u8>,
    messages: Vec<u8>,
    /// The time of the next attempt after a failed write.
    not_before: Option<Instant>,
    /// The number of dropped lines.
    dropped: u64,
}

impl Writer {
    fn new(options: &FileOptions, names: Names, redactor: Redactor, stderr: StderrHandle, worker: Worker) -> Writer {
        let stem = rotation::stem(names.only().map_or(GATEWAY, |only| only), SystemTime::now(), std::process::id());
        let log = RotatingFiles::new(options, &stem, SUFFIX);
        let wire = RotatingFiles::new(options, &stem, WIRE_SUFFIX);
        let encoder = Encoder::new(names, redactor);
        Writer {
            encoder,
            log,
            wire,
            worker,
            stderr,
            lines: Vec::new(),
            messages: Vec::new(),
            not_before: None,
            dropped: 0,
        }
    }

    fn serve(mut self, queue: &Queue) {
        while let Some(batch) = queue.next() {
            self.write(&batch);
            queue.recycle(batch);
        }
    }

    fn write(&mut self, batch: &[Entry]) {
        if self.not_before.is_some_and(|until| Instant::now() < until) {
            self.dropped += batch.iter().map(Entry::lines).sum::<u64>();
            return;
        }
        for entry in batch {
            let is_message = matches!(entry.payload, Payload::Wire { .. });
            self.encoder.write(entry, if is_message { &mut self.messages } else { &mut self.lines });
            if self.lines.len() + self.messages.len() >= BATCH_BYTES {
                self.flush();
            }
        }
        self.flush();
    }

    /// Writes the formatted lines to the files.
    fn flush(&mut self) {
        if self.lines.is_empty() && self.messages.is_empty() {
            return;
        }
        let (log, wire) = (&mut self.log, &mut self.wire);
        let results = self.worker.risk(|| [log.append(&self.lines), wire.append(&self.messages)]);
        // Large buffers are released: most batches are small.
        for buffer in [&mut self.lines, &mut self.messages] {
            buffer.clear();
            buffer.shrink_to(BATCH_BYTES / 8);
        }
        let errors: Vec<WriteError> = results.into_iter().filter_map(Result::err).collect();
        for error in &errors {
            self.fail(error);
        }
        if errors.is_empty() && self.not_before.take().is_some() {
            let text = format!("log files are written again; {} lines are missing", self.dropped);
            self.dropped = 0;
            self.stderr.write(LogLevel::Info, &text);
            self.encoder.message(LogLevel::Warn, &text, &mut self.lines);
        }
    }

    fn fail(&mut self, error: &WriteError) {
        self.dropped += error.lost;
        if self.not_before.is_none() {
            let text =
                format!("log files cannot be written: {error}; nothing else is affected, and writing is tried again");
            self.stderr.write(LogLevel::Warn, &text);
        }
        self.not_before = Some(Instant::now() + RETRY_DELAY);
    }
}

#[cfg(test)]
mod tests;
