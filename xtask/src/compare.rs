//! `cargo xtask compare`: compares Mendline with other bridges in front of the fault server.
//!
//! The comparison itself is in `faults/`; this builds, installs and runs it. It takes a few minutes and is not part of
//! `test`, because the results depend on the versions of other projects.

use std::path::Path;
use std::process::Command;

use crate::bench::{build, install_fastmcp, install_peers};

const HELP: &str = "\
Compares the calls behind Mendline, mcp-remote, supergateway, mcp-proxy and FastMCP when a server fails.

Usage: cargo xtask compare [--rounds N]

  --rounds N  runs of each bridge and fault [default: 2]

Prints a Markdown table. Installs the other bridges from lock files into the target directory.
";

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let rounds = match args {
        [] => "2",
        [option, rounds] if option == "--rounds" => rounds,
        [help] if help == "--help" || help == "-h" => {
            print!("{HELP}");
            return Ok(());
        }
        other => return Err(format!("unknown options {other:?}\n{HELP}")),
    };
    // The executable is `<target>/<profile>/xtask`, which gives the target directory for any configuration.
    let ours = std::env::current_exe().map_err(|error| format!("cannot find the path of this program: {error}"))?;
    let target =
        ours.ancestors().nth(2).ok_or("this program is not in a target directory; run it with `cargo xtask`")?;
    let peers = install_peers(target)?;
    let fastmcp = install_fastmcp(target)?;
    build(target, "mendline-cli")?;
    build(target, "mendline-faults")?;
    let option = |name: &str, path: &Path| format!("{name}={}", path.display());
    let status = Command::new(target.join("release/mendline-faults"))
        .arg("compare")
        .arg(option("mendline", &target.join("release/mendline")))
        .arg(option("peers", &peers))
        .arg(option("fastmcp", &fastmcp))
        .arg(format!("rounds={rounds}"))
        .status()
        .map_err(|error| format!("mendline-faults: {error}"))?;
    if status.success() { Ok(()) } else { Err("the comparison failed; see above".into()) }
}
