//! `cargo xtask recipes`: compares the pages of recipes with their programs, installs the packages that the programs
//! use, and runs every program against a server that is killed.

mod pages;

use std::path::PathBuf;
use std::time::Instant;

use crate::command::{CommandLine, root, target};
use crate::installation;
use crate::tools::{self, NODE, NPM, PYTHON};

const HELP: &str = "\
Usage: cargo xtask recipes [--only NAME] [--install] [--write]

  --only NAME   runs only the tests whose name contains NAME, e.g. langchain or server
  --install     installs what is missing and stops
  --write       copies the programs of tests/recipes into the pages of docs/recipes and stops
";

/// The test binary of this step. `cargo xtask peers` leaves it out.
pub(crate) const BINARY: &str = "binary(recipes)";

/// The lock files of Python packages, by the major version of the SDK that they need.
const PYTHON_LOCKS: [&str; 2] = ["requirements-1.txt", "requirements-2.txt"];

/// Checks the pages, installs the packages and runs the programs.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let mut only = None;
    let mut install_only = false;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--only" => only = Some(args.next().ok_or("--only needs a name")?.as_str()),
            "--install" => install_only = true,
            "--write" => return pages::check(true),
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(());
            }
            other => return Err(format!("unknown option `{other}`\n{HELP}")),
        }
    }
    pages::check(false)?;
    let begun = Instant::now();
    install()?;
    eprintln!("the packages of the recipes are installed ({:.1} s)", begun.elapsed().as_secs_f64());
    if install_only { Ok(()) } else { test(only) }
}

/// Installs the packages, those of the two languages at the same time: one waits for the network, the other unpacks.
fn install() -> Result<(), String> {
    PYTHON.ensure()?;
    NODE.ensure()?;
    NPM.ensure()?;
    std::thread::scope(|scope| {
        let node = scope.spawn(node);
        let python = PYTHON_LOCKS.into_iter().try_for_each(python);
        let node = node.join().unwrap_or_else(|_| Err("the installation of Node packages panicked".into()));
        python.and(node)
    })
}

fn python(lock: &str) -> Result<(), String> {
    let folder = home().join(lock.replace("requirements", "python").replace(".txt", ""));
    let lock = source().join("python").join(lock);
    installation::ensure(&folder, std::slice::from_ref(&lock), || installation::pip(&lock, &folder))
}

fn node() -> Result<(), String> {
    let (ours, folder) = (source().join("node"), home().join("node"));
    installation::ensure(&folder, &[ours.join("package-lock.json")], || installation::npm(&ours, &folder))
}

/// Builds the whole workspace, as `cargo xtask peers` does, and runs the tests.
fn test(only: Option<&str>) -> Result<(), String> {
    CommandLine::cargo(&["build", "--workspace", "--bins"]).run()?;
    let home = home();
    let home = home.to_string_lossy();
    if tools::has_nextest() {
        let chosen = only.map(|name| format!(" and test({name})")).unwrap_or_default();
        let chosen = format!("package(mendline-peers) and {BINARY}{chosen}");
        let line = CommandLine::cargo(&["nextest", "run", "--workspace", "-E", &chosen]);
        return line.env("MENDLINE_RECIPES", &home).run();
    }
    let mut test = vec!["test", "--package", "mendline-peers", "--test", "recipes"];
    test.extend(only);
    CommandLine::cargo(&test).env("MENDLINE_RECIPES", &home).run()
}

fn source() -> PathBuf {
    root().join("tests/recipes")
}

fn home() -> PathBuf {
    target().join("recipes")
}

#[cfg(test)]
mod tests {
    use super::{PYTHON_LOCKS, run, source};

    #[test]
    fn unknown_option_is_refused_before_the_installation() {
        assert!(run(&["--just".into()]).is_err());
        assert!(run(&["--only".into()]).is_err());
    }

    #[test]
    fn every_installation_has_a_lock_file() {
        let python = PYTHON_LOCKS.map(|lock| source().join("python").join(lock));
        assert!(python.iter().all(|lock| lock.exists()), "{python:?}");
        assert!(source().join("node/package-lock.json").exists());
    }
}
