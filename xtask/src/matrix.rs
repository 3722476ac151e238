//! `cargo xtask matrix`: the tables of PROMISE.md against the tests, both ways.
//!
//! A test is about a row when its name begins with the row's (`p54_…`, `t13_t14_…`, `m62_to_m65_…`), and so is a fault of
//! the simulation by the name of its file, and a checker. From these names the last two columns of each table are made, so
//! that they cannot be wrong; what is checked is the rest: a row that says where it is proven and is not, a test that
//! speaks of a row that is not there, a page that was not made anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::command::root;

const HELP: &str = "\
Usage: cargo xtask matrix [--write]

  --write   makes the last columns of the tables in PROMISE.md anew
";

/// Where tests with real processes live, and where simulated faults and checkers do.
const REAL: &[&str] = &["crates/mendline-cli/tests", "tests/tests"];
const SIMULATED: &[&str] = &["crates/mendline-sim/src/fault", "crates/mendline-sim/src/check"];

/// As many names as a reader can bear in one cell.
const NAMES: usize = 3;

pub fn run(args: &[String]) -> Result<(), String> {
    let write = match args {
        [] => false,
        [only] if only == "--write" => true,
        [only] if only == "--help" || only == "-h" => {
            print!("{HELP}");
            return Ok(());
        }
        _ => return Err(format!("unknown options\n{HELP}")),
    };
    let path = root().join("PROMISE.md");
    let page = read(&path)?;
    let proofs = Proofs { simulated: named_files()?, real: named_tests()? };
    let made = made_anew(&page, &proofs);
    let faults = complaints(&made, &proofs);
    if !faults.is_empty() {
        return Err(format!("PROMISE.md and the tests disagree:\n{}", faults.join("\n")));
    }
    if write {
        fs::write(&path, &made).map_err(|why| format!("{}: {why}", path.display()))?;
    } else if made != page {
        return Err("PROMISE.md is out of date; `cargo xtask matrix --write` makes its tables anew".into());
    }
    let rows = made.lines().filter_map(Row::read).count();
    println!("{rows} rows, {} tests with real processes, {} simulated", proofs.real.total(), proofs.simulated.total());
    Ok(())
}

/// What proves something, by the row that it is about.
#[derive(Default)]
struct Names(BTreeMap<String, Vec<String>>);

impl Names {
    fn add(&mut self, name: &str) {
        for row in rows_of(name) {
            self.0.entry(row).or_default().push(name.to_owned());
        }
    }

    fn of(&self, row: &str) -> &[String] {
        self.0.get(row).map_or(&[], Vec::as_slice)
    }

    fn total(&self) -> usize {
        let mut names: Vec<&String> = self.0.values().flatten().collect();
        names.sort_unstable();
        names.dedup();
        names.len()
    }
}

struct Proofs {
    simulated: Names,
    real: Names,
}

/// The rows that a name speaks of, in the order in which it does: `t13_t14_…`, `m62_to_m65_…`.
fn rows_of(name: &str) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    let mut words = name.split('_').peekable();
    while let Some(word) = words.next() {
        let range = word == "to" && words.peek().is_some_and(|next| is_row(next));
        match (is_row(word), rows.last().cloned()) {
            (true, _) => rows.push(canonical(word)),
            (false, Some(first)) if range => {
                let last = words.next().unwrap_or_default().to_uppercase();
                rows.extend(between(&first, &last));
            }
            _ => return rows,
        }
    }
    rows
}

/// `p54`, `h35b`, `i7`; a leading zero is for sorting only. Faults are numbered from 10 or 01, so `h2` is a protocol.
fn is_row(word: &str) -> bool {
    let mut letters = word.chars();
    let family = letters.next().unwrap_or(' ');
    let number = letters.as_str().trim_end_matches('b');
    let is_long_enough = number.len() >= if family == 'i' { 1 } else { 2 };
    family.is_ascii_lowercase() && is_long_enough && number.chars().all(|digit| digit.is_ascii_digit())
}

fn between(first: &str, last: &str) -> Vec<String> {
    let number = |row: &str| row[1..].parse::<u32>().unwrap_or_default();
    (number(first) + 1..=number(last)).map(|number| format!("{}{number}", &last[..1])).collect()
}

/// One line of a table: `| P54 | words | S R | … | … |`.
struct Row<'a> {
    names: Vec<&'a str>,
    words: &'a str,
    places: &'a str,
}

