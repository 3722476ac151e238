//! What happened, as lines on our stderr.
//!
//! Our stdout is protocol, so everything for people goes to stderr; and many clients never read it. A full pipe there must
//! not cost a call anything: lines go through a bounded channel to one thread, which is the only one that may be blocked
//! by stderr. When the channel is full, lines are dropped and counted, and the count is the first thing said when stderr
//! flows again. At the end the thread gets `FLUSH` and no more.
//!
//! A line is `time LEVEL name  text`, and `time LEVEL name | text` for what a child said. Text from outside is escaped, so
//! that it can neither break a line nor talk to a terminal.

use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, SystemTime};

use mendline_core::{Event, Level, UpstreamId};

use crate::driver::Observer;

/// How many lines may wait for stderr.
const WAITING: usize = 256;

/// How long one line may be, after escaping.
const LONGEST: usize = 8 * 1024;

/// How much is written at once.
const BATCH: usize = 32 * 1024;

/// How long the end waits for the last lines.
const FLUSH: Duration = Duration::from_millis(200);

/// The thread needs a buffer and no more.
const STACK: usize = 64 * 1024;

/// What is worth a line. Each includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Nothing at all.
    Off,
    /// What failed for good.
    Error,
    /// What a person may want to look at.
    Warn,
    /// What happened, and what the servers said.
    #[default]
    Info,
    /// Every decision.
    Debug,
}

impl LogLevel {
    /// All of them, in order, as they are written.
    pub const NAMES: [&str; 5] = ["off", "error", "warn", "info", "debug"];
}

