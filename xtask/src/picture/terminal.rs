//! The part of a terminal that the demo uses: lines, colours, and rows that are drawn again.

/// The colour and weight of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) is_bold: bool,
    pub(super) is_faint: bool,
    /// The last digit of the ECMA-48 code: 1 red, 2 green, 3 yellow.
    pub(super) colour: Option<u8>,
}

/// A character in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) letter: char,
    pub(super) look: Look,
}

/// A line of the screen. A wide character is followed by an empty cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line(pub(super) Vec<Cell>);

/// The letter of the cell behind a wide character.
pub(super) const WIDE: char = '\0';

impl Line {
    pub(super) fn plain(text: &str) -> Line {
        Line(text.chars().map(|letter| Cell { letter, look: Look::default() }).collect())
    }

    /// Returns the text without trailing spaces.
    pub(super) fn text(&self) -> String {
        let text: String = self.0.iter().map(|cell| cell.letter).filter(|letter| *letter != WIDE).collect();
        text.trim_end().to_owned()
    }
}

/// Returns the screen, however long, after this output.
pub(super) fn screen(output: &str) -> Vec<Line> {
    let mut lines = vec![Line::default()];
    let (mut row, mut look) = (0, Look::default());
    let mut letters = output.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\n' => {
                row += 1;
                if row == lines.len() {
                    lines.push(Line::default());
                }
            }
            // The demo clears a row before it draws it again.
            '\r' => {}
            '\u{1b}' => {
                let sequence: String = letters.by_ref().skip(1).take_while_inclusive(|c| !c.is_ascii_alphabetic());
                let (parameters, kind) = sequence.split_at(sequence.len().saturating_sub(1));
                match kind {
                    "A" => row = row.saturating_sub(parameters.parse().unwrap_or(1)),
                    "K" => lines[row].0.clear(),
                    "m" => look = changed(look, parameters),
                    _ => {}
                }
            }
            _ => {
                lines[row].0.push(Cell { letter, look });
                if letter == '⚡' {
                    lines[row].0.push(Cell { letter: WIDE, look });
                }
            }
        }
    }
    lines
}

fn changed(mut look: Look, codes: &str) -> Look {
    for code in codes.split(';') {
        match code.parse::<u8>() {
            Ok(1) => look.is_bold = true,
            Ok(2) => look.is_faint = true,
            Ok(code @ 30..=37) => look.colour = Some(code - 30),
            _ => look = Look::default(),
        }
    }
    look
}

/// `take_while` that keeps the first item that fails, and joins the characters.
trait TakeWhileInclusive: Iterator<Item = char> + Sized {
    fn take_while_inclusive(self, mut condition: impl FnMut(&char) -> bool) -> String {
        let mut taken = String::new();
        for letter in self {
            taken.push(letter);
            if !condition(&letter) {
                break;
            }
        }
        taken
    }
}

impl<I: Iterator<Item = char>> TakeWhileInclusive for I {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_drawn_again_have_their_last_content() {
        let lines = screen("title\r\n\r\u{1b}[2Ka\n\r\u{1b}[2Kb\n\u{1b}[2A\r\u{1b}[2Kaa\n\r\u{1b}[2Kbb\nend");
        let texts: Vec<String> = lines.iter().map(Line::text).collect();
        assert_eq!(texts, ["title", "aa", "bb", "end"]);
    }

    #[test]
    fn colours_end_where_the_output_ends_them() {
        let lines = screen("\u{1b}[1;32mok\u{1b}[0m \u{1b}[2mfaint");
        let looks: Vec<Look> = lines[0].0.iter().map(|cell| cell.look).collect();
        assert_eq!(looks[0], Look { is_bold: true, is_faint: false, colour: Some(2) });
        assert_eq!(looks[2], Look::default());
        assert!(looks[3].is_faint);
    }

    #[test]
    fn wide_character_takes_two_columns() {
        let lines = screen("⚡x");
        assert_eq!((lines[0].0.len(), lines[0].text()), (3, "⚡x".to_owned()));
    }
}
