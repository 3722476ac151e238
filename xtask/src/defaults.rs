//! `cargo xtask defaults`: generates `docs/defaults.md` from the source of the defaults.
//!
//! Each constant of `crates/mendline-core/src/defaults.rs` has its reason as documentation. If users can set it, the
//! last line `Set by …` names the key and the flag. Comments between the constants are headings. The check fails if the
//! page differs from the generated one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use crate::command::{root, write_option};

const HELP: &str = "\
Usage: cargo xtask defaults [--write]

  --write   regenerates docs/defaults.md
";

const SOURCE: &str = "crates/mendline-core/src/defaults.rs";
const PAGE: &str = "docs/defaults.md";

const HEAD: &str = "\
# Defaults

Every number that Mendline uses unless it is configured, each with its reason. Generated from
[the source of the defaults](../crates/mendline-core/src/defaults.rs) by `cargo xtask defaults --write`.
";

/// Generates the page, and writes it or compares it with the existing one.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let Some(write) = write_option(args, HELP)? else { return Ok(()) };
    let source = fs::read_to_string(root().join(SOURCE)).map_err(|why| format!("{SOURCE}: {why}"))?;
    let entries = read(&source)?;
    let made = page(&entries);
    let path = root().join(PAGE);
    if write {
        fs::write(&path, &made).map_err(|why| format!("{PAGE}: {why}"))?;
    } else if fs::read_to_string(&path).unwrap_or_default() != made {
        return Err(format!("{PAGE} is out of date; run `cargo xtask defaults --write`"));
    }
    println!("{} defaults", entries.len());
    Ok(())
}

/// One default.
#[derive(Debug, PartialEq)]
struct Entry {
    /// The heading above it.
    heading: String,
    name: String,
    value: String,
    why: String,
    set_by: String,
}

fn read(source: &str) -> Result<Vec<Entry>, String> {
    let mut entries = Vec::new();
    let mut known = BTreeMap::new();
    let (mut heading, mut reason) = (String::new(), Vec::new());
    for line in source.lines() {
        if let Some(text) = line.strip_prefix("/// ") {
            reason.push(text);
        } else if let Some(text) = line.strip_prefix("// ") {
            heading = text.trim_end_matches('.').to_owned();
        } else if let Some(constant) = line.strip_prefix("pub const ") {
            let (name, kind, value) = parts(constant).ok_or_else(|| format!("{SOURCE}: cannot read {line:?}"))?;
            let number = evaluate(value, &known).ok_or_else(|| format!("{SOURCE}: cannot evaluate {value:?}"))?;
            known.insert(name.to_owned(), number);
            let (why, set_by) = split(&reason);
            if why.is_empty() {
                return Err(format!("{SOURCE}: {name} has no reason"));
            }
            let value = shown(number, kind, value);
            entries.push(Entry { heading: heading.clone(), name: name.to_owned(), value, why, set_by });
            reason.clear();
        }
    }
    Ok(entries)
}

/// `NAME: Type = value;`
fn parts(constant: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = constant.split_once(": ")?;
    let (kind, value) = rest.strip_suffix(';')?.split_once(" = ")?;
    Some((name, kind, value))
}

/// Splits off the last line, which names the key and the flag.
fn split(lines: &[&str]) -> (String, String) {
    match lines.split_last() {
        Some((last, before)) if last.starts_with("Set by ") => {
            (before.join(" "), last.trim_start_matches("Set by ").trim_end_matches('.').to_owned())
        }
        _ => (lines.join(" "), String::new()),
    }
}

