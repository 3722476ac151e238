//! `cargo xtask mutants`: checks that tests detect changes in the core.
//!
//! cargo-mutants changes one thing in the code (a comparison, a whole function) and runs the tests of the core. A
//! surviving mutant is behaviour without a test. All mutants take hours, so a run uses one of twelve shards. Mutants
//! are assigned to shards round-robin, so that every shard covers every file and stays the same until the code changes.
//!
//! `survivors.txt` next to the manifest lists the mutants that may survive, with reasons. Its names have no line
//! numbers, because these change with every edit.

use std::fs;
use std::path::Path;

use crate::command::{CommandLine, root, target};
use crate::tools;

const HELP: &str = "\
Usage: cargo xtask mutants [--shard K/N]

  --shard K/N   the part of the mutants, K from 0 [default: 0/12, about 340]

Needs cargo-mutants, which it does not install: cargo install --locked cargo-mutants
";

/// The code that must not change undetected.
const FILES: [&str; 11] = [
    "crates/mendline-core/src/client/**",
    "crates/mendline-core/src/dial_pace.rs",
    "crates/mendline-core/src/dispatch.rs",
    "crates/mendline-core/src/engine.rs",
    "crates/mendline-core/src/engine/**",
    "crates/mendline-core/src/request.rs",
    "crates/mendline-core/src/sharing.rs",
    "crates/mendline-core/src/upstream_table.rs",
    "crates/mendline-core/src/upstream/**",
    "crates/mendline-core/src/evidence.rs",
    "crates/mendline-core/src/policy/**",
];

/// The percentage of mutants that must be caught.
const ENOUGH: usize = 95;

/// The exit codes of a completed run of cargo-mutants: all caught, some missed, some timed out.
const FINISHED: [i32; 3] = [0, 2, 3];

/// Runs one shard and checks the result.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let shard = match args {
        [] => "0/12",
        [option, shard] if option == "--shard" => shard,
        [only] if only == "--help" || only == "-h" => {
            print!("{HELP}");
            return Ok(());
        }
        _ => return Err(format!("unknown options\n{HELP}")),
    };
    if !is_shard(shard) {
        return Err(format!("--shard is K/N with K below N, not {shard:?}"));
    }
    if !tools::has_mutants() {
        return Err("cargo-mutants is required; install it with: cargo install --locked cargo-mutants".into());
    }
    let folder = target().join("mutants");
    let results = folder.join("mutants.out");
    fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    // Results of an earlier run must not be counted.
    let _ = fs::remove_dir_all(&results);
    let folder = folder.display().to_string();
    let mut line = vec!["mutants", "--package", "mendline-core", "--output", &folder];
    for file in FILES {
        line.extend(["--file", file]);
    }
    line.extend(["--sharding", "round-robin", "--shard", shard, "--jobs", "1", "--timeout", "30"]);
    line.extend(["--", "--lib", "--tests"]);
    // A separate target directory, so that mutated sources do not affect ordinary builds.
    let code = CommandLine::cargo(&line).env("CARGO_TARGET_DIR", &folder).code()?;
    if !FINISHED.contains(&code) {
        return Err(format!("cargo mutants failed with exit code {code}"));
    }
    judge(&results)
}

fn is_shard(text: &str) -> bool {
    let number = |text: &str| text.parse::<u32>().ok();
    text.split_once('/').and_then(|(k, n)| Some(number(k)? < number(n)?)) == Some(true)
}

/// Prints the survivors with their reasons and checks the percentage of caught mutants.
fn judge(results: &Path) -> Result<(), String> {
    let read = |name: &str| {
        let path = results.join(name);
        fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))
    };
    // A timeout counts as caught.
    let caught = read("caught.txt")?.lines().count() + read("timeout.txt")?.lines().count();
    let missed = read("missed.txt")?;
    let survivors = root().join("xtask/survivors.txt");
    let known = fs::read_to_string(&survivors).map_err(|why| format!("{}: {why}", survivors.display()))?;
    for mutant in missed.lines() {
        println!("{mutant}\n    {}", reason(&known, mutant).unwrap_or("not in xtask/survivors.txt: a test is missing"));
    }
    let all = caught + missed.lines().count();
    println!("{caught} of {all} caught");
    if caught * 100 < all * ENOUGH {
        return Err(format!("less than {ENOUGH} % are caught"));
    }
    Ok(())
}

/// Returns the reason why a mutant may survive: the indented line below its name.
fn reason<'a>(known: &'a str, mutant: &str) -> Option<&'a str> {
    let name = without_position(mutant);
    known.lines().skip_while(|line| *line != name).nth(1).map(str::trim)
}

/// Removes line and column from `file:line:column: what`.
fn without_position(mutant: &str) -> String {
    let mut parts = mutant.splitn(4, ':');
    match (parts.next(), parts.nth(2)) {
        (Some(file), Some(what)) => format!("{file}:{what}"),
        _ => mutant.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{FILES, is_shard, reason, root, run};

    #[test]
    fn every_file_of_the_list_exists() {
        for file in FILES {
            let path = root().join(file.trim_end_matches("/**"));
            assert!(path.exists(), "{file}");
        }
    }

    #[test]
    fn invalid_shard_is_refused_before_the_build() {
        let args = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
        for shard in ["12/12", "0/0", "1", "a/b", "-1/3"] {
            assert!(run(&args(&["--shard", shard])).unwrap_err().contains("K below N"), "{shard}");
        }
        assert!(is_shard("11/12"));
        assert!(run(&args(&["--all", "yes"])).is_err());
    }

    #[test]
    fn reason_is_found_for_any_line_of_the_mutant() {
        let known = "# prose\n\na.rs: replace A::b -> u8 with 1\n    only for the log\n";
        assert_eq!(reason(known, "a.rs:7:9: replace A::b -> u8 with 1"), Some("only for the log"));
        assert_eq!(reason(known, "a.rs:7:9: replace A::b -> u8 with 0"), None);
    }
}
