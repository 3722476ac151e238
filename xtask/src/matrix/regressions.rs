//! The tables of docs/regressions.md: one row for each defect of a release.
//!
//! A row states the defect, the rule that holds now, and the release with the fix. The columns for levels and tests are
//! generated from the names of tests. A fixed row needs a test; an open one states the expected rule.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::names::{canonical, cell};
use super::sources::Sources;

/// The beginning of a defect, and of a rule that does not hold yet.
const BROKE: &str = "0.1.0 ";
const EXPECTED: &str = "Expected: ";

/// One line of a table: `| R15 | what broke | the rule | where | tests | state |`.
struct Row<'a> {
    name: &'a str,
    broke: &'a str,
    rule: &'a str,
    state: &'a str,
}

/// A line of a table whose first cell is a row.
enum Line<'a> {
    Row(Row<'a>),
    /// The row has the wrong number of cells.
    Malformed(&'a str, usize),
}

fn line(text: &str) -> Option<Line<'_>> {
    let cells: Vec<&str> = text.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
    let name = *cells.first()?;
    let mut letters = name.chars();
    let is_row = letters.next()?.is_ascii_uppercase() && letters.as_str().parse::<u32>().is_ok();
    if !is_row {
        return None;
    }
    Some(match cells.as_slice() {
        [_, broke, rule, _, _, state] => Line::Row(Row { name, broke, rule, state }),
        others => Line::Malformed(name, others.len()),
    })
}

fn well_formed(page: &str) -> impl Iterator<Item = Row<'_>> {
    page.lines().filter_map(line).filter_map(|line| match line {
        Line::Row(row) => Some(row),
        Line::Malformed(..) => None,
    })
}

/// Returns the canonical rows of the page.
pub fn rows(page: &str) -> Vec<String> {
    well_formed(page).map(|row| canonical(row.name)).collect()
}

/// Returns the page with the columns for levels and tests generated from the names of tests.
pub fn regenerated(page: &str, sources: &Sources) -> String {
    let mut made = String::with_capacity(page.len());
    for text in page.lines() {
        match line(text) {
            Some(Line::Row(row)) => {
                let Row { name, broke, rule, state } = row;
                let levels: Vec<&str> = sources
                    .levels()
                    .iter()
                    .filter(|(_, names)| !names.of(name).is_empty())
                    .map(|(level, _)| *level)
                    .collect();
                let levels = if levels.is_empty() { "–".into() } else { levels.join(", ") };
                let tests = cell(sources.levels().iter().flat_map(|(_, names)| names.of(name)));
                let _ = writeln!(made, "| {name} | {broke} | {rule} | {levels} | {tests} | {state} |");
            }
            _ => _ = writeln!(made, "{text}"),
        }
    }
    made
}

/// Returns rows that contradict themselves or the tests, and numbers that are missing or duplicate.
pub fn errors(page: &str, sources: &Sources) -> Vec<String> {
    let mut errors = Vec::new();
    for line in page.lines().filter_map(line) {
        match line {
            Line::Row(row) => errors.extend(row.errors(sources)),
            Line::Malformed(name, cells) => errors.push(format!("  {name}: it has {cells} cells instead of six")),
        }
    }
    errors.extend(gaps(&rows(page)));
    errors
}

impl Row<'_> {
    fn errors(&self, sources: &Sources) -> Vec<String> {
        let Row { name, broke, rule, state } = self;
        let mut errors = Vec::new();
        let mut report = |what: String| errors.push(format!("  {name}: {what}"));
        if name.len() != 3 {
            report("a row must have two digits".into());
        }
        if broke.strip_prefix(BROKE).is_none_or(str::is_empty) {
            report(format!("the defect must begin with `{BROKE}`"));
        }
        let is_expected = rule.starts_with(EXPECTED);
        match state.strip_prefix("fixed in ") {
            Some(version) if !is_version(version) => report(format!("`{version}` is not a version")),
            Some(_) => {
                if sources.levels().iter().all(|(_, names)| names.of(name).is_empty()) {
                    report("it is fixed, but no test is named after it".into());
                }
                if is_expected || rule.is_empty() {
                    report("it is fixed, but its rule is only expected".into());
                }
            }
            None if *state == "open" => {
                if !is_expected {
                    report(format!("it is open, but its rule does not begin with `{EXPECTED}`"));
                }
                if [broke, rule].iter().any(|text| text.to_lowercase().contains("fixed")) {
                    report("it is open, but contains `fixed`".into());
                }
            }
            None => report(format!("`{state}` is neither `open` nor `fixed in X.Y.Z`")),
        }
        errors
    }
}

