//! The table of the zoo: one row for each server and each client library.

use std::fmt::Write as _;

/// The columns after the name.
const COLUMNS: [&str; 9] =
    ["name", "package", "language", "transport", "lists", "call", "kill between", "kill at work", "warm start"];

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// It passed; the word is shown in the table.
    Passed(&'static str),
    /// It failed, with the reason.
    Failed(String),
    /// An earlier check failed.
    NotRun,
}

/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    /// The name in the manifest.
    pub name: String,
    /// The package and its version.
    pub package: String,
    /// The language.
    pub language: String,
    /// The transport.
    pub transport: &'static str,
    /// The results: lists, call, kill between, kill at work, warm start.
    pub cells: [Cell; 5],
}

impl Row {
    /// Returns the reasons of failed checks.
    pub fn failures(&self) -> impl Iterator<Item = String> {
        let cells = self.cells.iter().zip(&COLUMNS[4..]);
        cells.filter_map(|(cell, column)| match cell {
            Cell::Failed(why) => Some(format!("{}, {column}: {why}", self.name)),
            _ => None,
        })
    }

    fn texts(&self) -> [&str; 9] {
        let [lists, call, between, work, warm] = self.cells.each_ref().map(|cell| match cell {
            Cell::Passed(text) => *text,
            Cell::Failed(_) => "FAILED",
            Cell::NotRun => "not run",
        });
        [&self.name, &self.package, &self.language, self.transport, lists, call, between, work, warm]
    }
}

/// Returns the rows as a table in Markdown with aligned columns.
pub fn markdown(rows: &[Row]) -> String {
    let texts: Vec<[&str; 9]> = rows.iter().map(Row::texts).collect();
    let width = |column: usize| {
        let cells = texts.iter().map(|row| row[column].chars().count());
        cells.chain([COLUMNS[column].len()]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
    let mut table = String::new();
    let mut line = |cells: &[&str]| {
        for (cell, width) in cells.iter().zip(&widths) {
            let _ = write!(table, "| {cell:width$} ");
        }
        table.push_str("|\n");
    };
    line(&COLUMNS);
    let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    line(&rules.iter().map(String::as_str).collect::<Vec<_>>());
    texts.iter().for_each(|row| line(row));
    table
}

/// Returns the text of a page with this table instead of the one that it has, or only the table.
pub fn replace_table(page: &str, table: &str) -> String {
    let lines: Vec<&str> = page.split_inclusive('\n').collect();
    let head = format!("| {} ", COLUMNS[0]);
    let Some(start) = lines.iter().position(|line| line.starts_with(&head)) else { return table.to_owned() };
    let length = lines[start..].iter().take_while(|line| line.starts_with('|')).count();
    [&lines[..start].concat(), table, &lines[start + length..].concat()].concat()
}

#[cfg(test)]
mod tests {
    use super::{Cell, Row, markdown, replace_table};

    fn row(cells: [Cell; 5]) -> Row {
        let (name, package, language) = ("time".into(), "mcp-server-time 1".into(), "Python".into());
        Row { name, package, language, transport: "stdio", cells }
    }

    #[test]
    fn failed_check_is_shown_with_its_reason() {
        let passed = || Cell::Passed("equal");
        let row = row([passed(), passed(), Cell::Failed("no answer".into()), Cell::NotRun, passed()]);
        let table = markdown(std::slice::from_ref(&row));
        let last: Vec<&str> = table.lines().last().unwrap().split('|').map(str::trim).collect();
        let cells = ["equal", "equal", "FAILED", "not run", "equal"];
        assert_eq!(last[1..10], [&["time", "mcp-server-time 1", "Python", "stdio"], &cells[..]].concat());
        assert_eq!(row.failures().collect::<Vec<_>>(), ["time, kill between: no answer"]);
    }

    #[test]
    fn only_the_table_of_a_page_is_replaced() {
        let page = "# Title\n\n| name | x |\n|---|---|\n| old | y |\n\nText | more\n";
        assert_eq!(replace_table(page, "| name |\n| new |\n"), "# Title\n\n| name |\n| new |\n\nText | more\n");
        assert_eq!(replace_table("", "| name |\n"), "| name |\n");
    }

    #[test]
    fn columns_are_aligned() {
        let table = markdown(&[row([const { Cell::NotRun }; 5])]);
        let lengths: Vec<usize> = table.lines().map(str::len).collect();
        assert!(lengths.len() == 3 && lengths.iter().all(|length| *length == lengths[0]), "{table}");
    }
}
