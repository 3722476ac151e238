//! `cargo xtask zoo`: installs published servers and client libraries from lock files and runs them directly and through
//! Mendline.
//!
//! The manifest `tests/zoo/zoo.json` names the installation of each of them: `npm/NAME` has its lock file in
//! `tests/zoo/npm/NAME`, `pypi/NAME` in `tests/zoo/pypi/NAME.txt`. Only the installations of the chosen ones are made.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::command::{CommandLine, root, target};
use crate::installation;
use crate::tools::{NODE, NPM, PYTHON};

const HELP: &str = "\
Usage: cargo xtask zoo [--only NAME] [--sample] [--install] [--jobs N] [--write FILE]

  --only NAME    only servers and clients whose name contains NAME, e.g. grafana or langchain
  --sample       only the eight servers and three clients that `cargo xtask test` runs
  --install      installs what is missing into target/zoo and stops
  --jobs N       the number of servers and clients at the same time; 2 unless given
  --write FILE   also writes the table to FILE in Markdown; in a page that has the table, only the table changes

The packages are built for Linux on x86-64. The logs of each row are in target/zoo/runs.
";

/// The installation that every run needs: the server of all clients, and the script that dials URLs.
const BASE: &str = "npm/sample";

/// The options of a run.
#[derive(Debug, Default)]
struct Options {
    only: Option<String>,
    sample: bool,
    install_only: bool,
    jobs: Option<String>,
    write: Option<String>,
}

/// Installs the packages and runs them.
pub fn run(args: &[String]) -> Result<(), String> {
    let mut options = Options::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().cloned().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--only" => options.only = Some(value()?),
            "--sample" => options.sample = true,
            "--install" => options.install_only = true,
            "--jobs" => options.jobs = Some(value()?),
            "--write" => options.write = Some(value()?),
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(());
            }
            other => return Err(format!("unknown option `{other}`\n{HELP}")),
        }
    }
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        println!("the packages of the zoo are built for Linux on x86-64; nothing is run here");
        return Ok(());
    }
    let manifest = source().join("zoo.json");
    let text = fs::read_to_string(&manifest).map_err(|why| format!("{}: {why}", manifest.display()))?;
    let manifest = serde_json::from_str(&text).map_err(|why| format!("{}: {why}", manifest.display()))?;
    let chosen = installations(&manifest, &options)?;
    install(&chosen)?;
    if options.install_only { Ok(()) } else { start(&options) }
}

/// Returns the installations of the chosen servers and clients.
fn installations(manifest: &Value, options: &Options) -> Result<BTreeSet<String>, String> {
    let entries = ["servers", "clients"].into_iter().filter_map(|kind| manifest[kind].as_array()).flatten();
    let chosen = entries.filter(|entry| !options.sample || entry["sample"] == true).filter(|entry| {
        let name = entry["name"].as_str().unwrap_or_default();
        options.only.as_ref().is_none_or(|only| name.contains(only))
    });
    let found: BTreeSet<String> = chosen.filter_map(|entry| entry["install"].as_str()).map(ToOwned::to_owned).collect();
    if found.is_empty() {
        let only = options.only.as_deref().unwrap_or_default();
        return Err(format!("no server or client has the name `{only}`; see tests/zoo/zoo.json"));
    }
    Ok(found.into_iter().chain([BASE.to_owned()]).collect())
}

fn install(chosen: &BTreeSet<String>) -> Result<(), String> {
    PYTHON.ensure()?;
    NODE.ensure()?;
    NPM.ensure()?;
    for name in chosen {
        let folder = home().join(name);
        if name.starts_with("npm/") {
            let ours = source().join(name);
            installation::ensure(&folder, &[ours.join("package-lock.json")], || installation::npm(&ours, &folder))?;
            // Node resolves packages relative to a script, so the scripts are copied next to the packages.
            copy_all(&source(), "mjs", &folder)?;
            copy_all(&source().join("clients"), "mjs", &folder)?;
        } else {
            let lock = source().join(format!("{name}.txt"));
            installation::ensure(&folder, std::slice::from_ref(&lock), || installation::pip(&lock, &folder))?;
        }
    }
    // Python writes its cache beside the scripts.
    let clients = home().join("clients");
    fs::create_dir_all(&clients).map_err(|why| format!("{}: {why}", clients.display()))?;
    copy_all(&source().join("clients"), "py", &clients)
}

fn copy_all(from: &Path, extension: &str, to: &Path) -> Result<(), String> {
    for entry in fs::read_dir(from).map_err(|why| format!("{}: {why}", from.display()))? {
        let path = entry.map_err(|why| why.to_string())?.path();
        if let (true, Some(name)) = (path.extension().is_some_and(|ext| ext == extension), path.file_name()) {
            installation::copy(&path, &to.join(name))?;
        }
    }
    Ok(())
}

/// Builds the whole workspace, as `cargo xtask peers` does, and runs the zoo.
fn start(options: &Options) -> Result<(), String> {
    CommandLine::cargo(&["build", "--workspace", "--bins"]).run()?;
    let built = target().join("debug");
    let (home, mendline) = (home(), built.join("mendline"));
    let (home, mendline) = (home.to_string_lossy(), mendline.to_string_lossy());
    let mut args = vec![&*home, &*mendline];
    let values = [("--only", &options.only), ("--jobs", &options.jobs), ("--write", &options.write)];
    for (name, value) in values {
        args.extend(value.iter().flat_map(|value| [name, value.as_str()]));
    }
    args.extend(options.sample.then_some("--sample"));
    CommandLine::new(built.join("zoo"), &args).run()
}

fn source() -> PathBuf {
    root().join("tests/zoo")
}

fn home() -> PathBuf {
    target().join("zoo")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Options, installations, source};

    #[test]
    fn only_installations_of_the_chosen_are_made() {
        let manifest = json!({
            "servers": [{ "name": "a", "install": "npm/more" }, { "name": "b", "install": "pypi/one", "sample": true }],
            "clients": [{ "name": "ab", "install": "pypi/two" }],
        });
        let names = |options: &Options| installations(&manifest, options).unwrap().into_iter().collect::<Vec<_>>();
        assert_eq!(names(&Options::default()), ["npm/more", "npm/sample", "pypi/one", "pypi/two"]);
        assert_eq!(names(&Options { sample: true, ..Options::default() }), ["npm/sample", "pypi/one"]);
        let only = Options { only: Some("ab".into()), ..Options::default() };
        assert_eq!(names(&only), ["npm/sample", "pypi/two"]);
        installations(&manifest, &Options { only: Some("c".into()), ..Options::default() }).unwrap_err();
    }

    #[test]
    fn every_installation_has_a_lock_file() {
        let text = std::fs::read_to_string(source().join("zoo.json")).unwrap();
        let all = installations(&serde_json::from_str(&text).unwrap(), &Options::default()).unwrap();
        for name in all {
            let lock =
                if name.starts_with("npm/") { format!("{name}/package-lock.json") } else { format!("{name}.txt") };
            assert!(source().join(&lock).is_file(), "{lock}");
        }
    }
}
