//! What must hold for the packages before they are installed: one version, one program, sizes, glibc, no paths.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Trial;
use crate::command::{CommandLine, root};
use crate::dist::release::GLIBC;
use crate::dist::{deb, files, npm, program};

/// The largest allowed package: 6 MiB.
const MOST: u64 = 6 << 20;

/// Checks all packages.
pub(crate) fn check(trial: &Trial) -> Result<(), String> {
    let out = &trial.release.out;
    CommandLine::new("sha256sum", &["--check", "--quiet", "SHA256SUMS"]).within(out).run()?;
    sizes(out)?;
    let newest = program::newest_glibc(&trial.program)?;
    if newest > GLIBC {
        return Err(format!(
            "the program asks for glibc {}.{}, newer than {}.{}",
            newest.0, newest.1, GLIBC.0, GLIBC.1
        ));
    }
    let contents = unpack(trial)?;
    paths(&trial.folder.join("unpacked"))?;
    versions(trial, &contents)?;
    same_program(trial, &contents)
}

fn sizes(out: &Path) -> Result<(), String> {
    for path in files::list(out)? {
        let size = fs::metadata(&path).map_err(|why| format!("{}: {why}", path.display()))?.len();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if is_package(&name) {
            println!("   {:>9.2} MiB  {name}", size as f64 / f64::from(1 << 20));
        }
        if size > MOST {
            return Err(format!("{name} has {size} bytes, more than {MOST}"));
        }
    }
    Ok(())
}

fn is_package(name: &str) -> bool {
    [".whl", ".tgz", ".gz", ".deb"].iter().any(|end| name.ends_with(end))
}

/// Checks that no unpacked file contains a path of this machine.
fn paths(folder: &Path) -> Result<(), String> {
    let cargo = format!("{}/.cargo", std::env::var("HOME").unwrap_or_default());
    let root = root().to_string_lossy();
    let args = ["--recursive", "--files-with-matches", "--fixed-strings", "-e", &root, "-e", &cargo, "."];
    match CommandLine::new("grep", &args).within(folder).code()? {
        1 => Ok(()),
        _ => Err("these files contain a path of this machine".into()),
    }
}

/// Returns the folders with the contents of the wheel, of both npm packages, of the archive and of the Debian package.
fn unpack(trial: &Trial) -> Result<[PathBuf; 5], String> {
    let (release, folder) = (&trial.release, trial.fresh("unpacked")?);
    let contents = ["wheel", "launcher", "platform", "archive", "debian"].map(|name| folder.join(name));
    contents.iter().try_for_each(|folder| files::make(folder))?;
    let [wheel, launcher, platform, archive, debian] = &contents;
    let file = |name: String| release.out.join(name).to_string_lossy().into_owned();
    let to = |folder: &Path| folder.to_string_lossy().into_owned();
    let from = wheel_file(trial)?.to_string_lossy().into_owned();
    CommandLine::new("python3", &["-m", "zipfile", "-e", &from, &to(wheel)]).run()?;
    for (name, folder) in [
        (npm::file_name("mendline", &release.version), launcher),
        (npm::file_name(&npm::package_of(release.platform), &release.version), platform),
        (format!("{}.tar.gz", release.archive()), archive),
    ] {
        CommandLine::new("tar", &["-xzf", &file(name), "--strip-components=1", "-C", &to(folder)]).run()?;
    }
    CommandLine::new("dpkg-deb", &["--raw-extract", &file(deb::file_name(release)), &to(debian)]).run()?;
    Ok(contents)
}

/// The file of the wheel, whose name maturin chooses.
pub(crate) fn wheel_file(trial: &Trial) -> Result<PathBuf, String> {
    let start = format!("mendline-{}-py3-none-", trial.release.version);
    let tag = format!("manylinux_{}_{}_", GLIBC.0, GLIBC.1);
    let mut packages = files::list(&trial.release.out)?.into_iter();
    let is_wheel = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&start) && name.contains(&tag) && name.ends_with(".whl")
    };
    packages.find(is_wheel).ok_or_else(|| format!("there is no wheel {start}…{tag}…"))
}

/// Checks that every package has the version of the workspace.
fn versions(trial: &Trial, [wheel, launcher, platform, _, debian]: &[PathBuf; 5]) -> Result<(), String> {
    let version = &trial.release.version;
    let json = |path: PathBuf| -> Result<Value, String> {
        serde_json::from_str(&files::read(&path)?).map_err(|why| format!("{}: {why}", path.display()))
    };
    let line = |path: PathBuf, start: &str| -> Result<String, String> {
        let text = files::read(&path)?;
        Ok(text.lines().find_map(|line| line.strip_prefix(start)).unwrap_or_default().to_owned())
    };
    let printed = CommandLine::new(&trial.program, &["--version"]).output()?;
    let [launcher, platform] = [launcher, platform].map(|folder| json(folder.join("package.json")));
    let (launcher, platform) = (launcher?, platform?);
    let registry = json(trial.release.out.join("server.json"))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let found = [
        ("mendline --version", printed.trim().trim_start_matches("mendline ").to_owned()),
        ("wheel", line(wheel.join(format!("mendline-{version}.dist-info/METADATA")), "Version: ")?),
        ("npm", text(&launcher["version"])),
        ("npm, platform", text(&platform["version"])),
        ("npm, dependency", text(&launcher["optionalDependencies"][npm::package_of(trial.release.platform)])),
        ("Debian", line(debian.join("DEBIAN/control"), "Version: ")?.trim_end_matches("-1").to_owned()),
        ("server.json", text(&registry["version"])),
        ("server.json, npm", text(&registry["packages"][0]["version"])),
        ("server.json, PyPI", text(&registry["packages"][1]["version"])),
        ("latest.txt", line(trial.release.out.join("latest.txt"), "")?),
    ];
    let wrong: Vec<String> = found
        .iter()
        .filter(|(_, found)| found != version)
        .map(|(name, found)| format!("{name} has {found:?}"))
        .collect();
    if !wrong.is_empty() {
        return Err(format!("the version is {version}, but {}", wrong.join(", ")));
    }
    let names = [text(&launcher["mcpName"]), text(&registry["name"])];
    let readme = files::read(&wheel.join(format!("mendline-{version}.dist-info/METADATA")))?;
    if names[0] != names[1] || !readme.contains(&format!("mcp-name: {}", names[1])) {
        return Err("npm, PyPI and server.json have different names for the MCP registry".into());
    }
    Ok(())
}

/// Checks that all packages contain the same program.
fn same_program(trial: &Trial, [wheel, _, platform, archive, debian]: &[PathBuf; 5]) -> Result<(), String> {
    let expected = fs::read(&trial.program).map_err(|why| format!("{}: {why}", trial.program.display()))?;
    let scripts = wheel.join(format!("mendline-{}.data/scripts", trial.release.version));
    for folder in [&scripts, &platform.join("bin"), &archive.join("bin"), &debian.join("usr/bin")] {
        let path = folder.join("mendline");
        let found = fs::read(&path).map_err(|why| format!("{}: {why}", path.display()))?;
        if found != expected {
            return Err(format!("{} differs from the compiled program", path.display()));
        }
    }
    Ok(())
}
