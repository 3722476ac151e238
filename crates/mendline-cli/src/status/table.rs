//! A table that fits a width.
//!
//! Every column has a rank. If the table is too wide, the columns of the highest rank are removed first. Of the others,
//! the widest that may be shortened are shortened, and names last of all. So a narrow terminal shows less, and no line
//! wraps.

use std::fmt::Write as _;

use super::names::cut_names;
use crate::style::Style;
use crate::untrusted_text::one_line;

/// Style of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tone {
    #[default]
    Plain,
    Faint,
    Bold,
    Green,
    Yellow,
    Red,
}

impl Tone {
    pub(super) fn paint(self, text: &str, style: Style) -> String {
        match self {
            Tone::Plain => text.to_owned(),
            Tone::Faint => style.faint(text),
            Tone::Bold => style.bold(text),
            Tone::Green => style.green(text),
            Tone::Yellow => style.yellow(text),
            Tone::Red => style.red(text),
        }
    }
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(super) fn new(text: impl Into<String>, tone: Tone) -> Cell {
        Cell { text: one_line(&text.into()), tone }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::new(text, Tone::Plain)
    }
}

/// One column.
pub(super) struct Column {
    title: &'static str,
    cells: Vec<Cell>,
    /// 0: always shown.
    rank: u8,
    is_number: bool,
    /// Minimum width, if the column may be shortened.
    least: Option<Least>,
    /// Names are shortened only if nothing else is left to shorten or remove, and stay different then.
    is_names: bool,
}

/// Minimum widths of a column: while columns of a high rank are left, while those of rank 3 are left, and after that.
type Least = [usize; 3];

impl Column {
    /// Creates a left-aligned column.
    pub(super) fn text(title: &'static str, rank: u8, cells: Vec<Cell>) -> Column {
        Column { title, cells, rank, is_number: false, least: None, is_names: false }
    }

    /// Creates the column of names.
    pub(super) fn names(title: &'static str, cells: Vec<Cell>) -> Column {
        Column { is_names: true, ..Column::text(title, 0, cells) }
    }

    /// Creates a right-aligned column.
    pub(super) fn numbers(title: &'static str, rank: u8, cells: Vec<Cell>) -> Column {
        Column { is_number: true, ..Column::text(title, rank, cells) }
    }

    /// Allows the column to be shortened: to the first width for columns of a high rank, to the second one for those of
    /// rank 3, and to the last one for the others.
    pub(super) fn down_to(mut self, least: Least) -> Column {
        self.least = Some(least);
        self
    }

    fn width(&self) -> usize {
        self.cells.iter().map(Cell::width).max().unwrap_or_default().max(self.title.chars().count())
    }

    /// Returns the minimum width of the column in this stage; `width` is its present one.
    fn least(&self, width: usize, stage: usize) -> usize {
        self.least.map_or(width, |least| least[stage].min(width))
    }

    /// Shortens names to a width.
    fn cut_names(&mut self, width: usize) {
        let names: Vec<String> = self.cells.iter().map(|cell| cell.text.clone()).collect();
        for (cell, text) in self.cells.iter_mut().zip(cut_names(&names, width)) {
            cell.text = text;
        }
    }
}

/// Separator of columns.
const GAP: &str = "  ";

/// Minimum width of a name that has to be cut.
const NAME: usize = 10;

/// A table that fits.
pub(super) struct Table {
    columns: Vec<(Column, usize)>,
}

impl Table {
    /// Fits these columns into this width.
    pub(super) fn fit(columns: Vec<Column>, width: usize) -> Table {
        let mut columns: Vec<(Column, usize)> =
            columns.into_iter().map(|column| (column.width(), column)).map(|(width, column)| (column, width)).collect();
        // Returns the minimum width, with every column shortened that may be.
        let need = |columns: &[(Column, usize)], stage: usize| -> usize {
            let cells = columns.iter().map(|(column, width)| column.least(*width, stage));
            cells.sum::<usize>() + GAP.len() * columns.len().saturating_sub(1)
        };
        loop {
            let rank = columns.iter().map(|(column, _)| column.rank).max().unwrap_or(0);
            let stage = match rank {
                0..=2 => 2,
                3 => 1,
                _ => 0,
            };
            if rank == 0 || need(&columns, stage) <= width {
                break;
            }
            // The rightmost column of that rank is the least important.
            let Some(at) = columns.iter().rposition(|(column, _)| column.rank == rank) else { break };
            columns.remove(at);
        }
        for stage in 0..3 {
            shorten(&mut columns, width, |column, width| column.least(width, stage));
        }
        shorten(&mut columns, width, |column, width| if column.is_names { NAME.min(width) } else { width });
        for (column, width) in columns.iter_mut().filter(|(column, _)| column.is_names) {
            column.cut_names(*width);
        }
        Table { columns }
    }

