//! Packages in a fresh folder, which is home and prefix, with a cleared environment.

use std::path::{Path, PathBuf};

use super::{Trial, facts};
use crate::command::CommandLine;
use crate::dist::{files, npm};

/// Tests the launcher of npm with every Node.
pub(crate) fn launcher(trial: &Trial) -> Result<(), String> {
    let tests = files::source("npm/launcher.test.mjs");
    for node in trial.nodes() {
        let args = ["--test", "--test-reporter=dot", &tests.to_string_lossy()];
        CommandLine::new(&node, &args).output()?;
    }
    Ok(())
}

/// Installs the wheel with pip into a fresh environment, and runs it with uvx.
pub(crate) fn wheel(trial: &Trial) -> Result<(), String> {
    let folder = trial.fresh("wheel")?;
    let installed = pip(trial, &folder)?;
    use_program(trial, &folder, &[&installed], None)?;
    let wheel = facts::wheel_file(trial)?;
    let uvx = trial.tools.join("bin/uvx");
    let uvx = [&*uvx.to_string_lossy(), "--offline", "--quiet", "--from", &wheel.to_string_lossy(), "mendline"]
        .map(str::to_owned);
    let uvx: Vec<&str> = uvx.iter().map(String::as_str).collect();
    let entry = format!(r#""command": "uvx", "args": ["mendline@{}", "run", "#, trial.release.version);
    use_program(trial, &trial.fresh("uvx")?, &uvx, Some(&entry))
}

/// Creates a virtual environment with the wheel, and returns the path of the program.
pub(crate) fn pip(trial: &Trial, folder: &Path) -> Result<String, String> {
    let environment = folder.join("venv");
    CommandLine::new("python3", &["-m", "venv", &environment.to_string_lossy()]).run()?;
    let wheel = facts::wheel_file(trial)?;
    // Isolated from the settings of the user.
    let options = ["-m", "pip", "--isolated", "install", "--quiet", "--disable-pip-version-check", "--no-index"];
    let wheel = wheel.to_string_lossy();
    let args: Vec<&str> = options.into_iter().chain([&*wheel]).collect();
    CommandLine::new(environment.join("bin/python"), &args).run()?;
    Ok(environment.join("bin/mendline").to_string_lossy().into_owned())
}

/// Installs the npm packages into a fresh prefix, and runs them with every Node and with npx.
pub(crate) fn npm(trial: &Trial) -> Result<(), String> {
    let folder = trial.fresh("npm")?;
    let script = npm_install(trial, &folder)?;
    let use_with = |node: &PathBuf| use_program(trial, &folder, &[&node.to_string_lossy(), &script], None);
    trial.nodes().iter().try_for_each(use_with)?;
    npx(trial)
}

/// Measures the time that the launcher adds to the start of every Node.
pub(crate) fn startup(trial: &Trial) -> Result<(), String> {
    let script = npm_install(trial, &trial.fresh("startup")?)?;
    let (measure, program) = (files::source("test/startup.mjs"), trial.program.to_string_lossy());
    for node in trial.nodes() {
        let args = [&*measure.to_string_lossy(), &*script, &*program, MOST_ADDED].map(str::to_owned);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let line = CommandLine::new(&node, &args).output()?;
        print!("   {line}");
    }
    Ok(())
}

/// The largest allowed time that the launcher adds to the start of Node, in milliseconds.
const MOST_ADDED: &str = "20";

/// Installs both packages without a network, and returns the path of the launcher.
pub(crate) fn npm_install(trial: &Trial, folder: &Path) -> Result<String, String> {
    let packages = npm_packages(trial);
    let options = ["install", "--offline", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"];
    let folder_name = folder.to_string_lossy();
    let args: Vec<&str> =
        options.into_iter().chain([&*folder_name]).chain(packages.iter().map(String::as_str)).collect();
    // An empty home has no settings of the user, such as packages to leave out.
    let home = folder.join("npm-home");
    files::make_empty(&home)?;
    CommandLine::new("npm", &args).env("HOME", &home.to_string_lossy()).within(folder).output()?;
    Ok(folder.join("node_modules/.bin/mendline").to_string_lossy().into_owned())
}

fn npm_packages(trial: &Trial) -> [String; 2] {
    let release = &trial.release;
    let names = ["mendline", &npm::package_of(release.platform)].map(|name| npm::file_name(name, &release.version));
    names.map(|name| release.out.join(name).to_string_lossy().into_owned())
}

/// Runs the packages from the cache of npx. The server of the program sees the name of the launcher.
fn npx(trial: &Trial) -> Result<(), String> {
    let folder = trial.fresh("npx")?;
    let [launcher, platform] = npm_packages(trial);
    let npx = [
        "npx",
        "--yes",
        "--offline",
        "--update-notifier=false",
        "--loglevel=error",
        "--package",
        &launcher,
        "--package",
        &platform,
        "mendline",
    ];
    let entry = format!(r#""command": "npx", "args": ["-y", "mendline@{}", "run", "#, trial.release.version);
    use_program(trial, &folder, &npx, Some(&entry))
}

/// Tests the install script.
pub(crate) fn install_script(trial: &Trial) -> Result<(), String> {
    let folder = trial.fresh("install")?;
    let script = files::source("test/install-trial.sh");
    let release = &trial.release;
    let (script, packages, folder) =
        (script.to_string_lossy(), release.out.to_string_lossy(), folder.to_string_lossy());
    let args = [&*script, &*packages, &release.version, &*folder, trial.calls()].map(str::to_owned);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    CommandLine::new("sh", &args).run()
}

/// Runs version, demo and a dry run of wrap in an environment that has only a home and a path. `entry` is the beginning
/// of the entry that wrap must show.
fn use_program(trial: &Trial, folder: &Path, command: &[&str], entry: Option<&str>) -> Result<(), String> {
    let home = folder.join("home");
    files::make_empty(&home)?;
    let path = std::env::var("PATH").unwrap_or_default();
    let script = files::source("test/use.sh");
    let variables = [format!("HOME={}", home.display()), format!("PATH={path}")];
    let expected = entry.map(|entry| format!("ENTRY={entry}"));
    let mut args = vec!["-i", &variables[0], &variables[1]];
    args.extend(expected.as_deref());
    args.push("sh");
    let script = script.to_string_lossy();
    args.extend([&*script, &trial.release.version, trial.calls()]);
    args.extend(command);
    CommandLine::new("env", &args).within(folder).run()
}
