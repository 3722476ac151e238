//! Merging of the lines of many processes by time.
//!
//! The lines of each process are ordered already, so only the next line of each is compared. A process is opened only
//! when its lines can come next, by its start or its last write: the last hundred lines of a thousand files read only a
//! few of them.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io;

use super::folder::{Folder, LogFile};
use super::lines::{Backward, Forward, Line};
use super::when::Timestamp;

/// All lines, from one end or the other.
pub(super) struct Merge {
    sources: Vec<Source>,
    heads: BinaryHeap<Reverse<Head>>,
    direction: Direction,
    unreadable: u64,
}

#[derive(Clone, Copy)]
enum Direction {
    /// Lines before this time are skipped.
    Forward(Option<Timestamp>),
    /// Lines after this time are skipped.
    Backward(Option<Timestamp>),
}

/// The unread files of one process, and the open one.
struct Source {
    files: std::vec::IntoIter<LogFile>,
    open: Option<Reader>,
}

enum Reader {
    Forward(Forward),
    Backward(Backward),
}

/// The next line of one process, or the earliest time of one.
struct Head {
    /// Sort key in the direction of reading.
    order: Order,
    source: usize,
    line: Option<Line>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    Rising(Timestamp),
    Falling(Reverse<Timestamp>),
}

impl Merge {
    /// Reads from the beginning, or from this point in time on.
    pub(super) fn forward(folder: &Folder, since: Option<Timestamp>) -> Merge {
        Merge::new(folder, Direction::Forward(since))
    }

    /// Reads from the end, or from this point in time back.
    pub(super) fn backward(folder: &Folder, until: Option<Timestamp>) -> Merge {
        Merge::new(folder, Direction::Backward(until))
    }

    fn new(folder: &Folder, direction: Direction) -> Merge {
        let mut merge = Merge { sources: Vec::new(), heads: BinaryHeap::new(), direction, unreadable: 0 };
        for (source, process) in folder.processes.iter().enumerate() {
            let mut files = process.files.clone();
            let order = match direction {
                Direction::Forward(since) => {
                    files.retain(|file| since.is_none_or(|since| file.modified >= since));
                    Order::Rising(process.began)
                }
                Direction::Backward(until) => {
                    files.reverse();
                    if until.is_some_and(|until| process.began > until) {
                        files.clear();
                    }
                    Order::Falling(Reverse(process.last()))
                }
            };
            merge.sources.push(Source { files: files.into_iter(), open: None });
            merge.heads.push(Reverse(Head { order, source, line: None }));
        }
        merge
    }

    /// Returns the next line in order of time.
    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
        while let Some(Reverse(head)) = self.heads.pop() {
            if let Some(line) = self.next_of(head.source)? {
                let order = match self.direction {
                    Direction::Forward(_) => Order::Rising(line.stamp),
                    Direction::Backward(_) => Order::Falling(Reverse(line.stamp)),
                };
                self.heads.push(Reverse(Head { order, source: head.source, line: Some(line) }));
            }
            if head.line.is_some() {
                return Ok(head.line);
            }
        }
        Ok(None)
    }

    /// Returns the number of unreadable lines since the last call.
    pub(super) fn take_unreadable(&mut self) -> u64 {
        let open = self.sources.iter().filter_map(|source| source.open.as_ref());
        std::mem::take(&mut self.unreadable) + open.map(Reader::unreadable).sum::<u64>()
    }

    /// Returns the next line of one process within the limits.
    fn next_of(&mut self, at: usize) -> io::Result<Option<Line>> {
        let source = &mut self.sources[at];
        let mut text = Vec::new();
        loop {
            let Some(reader) = &mut source.open else {
                let Some(file) = source.files.next() else { return Ok(None) };
                source.open = match self.direction {
                    Direction::Forward(since) => Forward::open(&file.path, file.size, since)?.map(Reader::Forward),
                    Direction::Backward(_) => Backward::open(&file.path, file.size)?.map(Reader::Backward),
                };
                continue;
            };
            let read = match reader {
                Reader::Forward(lines) => lines.next(&mut text)?,
                Reader::Backward(lines) => lines.next(&mut text)?,
            };
            let Some(stamp) = read else {
                self.unreadable += reader.unreadable();
                source.open = None;
                continue;
            };
            let is_wanted = match self.direction {
                Direction::Forward(since) => since.is_none_or(|since| stamp >= since),
                Direction::Backward(until) => until.is_none_or(|until| stamp <= until),
            };
            if is_wanted {
                return Ok(Some(Line { stamp, process: at, text }));
            }
        }
    }
}

