//! The floor for stdio to HTTP: each line becomes a POST, each body becomes a line.
//!
//! It has the shape of Mendline's bridge, one thread and one loop, and does none of its work: it matches answers to
//! nothing, checks no session and heals nothing. The first thing that goes wrong ends it.
//!
//! Answers that came in the same turn leave in one write, as those of a byte relay do by themselves. Big ones are
//! written from where they were read.

use std::io::{self, Write};
use std::process::ExitCode;

use super::pool::Pool;
use crate::lines::Lines;

const STDIN: usize = usize::MAX;

/// A copy costs less than a system call up to about this size.
const BIG: usize = 16 << 10;

/// Relays until stdin ends and everything is answered, or nobody reads the answers any more.
pub(crate) fn run(url: &str) -> io::Result<ExitCode> {
    // Std's handles would buffer a second time, and stdout at every newline.
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