impl FromStr for LogLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<LogLevel, String> {
        match text.to_ascii_lowercase().as_str() {
            "off" => Ok(LogLevel::Off),
            "error" => Ok(LogLevel::Error),
            "warn" => Ok(LogLevel::Warn),
            "info" => Ok(LogLevel::Info),
            "debug" => Ok(LogLevel::Debug),
            _ => Err(format!("not a log level; use one of {}", LogLevel::NAMES.join(", "))),
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

/// Our stderr as a log.
pub struct Log {
    level: LogLevel,
    names: Vec<String>,
    /// Gone only while the log itself goes.
    lines: Option<Arc<SyncSender<String>>>,
    dropped: Arc<AtomicU64>,
    done: Receiver<()>,
}

impl Log {
    /// A log on stderr for upstreams of these names, in the order of the configuration.
    pub fn to_stderr(level: LogLevel, names: Vec<String>) -> Log {
        Log::to_writer(level, names, |batch| {
            // Not through `std::io::stderr`: its lock would be held for as long as the client does not read.
            let mut rest = batch;
            while !rest.is_empty() {
                match rustix::io::retry_on_intr(|| rustix::io::write(rustix::stdio::stderr(), rest)) {
                    Ok(count) if count > 0 => rest = &rest[count..],
                    // Somebody made our stderr non-blocking. Waiting is what this thread is for.
                    Err(rustix::io::Errno::AGAIN) => thread::sleep(Duration::from_millis(5)),
                    // Nobody will ever read it.
                    _ => return,
                }
            }
        })
    }

    fn to_writer(level: LogLevel, names: Vec<String>, mut write: impl FnMut(&[u8]) + Send + 'static) -> Log {
        let (lines, waiting) = sync_channel::<String>(WAITING);
        let (finished, done) = sync_channel(1);
        let dropped = Arc::new(AtomicU64::new(0));
        let lost = Arc::clone(&dropped);
        let work = move || {
            while let Ok(first) = waiting.recv() {
                let mut batch = first;
                while batch.len() < BATCH {
                    let Ok(line) = waiting.try_recv() else { break };
                    batch.push_str(&line);
                }
                write(batch.as_bytes());
                let count = lost.swap(0, Ordering::Relaxed);
                if count > 0 {
                    let text = format!("{count} log lines were dropped, because stderr was not read");
                    write(line(SystemTime::now(), LogLevel::Warn, "mendline", " ", text.as_bytes()).as_bytes());
                }
            }
            // Nobody listens if the end could not wait for us.
            let _ = finished.send(());
        };
        if level > LogLevel::Off {
            // Without a thread there is nobody to send to: every line is dropped, and the calls go on.
            let _ = thread::Builder::new().name("mendline-log".to_owned()).stack_size(STACK).spawn(work);
        }
        Log { level, names, lines: Some(Arc::new(lines)), dropped, done }
    }

    /// Says something that is not an event of the engine's.
    pub fn say(&self, level: LogLevel, text: &str) {
        self.put(level, "mendline", " ", text.as_bytes());
    }

    /// For somebody else who has something to say in it. A pen does not keep a log from ending.
    pub fn pen(&self) -> Pen {
        let lines = self.lines.as_ref().map(Arc::downgrade).unwrap_or_default();
        Pen { level: self.level, lines, dropped: Arc::clone(&self.dropped) }
    }

    fn put(&self, level: LogLevel, name: &str, mark: &str, text: &[u8]) {
        if level > self.level {
            return;
        }
        let Some(lines) = &self.lines else { return };
        if let Err(TrySendError::Full(_)) = lines.try_send(line(SystemTime::now(), level, name, mark, text)) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn name(&self, upstream: Option<UpstreamId>) -> &str {
        upstream.and_then(|upstream| self.names.get(usize::from(upstream.0))).map_or("mendline", String::as_str)
    }
}

/// Writes into a log for as long as it is there.
#[derive(Clone)]
pub struct Pen {
    level: LogLevel,
    lines: Weak<SyncSender<String>>,
    dropped: Arc<AtomicU64>,
}

impl Pen {
    /// Says something that is not an event of the engine's.
    pub fn say(&self, level: LogLevel, text: &str) {
        let Some(lines) = self.lines.upgrade().filter(|_| level <= self.level) else { return };
        let text = line(SystemTime::now(), level, "mendline", " ", text.as_bytes());
        if let Err(TrySendError::Full(_)) = lines.try_send(text) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Log {
    /// Waits for the last lines to be written, but not long.
    fn drop(&mut self) {
        self.lines = None;
        let _ = self.done.recv_timeout(FLUSH);
    }
}

impl Observer for Log {
    fn happened(&mut self, event: &Event) {
        let level = LogLevel::from(event.level());
        if level <= self.level {
            self.put(level, self.name(event.upstream()), " ", event.to_string().as_bytes());
        }
    }

    fn said(&mut self, upstream: UpstreamId, line: &[u8]) {
        self.put(LogLevel::Info, self.name(Some(upstream)), "|", line);
    }
}

fn line(when: SystemTime, level: LogLevel, name: &str, mark: &str, text: &[u8]) -> String {
    let level = match level {
        LogLevel::Off => "",
        LogLevel::Error => "ERROR",
        LogLevel::Warn => "WARN",
        LogLevel::Info => "INFO",
        LogLevel::Debug => "DEBUG",
    };
    let when = humantime::format_rfc3339_millis(when);
    let text = Escaped(text);
    let mut line = format!("{when} {level:<5} {name} {mark}{}{text}", if mark == "|" { " " } else { "" });
    if line.len() > LONGEST {
        let mut end = LONGEST;
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        line.truncate(end);
        line.push('…');
    }
    line.push('\n');
    line
}

/// Text from outside: control characters, bidirectional overrides and broken UTF-8 shown as escapes.
pub struct Escaped<'a>(pub &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                if is_harmless(character) {
                    f.write_char(character)?;
                } else {
                    write!(f, "{}", character.escape_default())?;
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

fn is_harmless(character: char) -> bool {
    let reorders = matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}');
    !character.is_control() && !reorders
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    use super::*;

    fn said(text: &[u8]) -> String {
        line(SystemTime::UNIX_EPOCH, LogLevel::Info, "notes", "|", text)
    }

    #[test]
    fn a_line_names_time_level_and_server() {
        let event = line(SystemTime::UNIX_EPOCH, LogLevel::Warn, "notes", " ", b"ended by signal 9");
        assert_eq!(event, "1970-01-01T00:00:00.000Z WARN  notes  ended by signal 9\n");
        assert_eq!(said(b"hello"), "1970-01-01T00:00:00.000Z INFO  notes | hello\n");
    }

    #[test]
    fn a_server_cannot_forge_a_line_or_talk_to_the_terminal() {
        assert!(said(b"a\r\x1b[2Jb\x00").ends_with("| a\\r\\u{1b}[2Jb\\u{0}\n"));
        assert!(said("a\u{202e}b\u{85}".as_bytes()).ends_with("| a\\u{202e}b\\u{85}\n"));
        assert!(said(b"bad \xff utf-8").ends_with("| bad \\xff utf-8\n"));
        assert!(said("Grüße 🦀".as_bytes()).ends_with("| Grüße 🦀\n"));
    }

    #[test]
    fn an_endless_line_is_cut() {
        let long = said(&vec![0xff; 1 << 20]);
        assert!(long.len() < LONGEST + 8);
        assert!(long.ends_with("…\n"));
    }

    #[test]
    fn a_reader_that_never_reads_costs_lines_and_not_time() {
        let (release, blocked) = channel::<()>();
        let written = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&written);
        let log = Log::to_writer(LogLevel::Info, vec!["notes".to_owned()], move |batch| {
            // Blocks on the first batch, as a full pipe does, until the test lets go.
            let _ = blocked.recv();
            sink.lock().unwrap().push_str(std::str::from_utf8(batch).unwrap());
        });
        for number in 0..10 * WAITING {
            log.say(LogLevel::Info, &format!("line {number}"));
        }
        let dropped = log.dropped.load(Ordering::Relaxed);
        assert!(dropped >= (8 * WAITING) as u64, "only {dropped} were dropped");
        drop(release);
        drop(log);
        let written = written.lock().unwrap();
        assert!(written.contains("log lines were dropped, because stderr was not read"), "{written}");
    }

    #[test]
    fn what_is_below_the_level_is_not_written() {
        let written = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&written);
        let mut log = Log::to_writer(LogLevel::Warn, vec!["notes".to_owned()], move |batch| {
            sink.lock().unwrap().push_str(std::str::from_utf8(batch).unwrap());
        });
        log.said(UpstreamId(0), b"chatter");
        log.say(LogLevel::Warn, "trouble");
        drop(log);
        let written = written.lock().unwrap();
        assert!(written.contains("trouble") && !written.contains("chatter"), "{written}");
    }
}
