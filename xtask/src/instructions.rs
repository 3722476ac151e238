//! `cargo xtask instructions`: counts the instructions of one healthy call in the core with callgrind.
//!
//! Times on a shared machine are noisy, and a cost that grows slowly over many changes is not noticed. Instruction
//! counts do not depend on the load of the machine, so they can be a gate: within 3 % of
//! `bench/instructions/recorded.txt`, below a fixed limit, no growth over ten thousand calls, and no growth with two
//! hundred open calls. The counted program is in `bench/instructions`, built as for a release and with every policy
//! enabled. Two runs with different numbers of calls differ by these calls only, so the setup cancels out.
//!
//! A lower count than recorded is an error, too, because an outdated record would hide the next regression.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{CommandLine, root, target, write_option};
use crate::tools::VALGRIND;

const HELP: &str = "\
Counts the instructions of a healthy call in the core, without I/O and with every policy enabled, and compares them
with the recorded counts.

Usage: cargo xtask instructions [--write]

  --write   records the counts in bench/instructions/recorded.txt
";

/// The counted variants of a call.
const VARIANTS: [&str; 3] = ["stdio", "crowded", "http"];

/// The fixed limit per call.
const LIMIT: u64 = 15_000;

/// The tolerance around the recorded count in percent.
const TOLERANCE: u64 = 3;

/// The tolerance for growth between the first and the last thousand of ten thousand calls in percent. Numbers grow by a
/// digit or two; data that accumulates costs much more.
const GROWTH: u64 = 3;

const THOUSAND: u64 = 1_000;

/// Counts and checks the gate.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let Some(write) = write_option(args, HELP)? else { return Ok(()) };
    VALGRIND.ensure()?;
    CommandLine::cargo(&["build", "--quiet", "--release", "--package", "mendline-instructions"]).run()?;
    let program = target().join("release/mendline-instructions");
    let counted = VARIANTS
        .iter()
        .map(|variant| Ok((*variant, Figure::count(|calls| instructions(&program, variant, calls))?)))
        .collect::<Result<Vec<_>, String>>()?;
    if write {
        let text = record(&counted);
        std::fs::write(recorded(), &text).map_err(|why| format!("{}: {why}", recorded().display()))?;
    }
    let recorded = std::fs::read_to_string(recorded()).map_err(|why| format!("{}: {why}", recorded().display()))?;
    let recorded = read(&recorded)?;
    let mut errors = Vec::new();
    println!("   variant  first 1,000    last 1,000      recorded   (instructions per call)");
    for (variant, figure) in &counted {
        let known = recorded.get(*variant).copied();
        let shown = known.map_or_else(|| "-".to_owned(), |known| known.to_string());
        println!("   {variant:<8}{:>12}{:>14}{shown:>14}", figure.first, figure.last);
        errors.extend(figure.errors(known).into_iter().map(|error| format!("{variant}: {error}")));
    }
    if errors.is_empty() { Ok(()) } else { Err(errors.join("\n       ")) }
}

/// The average cost of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Figure {
    /// The average of the first thousand calls.
    first: u64,
    /// The average of the last thousand of ten thousand calls.
    last: u64,
}

impl Figure {
    /// Computes the figure with a function that counts a run of so many calls.
    fn count(mut run: impl FnMut(u64) -> Result<u64, String>) -> Result<Figure, String> {
        let first = run(THOUSAND)?.saturating_sub(run(0)?);
        let last = run(10 * THOUSAND)?.saturating_sub(run(9 * THOUSAND)?);
        Ok(Figure { first: first / THOUSAND, last: last / THOUSAND })
    }

    /// Returns all violations of the gate.
    fn errors(self, recorded: Option<u64>) -> Vec<String> {
        let mut errors = Vec::new();
        let Figure { first, last } = self;
        if last == 0 {
            errors.push("nothing was counted".to_owned());
        }
        if last > LIMIT {
            errors.push(format!("{last} instructions per call are more than the limit of {LIMIT}"));
        }
        if last * 100 > first * (100 + GROWTH) {
            errors.push(format!(
                "a call costs {first} instructions at first and {last} after ten thousand calls: the cost grows"
            ));
        }
        let again = "`cargo xtask instructions --write` records it";
        match recorded {
            None => errors.push(format!("nothing is recorded; {again}")),
            Some(known) if last * 100 > known * (100 + TOLERANCE) => {
                errors.push(format!(
                    "{last} instructions per call, but {known} are recorded; if the increase is justified, {again}"
                ));
            }
            Some(known) if last * 100 < known * (100 - TOLERANCE) => {
                errors.push(format!("{last} instructions per call are fewer than the {known} recorded; {again}"));
            }
            Some(_) => {}
        }
        errors
    }
}

