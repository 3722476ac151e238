//! `cargo xtask test`: everything that must pass before a change lands, the fastest checks first.
//!
//! All cargo calls use the whole workspace, one profile and one set of features, so that nothing is compiled twice. The
//! first failure ends the run and prints the command that repeats the step.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::command::CommandLine;
use crate::{
    conformance, defaults, deny, dist, instructions, links, logins, matrix, outages, peers, recipes, sim, tools, words,
    zoo,
};

const HELP: &str = "\
Usage: cargo xtask test [--fast] [--keep-going]

  --fast         skips the tests with the official SDKs, which must be installed once
  --keep-going   runs every step even after a failure
";

/// The number of simulated worlds.
const SEEDS: &str = "10000";

/// Runs the steps.
pub fn run(args: &[String]) -> Result<(), String> {
    let mut fast = false;
    let mut keep_going = false;
    for arg in args {
        match arg.as_str() {
            "--fast" => fast = true,
            "--keep-going" => keep_going = true,
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(());
            }
            other => return Err(format!("unknown option `{other}`\n{HELP}")),
        }
    }
    let summary = run_steps(steps(fast), keep_going);
    println!("\n{}", summary.table());
    summary.verdict()
}

fn steps(fast: bool) -> Vec<Step> {
    let (unit, unit_command) = unit_tests();
    let mut steps = vec![
        Step::cargo("format", CommandLine::cargo(&["fmt", "--all", "--", "--check"])),
        Step::task("words", "cargo xtask words", || words::run(&[])),
        Step::task("links", "cargo xtask links", || links::run(&[])),
        Step::task("matrix", "cargo xtask matrix", || matrix::run(&[])),
        Step::task("licences and sources", "cargo xtask deny", || deny::run(&[])),
        Step::task("defaults", "cargo xtask defaults", || defaults::run(&[])),
        Step::cargo("clippy", CommandLine::cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])),
        Step::cargo(
            "docs",
            CommandLine::cargo(&["doc", "--no-deps", "--workspace"]).env("RUSTDOCFLAGS", "-D warnings"),
        ),
        Step::task("shells", "cargo xtask test --fast", || {
            install_shells();
            Ok(())
        }),
        Step::cargo(unit, unit_command),
        Step::cargo("doc tests", CommandLine::cargo(&["test", "--doc", "--workspace", "--quiet"])),
        Step::task("simulation", &format!("cargo xtask sim --seeds {SEEDS}"), || {
            sim::run(&["--seeds".into(), SEEDS.into()])
        }),
        Step::task("instructions", "cargo xtask instructions", || instructions::run(&[])),
    ];
    steps.push(Step::task("outages", "cargo xtask outages --sample", || outages::run_with(outages::SAMPLE)));
    if !fast {
        let with_balancers = || outages::run_with(outages::WITH_BALANCERS);
        steps.push(Step::task("balancers", "cargo xtask outages --balancers", with_balancers));
        steps.push(Step::task("peers", "cargo xtask peers", || peers::run(&[])));
        steps.push(Step::task("logins", "cargo xtask logins", || logins::run(&[])));
        steps.push(Step::task("conformance", "cargo xtask conformance", || conformance::run(&[])));
        steps.push(Step::task("recipes", "cargo xtask recipes", || recipes::run(&[])));
        steps.push(Step::task("packages", "cargo xtask dist --test", || dist::run(&["--test".into()])));
        steps.push(Step::task("zoo", "cargo xtask zoo --sample", || zoo::run(&["--sample".into()])));
    }
    steps
}

/// Tests that need a missing shell are skipped with a message.
fn install_shells() {
    for shell in &tools::SHELLS {
        if let Err(why) = shell.ensure() {
            eprintln!("{why}; tests that need it are skipped");
        }
    }
}

/// The seed of property tests, so that the result of a commit is reproducible. Plain `cargo test` uses random seeds,
/// and more cases with `PROPTEST_CASES=100000`.
const PROPERTY_SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "2026");

