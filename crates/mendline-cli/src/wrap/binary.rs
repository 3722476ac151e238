//! The program that the entries run.
//!
//! An entry must work for a long time, in any directory and environment, so it names a program by an absolute path that
//! is permanent: neither in a build directory nor in a temporary one. If the program was found through `PATH`, that
//! path is taken and not the target of its link, because links outlive versions. A program that a launcher has started
//! from its cache is named by the launcher ([`launcher`](super::launcher)).

use std::path::{Component, Path, PathBuf};

use mendline::os::directories::Platform;
use mendline_config::is_our_name;

use super::launcher::{self, Launcher, ProcessFacts};
use super::program::Program;

/// The program to write into entries.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Binary {
    pub(crate) program: Program,
    /// The reason why an entry must not name it, and the next step. It is set only for a dry run.
    pub(crate) warning: Option<String>,
    /// The launcher that runs it.
    pub(crate) launcher: Option<Launcher>,
    /// The command by which a person runs it.
    pub(crate) line: String,
}

/// Returns the program to write into entries. A program that is not permanent is an error, unless nothing is written.
pub(crate) fn choose(option: Option<&Path>, is_dry_run: bool) -> Result<Binary, String> {
    let running = std::env::current_exe().map_err(|error| format!("cannot find the path of this program: {error}"))?;
    let launcher = launcher_of(&running).filter(|_| option.is_none());
    if let Some(launcher) = launcher {
        let program = launcher.program(env!("CARGO_PKG_VERSION"), Platform::CURRENT);
        return Ok(Binary { line: program.line(), program, warning: None, launcher: Some(launcher) });
    }
    let on_the_path = on_the_path(&running);
    let line = "mendline".to_owned();
    let (path, warning) = match option {
        Some(path) => (given(path)?, None),
        None => installed(on_the_path.unwrap_or(running)),
    };
    if let Some(warning) = warning.as_ref().filter(|_| !is_dry_run) {
        return Err(warning.clone());
    }
    match path.into_os_string().into_string() {
        Ok(path) => Ok(Binary { program: Program::at(path.into()), warning, launcher: None, line }),
        Err(path) => Err(format!("{path:?} is not valid UTF-8 and cannot be written")),
    }
}

/// Checks a program that was given by `--binary`, which may be anywhere.
fn given(path: &Path) -> Result<PathBuf, String> {
    let path = std::path::absolute(path).map_err(|error| format!("--binary {}: {error}", path.display()))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if !is_our_name(&name) {
        return Err(format!(
            "--binary {}: its name has to begin with `mendline`, by which `unwrap` knows its entries",
            path.display()
        ));
    }
    match path.metadata() {
        Ok(found) if found.is_file() => Ok(path),
        Ok(_) => Err(format!("--binary {}: it is not a file", path.display())),
        Err(error) => Err(format!("--binary {}: {error}", path.display())),
    }
}

/// Returns the launcher that has started this program.
fn launcher_of(running: &Path) -> Option<Launcher> {
    let launcher = std::env::var(launcher::VARIABLE).ok();
    let uv_cache = std::env::var_os("UV_CACHE_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    Launcher::of(&ProcessFacts { program: running, launcher: launcher.as_deref(), uv_cache })
}

/// Returns this program, and a warning if its path is not permanent.
fn installed(path: PathBuf) -> (PathBuf, Option<String>) {
    let warning = temporary_location(&path, &std::env::temp_dir()).map(|why| {
        format!(
            "{} is {why} and may be removed; clients need a permanent path\n\nInstall it first, with one of:\n\n  uv tool install mendline\n  npm install --global mendline\n  cargo install --locked --path crates/mendline-cli\n\nand wrap with the installed one, or name a program with --binary.",
            path.display()
        )
    });
    (path, warning)
}

/// Returns the path of this program through `PATH`.
fn on_the_path(running: &Path) -> Option<PathBuf> {
    let (name, real) = (running.file_name()?, running.canonicalize().ok()?);
    let paths = std::env::var_os("PATH")?;
    let candidates =
        std::env::split_paths(&paths).filter(|folder| folder.is_absolute()).map(|folder| folder.join(name));
    candidates.into_iter().find(|candidate| candidate.canonicalize().is_ok_and(|found| found == real))
}

/// Returns the reason why a program at this path is not permanent, if there is one.
fn temporary_location(path: &Path, temporary: &Path) -> Option<&'static str> {
    let names: Vec<&str> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect();
    let folders = names.split_last().map_or(&[][..], |(_, folders)| folders);
    if folders.contains(&"target") && folders.last().is_some_and(|last| matches!(*last, "debug" | "release" | "deps")) {
        return Some("in a build directory");
    }
    let in_temporary = path.starts_with(temporary) || path.starts_with("/tmp") || path.starts_with("/var/tmp");
    if in_temporary {
        return Some("in a temporary directory");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_program_paths_are_detected() {
        for (path, why) in [
            ("/home/me/mendline/target/release/mendline", Some("build")),
            ("/home/me/mendline/target/x86_64-unknown-linux-musl/debug/mendline", Some("build")),
            ("/tmp/x/mendline", Some("temporary")),
            ("/scratch/7/mendline", Some("temporary")),
            ("/home/me/.cargo/bin/mendline", None),
            ("/home/target/bin/mendline", None),
            ("/opt/release/mendline", None),
        ] {
            let found = temporary_location(Path::new(path), Path::new("/scratch"));
            assert_eq!(found.is_some(), why.is_some(), "{path}");
            assert!(found.is_none_or(|found| found.contains(why.unwrap())), "{path}: {found:?}");
        }
    }

    #[test]
    fn given_binary_must_be_named_mendline() {
        for is_dry_run in [false, true] {
            let choose = |path: &str| choose(Some(Path::new(path)), is_dry_run).unwrap_err();
            assert!(choose("/bin/sh").contains("begin with `mendline`"));
            assert!(choose("/nowhere/mendline").contains("No such file"));
            let folder = tempfile::tempdir().unwrap();
            let directory = folder.path().join("mendline");
            std::fs::create_dir(&directory).unwrap();
            assert!(choose(directory.to_str().unwrap()).contains("not a file"));
        }
    }

    #[test]
    fn u04_dry_run_from_build_directory_only_warns() {
        // This test program is in a build directory.
        let refused = choose(None, false).unwrap_err();
        let chosen = choose(None, true).unwrap();
        assert!(refused.contains("build directory") && refused.contains("cargo install"), "{refused}");
        assert_eq!(chosen.warning, Some(refused));
    }
}