/// Counts one run.
fn instructions(program: &Path, variant: &str, calls: u64) -> Result<u64, String> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([variant, &calls.to_string()])
        .output()
        .map_err(|why| format!("valgrind: {why}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{variant} with {calls} calls failed under valgrind:\n{stderr}"));
    }
    collected(&stderr).ok_or_else(|| format!("valgrind printed no count:\n{stderr}"))
}

/// Parses the sum in the output of callgrind: `==42== Collected : 61234`.
fn collected(stderr: &str) -> Option<u64> {
    let (_, behind) = stderr.lines().find_map(|line| line.split_once("Collected :"))?;
    behind.trim().parse().ok()
}

fn recorded() -> PathBuf {
    root().join("bench/instructions/recorded.txt")
}

fn record(counted: &[(&str, Figure)]) -> String {
    let mut text = "\
# Instructions per healthy call through the core, written by `cargo xtask instructions --write`.
"
    .to_owned();
    for (variant, figure) in counted {
        let _ = writeln!(text, "{variant} {}", figure.last);
    }
    text
}

fn read(text: &str) -> Result<BTreeMap<String, u64>, String> {
    let figures = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    figures
        .map(|line| {
            let figure =
                line.split_once(' ').and_then(|(variant, figure)| Some((variant.to_owned(), figure.parse().ok()?)));
            figure.ok_or_else(|| format!("not a recorded figure: {line:?}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setup_cost_is_not_part_of_a_call() {
        let counted = Figure::count(|calls| Ok(1_000_000 + calls * 500)).unwrap();
        assert_eq!(counted, Figure { first: 500, last: 500 });
    }

    #[test]
    fn gate_passes_within_three_percent_of_the_record() {
        let errors = |last| Figure { first: last, last }.errors(Some(10_000));
        assert!(errors(9_700).is_empty() && errors(10_000).is_empty() && errors(10_300).is_empty());
        assert!(errors(10_301)[0].contains("10000 are recorded"));
        assert!(errors(9_699)[0].contains("fewer"));
    }

    #[test]
    fn limit_applies_to_any_record() {
        assert!(Figure { first: 15_000, last: 15_000 }.errors(Some(15_000)).is_empty());
        assert!(Figure { first: 15_001, last: 15_001 }.errors(Some(15_001))[0].contains("limit"));
    }

    #[test]
    fn cost_that_grows_with_calls_is_an_error() {
        assert!(Figure { first: 10_000, last: 10_300 }.errors(Some(10_000)).is_empty());
        assert!(Figure { first: 10_000, last: 10_301 }.errors(Some(10_000))[0].contains("grows"));
        let squared = Figure::count(|calls| Ok(calls * 5_000 + calls * calls / 20)).unwrap();
        assert!(squared.errors(Some(squared.last))[0].contains("grows"), "{squared:?}");
    }

    #[test]
    fn run_without_counts_fails() {
        assert!(!Figure { first: 0, last: 0 }.errors(Some(0)).is_empty());
        assert!(!Figure { first: 10, last: 10 }.errors(None).is_empty());
    }

    #[test]
    fn record_is_read_back_and_errors_are_named() {
        let counted = [("stdio", Figure { first: 1, last: 2 }), ("http", Figure { first: 3, last: 4 })];
        let recorded = read(&record(&counted)).unwrap();
        assert_eq!((recorded["stdio"], recorded["http"]), (2, 4));
        assert!(read("stdio many").unwrap_err().contains("many"));
    }

    #[test]
    fn sum_is_parsed_from_callgrind_output() {
        let stderr = "==7== Events    : Ir\n==7== Collected : 123509816\n==7== \n==7== I   refs:      123,509,816\n";
        assert_eq!(collected(stderr), Some(123_509_816));
        assert_eq!(collected("==7== nothing"), None);
    }
}
