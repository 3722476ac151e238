//! The parts of a report that other commands of this program print.
//!
//! Each command runs as a process of its own with a time limit, so that one that hangs or fails costs only its part.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Maximum size of the output that is read, and of that which is kept, in bytes.
const MOST_READ: usize = 8 << 20;
const MOST_KEPT: usize = 200 << 10;

/// Number of lines of the log, and of errors.
const LINES: &str = "1000";
const ERRORS: &str = "50";

/// Time limit of a command that contacts no server, and of one that does.
const QUICK: Duration = Duration::from_secs(20);
const PATIENT: Duration = Duration::from_secs(180);

/// Time between two looks at a process.
const PAUSE: Duration = Duration::from_millis(10);

/// A part of a report.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) title: &'static str,
    pub(super) text: String,
    /// True if the end of a long text matters more than its beginning.
    keeps_end: bool,
}

impl Part {
    /// Returns a part whose text is known.
    pub(super) fn done(title: &'static str, text: String) -> Part {
        Part { title, text, keeps_end: false }
    }

    /// Returns what is kept of a text, in whole lines.
    pub(super) fn kept(&self, text: &str) -> String {
        if text.len() <= MOST_KEPT {
            return text.to_owned();
        }
        let mut size = 0;
        let mut fits = |line: &&str| {
            size += line.len();
            size <= MOST_KEPT
        };
        if self.keeps_end {
            let lines: Vec<&str> = text.split_inclusive('\n').rev().take_while(&mut fits).collect();
            return format!("(earlier lines are left out)\n{}", lines.into_iter().rev().collect::<String>());
        }
        let lines: String = text.split_inclusive('\n').take_while(&mut fits).collect();
        format!("{lines}(later lines are left out)\n")
    }
}

/// Runs the commands, all at once, and returns their output.
pub(super) fn of_commands(name: Option<&str>, probe: bool) -> Vec<Part> {
    let doctor: &[&str] = if probe { &["doctor"] } else { &["doctor", "--passive"] };
    let doctor_title = if probe { "Doctor" } else { "Doctor, without contacting servers" };
    let commands: [(&'static str, &[&str], bool); 4] = [
        ("Status", &["status", "--json"], false),
        ("Errors of the last week", &["logs", "--since", "168h", "--level", "error", "--lines", ERRORS], true),
        ("Log of the last hour", &["logs", "--since", "1h", "--lines", LINES], true),
        (doctor_title, doctor, false),
    ];
    let started = commands.map(|(title, words, keeps_end)| (title, start(words, name), keeps_end));
    let deadline = Instant::now() + if probe { PATIENT } else { QUICK };
    let finish = |(title, process, keeps_end): (&'static str, Result<Process, String>, bool)| {
        let text = process.map_or_else(|why| why, |process| process.output(deadline));
        let text = if text.trim().is_empty() { "nothing\n".to_owned() } else { text };
        Part { title, text, keeps_end }
    };
    started.into_iter().map(finish).collect()
}

/// A command that runs, and its output.
struct Process {
    child: Child,
    output: [Receiver<Vec<u8>>; 2],
}

fn start(words: &[&str], name: Option<&str>) -> Result<Process, String> {
    let cannot = |error: std::io::Error| format!("cannot run `mendline {}`: {error}", words.join(" "));
    let program = std::env::current_exe().map_err(cannot)?;
    let mut command = Command::new(program);
    command.args(words).args(name).env("NO_COLOR", "1").env("COLUMNS", "120");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(cannot)?;
    let output = [read(child.stdout.take()), read(child.stderr.take())];
    Ok(Process { child, output })
}

/// Reads a pipe to its end on a thread of its own. What exceeds the limit is dropped.
fn read(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.by_ref().take(MOST_READ as u64).read_to_end(&mut text);
            if text.len() == MOST_READ {
                // A line that was cut may end within a secret.
                let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                text.truncate(whole);
                let _ = std::io::copy(&mut pipe, &mut std::io::sink());
            }
        }
        let _ = sender.send(text);
    });
    receiver
}

impl Process {
    /// Waits for the end of the process, at most until the deadline, and returns what it has written.
    fn output(mut self, deadline: Instant) -> String {
        let is_late = loop {
            match self.child.try_wait() {
                Ok(Some(_)) | Err(_) => break false,
                Ok(None) if Instant::now() >= deadline => {
                    let _ = self.child.kill();
                    let _ = self.child.wait();
                    break true;
                }
                Ok(None) => std::thread::sleep(PAUSE),
            }
        };
        // A process that it has started may keep the pipe open.
        let text = self.output.iter().map(|pipe| pipe.recv_timeout(Duration::from_secs(1)).unwrap_or_default());
        let text: String = text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect();
        if is_late { text + "(it did not end in time)\n" } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_part_is_cut_at_whole_lines() {
        let line = format!("{}\n", "x".repeat(99));
        let text = format!("first\n{}last\n", line.repeat(3000));
        let kept = |keeps_end| Part { title: "", text: String::new(), keeps_end }.kept(&text);
        for (kept, has, lacks) in [(kept(false), "first", "last\n"), (kept(true), "last", "first")] {
            assert!(kept.len() <= MOST_KEPT + 100 && kept.contains(has) && !kept.contains(lacks));
            assert!(kept.lines().all(|line| line.len() == 99 || line.len() < 40));
        }
    }
}
