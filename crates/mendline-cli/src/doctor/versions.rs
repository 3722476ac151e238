//! Other versions of Mendline: those in the `PATH`, and a newer one that a file of the administrator names.
//!
//! The network is never asked. The tool that installed Mendline knows newer versions; what it does not know is a second
//! installation, which lets a shell and a client run different versions.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::step::Step;

/// Names the file with the newest version, or switches these findings off.
const VARIABLE: &str = "MENDLINE_UPDATE_CHECK";

const LAYER: &str = "version";

/// The time that another program has to print its version. A launcher on a slow disk needs a moment.
const PATIENCE: Duration = Duration::from_secs(3);

/// The largest number of other programs that are asked for their version.
const MOST: usize = 8;

/// The numbers of a version, which are compared in order.
type Version = (u64, u64, u64);

/// A program in the `PATH`.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    path: PathBuf,
    version: Version,
}

/// Examines the versions. Returns nothing if there is nothing to say.
pub(crate) fn examine(variable: &dyn Fn(&str) -> Option<String>) -> Vec<Step> {
    let check = variable(VARIABLE);
    let Some(ours) = parse(env!("CARGO_PKG_VERSION")) else { return Vec::new() };
    if check.as_deref() == Some("off") {
        return Vec::new();
    }
    let named = check.map(|file| from_file(Path::new(&file), ours)).unwrap_or_default();
    let running = std::env::current_exe().and_then(|path| path.canonicalize()).ok();
    let found = on_the_path(&variable("PATH").unwrap_or_default(), running.as_deref());
    named.into_iter().chain(others(&found, ours)).collect()
}

/// Reads the newest version from the first line of a file.
fn from_file(file: &Path, ours: Version) -> Option<Step> {
    let mut text = String::new();
    let read = std::fs::File::open(file).and_then(|opened| opened.take(64).read_to_string(&mut text));
    let newest = match read {
        Ok(_) => text.lines().next().and_then(parse),
        Err(error) => {
            let step = Step::warning(LAYER, format!("{} cannot be read: {error}", file.display()));
            return Some(step.advice(format!("{VARIABLE} names it; correct or unset the variable")));
        }
    };
    let Some(newest) = newest else {
        let step = Step::warning(LAYER, format!("the first line of {} is not a version", file.display()));
        return Some(step.advice(format!("{VARIABLE} names it; write a version such as 1.2.3 into it")));
    };
    let step = || Step::warning(LAYER, format!("version {} is available; this is {}", shown(newest), shown(ours)));
    (newest > ours).then(|| step().advice("Update it with the tool that installed it").fact("newest", shown(newest)))
}

/// Returns what the user should know about other installations. `None` stands for this program.
fn others(found: &[Option<Found>], ours: Version) -> Option<Step> {
    let first = found.first().and_then(Option::as_ref).filter(|other| other.version != ours);
    let newest = found.iter().flatten().filter(|other| other.version > ours).max_by_key(|other| other.version);
    let (other, words) = match (first, newest) {
        (Some(first), _) => (first, "your PATH finds another version first"),
        (None, Some(newest)) => (newest, "a newer version is installed"),
        (None, None) => return None,
    };
    let (path, version) = (other.path.display(), shown(other.version));
    let step = Step::warning(LAYER, format!("{words}: {version} at {path}; this is {}", shown(ours)));
    let step = step.advice(format!(
        "Remove the one that you do not want; then run `mendline wrap` so that clients use the other ({VARIABLE}=off hides this)"
    ));
    Some(step.fact("other", version).fact("path", other.path.to_string_lossy().into_owned()))
}

/// Returns the programs named `mendline` in the order of the `PATH`, each file once; `None` for the running one.
fn on_the_path(path: &str, running: Option<&Path>) -> Vec<Option<Found>> {
    let mut seen = BTreeSet::new();
    let candidates =
        std::env::split_paths(path).filter(|folder| folder.is_absolute()).map(|folder| folder.join("mendline"));
    let files = candidates.filter_map(|path| Some((path.canonicalize().ok()?, path)));
    let distinct = files.filter(|(real, _)| real.is_file() && seen.insert(real.clone())).take(MOST);
    let asked = distinct.map(|(real, path)| {
        if Some(&*real) == running {
            Some(None)
        } else {
            version_of(&path).map(|version| Some(Found { path, version }))
        }
    });
    asked.flatten().collect()
}