impl Reader {
    fn unreadable(&self) -> u64 {
        match self {
            Reader::Forward(lines) => lines.unreadable,
            Reader::Backward(lines) => lines.unreadable,
        }
    }
}

impl Ord for Head {
    /// At equal times, unopened processes come first, then processes in the order of the folder, or in reverse.
    fn cmp(&self, other: &Head) -> Ordering {
        let is_falling = matches!(self.order, Order::Falling(_));
        let place = self.source.cmp(&other.source);
        let by_place = if is_falling { place.reverse() } else { place };
        self.order.cmp(&other.order).then(self.line.is_some().cmp(&other.line.is_some())).then(by_place)
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use super::*;

    fn time(at: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(at)
    }

    /// Writes a file with a line at each of these times.
    fn write(folder: &Path, server: &str, pid: u32, number: u32, moments: &[u64]) {
        let text: String = moments
            .iter()
            .map(|at| format!("{{\"time\":\"{}\"}}\n", humantime::format_rfc3339_micros(time(*at))))
            .collect();
        let path = folder.join(format!("{server}.19700101T000000Z.{pid}.{number}.jsonl"));
        fs::write(&path, text).unwrap();
        let file = fs::File::options().append(true).open(&path).unwrap();
        file.set_modified(time(moments.last().copied().unwrap_or_default() + 1)).unwrap();
    }

    fn all(mut merge: Merge) -> Vec<Timestamp> {
        std::iter::from_fn(|| merge.next().unwrap()).map(|line| line.stamp).collect()
    }

    fn stamps(moments: &[u64]) -> Vec<Timestamp> {
        moments.iter().map(|at| Timestamp::of_time(time(*at))).collect()
    }

    #[test]
    fn lines_of_all_processes_are_merged_by_time() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a", 1, 1, &[1, 4, 5]);
        write(folder.path(), "a", 1, 2, &[9]);
        write(folder.path(), "a", 2, 1, &[2, 9, 10]);
        write(folder.path(), "b", 3, 1, &[]);
        write(folder.path(), "b", 4, 1, &[3, 7]);
        let folder = Folder::read(folder.path(), false).unwrap();
        let expected = [1, 2, 3, 4, 5, 7, 9, 9, 10];
        assert_eq!(all(Merge::forward(&folder, None)), stamps(&expected));
        let mut backward = all(Merge::backward(&folder, None));
        backward.reverse();
        assert_eq!(backward, stamps(&expected));
        let at = |at| Some(Timestamp::of_time(time(at)));
        assert_eq!(all(Merge::forward(&folder, at(5))), stamps(&[5, 7, 9, 9, 10]));
        assert_eq!(all(Merge::backward(&folder, at(4))), stamps(&[4, 3, 2, 1]));
    }

    #[test]
    fn last_lines_open_only_their_files() {
        let folder = tempfile::tempdir().unwrap();
        for pid in 0..50 {
            let began = u64::from(pid) * 100;
            write(folder.path(), "a", pid, 1, &[began, began + 50]);
        }
        let folder = Folder::read(folder.path(), false).unwrap();
        let mut merge = Merge::backward(&folder, None);
        for _ in 0..4 {
            merge.next().unwrap().unwrap();
        }
        let untouched = merge.sources.iter().filter(|source| source.files.len() == 1).count();
        assert!(untouched >= 46, "{untouched}");
    }

    proptest::proptest! {
        #[test]
        fn merge_loses_and_duplicates_nothing(
            processes in proptest::collection::vec(proptest::collection::vec(0..10_000u64, 0..40), 0..8),
            rotation in 1..10usize,
            from in 0..10_000u64,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut expected = Vec::new();
            for (pid, mut moments) in processes.into_iter().enumerate() {
                moments.sort_unstable();
                for (number, part) in moments.chunks(rotation).enumerate() {
                    write(folder.path(), "a", pid as u32, number as u32 + 1, part);
                }
                expected.extend(moments);
            }
            expected.sort_unstable();
            let folder = Folder::read(folder.path(), false).unwrap();
            proptest::prop_assert_eq!(all(Merge::forward(&folder, None)), stamps(&expected));
            let since = Some(Timestamp::of_time(time(from)));
            let later: Vec<u64> = expected.iter().copied().filter(|at| *at >= from).collect();
            proptest::prop_assert_eq!(all(Merge::forward(&folder, since)), stamps(&later));
            let mut backward = all(Merge::backward(&folder, since));
            backward.reverse();
            let earlier: Vec<u64> = expected.iter().copied().filter(|at| *at <= from).collect();
            proptest::prop_assert_eq!(backward, stamps(&earlier));
        }
    }
}
