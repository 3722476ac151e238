//! Launchers: programs that download Mendline into a cache and run it from there.
//!
//! The cache may be cleaned at any time, so an entry must not name a program in it. It names the launcher and this
//! version instead. `npx` is recognized by a variable that the npm package sets, the others by the path of the program.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use mendline::os::directories::Platform;

use super::program::Program;

/// The variable by which the npm package says how it was started: `npx`, or `npm` for an installed package.
pub(crate) const VARIABLE: &str = "MENDLINE_LAUNCHER";

/// A launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Launcher {
    /// `uvx`, or `uv tool run`.
    Uvx,
    /// `pipx run`.
    Pipx,
    /// `npx`, or `npm exec`.
    Npx,
}

/// The facts by which a launcher is recognized.
pub(crate) struct ProcessFacts<'a> {
    pub(crate) program: &'a Path,
    /// The value of `MENDLINE_LAUNCHER`.
    pub(crate) launcher: Option<&'a str>,
    /// The cache of uv, if it is not in the usual place.
    pub(crate) uv_cache: Option<PathBuf>,
}

impl Launcher {
    /// Recognizes the launcher that has started this program, if there is one.
    pub(crate) fn of(facts: &ProcessFacts<'_>) -> Option<Launcher> {
        let names = folders(facts.program);
        let has = |name: &str| names.iter().any(|folder| folder == name);
        let begins = |prefix: &str| names.iter().any(|folder| folder.starts_with(prefix));
        let in_uv_cache = facts.uv_cache.as_ref().is_some_and(|cache| facts.program.starts_with(cache));
        if facts.launcher == Some("npx") || has("_npx") {
            return Some(Launcher::Npx);
        }
        if in_uv_cache || begins("archive-v") || begins("environments-v") {
            return Some(Launcher::Uvx);
        }
        // The environments of `pipx run` are in a cache, those of `pipx install` in `venvs`.
        let in_cache = [".cache", "cache", "Cache", "Caches"].iter().any(|name| has(name));
        (has("pipx") && in_cache && !has("venvs")).then_some(Launcher::Pipx)
    }

    /// Returns the command line that runs this version of Mendline.
    pub(crate) fn program(self, version: &str, platform: Platform) -> Program {
        let words: Vec<String> = match self {
            Launcher::Uvx => vec!["uvx".to_owned(), format!("mendline@{version}")],
            Launcher::Pipx => {
                let spec = format!("mendline=={version}");
                ["pipx", "run", "--spec", &spec, "mendline"].map(str::to_owned).to_vec()
            }
            Launcher::Npx => {
                // On Windows, npx is a script, which only the shell can start.
                let shell = if platform == Platform::Windows { &["cmd", "/c"][..] } else { &[] };
                let words = shell.iter().chain(&["npx", "-y"]).map(|word| (*word).to_owned());
                words.chain([format!("mendline@{version}")]).collect()
            }
        };
        let mut words = words.into_iter().map(Cow::Owned);
        Program { command: words.next().unwrap_or_default(), before: words.collect() }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Launcher::Uvx => "uvx",
            Launcher::Pipx => "pipx run",
            Launcher::Npx => "npx",
        }
    }
}

/// Returns the folders of a path, in the notation of any system.
fn folders(path: &Path) -> Vec<String> {
    let text = path.to_string_lossy();
    let mut names: Vec<String> = text.split(['/', '\\']).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    names.pop();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, launcher: Option<&str>, uv_cache: Option<&str>) -> Option<Launcher> {
        Launcher::of(&ProcessFacts { program: Path::new(path), launcher, uv_cache: uv_cache.map(PathBuf::from) })
    }

    #[test]
    fn launchers_are_recognized_by_the_path_of_the_program() {
        for (path, launcher) in [
            ("/home/me/.cache/uv/archive-v0/Xk3f/bin/mendline", Some(Launcher::Uvx)),
            ("/home/me/.cache/uv/environments-v2/mendline-1a2b/bin/mendline", Some(Launcher::Uvx)),
            ("/Users/me/.cache/uv/archive-v0/Xk3f/lib/python3.12/site-packages/mendline/mendline", Some(Launcher::Uvx)),
            ("C:\\Users\\me\\AppData\\Local\\uv\\cache\\archive-v0\\Xk3f\\Scripts\\mendline.exe", Some(Launcher::Uvx)),
            ("/home/me/.local/share/uv/tools/mendline/bin/mendline", None),
            ("/home/me/.local/bin/mendline", None),
            ("/home/me/.local/pipx/.cache/0a1b2c/bin/mendline", Some(Launcher::Pipx)),
            ("/home/me/.cache/pipx/0a1b2c/bin/mendline", Some(Launcher::Pipx)),
            ("/Users/me/Library/Caches/pipx/0a1b2c/bin/mendline", Some(Launcher::Pipx)),
            ("/home/me/.local/share/pipx/venvs/mendline/bin/mendline", None),
            ("/home/me/.npm/_npx/9f/node_modules/@mendline/linux-x64/mendline", Some(Launcher::Npx)),
            ("C:\\Users\\me\\AppData\\Local\\npm-cache\\_npx\\9f\\node_modules\\m\\mendline.exe", Some(Launcher::Npx)),
            ("/usr/lib/node_modules/mendline/bin/mendline", None),
        ] {
            assert_eq!(of(path, None, None), launcher, "{path}");
        }
        assert_eq!(of("/c/x/bin/mendline", None, Some("/c")), Some(Launcher::Uvx));
        assert_eq!(of("/d/x/bin/mendline", None, Some("/c")), None);
        assert_eq!(of("/opt/m/mendline", Some("npx"), None), Some(Launcher::Npx));
        assert_eq!(of("/opt/m/mendline", Some("npm"), None), None);
    }

    #[test]
    fn entry_names_launcher_and_version() {
        let line = |launcher: Launcher, platform| launcher.program("1.2.3", platform).line();
        assert_eq!(line(Launcher::Uvx, Platform::Linux), "uvx mendline@1.2.3");
        assert_eq!(line(Launcher::Uvx, Platform::Windows), "uvx mendline@1.2.3");
        assert_eq!(line(Launcher::Pipx, Platform::MacOs), "pipx run --spec mendline==1.2.3 mendline");
        assert_eq!(line(Launcher::Npx, Platform::Linux), "npx -y mendline@1.2.3");
        assert_eq!(line(Launcher::Npx, Platform::Windows), "cmd /c npx -y mendline@1.2.3");
    }
}
