//! The lines on a pair of pipes, in both directions.
//!
//! A tap writes one line to its log for each line that it relays: one byte for the direction, then the line. Incomplete
//! lines have their own marks, so that half a message at the end is recorded.

use std::io;
use std::path::Path;

/// The direction of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

impl Direction {
    /// Returns the mark of a complete line in a log.
    pub fn mark(self) -> u8 {
        match self {
            Self::Up => b'>',
            Self::Down => b'<',
        }
    }

    /// Returns the mark of a line that had no end when its pipe closed.
    pub fn unfinished_mark(self) -> u8 {
        match self {
            Self::Up => b'}',
            Self::Down => b'{',
        }
    }
}

/// Both directions of one conversation, each in its own order.
///
/// The order *between* directions is not kept: a tap reads two pipes and cannot know which of two lines was written
/// first.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    /// Lines to the server.
    pub up: Vec<String>,
    /// Lines to the client.
    pub down: Vec<String>,
}

impl Transcript {
    /// Reads the log of a tap.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, is not a log of a tap, or contains an incomplete line.
    pub fn read(path: &Path) -> io::Result<Self> {
        Self::parse(&std::fs::read(path)?)
            .map_err(|why| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", path.display())))
    }

    fn parse(log: &[u8]) -> Result<Self, String> {
        let mut transcript = Self::default();
        for (number, line) in log.split(|&byte| byte == b'\n').enumerate() {
            let Some((&mark, line)) = line.split_first() else { continue };
            let line = std::str::from_utf8(line).map_err(|_| format!("line {} is not UTF-8", number + 1))?;
            match mark {
                b'>' => transcript.up.push(line.to_owned()),
                b'<' => transcript.down.push(line.to_owned()),
                b'{' | b'}' => return Err(format!("line {} never ended: {line}", number + 1)),
                _ => return Err(format!("line {} has no mark", number + 1)),
            }
        }
        Ok(transcript)
    }

    /// Returns the lines of one direction.
    pub fn lines(&self, direction: Direction) -> &[String] {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Transcript;

    #[test]
    fn log_is_split_by_direction_in_order() {
        let transcript = Transcript::parse(b">{\"id\":1}\n<{\"id\":7}\n>{\"id\":2}\n").unwrap();
        assert_eq!(transcript.up, ["{\"id\":1}", "{\"id\":2}"]);
        assert_eq!(transcript.down, ["{\"id\":7}"]);
    }

    #[test]
    fn partial_line_is_not_a_message() {
        let why = Transcript::parse(b">{\"id\":1}\n{{\"id\"\n").unwrap_err();
        assert_eq!(why, "line 2 never ended: {\"id\"");
    }
}
