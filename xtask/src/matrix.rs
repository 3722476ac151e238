//! `cargo xtask matrix`: checks the tables of PROMISE.md and docs/regressions.md against the tests.
//!
//! A test belongs to a row if its name begins with the row (`p54_…`, `t13_t14_…`, `m62_to_m65_…`, `r15_…`). The same
//! holds for the file names of simulated faults, checkers and scenarios. The columns with tests are generated from
//! these names. Errors are: a row without the tests that it claims, a test whose row is on neither page, a row on both
//! pages, and a page that is out of date.

mod names;
mod promise;
mod regressions;
mod sources;

use std::fs;

use self::sources::{Sources, read};
use crate::command::{root, write_option};

const HELP: &str = "\
Usage: cargo xtask matrix [--write]

  --write   regenerates the columns with tests in PROMISE.md and docs/regressions.md
";

const PROMISE: &str = "PROMISE.md";
const REGRESSIONS: &str = "docs/regressions.md";

pub fn run(args: &[String]) -> Result<(), String> {
    let Some(write) = write_option(args, HELP)? else { return Ok(()) };
    let sources = Sources::read()?;
    let (promise, regressions) = (read(&root().join(PROMISE))?, read(&root().join(REGRESSIONS))?);
    let pages = [
        (PROMISE, promise::regenerated(&promise, &sources), promise),
        (REGRESSIONS, regressions::regenerated(&regressions, &sources), regressions),
    ];
    // The pages are written first, because the columns are correct even if a row has no test yet.
    if write {
        for (name, made, page) in &pages {
            if made != page {
                fs::write(root().join(name), made).map_err(|why| format!("{name}: {why}"))?;
            }
        }
    }
    let [(_, promise, _), (_, regressions, _)] = &pages;
    let errors_found = errors(promise, regressions, &sources);
    if !errors_found.is_empty() {
        return Err(format!("the pages and the tests disagree:\n{}", errors_found.join("\n")));
    }
    if let (false, Some((name, ..))) = (write, pages.iter().find(|(_, made, page)| made != page)) {
        return Err(format!("{name} is out of date; run `cargo xtask matrix --write`"));
    }
    let rows = promise::rows(promise).len() + regressions::rows(regressions).len();
    let tests: Vec<String> =
        sources.levels().iter().map(|(level, names)| format!("{level} {}", names.total())).collect();
    println!("{rows} rows; tests named after one: {}", tests.join(", "));
    Ok(())
}

fn errors(promise: &str, regressions: &str, sources: &Sources) -> Vec<String> {
    let mut errors = promise::errors(promise, sources);
    errors.extend(regressions::errors(regressions, sources));
    let (promised, regressed) = (promise::rows(promise), regressions::rows(regressions));
    for row in promised.iter().filter(|row| regressed.contains(row)) {
        errors.push(format!("  {row}: it is a row of {PROMISE} and of {REGRESSIONS}"));
    }
    for (row, names) in sources.levels().iter().flat_map(|(_, names)| &names.0) {
        if !promised.contains(row) && !regressed.contains(row) {
            let names = names.join(", ");
            errors.push(format!("  {names}: {row} is a row of neither {PROMISE} nor {REGRESSIONS}"));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::names::Names;
    use super::*;

    const PROMISED: &str = "| T11 | cut | R | – | `t11_cut` |\n";
    const REGRESSED: &str = "| T01 | 0.1.0 failed. | It works. | crate | `t01_text` | fixed in 0.1.1 |\n";

    fn sources() -> Sources {
        Sources { crates: Names::of_all(&["t01_text"]), real: Names::of_all(&["t11_cut"]), ..Sources::default() }
    }

    #[test]
    fn pages_may_share_a_letter() {
        assert_eq!(promise::regenerated(PROMISED, &sources()), PROMISED);
        assert_eq!(regressions::regenerated(REGRESSED, &sources()), REGRESSED);
        assert!(errors(PROMISED, REGRESSED, &sources()).is_empty());
    }

    #[test]
    fn test_without_a_row_is_an_error_at_every_level() {
        let stray = || Names::of_all(&["t02_stray"]);
        for level in 0..4 {
            let mut sources = sources();
            let names = [&mut sources.unit, &mut sources.crates, &mut sources.simulated, &mut sources.real]
                .into_iter()
                .nth(level);
            names.unwrap().0.extend(stray().0);
            let found = errors(PROMISED, REGRESSED, &sources);
            assert_eq!(found, ["  t02_stray: T2 is a row of neither PROMISE.md nor docs/regressions.md"]);
        }
    }

    #[test]
    fn row_on_both_pages_is_an_error() {
        let both = PROMISED.replace("T11", "T01");
        let found = errors(&both, REGRESSED, &sources());
        assert!(found.iter().any(|line| line.contains("T1: it is a row of PROMISE.md and of")), "{found:?}");
    }
}
