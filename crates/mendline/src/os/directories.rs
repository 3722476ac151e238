//! The directories in which a user's programs keep their files, by the conventions of each system.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::files::user_id;

/// The variable that names the home directory.
pub const HOME: &str = if cfg!(windows) { "USERPROFILE" } else { "HOME" };

/// Returns the directory for the configuration of Mendline, without the name of the program. Relative paths in
/// variables are ignored.
pub fn configuration(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if cfg!(windows) {
        absolute("APPDATA")
    } else if let Some(base) = absolute("XDG_CONFIG_HOME") {
        // An explicit setting applies on every system.
        Some(base)
    } else if cfg!(target_os = "macos") {
        absolute("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        absolute("HOME").map(|home| home.join(".config"))
    }
}

/// Returns the directory for the state of Mendline: what it keeps between runs. Relative paths in variables are
/// ignored.
pub fn state(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".local/state")))
        .map(|parent| parent.join("mendline"))
}

/// Returns the directories that may hold the sockets of Mendline, in order of preference:
/// ```text
/// $XDG_RUNTIME_DIR/mendline
/// /run/user/UID/mendline
/// TMP/mendline-UID
/// ```
/// Many clients start their servers with an almost empty environment, so a process may lack a variable that the user's
/// shell has. For this reason the second one exists.
pub fn runtime(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let uid = user_id();
    let in_temporary = |parent: PathBuf| parent.join(format!("mendline-{uid}"));
    let mut directories = Vec::new();
    directories.extend(absolute("XDG_RUNTIME_DIR").map(|parent| parent.join("mendline")));
    directories.push(PathBuf::from(format!("/run/user/{uid}/mendline")));
    directories.push(in_temporary(std::env::temp_dir()));
    directories.push(in_temporary(PathBuf::from("/tmp")));
    let mut once = Vec::new();
    for directory in directories {
        if !once.contains(&directory) {
            once.push(directory);
        }
    }
    once
}

/// A family of systems, by where programs keep their files. A value, so that the paths of every system can be tested on
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// Linux, and other systems that follow the XDG directories.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

impl Platform {
    /// The platform of this program.
    pub const CURRENT: Platform = if cfg!(target_os = "macos") {
        Platform::MacOs
    } else if cfg!(windows) {
        Platform::Windows
    } else {
        Platform::Linux
    };

    /// Returns the directory in which desktop programs keep their settings, for a user with this home directory.
    pub fn settings(self, home: &Path, variable: impl Fn(&str) -> Option<PathBuf>) -> PathBuf {
        match self {
            Platform::Linux => xdg_settings(home, variable),
            Platform::MacOs => home.join("Library/Application Support"),
            Platform::Windows => variable("APPDATA").unwrap_or_else(|| home.join("AppData/Roaming")),
        }
    }
}

/// Returns the directory for settings by the XDG convention, which some programs follow on every system.
pub fn xdg_settings(home: &Path, variable: impl Fn(&str) -> Option<PathBuf>) -> PathBuf {
    variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"))
}
