//! What went over a pair of pipes, line by line, in both directions.
//!
//! A tap writes one line of its log for each line that it relays: one byte for the direction, then the line as it was. Lines
//! that never ended are kept too, under marks of their own, because half a message at the end of a conversation is a fact.

use std::io;
use std::path::Path;

/// Which way a line went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

impl Direction {
    /// The mark of a whole line in a log.
    pub fn mark(self) -> u8 {
        match self {
            Self::Up => b'>',
            Self::Down => b'<',
        }
    }

    /// The mark of a line that had no end when its pipe closed.
    pub fn unfinished_mark(self) -> u8 {
        match self {
            Self::Up => b'}',
            Self::Down => b'{',
        }
    }
}

/// Both directions of one conversation, each in its own order.
///
/// The order *between* directions is not kept: a tap reads two pipes, and which of two lines it saw first says nothing about
/// which was written first.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    /// Lines to the server.
    pub up: Vec<String>,
    /// Lines to the client.
    pub down: Vec<String>,
}

impl Transcript {
    /// Reads a tap's log.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or holds something that a tap does not write, or a line that never ended.
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

    /// The lines of one direction.
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