/// Asks a program for its version. A program that prints no version in time is not counted.
fn version_of(program: &Path) -> Option<Version> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let stdout = child.stdout.take()?;
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut text = String::new();
        let _ = stdout.take(256).read_to_string(&mut text);
        let _ = sender.send(text);
    });
    let printed = receiver.recv_timeout(PATIENCE);
    // It has nothing more to do, whether it has ended or not.
    let _ = child.kill();
    let _ = child.wait();
    parse(printed.ok()?.trim().strip_prefix("mendline ")?)
}

fn parse(text: &str) -> Option<Version> {
    let numbers = text.trim().trim_start_matches('v').split(['-', '+']).next()?;
    let mut numbers = numbers.split('.').map(|number| number.parse().ok());
    let version = (numbers.next()??, numbers.next()??, numbers.next()??);
    numbers.next().is_none().then_some(version)
}

fn shown((major, minor, patch): Version) -> String {
    format!("{major}.{minor}.{patch}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const OURS: Version = (1, 2, 3);

    fn program(folder: &Path, script: &str) {
        std::fs::create_dir_all(folder).unwrap();
        let path = folder.join("mendline");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn version_is_three_numbers() {
        assert_eq!(parse("1.2.3\n"), Some((1, 2, 3)));
        assert_eq!(parse("v1.2.3-rc.1"), Some((1, 2, 3)));
        for wrong in ["", "1.2", "1.2.3.4", "1.x.3", "newest"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn other_version_first_in_path_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two, three) = (folder.path().join("1"), folder.path().join("2"), folder.path().join("3"));
        program(&one, "echo mendline 1.0.0");
        program(&two, "echo something else");
        program(&three, "echo mendline 2.0.0");
        let path = std::env::join_paths([&one, &two, &three, &one]).unwrap().into_string().unwrap();
        let found = on_the_path(&path, None);
        assert_eq!(found.iter().flatten().map(|other| other.version).collect::<Vec<_>>(), [(1, 0, 0), (2, 0, 0)]);
        let step = others(&found, OURS).unwrap();
        assert!(step.words.contains("finds another version first: 1.0.0 at"), "{}", step.words);
        // This program comes first, so only the newer one matters.
        let running = one.join("mendline").canonicalize().unwrap();
        let step = others(&on_the_path(&path, Some(&running)), OURS).unwrap();
        assert!(step.words.contains("a newer version is installed: 2.0.0 at"), "{}", step.words);
    }

    #[test]
    fn same_or_older_version_later_in_path_is_no_finding() {
        let other = |version| Some(Found { path: "/x/mendline".into(), version });
        assert!(others(&[], OURS).is_none());
        assert!(others(&[other(OURS)], OURS).is_none());
        assert!(others(&[None, other((1, 0, 0))], OURS).is_none());
        assert!(others(&[None, other((1, 2, 4))], OURS).is_some());
    }

    #[test]
    fn file_with_newer_version_is_reported() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let words = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            from_file(file.path(), OURS).map(|step| step.words)
        };
        assert_eq!(words("1.3.0\n").as_deref(), Some("version 1.3.0 is available; this is 1.2.3"));
        assert_eq!(words("1.2.3\n"), None);
        assert!(words("<html>").unwrap().contains("is not a version"));
        assert!(from_file(Path::new("/nowhere/latest.txt"), OURS).unwrap().words.contains("cannot be read"));
    }

    #[test]
    fn findings_can_be_switched_off() {
        let folder = tempfile::tempdir().unwrap();
        program(folder.path(), "echo mendline 999.0.0");
        let path = folder.path().to_str().unwrap().to_owned();
        let with = |check: Option<&str>| {
            let check = check.map(str::to_owned);
            examine(&|name: &str| if name == VARIABLE { check.clone() } else { Some(path.clone()) })
        };
        assert_eq!(with(None).len(), 1);
        assert_eq!(with(Some("off")).len(), 0);
    }
}
