//! `cargo xtask peers`: installs the official SDKs from lock files and runs Mendline's tests with them.

use std::fs;
use std::path::PathBuf;

use crate::bench;
use crate::command::{CommandLine, root, target};
use crate::tools::{self, NODE, NPM, PYTHON};
use crate::{installation, logins};

const HELP: &str = "\
Usage: cargo xtask peers [--only NAME] [--install]

  --only NAME   runs only the tests whose name contains NAME, e.g. python_2 or modern
  --install     installs what is missing and stops
";

/// Installs the peers and runs their tests.
pub fn run(args: &[String]) -> Result<(), String> {
    let mut only = None;
    let mut install_only = false;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--only" => only = Some(args.next().ok_or("--only needs a name")?.as_str()),
            "--install" => install_only = true,
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(());
            }
            other => return Err(format!("unknown option `{other}`\n{HELP}")),
        }
    }
    install()?;
    if install_only { Ok(()) } else { test(only) }
}

/// Installs every peer.
fn install() -> Result<(), String> {
    PYTHON.ensure()?;
    NODE.ensure()?;
    NPM.ensure()?;
    python("python-1", "requirements-1.txt")?;
    python("python-2", "requirements-2.txt")?;
    node()?;
    // One of the benchmark peers is also the server of a test.
    bench::install_peers(&target()).map(drop)
}

/// Installs the newer Python SDK only, on which the server behind a balancer runs.
pub(crate) fn install_python() -> Result<(), String> {
    PYTHON.ensure()?;
    python("python-2", "requirements-2.txt")
}

/// Builds `mendline` and the peers package and runs the tests of the latter.
///
/// The whole workspace is built, as `cargo xtask test` does: cargo unifies the features of a build, and a smaller
/// selection would compile half of the dependencies again.
fn test(only: Option<&str>) -> Result<(), String> {
    CommandLine::cargo(&["build", "--workspace", "--bins"]).run()?;
    let home = home();
    let home = home.to_string_lossy();
    if tools::has_nextest() {
        let chosen = only.map(|name| format!(" and test({name})")).unwrap_or_default();
        let chosen = format!("package(mendline-peers) and not {}{chosen}", logins::BINARIES);
        return CommandLine::cargo(&["nextest", "run", "--workspace", "-E", &chosen])
            .env("MENDLINE_PEERS", &home)
            .run();
    }
    let mut test = vec!["test", "--package", "mendline-peers", "--lib"];
    for name in ["failures", "framing", "heal", "remote", "soak", "startup", "transcripts"] {
        test.extend(["--test", name]);
    }
    test.extend(only);
    CommandLine::cargo(&test).env("MENDLINE_PEERS", &home).run()
}

fn home() -> PathBuf {
    target().join("peers")
}

fn python(name: &str, lock: &str) -> Result<(), String> {
    let folder = home().join(name);
    let lock = root().join("tests/python").join(lock);
    installation::ensure(&folder, std::slice::from_ref(&lock), || installation::pip(&lock, &folder))
}

fn node() -> Result<(), String> {
    let folder = home().join("node");
    let ours = root().join("tests/node");
    installation::ensure(&folder, &[ours.join("package-lock.json")], || installation::npm(&ours, &folder))?;
    // Node resolves packages relative to a script, so the scripts are copied next to the packages.
    for entry in fs::read_dir(&ours).map_err(|why| format!("{}: {why}", ours.display()))? {
        let path = entry.map_err(|why| why.to_string())?.path();
        if let (Some("mjs"), Some(name)) = (path.extension().and_then(|ext| ext.to_str()), path.file_name()) {
            installation::copy(&path, &folder.join(name))?;
        }
    }
    Ok(())
}
