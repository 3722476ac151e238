//! Text on the screen: never wider than its area, and coloured only if that is wanted.
//!
//! Without colour, attributes tell the same: warnings are bold, errors are underlined, too.

use mendline::control::Level;
use mendline::control::words::Severity;
use mendline::observe::escaped::Escaped;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

/// Role of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    /// De-emphasized.
    Faint,
    /// Emphasized.
    Bold,
    Healthy,
    Warning,
    Error,
}

impl From<Severity> for Tone {
    fn from(severity: Severity) -> Tone {
        match severity {
            Severity::Healthy => Tone::Healthy,
            Severity::Transient => Tone::Warning,
            Severity::Unhealthy => Tone::Error,
        }
    }
}

impl From<Level> for Tone {
    fn from(level: Level) -> Tone {
        match level {
            Level::Debug => Tone::Faint,
            Level::Info => Tone::Plain,
            Level::Warn => Tone::Warning,
            Level::Error => Tone::Error,
        }
    }
}

/// The colour setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    pub(crate) is_coloured: bool,
}

impl Paint {
    pub(crate) fn style(self, tone: Tone) -> Style {
        let plain = Style::new();
        let coloured = |colour: Color, otherwise: Modifier| match self.is_coloured {
            true => plain.fg(colour),
            false => plain.add_modifier(otherwise),
        };
        match tone {
            Tone::Plain => plain,
            Tone::Faint => plain.add_modifier(Modifier::DIM),
            Tone::Bold => plain.add_modifier(Modifier::BOLD),
            Tone::Healthy => coloured(Color::Green, Modifier::empty()),
            Tone::Warning => coloured(Color::Yellow, Modifier::BOLD),
            Tone::Error => coloured(Color::Red, Modifier::BOLD | Modifier::UNDERLINED),
        }
    }
}

/// Writer of one line of the screen, from the left.
pub(crate) struct LineWriter<'a> {
    buffer: &'a mut Buffer,
    paint: Paint,
    x: u16,
    y: u16,
    end: u16,
}

impl<'a> LineWriter<'a> {
    /// Begins at this position, up to but not including `end`.
    pub(crate) fn at(buffer: &'a mut Buffer, paint: Paint, x: u16, y: u16, end: u16) -> LineWriter<'a> {
        LineWriter { buffer, paint, x, y, end }
    }

    /// Returns the remaining columns.
    pub(crate) fn left(&self) -> u16 {
        self.end.saturating_sub(self.x)
    }

    /// Writes as much of a text as fits.
    pub(crate) fn write(&mut self, tone: Tone, text: &str) {
        let text = cut(&Escaped(text.as_bytes()).to_string(), self.left().into());
        let (x, _) = self.buffer.set_stringn(self.x, self.y, &text, self.left().into(), self.paint.style(tone));
        self.x = x;
    }

    /// Writes a text at the end of the line, if it fits with a space before it.
    pub(crate) fn write_right(&mut self, tone: Tone, text: &str) {
        let width = u16::try_from(width(&Escaped(text.as_bytes()).to_string())).unwrap_or(u16::MAX);
        if width < self.left() {
            self.x = self.end - width;
            self.write(tone, text);
        }
    }

    /// Skips columns.
    pub(crate) fn skip(&mut self, columns: u16) {
        self.x = self.x.saturating_add(columns).min(self.end);
    }

    /// Fills the rest of the line with a character of one column.
    pub(crate) fn rule(&mut self, tone: Tone, character: &str) {
        let text = character.repeat(self.left().into());
        self.write(tone, &text);
    }
}

/// Returns the number of columns of a text.
pub(crate) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// Cuts a text to a number of columns.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let Some(room) = most.checked_sub(1) else { return String::new() };
    let mut taken = 0;
    let fits = |character: &char| {
        taken += width(character.encode_utf8(&mut [0; 4]));
        taken <= room
    };
    let mut cut: String = text.chars().take_while(fits).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_display_width() {
        assert_eq!(cut("notes", 5), "notes");
        assert_eq!(cut("notes", 4), "not…");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!((cut("notes", 1).as_str(), cut("notes", 0).as_str()), ("…", ""));
    }

    #[test]
    fn s07_screen_shows_no_hostile_character() {
        let mut buffer = Buffer::empty(ratatui::layout::Rect::new(0, 0, 80, 1));
        let mut writer = LineWriter::at(&mut buffer, Paint { is_coloured: true }, 0, 0, 80);
        writer.write(Tone::Bold, "a\u{9b}b\u{200d}c\u{202e}d\u{ad}e\u{fe0f}\u{1b}]0;x\u{7}");
        let shown: String = buffer.content().iter().map(ratatui::buffer::Cell::symbol).collect();
        let expected = "a\\u{9b}b\\u{200d}c\\u{202e}d\\u{ad}e\\u{fe0f}\\u{1b}]0;x\\u{7}";
        assert_eq!(shown.trim_end(), expected);
    }

    #[test]
    fn errors_stand_out_without_colour() {
        let paint = Paint { is_coloured: false };
        let styles = [Tone::Plain, Tone::Warning, Tone::Error].map(|tone| paint.style(tone));
        assert!(styles[0] != styles[1] && styles[1] != styles[2]);
        assert!(styles.iter().all(|style| style.fg.is_none() && style.bg.is_none()));
    }
}
