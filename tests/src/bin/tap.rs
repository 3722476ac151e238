//! A tap on the pipes of a server: `tap LOGFILE -- COMMAND [ARGS…]`.
//!
//! It starts the command, relays its stdin and stdout byte for byte, and writes every line to the log after a mark for
//! its direction. A line is in the log before its last byte is relayed, so every line that a peer has read is in the
//! log, even if the tap is killed. It does not parse JSON and exits with the exit code of the command.

#![allow(clippy::print_stderr, reason = "a command line tool prints why it failed")]

use std::fs::File;
use std::io::{self, Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use mendline_peers::transcript::Direction;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(why) => {
            eprintln!("tap: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<ExitCode> {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let [log, dashes, command, rest @ ..] = args.as_slice() else {
        return Err(io::Error::other("usage: tap LOGFILE -- COMMAND [ARGS…]"));
    };
    if dashes != "--" {
        return Err(io::Error::other("the command comes after --"));
    }
    let log = Arc::new(Mutex::new(File::create(log)?));
    let mut child = Command::new(command).args(rest).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (Some(to_child), Some(from_child)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("the child has no pipes"));
    };
    // The thread for stdin ends with the client and may outlive the child, so it is not joined.
    let up = Relay { direction: Direction::Up, log: Arc::clone(&log) };
    std::thread::spawn(move || up.run(io::stdin().lock(), to_child));
    Relay { direction: Direction::Down, log }.run(from_child, File::from(stdout()?))?;
    let code = child.wait()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Returns stdout without the line buffer of the standard library, which would change the sizes of writes.
fn stdout() -> io::Result<std::os::fd::OwnedFd> {
    use std::os::fd::AsFd;
    io::stdout().as_fd().try_clone_to_owned()
}

struct Relay {
    direction: Direction,
    log: Arc<Mutex<File>>,
}

impl Relay {
    fn run(&self, mut from: impl Read, mut to: impl Write) -> io::Result<()> {
        let mut line = Vec::new();
        let mut chunk = vec![0; 64 * 1024];
        loop {
            let read = from.read(&mut chunk)?;
            if read == 0 {
                break;
            }
            let bytes = &chunk[..read];
            for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
                line.extend_from_slice(piece);
                if piece.ends_with(b"\n") {
                    self.note(self.direction.mark(), &line)?;
                    line.clear();
                }
            }
            to.write_all(bytes)?;
            to.flush()?;
        }
        if !line.is_empty() {
            line.push(b'\n');
            self.note(self.direction.unfinished_mark(), &line)?;
        }
        Ok(())
    }

    fn note(&self, mark: u8, line: &[u8]) -> io::Result<()> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.write_all(&[mark])?;
        log.write_all(line)
    }
}
