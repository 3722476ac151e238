//! Following of new lines.
//!
//! The directory is polled a few times per second: files that grew are read on, new files from their beginning. Files
//! are opened only for reading, so that following holds no descriptors. Processes write with a short delay, so very new
//! lines wait a moment to keep the order across processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mendline::os::output::stdout_is_abandoned;
use mendline::os::signals::{Received, Signals};

use super::Output;
use super::filter::Filter;
use super::folder::Folder;
use super::lines::{LONGEST, Line, is_finished};
use super::when::Timestamp;
use crate::target::ServerSelector;

/// Polling interval of the directory.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Delay of a line, for earlier lines of other processes.
const SETTLE: Duration = Duration::from_millis(120);

/// Maximum number of bytes that are read from one file per poll.
const READ_LIMIT: u64 = 4 << 20;

/// Number of waiting lines above which they are printed at once.
const MOST_WAITING: usize = 20_000;

/// Prints new lines until a signal arrives or the reader closes.
pub(super) fn follow(
    was: &Folder,
    server: Option<&ServerSelector>,
    filter: &mut Filter,
    out: &mut Output,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::listen(&[Received::Interrupt, Received::Terminate])?;
        let mut following = Follower::new(was);
        loop {
            following.look(was, server)?;
            following.show(filter, out)?;
            if stdout_is_abandoned()? {
                return Ok(());
            }
            tokio::select! {
                _ = signals.next() => return Ok(()),
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
    })
}

/// Read positions, and lines that are not printed yet.
struct Follower {
    read: BTreeMap<PathBuf, u64>,
    waiting: Vec<Line>,
}

impl Follower {
    /// Starts after the last whole line of every file.
    fn new(was: &Folder) -> Follower {
        let files = was.processes.iter().flat_map(|process| &process.files);
        let read = files.map(|file| (file.path.clone(), last_end(&file.path, file.size).unwrap_or(file.size)));
        Follower { read: read.collect(), waiting: Vec::new() }
    }

    fn look(&mut self, was: &Folder, server: Option<&ServerSelector>) -> io::Result<()> {
        let folder = was.look_again()?.of(server);
        let mut there = BTreeSet::new();
        for (process, file) in folder
            .processes
            .iter()
            .enumerate()
            .flat_map(|(at, process)| process.files.iter().map(move |file| (at, file)))
        {
            there.insert(file.path.clone());
            let at = self.read.get(&file.path).copied().unwrap_or(0);
            if file.size > at {
                let at = read_on(&file.path, at, process, &mut self.waiting)?;
                self.read.insert(file.path.clone(), at);
            }
        }
        self.read.retain(|path, _| there.contains(path));
        Ok(())
    }

    fn show(&mut self, filter: &mut Filter, out: &mut Output) -> io::Result<()> {
        // The line that names the call of a message may follow the message.
        self.waiting.iter().for_each(|line| filter.learn(line));
        self.waiting.sort_by_key(|line| line.stamp);
        let settled = Timestamp::of_time(SystemTime::now() - SETTLE);
        let ready = match self.waiting.len() {
            many if many > MOST_WAITING => many,
            _ => self.waiting.partition_point(|line| line.stamp <= settled),
        };
        for line in self.waiting.drain(..ready) {
            out.line(&line, filter)?;
        }
        out.out.flush()
    }
}

/// Returns the end of the last whole line in the first `size` bytes.
fn last_end(path: &Path, size: u64) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let start = size.saturating_sub(LONGEST as u64);
    file.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    file.take(size - start).read_to_end(&mut tail)?;
    let Some(end) = memchr::memrchr(b'\n', &tail) else { return Ok(if start == 0 { 0 } else { size }) };
    // A last line without a line end was printed, if it is complete otherwise.
    Ok(if is_finished(&tail[end + 1..]) { size } else { start + end as u64 + 1 })
}

/// Reads whole lines from a position, and returns the new position.
fn read_on(path: &Path, at: u64, process: usize, lines: &mut Vec<Line>) -> io::Result<u64> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        // The file was removed meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(at),
        Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
    };
    file.seek(SeekFrom::Start(at))?;
    let mut text = Vec::new();
    file.take(READ_LIMIT).read_to_end(&mut text)?;
    let Some(end) = memchr::memrchr(b'\n', &text) else {
        // A partial line is read again later; an oversized one is skipped.
        return Ok(if text.len() > LONGEST { at + text.len() as u64 } else { at });
    };
    for text in text[..end].split(|byte| *byte == b'\n') {
        if let Some(stamp) = Timestamp::of_line(text) {
            lines.push(Line { stamp, process, text: text.to_vec() });
        }
    }
    Ok(at + end as u64 + 1)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn line(second: u64) -> String {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
        format!("{{\"time\":\"{}\"}}\n", humantime::format_rfc3339_micros(time))
    }

    fn looked(following: &mut Follower, folder: &Folder) -> Vec<Timestamp> {
        following.look(folder, None).unwrap();
        following.waiting.sort_by_key(|line| line.stamp);
        following.waiting.drain(..).map(|line| line.stamp).collect()
    }

    fn stamps(seconds: &[u64]) -> Vec<Timestamp> {
        seconds.iter().map(|at| Timestamp::of_line(line(*at).as_bytes()).unwrap()).collect()
    }

    #[test]
    fn follower_reads_only_new_lines_of_all_files() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        let first = path("a.19700101T000000Z.1.1.jsonl");
        fs::write(&first, line(1) + &line(2)[..10]).unwrap();
        let folder = Folder::read(home.path(), false).unwrap();
        let mut following = Follower::new(&folder);
        assert_eq!(looked(&mut following, &folder), []);
        fs::write(&first, line(1) + &line(2) + &line(3)[..5]).unwrap();
        assert_eq!(looked(&mut following, &folder), stamps(&[2]));
        fs::write(&first, line(1) + &line(2) + &line(3)).unwrap();
        fs::write(path("a.19700101T000000Z.1.2.jsonl"), line(5)).unwrap();
        fs::write(path("b.19700101T000000Z.2.1.jsonl"), "garbage\n".to_owned() + &line(4)).unwrap();
        assert_eq!(looked(&mut following, &folder), stamps(&[3, 4, 5]));
        fs::remove_file(&first).unwrap();
        assert_eq!(looked(&mut following, &folder), []);
        assert_eq!(following.read.len(), 2, "what is gone is forgotten");
    }
}
