//! The lines of one file, from either end, or from a point in time.
//!
//! A file may be large, cut within its last line, damaged, and growing. So it is read in pieces up to the size of the
//! listing. A line above the limit is skipped, a line without a timestamp counts as unreadable, and a partial line at
//! the end is left for later.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use memchr::{memchr, memrchr};

use super::when::Timestamp;

/// Size of a piece.
const PIECE: usize = 64 * 1024;

/// Maximum length of a line.
pub(super) const LONGEST: usize = 512 * 1024;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) stamp: Timestamp,
    /// Index of the process in the folder.
    pub(super) process: usize,
    /// Text without the line end.
    pub(super) text: Vec<u8>,
}

/// Returns whether only the line end is missing.
pub(super) fn is_finished(text: &[u8]) -> bool {
    text.ends_with(b"}") && serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok()
}

/// Opens a file; `None` if it was removed meanwhile.
fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
    }
}

/// Reads lines from the beginning to the end.
pub(super) struct Forward {
    reader: BufReader<io::Take<File>>,
    pub(super) unreadable: u64,
}

impl Forward {
    /// Opens the first `size` bytes of a file, from this point in time.
    pub(super) fn open(path: &Path, size: u64, since: Option<Timestamp>) -> io::Result<Option<Forward>> {
        let Some(mut file) = open(path)? else { return Ok(None) };
        let start = since.map_or(Ok(0), |since| first_after(&mut file, size, since))?;
        file.seek(SeekFrom::Start(start))?;
        let reader = BufReader::with_capacity(PIECE, file.take(size.saturating_sub(start)));
        Ok(Some(Forward { reader, unreadable: 0 }))
    }

    /// Returns the next readable line.
    pub(super) fn next(&mut self, text: &mut Vec<u8>) -> io::Result<Option<Timestamp>> {
        loop {
            text.clear();
            let Some(is_whole) = read_line(&mut self.reader, text)? else { return Ok(None) };
            match Timestamp::of_line(text).filter(|_| is_whole || is_finished(text)) {
                Some(stamp) => return Ok(Some(stamp)),
                None => self.unreadable += u64::from(is_whole && !text.is_empty()),
            }
        }
    }
}

/// Reads a line without its end, up to `LONGEST` bytes. Returns whether it had an end; `None` after the last line.
fn read_line(reader: &mut impl BufRead, text: &mut Vec<u8>) -> io::Result<Option<bool>> {
    let mut is_there = false;
    loop {
        let piece = reader.fill_buf()?;
        if piece.is_empty() {
            return Ok(is_there.then_some(false));
        }
        is_there = true;
        let end = memchr(b'\n', piece);
        let length = end.unwrap_or(piece.len());
        if text.len() + length <= LONGEST {
            text.extend_from_slice(&piece[..length]);
        } else {
            // An oversized line is not ours.
            text.clear();
            text.extend_from_slice(b"?");
        }
        reader.consume(length + usize::from(end.is_some()));
        if end.is_some() {
            return Ok(Some(true));
        }
    }
}