fn is_version(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    parts.len() == 3 && parts.iter().all(|part| part.parse::<u32>().is_ok())
}

/// Rows of a family are numbered from 1 without gaps, so that a removed row is noticed.
fn gaps(rows: &[String]) -> Vec<String> {
    let mut families: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for row in rows {
        let (family, number) = row.split_at(1);
        families.entry(family).or_default().push(number.parse().unwrap_or_default());
    }
    let mut errors = Vec::new();
    for (family, mut numbers) in families {
        numbers.sort_unstable();
        if let Some((expected, found)) = (1..).zip(numbers).find(|(expected, found)| expected != found) {
            let what = if found < expected { "is duplicate" } else { "is missing" };
            errors.push(format!("  {family}{:02}: {what}", expected.min(found)));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::super::names::Names;
    use super::*;

    const HEAD: &str = "| Row | What broke | Rule | Where | Tests | State |\n|---|---|---|---|---|---|\n";

    fn page(rows: &str) -> String {
        format!("# Regressions\n{HEAD}{rows}")
    }

    fn sources() -> Sources {
        Sources {
            unit: Names::of_all(&["r01_unit"]),
            real: Names::of_all(&["r01_seen_by_a_user", "t01_seen"]),
            simulated: Names::of_all(&["r01_simulated", "r01_scenario"]),
            ..Sources::default()
        }
    }

    #[test]
    fn levels_and_tests_are_generated_from_test_names() {
        let page = page(
            "| R01 | 0.1.0 broke. | It holds. | old | old | fixed in 0.1.1 |\n| R02 | 0.1.0 broke. | Expected: more. | | | open |\n",
        );
        let made = regenerated(&page, &sources());
        let first = "| R01 | 0.1.0 broke. | It holds. | unit, simulation, processes | `r01_scenario`, `r01_seen_by_a_user`, `r01_simulated` and 1 more | fixed in 0.1.1 |";
        assert!(made.contains(first), "{made}");
        assert!(made.contains("| R02 | 0.1.0 broke. | Expected: more. | – | – | open |"), "{made}");
        assert!(made.contains(HEAD), "{made}");
        assert_eq!(regenerated(&made, &sources()), made);
        assert!(errors(&made, &sources()).is_empty());
        assert_eq!(rows(&made), ["R1", "R2"]);
    }

    #[test]
    fn each_mistake_in_a_row_is_an_error() {
        for (row, part) in [
            ("| R01 | 0.1.0 broke. | It holds. | | | done |", "neither"),
            ("| R01 | 0.1.0 broke. | It holds. | | | fixed in next |", "not a version"),
            ("| R01 | 0.1.0 broke. | Expected: more. | | | fixed in 0.1.1 |", "only expected"),
            ("| R01 | It broke. | It holds. | | | fixed in 0.1.1 |", "must begin with"),
            ("| R01 | 0.1.0 broke. | It holds. | | | open |", "does not begin"),
            ("| R01 | 0.1.0 broke. | Expected: it is fixed. | | | open |", "contains `fixed`"),
            ("| R01 | 0.1.0 broke. | It | holds. | | | open |", "7 cells"),
            ("| R1 | 0.1.0 broke. | It holds. | | | fixed in 0.1.1 |", "two digits"),
            ("| W01 | 0.1.0 broke. | It holds. | | | fixed in 0.1.1 |", "no test"),
            ("| R02 | 0.1.0 broke. | Expected: more. | | | open |", "R01: is missing"),
        ] {
            let found = errors(&page(&format!("{row}\n")), &sources()).join("\n");
            assert!(found.contains(part), "{row}: {found}");
        }
    }

    #[test]
    fn duplicate_or_missing_number_is_an_error() {
        let row = |name: &str| format!("| {name} | 0.1.0 broke. | Expected: more. | | | open |\n");
        let twice = errors(&page(&(row("U01") + &row("U01"))), &sources());
        assert_eq!(twice, ["  U01: is duplicate"]);
        let gap = errors(&page(&(row("U01") + &row("U03"))), &sources());
        assert_eq!(gap, ["  U02: is missing"]);
    }
}
