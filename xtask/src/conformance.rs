//! `cargo xtask conformance`: runs the server scenarios of the conformance suite, directly and through `mendline serve`.
//!
//! The suite and the Node.js that it needs are those of `cargo xtask logins`; the server is one of `cargo xtask peers`.
//! Both are built for Linux on x86-64; on other systems the step is left out.

use crate::peer_tests::{self, Options, Selection};
use crate::tools::{NODE, NPM};

const HELP: &str = "\
Usage: cargo xtask conformance [--only NAME] [--install]

  --only NAME   runs only the tests whose name contains NAME, e.g. 2026_07_28
  --install     installs what is missing and stops

MENDLINE_SCENARIO=NAME runs one scenario of the suite.
";

/// The test binary of this step. `cargo xtask peers` leaves it out.
pub(crate) const BINARY: &str = "binary(gateway_conformance)";

/// Installs the suite and the server, and runs the tests.
pub fn run(args: &[String]) -> Result<(), String> {
    let Some(options) = Options::parse(args, HELP)? else { return Ok(()) };
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        println!("the suite is installed on Linux on x86-64 only; its scenarios are left out");
        return Ok(());
    }
    NODE.ensure()?;
    NPM.ensure()?;
    peer_tests::node("login")?;
    peer_tests::node("node")?;
    if options.install_only {
        return Ok(());
    }
    let selection = Selection { filter: BINARY, library: false, binaries: &["gateway_conformance"], skipped: "" };
    peer_tests::run(&selection, options.only.as_deref())
}
