//! `cargo xtask outages`: builds the outage matrix and the binary under test, and runs it.
//!
//! The matrix is the program `mendline-outages`, which has its own options and help. This task also installs what the
//! rows with balancers need.

use std::path::PathBuf;

use crate::command::{CommandLine, target};
use crate::peers;
use crate::tools::{BALANCERS, unpack_balancers};

/// The sample that is part of `cargo xtask test`.
pub(crate) const SAMPLE: &[&str] = &["--sample"];

/// The rows with haproxy and nginx.
pub(crate) const WITH_BALANCERS: &[&str] = &["--balancers"];

/// Runs the selected cells.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    run_with(&args)
}

/// Runs the selected cells.
pub(crate) fn run_with(args: &[&str]) -> Result<(), String> {
    // The whole workspace, as in `cargo xtask test`: a smaller selection would compile dependencies again.
    CommandLine::cargo(&["build", "--workspace", "--bins"]).run()?;
    let program = target().join("debug").join("mendline-outages");
    let runs = !args.iter().any(|arg| ["--help", "-h", "--list"].contains(arg));
    let mut line = CommandLine::new(program, args);
    if runs && args.contains(&"--balancers") {
        peers::install_python()?;
        for (name, folders) in ensure_balancers()? {
            line = line.env(name, &folders);
        }
    }
    line.run()
}

/// Installs the balancers. Returns the variables that find unpacked ones.
fn ensure_balancers() -> Result<Vec<(&'static str, String)>, String> {
    if BALANCERS.iter().all(|tool| tool.ensure().is_ok()) {
        return Ok(Vec::new());
    }
    let folder = target().join("balancers");
    unpack_balancers(&folder).map_err(|why| {
        let packages: Vec<_> = BALANCERS.iter().flat_map(|tool| tool.debian).copied().collect();
        format!("the balancers cannot be installed ({why}); on Debian: apt-get install {}", packages.join(" "))
    })?;
    let joined = |variable: &str, below: &[&str]| {
        let ours = below.iter().map(|path| folder.join(path));
        let present = std::env::var_os(variable).unwrap_or_default();
        let all: Vec<PathBuf> = ours.chain(std::env::split_paths(&present)).collect();
        std::env::join_paths(all).map(|paths| paths.to_string_lossy().into_owned()).map_err(|why| why.to_string())
    };
    Ok(vec![("PATH", joined("PATH", &["usr/sbin"])?), ("LD_LIBRARY_PATH", joined("LD_LIBRARY_PATH", &LIBRARIES)?)])
}

/// The folders of libraries in Debian packages.
const LIBRARIES: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu"];
