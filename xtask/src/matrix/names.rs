//! Names of tests and their rows: `p54_…`, `t13_t14_…`, `m62_to_m65_…`, `r15_…`.
//!
//! Both pages use this form. Rows of `PROMISE.md` and of `docs/regressions.md` share some letters (T11 is a fault, T01
//! a regression) but never a number, so that the row identifies the page.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The largest number of names in a cell; the rest is counted.
const NAMES: usize = 3;

/// The largest number of digits of a row; a longer number is part of a word (`x25519_…`).
const DIGITS: usize = 3;

/// Names of tests by row.
#[derive(Default)]
pub struct Names(pub BTreeMap<String, Vec<String>>);

impl Names {
    /// Adds a name under each of its rows.
    pub fn add(&mut self, name: &str) {
        for row in rows_of(name) {
            self.0.entry(row).or_default().push(name.to_owned());
        }
    }

    /// Returns the names of a row.
    pub fn of(&self, row: &str) -> &[String] {
        self.0.get(&canonical(row)).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of distinct names.
    pub fn total(&self) -> usize {
        let mut names: Vec<&String> = self.0.values().flatten().collect();
        names.sort_unstable();
        names.dedup();
        names.len()
    }
}

#[cfg(test)]
impl Names {
    /// A collection of these names.
    pub fn of_all(all: &[&str]) -> Self {
        let mut names = Self::default();
        all.iter().for_each(|name| names.add(name));
        names
    }
}

/// Returns the rows of a name in order.
pub fn rows_of(name: &str) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    let mut words = name.split('_').peekable();
    while let Some(word) = words.next() {
        let range = word == "to" && words.peek().is_some_and(|next| is_row(next));
        match (is_row(word), rows.last().cloned()) {
            (true, _) => rows.push(canonical(word)),
            (false, Some(first)) if range => {
                let last = canonical(words.next().unwrap_or_default());
                rows.extend(between(&first, &last));
            }
            _ => return rows,
        }
    }
    rows
}

/// Returns whether a word is a row: `p54`, `h35b`, `i7`, `r15`. Rows have two digits, so `h2` is not a row; only
/// invariants have one.
pub fn is_row(word: &str) -> bool {
    let mut letters = word.chars();
    let family = letters.next().unwrap_or(' ');
    let number = letters.as_str().trim_end_matches('b');
    let least = if family == 'i' { 1 } else { 2 };
    let is_number = (least..=DIGITS).contains(&number.len()) && number.chars().all(|digit| digit.is_ascii_digit());
    family.is_ascii_lowercase() && is_number
}

/// Returns the canonical form of a row: `i07` and `I7` are the same, and so are `r01` and `R01`.
pub fn canonical(row: &str) -> String {
    let (family, number) = row.split_at(row.len().min(1));
    format!("{}{}", family.to_uppercase(), number.trim_start_matches('0').to_uppercase())
}

fn between(first: &str, last: &str) -> Vec<String> {
    let number = |row: &str| row[1..].parse::<u32>().unwrap_or_default();
    (number(first) + 1..=number(last)).map(|number| format!("{}{number}", &last[..1])).collect()
}

/// Formats a table cell with the first of these names.
pub fn cell<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let mut names: Vec<&String> = names.into_iter().collect();
    names.sort_unstable();
    names.dedup();
    let mut text = names.iter().take(NAMES).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.len() > NAMES {
        let _ = write!(text, " and {} more", names.len() - NAMES);
    }
    if text.is_empty() { "–".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_parsed_from_a_name() {
        assert_eq!(rows_of("p54_a_read_is_sent_again"), ["P54"]);
        assert_eq!(rows_of("t13_t14_t15_cut"), ["T13", "T14", "T15"]);
        assert_eq!(rows_of("m62_to_m65_babble"), ["M62", "M63", "M64", "M65"]);
        assert_eq!(rows_of("h35b_400_session_lost"), ["H35B"]);
        assert_eq!(rows_of("i07_calm"), ["I7"]);
        assert_eq!(rows_of("h32_h2_goaway"), ["H32"]);
        assert!(rows_of("a_read_is_sent_again_p54").is_empty());
    }

    #[test]
    fn rows_of_both_pages_differ_by_number() {
        assert_eq!(rows_of("t01_status_proves_no_run"), ["T1"]);
        assert_eq!(rows_of("t10_warnings_reach_the_client"), ["T10"]);
        assert_eq!(rows_of("t11_reset_before_the_write"), ["T11"]);
        assert_eq!(rows_of("s10_to_s11_both"), ["S10", "S11"]);
        assert_eq!(rows_of("r09_to_r11_one_digit_and_two"), ["R9", "R10", "R11"]);
        assert_eq!(rows_of("h34_r15_rows_of_two_pages"), ["H34", "R15"]);
    }

    #[test]
    fn similar_words_are_not_rows() {
        assert!(rows_of("h2_is_a_protocol").is_empty());
        assert!(rows_of("v6_is_an_address").is_empty());
        assert!(rows_of("x25519_is_a_curve").is_empty());
        assert!(rows_of("r1_is_not_padded").is_empty());
    }
}