/// Evaluates an expression; durations in seconds.
fn evaluate(expression: &str, known: &BTreeMap<String, f64>) -> Option<f64> {
    let inside = |prefix: &str| expression.strip_prefix(prefix)?.strip_suffix(')');
    if let Some(seconds) = inside("Duration::from_secs(") {
        return evaluate(seconds, known);
    }
    if let Some(millis) = inside("Duration::from_millis(") {
        return Some(evaluate(millis, known)? / 1000.0);
    }
    for sign in ['+', '<', '*'] {
        let spaced = if sign == '<' { " << ".to_owned() } else { format!(" {sign} ") };
        if let Some((left, right)) = expression.split_once(&spaced) {
            let (left, right) = (evaluate(left, known)?, evaluate(right, known)?);
            return Some(match sign {
                '+' => left + right,
                '<' => left * right.exp2(),
                _ => left * right,
            });
        }
    }
    expression.replace('_', "").parse().ok().or_else(|| known.get(expression).copied())
}

fn shown(number: f64, kind: &str, written: &str) -> String {
    if kind == "Duration" {
        duration(number)
    } else if written.contains("<< 20") {
        format!("{} MiB", number / f64::from(1 << 20))
    } else {
        thousands(number)
    }
}

fn duration(seconds: f64) -> String {
    let (number, unit) = match seconds {
        _ if seconds >= 3600.0 && seconds % 3600.0 == 0.0 => (seconds / 3600.0, "h"),
        _ if seconds >= 120.0 && seconds % 60.0 == 0.0 => (seconds / 60.0, "min"),
        _ if seconds >= 1.0 => (seconds, "s"),
        _ => (seconds * 1000.0, "ms"),
    };
    format!("{} {unit}", thousands(number))
}

fn thousands(number: f64) -> String {
    let plain = number.to_string();
    if number.fract() != 0.0 {
        return plain;
    }
    let digits: Vec<char> = plain.chars().collect();
    let groups: Vec<String> = digits.rchunks(3).rev().map(|group| group.iter().collect()).collect();
    groups.join(",")
}

fn page(entries: &[Entry]) -> String {
    let mut page = HEAD.to_owned();
    let mut heading = None;
    for entry in entries {
        if heading != Some(&entry.heading) {
            heading = Some(&entry.heading);
            let _ = write!(page, "\n## {}\n| Name | Default | Why | Set by |\n|---|---|---|---|\n", entry.heading);
        }
        let why = entry.why.replace('|', "\\|");
        let _ = writeln!(page, "| `{}` | {} | {} | {} |", entry.name, entry.value, why, entry.set_by);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_becomes_a_row_with_reason_and_setting() {
        let source = "\
// Calls

/// What is silent for five minutes
/// is lost.
/// Set by `timeouts.call`, `--call-timeout`.
pub const CALL: Duration = Duration::from_secs(5 * 60);
/// A little.
pub const LITTLE: Duration = Duration::from_millis(1_500);
// Sizes.
/// All together.
pub const LEDGER: usize = 256 << 20;
/// Some.
pub const SOME: usize = 8;
/// More.
pub const MORE: usize = 7 + SOME;
/// Many.
pub const MANY: u32 = 2048;
/// Chance.
pub const CHANCE: f64 = 0.2;
";
        let rows: Vec<_> = read(source).unwrap();
        let shown: Vec<_> = rows.iter().map(|row| (row.heading.as_str(), row.value.as_str())).collect();
        let expected = [
            ("Calls", "5 min"),
            ("Calls", "1.5 s"),
            ("Sizes", "256 MiB"),
            ("Sizes", "8"),
            ("Sizes", "15"),
            ("Sizes", "2,048"),
            ("Sizes", "0.2"),
        ];
        assert_eq!(shown, expected);
        assert_eq!(
            (rows[0].why.as_str(), rows[0].set_by.as_str()),
            ("What is silent for five minutes is lost.", "`timeouts.call`, `--call-timeout`")
        );
    }

    #[test]
    fn constant_without_reason_or_value_is_refused() {
        assert!(read("pub const BARE: u32 = 1;\n").unwrap_err().contains("BARE has no reason"));
        assert!(read("/// Why.\npub const ODD: u32 = roll();\n").unwrap_err().contains("roll()"));
    }

    #[test]
    fn every_default_of_the_core_is_read() {
        let source = fs::read_to_string(root().join(SOURCE)).unwrap();
        assert_eq!(read(&source).unwrap().len(), source.matches("pub const ").count());
    }
}
