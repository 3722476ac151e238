//! `cargo xtask peers`: installs the official SDKs from lock files and runs Mendline's tests with them.

use crate::command::target;
use crate::peer_tests::{self, Options, Selection, python};
use crate::tools::{NODE, NPM, PYTHON};
use crate::{bench, conformance, logins, recipes};

const HELP: &str = "\
Usage: cargo xtask peers [--only NAME] [--install]

  --only NAME   runs only the tests whose name contains NAME, e.g. python_2 or modern
  --install     installs what is missing and stops
";

/// Installs the peers and runs their tests.
pub fn run(args: &[String]) -> Result<(), String> {
    let Some(options) = Options::parse(args, HELP)? else { return Ok(()) };
    install()?;
    if options.install_only {
        return Ok(());
    }
    let filter = format!("not {} and not {} and not {}", logins::BINARIES, recipes::BINARY, conformance::BINARY);
    let binaries = ["failures", "framing", "gateway", "heal", "remote", "soak", "startup", "transcripts"];
    peer_tests::run(
        &Selection { filter: &filter, library: true, binaries: &binaries, skipped: "" },
        options.only.as_deref(),
    )
}

/// Installs every peer.
fn install() -> Result<(), String> {
    PYTHON.ensure()?;
    NODE.ensure()?;
    NPM.ensure()?;
    python("python-1", "requirements-1.txt")?;
    python("python-2", "requirements-2.txt")?;
    peer_tests::node("node")?;
    // One of the benchmark peers is also the server of a test.
    bench::install_peers(&target()).map(drop)
}

/// Installs the newer Python SDK only, on which the server behind a balancer runs.
pub(crate) fn install_python() -> Result<(), String> {
    PYTHON.ensure()?;
    python("python-2", "requirements-2.txt")
}
