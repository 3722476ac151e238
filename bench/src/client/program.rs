//! A child process that serves MCP on its stdio.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::lines::Lines;

/// The time that a program has to end after its stdin was closed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    answers: Lines<ChildStdout>,
    /// Its stderr, redirected to a file in memory and shown only on failure, so that the output stays readable.
    stderr: File,
}

impl Program {
    pub(super) fn start(command: &[String]) -> io::Result<Self> {
        let stderr = File::from(memfd_create("stderr", MemfdFlags::CLOEXEC)?);
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr.try_clone()?)
            .spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("the child has no stdout"))?;
        Ok(Self { child, stdin, answers: Lines::new(stdout), stderr })
    }

    /// Sends a message as a line, in one write.
    pub(super) fn send(&mut self, message: &mut Vec<u8>) -> io::Result<()> {
        message.push(b'\n');
        match &mut self.stdin {
            Some(stdin) => stdin.write_all(message),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    pub(super) fn next(&mut self) -> io::Result<&[u8]> {
        self.answers.next()
    }

    /// Closes its stdin and waits for its end. A program that does not end is killed.
    pub(super) fn end(mut self) -> io::Result<()> {
        self.stdin = None;
        let until = Instant::now() + EXIT_TIMEOUT;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > until {
                self.child.kill()?;
                self.child.wait()?;
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// The last lines that it wrote to stderr.
    pub(super) fn stderr_tail(&mut self) -> String {
        let mut text = Vec::new();
        let read = self.stderr.seek(SeekFrom::Start(0)).and_then(|_| self.stderr.read_to_end(&mut text));
        if read.is_err() {
            return String::new();
        }
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }
}
