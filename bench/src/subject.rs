//! The program that is measured, and our conversation with it.
//!
//! Requests are written and answers are read with blocking calls on one thread, one `write` per request as real clients
//! do. Nothing here waits with a timeout, because that would cost a system call per answer: the watchdog of `load` ends
//! a run that does not get on.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use memchr::{memchr, memmem};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::scan;

/// How long a program may take to end after its stdin was closed.
const GOODBYE: Duration = Duration::from_secs(5);

/// How far from either end of a message the members of its envelope are looked for.
const ENVELOPE: usize = 256;

/// A started command that speaks MCP on its stdio.
pub(crate) struct Subject {
    child: Child,
    stdin: Option<ChildStdin>,
    answers: Lines,
    /// Its stderr goes into a file in memory: it must not disturb the figures on a terminal, and is shown when it
    /// fails.
    complaints: File,
    request: Vec<u8>,
    last_id: u64,
}

impl Subject {
    pub(crate) fn start(command: &[String]) -> io::Result<Self> {
        let complaints = File::from(memfd_create("stderr", MemfdFlags::CLOEXEC)?);
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(complaints.try_clone()?)
            .spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("the child has no stdout"))?;
        Ok(Self { child, stdin, answers: Lines::new(stdout), complaints, request: Vec::new(), last_id: 0 })
    }

    /// The greeting of the legacy era, which every peer that we compare ourselves with speaks.
    pub(crate) fn greet(&mut self) -> io::Result<()> {
        self.initialize()?;
        self.send(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
    }

    /// Only its first half, up to the first answer.
    pub(crate) fn initialize(&mut self) -> io::Result<()> {
        let params = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"mendline-bench","version":"1"}}"#;
        self.ask("initialize", params)?;
        self.take_own_answer().map(drop)
    }

    /// Sends a call of about a hundred bytes, whose answer has about as many, and gives its id.
    pub(crate) fn ask_echo(&mut self) -> io::Result<u64> {
        self.ask("tools/call", r#"{"name":"echo","arguments":{"text":"hello there"}}"#)
    }

    /// Sends a call for a result of this size.
    pub(crate) fn ask_big(&mut self, bytes: usize) -> io::Result<u64> {
        self.ask("tools/call", &format!(r#"{{"name":"big","arguments":{{"bytes":{bytes}}}}}"#))
    }

    /// The id and the size of the next answer; anything but a result is an error, because its figure would mean
    /// nothing.
    pub(crate) fn take_answer(&mut self) -> io::Result<(u64, usize)> {
        loop {
            let line = self.answers.next()?;
            // Members of the envelope stand before or behind the result, and nobody wants to search a MiB for them.
            let head = &line[..line.len().min(ENVELOPE)];
            let tail = &line[line.len().saturating_sub(ENVELOPE)..];
            let has = |quoted| memmem::find(head, quoted).is_some();
            if has(b"\"result\"")
                && let Some(id) = scan::number(head, b"\"id\"").or_else(|| scan::number(tail, b"\"id\""))
            {
                return Ok((id, line.len()));
            }
            // Log messages and the like are none of our business.
            if !has(b"\"method\"") {
                return Err(io::Error::other(format!("not a result: {}", String::from_utf8_lossy(head))));
            }
        }
    }

    /// The size of the answer to the last request, when nothing else is in flight.
    pub(crate) fn take_own_answer(&mut self) -> io::Result<usize> {
        match self.take_answer()? {
            (id, size) if id == self.last_id => Ok(size),
            (id, _) => Err(io::Error::other(format!("answered {id} and not {}", self.last_id))),
        }
    }

    /// Closes its stdin and waits for its end; a program that does not go is killed.
    pub(crate) fn end(mut self) -> io::Result<()> {
        self.stdin = None;
        let until = Instant::now() + GOODBYE;
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
    pub(crate) fn complaint(&mut self) -> String {
        let mut text = Vec::new();
        let read = self.complaints.seek(SeekFrom::Start(0)).and_then(|_| self.complaints.read_to_end(&mut text));
        if read.is_err() {
            return String::new();
        }
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }

    fn ask(&mut self, method: &str, params: &str) -> io::Result<u64> {
        self.last_id += 1;
        let mut request = std::mem::take(&mut self.request);
        request.clear();
        write!(request, r#"{{"jsonrpc":"2.0","id":{},"method":"{method}","params":{params}}}"#, self.last_id)?;
        let sent = self.send_line(&mut request);
        self.request = request;
        sent.map(|()| self.last_id)
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.send_line(&mut message.to_vec())
    }

    fn send_line(&mut self, message: &mut Vec<u8>) -> io::Result<()> {
        message.push(b'\n');
        match &mut self.stdin {
            Some(stdin) => stdin.write_all(message),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

/// Lines out of a pipe, without copying them.
struct Lines<R = ChildStdout> {
    source: R,
    buffer: Vec<u8>,
    /// The rest that was read and not yet given out; its part before `searched` holds no newline.
    start: usize,
    searched: usize,
    end: usize,
}

impl<R: Read> Lines<R> {
    fn new(source: R) -> Self {
        Self { source, buffer: vec![0; 64 << 10], start: 0, searched: 0, end: 0 }
    }

    fn next(&mut self) -> io::Result<&[u8]> {
        loop {
            if let Some(length) = memchr(b'\n', &self.buffer[self.searched..self.end]) {
                let line = self.start..self.searched + length;
                self.start = line.end + 1;
                self.searched = self.start;
                return Ok(&self.buffer[line]);
            }
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            self.searched = self.end;
            if self.end == self.buffer.len() {
                self.buffer.resize(2 * self.end, 0);
            }
            match self.source.read(&mut self.buffer[self.end..])? {
                0 => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed its stdout")),
                read => self.end += read,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes at a time.
    struct Drops<'a>(&'a [u8], usize);

    impl Read for Drops<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let size = self.1.min(into.len()).min(self.0.len());
            into[..size].copy_from_slice(&self.0[..size]);
            self.0 = &self.0[size..];
            Ok(size)
        }
    }

    #[test]
    fn lines_are_the_same_however_the_bytes_arrive() {
        let long = "x".repeat(200_000);
        let text = format!("one\n\n{long}\ntwo\nnot ended");
        for size in [1, 2, 3, 1000, 1 << 20] {
            let mut lines = Lines::new(Drops(text.as_bytes(), size));
            for expected in ["one", "", &long, "two"] {
                assert_eq!(lines.next().unwrap(), expected.as_bytes(), "{size} bytes at a time");
            }
            assert_eq!(lines.next().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