/// Unit tests, property tests and scenarios of all packages but the peers, which need an installation first.
fn unit_tests() -> (&'static str, CommandLine) {
    if tools::has_nextest() {
        let all = CommandLine::cargo(&["nextest", "run", "--workspace", "-E", "not package(mendline-peers)"]);
        ("nextest", all.env(PROPERTY_SEED.0, PROPERTY_SEED.1))
    } else {
        // Doc tests are a separate step.
        let all = ["test", "--workspace", "--exclude", "mendline-peers", "--lib", "--bins", "--tests"];
        ("cargo test", CommandLine::cargo(&all).env(PROPERTY_SEED.0, PROPERTY_SEED.1))
    }
}

/// A step of the run.
struct Step {
    name: &'static str,
    /// The command that repeats the step.
    repeat: String,
    work: Box<dyn FnOnce() -> Result<(), String>>,
}

impl Step {
    fn cargo(name: &'static str, line: CommandLine) -> Self {
        Self { name, repeat: line.text().to_owned(), work: Box::new(|| line.run()) }
    }

    fn task(name: &'static str, repeat: &str, work: impl FnOnce() -> Result<(), String> + 'static) -> Self {
        Self { name, repeat: repeat.to_owned(), work: Box::new(work) }
    }
}

/// The result of a step.
struct Done {
    name: &'static str,
    took: Duration,
    /// The command that repeats the step, if it failed.
    failed: Option<String>,
}

impl Done {
    fn line(&self) -> String {
        let status = if self.failed.is_some() { "FAILED" } else { "ok" };
        format!("{:<22}{:>8.1} s  {status}", self.name, self.took.as_secs_f64())
    }
}

struct Summary {
    done: Vec<Done>,
    skipped: Vec<&'static str>,
}

fn run_steps(steps: Vec<Step>, keep_going: bool) -> Summary {
    let mut summary = Summary { done: Vec::new(), skipped: Vec::new() };
    for step in steps {
        if !keep_going && summary.done.iter().any(|done| done.failed.is_some()) {
            summary.skipped.push(step.name);
            continue;
        }
        println!("── {}", step.name);
        let began = Instant::now();
        let outcome = (step.work)();
        let failed = outcome.err().map(|why| {
            eprintln!("{why}");
            step.repeat
        });
        let done = Done { name: step.name, took: began.elapsed(), failed };
        println!("── {}", done.line());
        summary.done.push(done);
    }
    summary
}

impl Summary {
    fn table(&self) -> String {
        let mut table = String::new();
        for done in &self.done {
            let _ = writeln!(table, "   {}", done.line());
        }
        for name in &self.skipped {
            let _ = writeln!(table, "   {name:<22}{:>10}  not run", "");
        }
        let all: Duration = self.done.iter().map(|done| done.took).sum();
        let _ = write!(table, "   {:<22}{:>8.1} s", "total", all.as_secs_f64());
        table
    }

    fn verdict(&self) -> Result<(), String> {
        let failed: Vec<_> = self.done.iter().filter_map(|done| Some((done.name, done.failed.as_ref()?))).collect();
        if failed.is_empty() {
            return Ok(());
        }
        let again: Vec<_> =
            failed.iter().map(|(name, repeat)| format!("{name} failed; repeat with: {repeat}")).collect();
        Err(again.join("\n       "))
    }
}

#[cfg(test)]
mod tests {
    use super::{Step, run_steps};

    fn three_steps() -> Vec<Step> {
        vec![
            Step::task("good", "do good", || Ok(())),
            Step::task("bad", "do bad", || Err("broken".into())),
            Step::task("late", "do late", || Ok(())),
        ]
    }

    #[test]
    fn first_failure_ends_the_run_with_its_command() {
        let summary = run_steps(three_steps(), false);
        assert_eq!(summary.skipped, ["late"]);
        assert_eq!(summary.verdict(), Err("bad failed; repeat with: do bad".into()));
        assert!(summary.table().contains("late") && summary.table().contains("not run"), "{}", summary.table());
    }

    #[test]
    fn keep_going_runs_all_steps_and_still_fails() {
        let summary = run_steps(three_steps(), true);
        assert_eq!(summary.done.len(), 3);
        assert!(summary.skipped.is_empty());
        assert!(summary.verdict().is_err());
    }
}