    /// Returns the width of a column.
    pub(super) fn width_of(&self, title: &str) -> usize {
        self.columns.iter().find(|(column, _)| column.title == title).map_or(0, |(_, width)| *width)
    }

    /// Returns the line of titles, and one line for each row.
    pub(super) fn lines(&self, style: Style) -> Vec<String> {
        let rows = self.columns.first().map_or(0, |(column, _)| column.cells.len());
        let titles = self.line(|column| Cell::new(column.title, Tone::Faint), style);
        let mut lines = vec![titles];
        lines
            .extend((0..rows).map(|row| self.line(|column| column.cells.get(row).cloned().unwrap_or_default(), style)));
        lines
    }

    fn line(&self, cell: impl Fn(&Column) -> Cell, style: Style) -> String {
        let mut line = String::new();
        for (index, (column, width)) in self.columns.iter().enumerate() {
            let cell = cell(column);
            let text = shortened(&cell.text, *width);
            let padding = " ".repeat(width - text.chars().count());
            let painted = if text.is_empty() { String::new() } else { cell.tone.paint(&text, style) };
            let gap = if index == 0 { "" } else { GAP };
            let _ = match column.is_number {
                true => write!(line, "{gap}{padding}{painted}"),
                false => write!(line, "{gap}{painted}{padding}"),
            };
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// Shortens the widest columns until the table fits, none below its minimum.
fn shorten(columns: &mut [(Column, usize)], width: usize, least: impl Fn(&Column, usize) -> usize) {
    loop {
        let total: usize =
            columns.iter().map(|(_, width)| width).sum::<usize>() + GAP.len() * columns.len().saturating_sub(1);
        if total <= width {
            return;
        }
        let spare = |(column, width): &(Column, usize)| *width > least(column, *width);
        match columns.iter_mut().filter(|column| spare(column)).max_by_key(|(_, width)| *width) {
            Some((_, widest)) => *widest -= 1,
            None => return,
        }
    }
}

/// Shortens a text to a width.
pub(super) fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain((width > 0).then_some('…')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<Column> {
        let cells = |texts: [&str; 2]| texts.into_iter().map(Cell::from).collect();
        vec![
            Column::names("SERVER", cells(["notes", "a-server-with-a-long-name"])),
            Column::text("STATE", 0, cells(["ready 2 h", "parked: connection refused"])).down_to([20, 20, 10]),
            Column::numbers("OK", 1, cells(["7", "1234"])),
            Column::text("VIA", 4, cells(["stdio", "http"])),
        ]
    }

    fn drawn(width: usize) -> String {
        Table::fit(columns(), width).lines(Style::none()).join("\n")
    }

    #[test]
    fn wide_table_is_not_shortened() {
        assert_eq!(
            drawn(80),
            "SERVER                     STATE                         OK  VIA\n\
             notes                      ready 2 h                      7  stdio\n\
             a-server-with-a-long-name  parked: connection refused  1234  http"
        );
    }

    #[test]
    fn texts_are_shortened_before_columns_are_removed() {
        assert!(drawn(60).contains("VIA") && drawn(60).contains("parked: connection …"), "{}", drawn(60));
        assert!(!drawn(50).contains("VIA") && drawn(50).contains("OK"), "{}", drawn(50));
        for width in 22..100 {
            let drawn = drawn(width);
            assert!(drawn.lines().all(|line| line.chars().count() <= width), "{width}:\n{drawn}");
        }
    }

    #[test]
    fn u08_name_is_cut_after_everything_else() {
        for width in 37..100 {
            assert!(drawn(width).contains("a-server-with-a-long-name"), "{width}:\n{}", drawn(width));
        }
        assert!(!drawn(38).contains("OK") && drawn(38).contains("parked: co…"), "{}", drawn(38));
        assert!(drawn(36).contains("a-server-with-a-long-na…  parked: c…"), "{}", drawn(36));
    }

    #[test]
    fn columns_of_rank_zero_always_stay() {
        assert!(drawn(1).starts_with("SERVER"), "{}", drawn(1));
    }
}