impl<'a> Row<'a> {
    fn read(line: &'a str) -> Option<Row<'a>> {
        let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
        let [names, words, places, _, _] = cells.as_slice() else { return None };
        let names: Vec<&str> = names.split(' ').collect();
        names.iter().all(|name| is_row(&name.to_lowercase())).then_some(Row { names, words, places })
    }

    fn proofs<'n>(&self, names: &'n Names) -> Vec<&'n String> {
        let mut found: Vec<&String> = self.names.iter().flat_map(|row| names.of(&canonical(row))).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Files are sorted by name, so a checker is called `i07_…` and its row I7; and names of functions know no capitals.
fn canonical(row: &str) -> String {
    let (family, number) = row.split_at(1);
    format!("{}{}", family.to_uppercase(), number.trim_start_matches('0').to_uppercase())
}

fn made_anew(page: &str, proofs: &Proofs) -> String {
    let mut made = String::with_capacity(page.len());
    for line in page.lines() {
        match Row::read(line) {
            Some(row) => {
                let (simulated, real) = (cell(&row.proofs(&proofs.simulated)), cell(&row.proofs(&proofs.real)));
                let _ = writeln!(
                    made,
                    "| {} | {} | {} | {simulated} | {real} |",
                    row.names.join(" "),
                    row.words,
                    row.places
                );
            }
            None => _ = writeln!(made, "{line}"),
        }
    }
    made
}

fn cell(names: &[&String]) -> String {
    let mut text = names.iter().take(NAMES).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.len() > NAMES {
        let _ = write!(text, " and {} more", names.len() - NAMES);
    }
    if text.is_empty() { "–".into() } else { text }
}

fn complaints(page: &str, proofs: &Proofs) -> Vec<String> {
    let rows: Vec<Row<'_>> = page.lines().filter_map(Row::read).collect();
    let mut complaints = Vec::new();
    for row in &rows {
        for (place, names, what) in
            [('S', &proofs.simulated, "in the simulation"), ('R', &proofs.real, "with real processes")]
        {
            if row.places.contains(place) && row.proofs(names).is_empty() {
                complaints.push(format!("  {}: nothing proves it {what}", row.names.join(" ")));
            }
        }
        if row.places.is_empty() {
            complaints.push(format!("  {}: it does not say where it is proven", row.names.join(" ")));
        }
    }
    let is_known = |wanted: &str| rows.iter().any(|row| row.names.iter().any(|it| canonical(it) == wanted));
    for (row, names) in proofs.simulated.0.iter().chain(&proofs.real.0) {
        if !is_known(row) {
            complaints.push(format!("  {}: speaks of {row}, which is no row", names.join(", ")));
        }
    }
    complaints
}

/// The simulated faults and the checkers, by their files.
fn named_files() -> Result<Names, String> {
    let mut names = Names::default();
    for folder in SIMULATED {
        for path in files(&root().join(folder))? {
            if let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) {
                names.add(stem);
            }
        }
    }
    Ok(names)
}

/// The tests, by their functions.
fn named_tests() -> Result<Names, String> {
    let mut names = Names::default();
    for folder in REAL {
        for path in files(&root().join(folder))? {
            let text = read(&path)?;
            let mut is_test = false;
            for line in text.lines().map(str::trim) {
                if line.starts_with("#[") {
                    is_test |= line.starts_with("#[test]") || line.contains("::test");
                } else if let Some(rest) = line.split_once("fn ").map(|(_, rest)| rest) {
                    if let (true, Some((name, _))) = (is_test, rest.split_once('(')) {
                        names.add(name);
                    }
                    is_test = false;
                }
            }
        }
    }
    Ok(names)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|why| format!("{}: {why}", folder.display()))? {
        let path = entry.map_err(|why| format!("{}: {why}", folder.display()))?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> Names {
        let mut names = Names::default();
        all.iter().for_each(|name| names.add(name));
        names
    }

    #[test]
    fn a_name_tells_its_rows() {
        assert_eq!(rows_of("p54_a_read_is_sent_again"), ["P54"]);
        assert_eq!(rows_of("t13_t14_t15_cut"), ["T13", "T14", "T15"]);
        assert_eq!(rows_of("m62_to_m65_babble"), ["M62", "M63", "M64", "M65"]);
        assert_eq!(rows_of("h35b_400_session_lost"), ["H35B"]);
        assert_eq!(rows_of("i07_calm"), ["I7"]);
        assert_eq!(rows_of("h32_h2_goaway"), ["H32"]);
        assert!(rows_of("a_read_is_sent_again_p54").is_empty());
    }

    #[test]
    fn the_last_columns_are_made_from_the_names() {
        let proofs =
            Proofs { simulated: names(&["p54_kill9", "i07_calm"]), real: names(&["p54_a", "p54_b", "p54_c", "p54_d"]) };
        let page = "# x\n| Row | Fault | Where | S | R |\n|---|---|---|---|---|\n| P54 | killed | S R | old | |\n| I7 | **Calm** | S | | |\n";
        let made = made_anew(page, &proofs);
        assert!(made.contains("| P54 | killed | S R | `p54_kill9` | `p54_a`, `p54_b`, `p54_c` and 1 more |"), "{made}");
        assert!(made.contains("| I7 | **Calm** | S | `i07_calm` | – |"), "{made}");
        assert!(complaints(&made, &proofs).is_empty());
        assert_eq!(made_anew(&made, &proofs), made);
    }

    #[test]
    fn a_row_without_a_test_and_a_test_without_a_row_are_both_said() {
        let page = "| P54 | killed | S R | | |\n| P55 | loops | | | |\n";
        let proofs = Proofs { simulated: names(&["p54_kill9"]), real: names(&["t13_cut"]) };
        let said = complaints(page, &proofs);
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].contains("P54") && said[1].contains("P55") && said[2].contains("T13"));
    }
}
