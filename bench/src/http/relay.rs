//! The lower bound for stdio to HTTP: each line becomes a POST, each body becomes a line.
//!
//! It has the structure of Mendline's bridge, one thread and one loop, without its work: it matches no answers, checks
//! no session and repairs nothing. The first error ends it.
//!
//! Answers of the same iteration are written together. Big ones are written without a copy.

use std::io::{self, Write};
use std::process::ExitCode;

use super::pool::Pool;
use crate::lines::Lines;

const STDIN: usize = usize::MAX;

/// The size up to which a copy is cheaper than a system call.
const BIG: usize = 16 << 10;

/// Relays until stdin ends and everything is answered, or until stdout is closed.
pub(crate) fn run(url: &str) -> io::Result<ExitCode> {
    // The handles of std would buffer again and flush at every newline.
    let stdin = std::fs::File::from(rustix::io::dup(rustix::stdio::stdin())?);
    let mut stdout = std::fs::File::from(rustix::io::dup(rustix::stdio::stdout())?);
    let mut pool = Pool::try_new(url)?;
    pool.watch(&stdin, STDIN)?;
    let mut lines = Lines::new(&stdin);
    let mut is_open = true;
    let mut answers = Vec::with_capacity(64 << 10);
    while is_open || pool.is_busy() {
        let mut next = Some(pool.ready()?);
        while let Some(number) = next {
            if number == STDIN {
                is_open = lines.read()?;
                if !is_open {
                    pool.unwatch(&stdin)?;
                }
                while let Some(line) = lines.next_buffered() {
                    pool.post(line)?;
                }
            } else if pool.read(number)? {
                let line = pool.body_as_line(number);
                if line.len() < BIG {
                    answers.extend_from_slice(line);
                } else {
                    super::write_both(&mut stdout, &answers, line)?;
                    answers.clear();
                }
            }
            next = pool.ready_already();
        }
        if !answers.is_empty() {
            stdout.write_all(&answers)?;
            answers.clear();
        }
    }
    Ok(ExitCode::SUCCESS)
}
