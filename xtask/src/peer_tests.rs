//! The tests of the package `mendline-peers`, and the installations of other programs that they use.
//!
//! `cargo xtask peers` and `cargo xtask logins` each install some of them and run some of the tests.

use std::fs;
use std::path::PathBuf;

use crate::command::{CommandLine, root, target};
use crate::{installation, tools};

/// The options of a command that installs peers and runs their tests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Only tests whose name contains this text are run.
    pub only: Option<String>,
    /// Nothing is run.
    pub install_only: bool,
}

impl Options {
    /// Reads the options. Returns nothing once the help is printed.
    pub(crate) fn parse(args: &[String], help: &str) -> Result<Option<Options>, String> {
        let mut options = Options::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--only" => options.only = Some(args.next().ok_or("--only needs a name")?.clone()),
                "--install" => options.install_only = true,
                "--help" | "-h" => {
                    print!("{help}");
                    return Ok(None);
                }
                other => return Err(format!("unknown option `{other}`\n{help}")),
            }
        }
        Ok(Some(options))
    }
}

/// The tests to run: for cargo-nextest, and for cargo without it.
pub(crate) struct Selection<'a> {
    /// A filter of cargo-nextest.
    pub filter: &'a str,
    /// The tests of the library are run, too.
    pub library: bool,
    /// The test binaries.
    pub binaries: &'a [&'a str],
    /// Tests whose name contains this text are left out, if it is not empty.
    pub skipped: &'a str,
}

/// Builds `mendline` and runs tests of the package.
///
/// The whole workspace is built, as `cargo xtask test` does: cargo unifies the features of a build, and a smaller
/// selection would compile half of the dependencies again.
pub(crate) fn run(selection: &Selection<'_>, only: Option<&str>) -> Result<(), String> {
    CommandLine::cargo(&["build", "--workspace", "--bins"]).run()?;
    let home = home();
    let home = home.to_string_lossy();
    if tools::has_nextest() {
        let named = only.map(|name| format!(" and test({name})")).unwrap_or_default();
        let skipped = match selection.skipped {
            "" => String::new(),
            skipped => format!(" and not test({skipped})"),
        };
        let chosen = format!("package(mendline-peers) and {}{named}{skipped}", selection.filter);
        let run = CommandLine::cargo(&["nextest", "run", "--workspace", "-E", &chosen]);
        return run.env("MENDLINE_PEERS", &home).run();
    }
    let mut test = vec!["test", "--package", "mendline-peers"];
    if selection.library {
        test.push("--lib");
    }
    for name in selection.binaries {
        test.extend(["--test", name]);
    }
    test.push("--");
    test.extend(only);
    if !selection.skipped.is_empty() {
        test.extend(["--skip", selection.skipped]);
    }
    CommandLine::cargo(&test).env("MENDLINE_PEERS", &home).run()
}

/// The folder of the installations.
fn home() -> PathBuf {
    target().join("peers")
}

/// Installs the packages of a lock file of Python.
pub(crate) fn python(name: &str, lock: &str) -> Result<(), String> {
    let folder = home().join(name);
    let lock = root().join("tests/python").join(lock);
    installation::ensure(&folder, std::slice::from_ref(&lock), || installation::pip(&lock, &folder))
}

/// Installs the packages of a folder of `tests`, and copies its scripts next to them: Node resolves packages relative to
/// a script.
pub(crate) fn node(name: &str) -> Result<(), String> {
    let (ours, folder) = (root().join("tests").join(name), home().join(name));
    installation::ensure(&folder, &[ours.join("package-lock.json")], || installation::npm(&ours, &folder))?;
    for entry in fs::read_dir(&ours).map_err(|why| format!("{}: {why}", ours.display()))? {
        let path = entry.map_err(|why| why.to_string())?.path();
        if let (Some("mjs"), Some(name)) = (path.extension().and_then(|ext| ext.to_str()), path.file_name()) {
            installation::copy(&path, &folder.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Option<Options>, String> {
        Options::parse(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>(), "")
    }

    #[test]
    fn unknown_option_is_refused() {
        assert!(parsed(&["--just", "chromium"]).is_err());
        assert!(parsed(&["--only"]).is_err());
    }

    #[test]
    fn options_are_parsed() {
        let options = parsed(&["--only", "python_2", "--install"]);
        assert_eq!(options, Ok(Some(Options { only: Some("python_2".to_owned()), install_only: true })));
    }
}
