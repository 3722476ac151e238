//! The tables of PROMISE.md: rows with a column for the simulation and one for real processes.
//!
//! The last two columns are generated from the names of tests. The check is that a row has tests at the levels that it
//! claims.

use std::fmt::Write as _;

use super::names::{Names, canonical, cell, is_row};
use super::sources::Sources;

/// One line of a table: `| P54 | text | S R | … | … |`.
struct Row<'a> {
    names: Vec<&'a str>,
    text: &'a str,
    levels: &'a str,
}

impl<'a> Row<'a> {
    fn read(line: &'a str) -> Option<Row<'a>> {
        let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
        let [names, text, levels, _, _] = cells.as_slice() else { return None };
        let names: Vec<&str> = names.split(' ').collect();
        names.iter().all(|name| is_row(&name.to_lowercase())).then_some(Row { names, text, levels })
    }

    fn proofs<'n>(&'n self, names: &'n Names) -> impl Iterator<Item = &'n String> {
        self.names.iter().flat_map(|row| names.of(row))
    }
}

/// Returns the canonical rows of the page.
pub fn rows(page: &str) -> Vec<String> {
    page.lines().filter_map(Row::read).flat_map(|row| row.names).map(canonical).collect()
}

/// Returns the page with its last columns generated from the names of tests.
pub fn regenerated(page: &str, sources: &Sources) -> String {
    let mut made = String::with_capacity(page.len());
    for line in page.lines() {
        match Row::read(line) {
            Some(row) => {
                let (simulated, real) = (cell(row.proofs(&sources.simulated)), cell(row.proofs(&sources.real)));
                let (names, text, levels) = (row.names.join(" "), row.text, row.levels);
                let _ = writeln!(made, "| {names} | {text} | {levels} | {simulated} | {real} |");
            }
            None => _ = writeln!(made, "{line}"),
        }
    }
    made
}

/// Returns rows without the tests that they claim.
pub fn errors(page: &str, sources: &Sources) -> Vec<String> {
    let mut errors = Vec::new();
    for row in page.lines().filter_map(Row::read) {
        for (level, names, what) in
            [('S', &sources.simulated, "in the simulation"), ('R', &sources.real, "with real processes")]
        {
            if row.levels.contains(level) && row.proofs(names).next().is_none() {
                errors.push(format!("  {}: no test {what}", row.names.join(" ")));
            }
        }
        if row.levels.is_empty() {
            errors.push(format!("  {}: it names no level", row.names.join(" ")));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_columns_are_generated_from_test_names() {
        let sources = Sources {
            simulated: Names::of_all(&["p54_kill9", "i07_calm"]),
            real: Names::of_all(&["p54_a", "p54_b", "p54_c", "p54_d"]),
            ..Sources::default()
        };
        let page = "# x\n| Row | Fault | Where | S | R |\n|---|---|---|---|---|\n| P54 | killed | S R | old | |\n| I7 | **Calm** | S | | |\n";
        let made = regenerated(page, &sources);
        assert!(made.contains("| P54 | killed | S R | `p54_kill9` | `p54_a`, `p54_b`, `p54_c` and 1 more |"), "{made}");
        assert!(made.contains("| I7 | **Calm** | S | `i07_calm` | – |"), "{made}");
        assert!(errors(&made, &sources).is_empty());
        assert_eq!(regenerated(&made, &sources), made);
        assert_eq!(rows(&made), ["P54", "I7"]);
    }

    #[test]
    fn row_without_a_test_is_an_error() {
        let page = "| P54 | killed | S R | | |\n| P55 | loops | | | |\n";
        let sources = Sources { simulated: Names::of_all(&["p54_kill9"]), ..Sources::default() };
        let found = errors(page, &sources);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("P54") && found[1].contains("P55"));
    }
}