/// Returns a position at or shortly before the first line from this point in time, found by bisection.
fn first_after(file: &mut File, size: u64, since: Timestamp) -> io::Result<u64> {
    let (mut low, mut high) = (0, size);
    while high - low > PIECE as u64 {
        let middle = low + (high - low) / 2;
        match line_after(file, middle, high)? {
            Some((start, stamp)) if stamp < since => low = start,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// Returns the first line with a timestamp after this position, and its position.
fn line_after(file: &mut File, from: u64, to: u64) -> io::Result<Option<(u64, Timestamp)>> {
    file.seek(SeekFrom::Start(from))?;
    let mut reader = BufReader::with_capacity(PIECE, Read::take(&mut *file, to - from));
    let mut at = from;
    // The first piece is the rest of an earlier line.
    while let Some(start) = pass_over(&mut reader, at)? {
        if let Some(stamp) = Timestamp::of_line(reader.fill_buf()?) {
            return Ok(Some((start, stamp)));
        }
        at = start;
    }
    Ok(None)
}

/// Skips the rest of a line. Returns the position of the next line; `None` if there is none.
fn pass_over(reader: &mut impl BufRead, mut at: u64) -> io::Result<Option<u64>> {
    loop {
        let piece = reader.fill_buf()?;
        if piece.is_empty() {
            return Ok(None);
        }
        let end = memchr(b'\n', piece);
        let passed = end.map_or(piece.len(), |end| end + 1);
        reader.consume(passed);
        at += passed as u64;
        if end.is_some() {
            return Ok(Some(at));
        }
    }
}

/// Reads lines from the end to the beginning.
pub(super) struct Backward {
    file: File,
    /// Position of `held` in the file.
    at: u64,
    /// Bytes that were read and not returned yet.
    held: Vec<u8>,
    /// True if `held` begins within an oversized line.
    is_too_long: bool,
    /// True if the last line has no line end.
    is_last: bool,
    pub(super) unreadable: u64,
}

impl Backward {
    /// Opens the first `size` bytes of a file.
    pub(super) fn open(path: &Path, size: u64) -> io::Result<Option<Backward>> {
        let backward =
            |file| Backward { file, at: size, held: Vec::new(), is_too_long: false, is_last: true, unreadable: 0 };
        Ok(open(path)?.map(backward))
    }

    /// Returns the previous readable line.
    pub(super) fn next(&mut self, text: &mut Vec<u8>) -> io::Result<Option<Timestamp>> {
        while let Some(is_whole) = self.line_before(text)? {
            match Timestamp::of_line(text).filter(|_| is_whole || is_finished(text)) {
                Some(stamp) => return Ok(Some(stamp)),
                None => self.unreadable += u64::from(is_whole && !text.is_empty()),
            }
        }
        Ok(None)
    }

    fn line_before(&mut self, text: &mut Vec<u8>) -> io::Result<Option<bool>> {
        loop {
            let end = memrchr(b'\n', &self.held);
            if end.is_some() || self.at == 0 {
                if end.is_none() && self.held.is_empty() && !self.is_too_long {
                    return Ok(None);
                }
                let start = end.map_or(0, |end| end + 1);
                text.clear();
                text.extend_from_slice(if self.is_too_long { b"?" } else { &self.held[start..] });
                self.held.truncate(end.unwrap_or(0));
                self.is_too_long = false;
                let is_whole = !std::mem::take(&mut self.is_last);
                if end.is_none() && self.at == 0 {
                    self.held.clear();
                }
                return Ok(Some(is_whole));
            }
            self.read_before()?;
        }
    }

    /// Reads the previous piece.
    fn read_before(&mut self) -> io::Result<()> {
        let length = self.at.min(PIECE as u64);
        self.at -= length;
        if self.held.len() > LONGEST {
            self.held.clear();
            self.is_too_long = true;
        }
        let mut piece = vec![0; length as usize];
        self.file.seek(SeekFrom::Start(self.at))?;
        self.file.read_exact(&mut piece)?;
        piece.append(&mut self.held);
        self.held = piece;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, SystemTime};

    use super::*;

    fn line(second: u64, more: &str) -> String {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
        format!("{{\"time\":\"{}\",\"text\":\"{more}\"}}\n", humantime::format_rfc3339_micros(time))
    }

    fn stamp(second: u64) -> Timestamp {
        Timestamp::of_time(SystemTime::UNIX_EPOCH + Duration::from_secs(second))
    }

    fn forward(path: &Path, since: Option<Timestamp>) -> (Vec<Timestamp>, u64) {
        let mut lines = Forward::open(path, fs::metadata(path).unwrap().len(), since).unwrap().unwrap();
        let (mut found, mut text) = (Vec::new(), Vec::new());
        while let Some(stamp) = lines.next(&mut text).unwrap() {
            found.push(stamp);
        }
        (found, lines.unreadable)
    }

    fn backward(path: &Path) -> (Vec<Timestamp>, u64) {
        let mut lines = Backward::open(path, fs::metadata(path).unwrap().len()).unwrap().unwrap();
        let (mut found, mut text) = (Vec::new(), Vec::new());
        while let Some(stamp) = lines.next(&mut text).unwrap() {
            assert!(lines.held.len() <= 2 * LONGEST);
            found.push(stamp);
        }
        (found, lines.unreadable)
    }

    #[test]
    fn forward_and_backward_reading_find_the_same_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let long = "x".repeat(3 * PIECE);
        let endless = "y".repeat(3 * LONGEST);
        let text = format!("garbage\n{}\n\n{}{}{endless}\n{}", "z", line(1, ""), line(2, &long), line(3, ""));
        fs::write(&path, &text).unwrap();
        let all = vec![stamp(1), stamp(2), stamp(3)];
        assert_eq!(forward(&path, None), (all.clone(), 3));
        let (mut found, unreadable) = backward(&path);
        found.reverse();
        assert_eq!((found, unreadable), (all, 3));
    }

    #[test]
    fn partial_last_line_is_neither_shown_nor_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let whole = line(1, "") + &line(2, "");
        for cut in 1..line(2, "").len() - 1 {
            fs::write(&path, &whole[..whole.len() - 1 - cut]).unwrap();
            assert_eq!(forward(&path, None), (vec![stamp(1)], 0), "{cut}");
            assert_eq!(backward(&path), (vec![stamp(1)], 0), "{cut}");
        }
        // A line that misses only its line end counts.
        fs::write(&path, whole.trim_end()).unwrap();
        assert_eq!(forward(&path, None).0.len(), 2);
        assert_eq!(backward(&path).0.len(), 2);
    }

    #[test]
    fn empty_or_removed_file_has_no_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        assert!(Forward::open(&path, 10, None).unwrap().is_none());
        assert!(Backward::open(&path, 10).unwrap().is_none());
        fs::write(&path, "").unwrap();
        assert_eq!(forward(&path, None), (vec![], 0));
        assert_eq!(backward(&path), (vec![], 0));
    }

    #[test]
    fn start_time_is_found_without_reading_earlier_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let padding = "x".repeat(200);
        let text: String = (0..20_000).map(|second| line(second, &padding)).collect();
        fs::write(&path, &text).unwrap();
        for since in [0, 1, 777, 19_999, 30_000] {
            let (found, _) = forward(&path, Some(stamp(since)));
            let before = found.iter().filter(|at| **at < stamp(since)).count();
            assert_eq!(found.iter().filter(|at| **at >= stamp(since)).count() as u64, 20_000_u64.saturating_sub(since));
            assert!(before * line(0, &padding).len() <= 2 * PIECE, "{before} lines too many were read");
        }
    }

    proptest::proptest! {
        #[test]
        fn both_directions_agree_for_any_file(
            parts in proptest::collection::vec((0..5u8, 0..2000usize), 0..60),
            cut in 0..200usize,
        ) {
            let mut text: Vec<u8> = Vec::new();
            for (at, (kind, length)) in parts.iter().enumerate() {
                match kind {
                    0 => text.extend(b"garbage\n"),
                    1 => text.extend(vec![0xff; *length]),
                    2 => text.push(b'\n'),
                    _ => text.extend(line(at as u64, &"x".repeat(*length)).into_bytes()),
                }
            }
            text.truncate(text.len().saturating_sub(cut));
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("x");
            fs::write(&path, &text).unwrap();
            let (mut found, unreadable) = backward(&path);
            found.reverse();
            proptest::prop_assert_eq!((found, unreadable), forward(&path, None));
        }
    }
}
