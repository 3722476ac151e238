//! `cargo xtask bench`: builds the release binaries and runs `mendline-bench compare`.
//!
//! The arithmetic is in `bench/`, next to the load generator and its tests. Figures are never asserted in tests,
//! because they would fail randomly on a shared machine; with `--gate` a missed target is an error.
//!
//! The peers are installed from the lock files in `bench/peers`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command::root;
use crate::installation;
use crate::tools::{NODE, NPM, PYTHON};

const HELP: &str = "\
Measures speed and memory of `mendline run`, of the upstream alone and of minimal relays in one run.

Usage: cargo xtask bench [OPTIONS]

Options:
  --rounds N  runs of each contender [default: 5, with --quick: 3]
  --quick     less work in each run, for a quick check
  --json      prints the report as JSON instead of a table
  --gate      fails when a target is missed
  --cores N   processors for client, middle and upstream [default: 2]
  --http      uses an upstream on HTTP instead of stdio
  --startup   measures only the time to the tools of a server that has not started
  --status    measures only `mendline status` with fifty running processes
  --logs      measures only the cost of log files
  --sweep     measures only the throughput with 1 to 512 calls in flight; with --http over HTTP
  --gateway   measures `mendline serve` before HTTP and stdio, and the smallest program that does the same; with
              --peers also npm mcp-proxy, supergateway, PyPI mcp-proxy and FastMCP
  --sessions  with --gateway: measures it with up to 10,000 sessions instead
  --peers     includes mcp-remote, supergateway and mcp-proxy, installed if needed; needs --http or
              --gateway

The report is written to bench/latest.json (latest-http.json, latest-gateway.json) in the target directory. Do not use the machine
during the run.
";

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{HELP}");
        return Ok(());
    }
    let has = |option: &str| args.iter().any(|arg| arg == option);
    // The executable is `<target>/<profile>/xtask`, which gives the target directory for any configuration.
    let ours = std::env::current_exe().map_err(|error| format!("cannot find the path of this program: {error}"))?;
    let target =
        ours.ancestors().nth(2).ok_or("this program is not in a target directory; run it with `cargo xtask`")?;

    build(target, "mendline-bench")?;
    if let Some(only) = ["startup", "status"].into_iter().find(|only| has(&format!("--{only}"))) {
        build(target, "mendline-cli")?;
        let mut bench = Command::new(target.join("release/mendline-bench"));
        bench.arg(only).arg("--mendline").arg(target.join("release/mendline"));
        return finished(bench.args(args.iter().filter(|arg| *arg == "--gate")));
    }
    if let Some(only) = ["logs", "sweep"].into_iter().find(|only| has(&format!("--{only}"))) {
        build(target, "mendline-cli")?;
        let mut bench = Command::new(target.join("release/mendline-bench"));
        bench.arg(only).arg("--mendline").arg(target.join("release/mendline"));
        return finished(bench.args(args.iter().filter(|arg| **arg != format!("--{only}"))));
    }
    if has("--gateway") {
        return gateway(args, target);
    }
    let report = if has("--http") { "bench/latest-http.json" } else { "bench/latest.json" };
    let mut compare = Command::new(target.join("release/mendline-bench"));
    compare.arg("compare").args(args.iter().filter(|arg| *arg != "--peers")).arg("--out").arg(target.join(report));
    if has("--peers") {
        compare.arg("--peers").arg(install_peers(target)?);
    }
    match build(target, "mendline-cli") {
        Ok(()) => _ = compare.arg("--mendline").arg(target.join("release/mendline")),
        // Direct and relay can still be measured, and `--gate` fails without Mendline's figures.
        Err(why) => eprintln!("xtask: continuing without Mendline: {why}"),
    }
    finished(&mut compare)
}

/// Measures the gateway.
fn gateway(args: &[String], target: &Path) -> Result<(), String> {
    build(target, "mendline-cli")?;
    let has = |option: &str| args.iter().any(|arg| arg == option);
    let mut bench = Command::new(target.join("release/mendline-bench"));
    bench.arg(if has("--sessions") { "sessions" } else { "gateway" });
    bench.args(args.iter().filter(|arg| !["--gateway", "--sessions", "--peers"].contains(&arg.as_str())));
    bench.arg("--mendline").arg(target.join("release/mendline"));
    if !has("--sessions") {
        bench.arg("--out").arg(target.join("bench/latest-gateway.json"));
        if has("--peers") {
            bench.arg("--peers").arg(install_peers(target)?).arg("--fastmcp").arg(install_fastmcp(target)?);
        }
    }
    finished(&mut bench)
}

fn finished(bench: &mut Command) -> Result<(), String> {
    let status = bench.status().map_err(|error| format!("mendline-bench: {error}"))?;
    if status.success() { Ok(()) } else { Err("the bench failed; see above".into()) }
}

pub(crate) fn build(target: &Path, package: &str) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "--quiet", "--package", package, "--target-dir"])
        .arg(target)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        // stdout is reserved for the report, which may be JSON.
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cannot build {package}; see above")) }
}

/// Installs the peers and returns their folder. The tests need one of them, too.
pub(crate) fn install_peers(target: &Path) -> Result<PathBuf, String> {
    let ours = root().join("bench/peers");
    let folder = target.join("peers/bench");
    let python = ours.join("requirements.txt");
    installation::ensure(&folder, &[ours.join("package-lock.json"), python.clone()], || {
        for tool in [NODE, NPM, PYTHON] {
            tool.ensure()?;
        }
        installation::npm(&ours, &folder)?;
        installation::pip(&python, &folder.join("python"))
    })?;
    Ok(folder)
}

/// Installs FastMCP and returns its folder.
pub(crate) fn install_fastmcp(target: &Path) -> Result<PathBuf, String> {
    let (folder, lock) = (target.join("peers/fastmcp"), root().join("bench/peers/fastmcp.txt"));
    installation::ensure(&folder, std::slice::from_ref(&lock), || {
        PYTHON.ensure()?;
        installation::pip(&lock, &folder)
    })?;
    Ok(folder)
}
