//! Where the configuration lies.
//!
//! It is named on the command line, or by `MENDLINE_CONFIG`, or lies in the user's configuration directory. The working
//! directory is never looked into: a repository that somebody checked out must not choose commands to run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::file::Source;
use crate::finding::Finding;
use crate::lower::Server;

/// The variable that names a file.
const VARIABLE: &str = "MENDLINE_CONFIG";

/// The names under which it may lie in its directory, in the order in which they are tried.
const NAMES: [&str; 2] = ["config.json", "config.jsonc"];

/// A file to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFile {
    /// Which one.
    pub path: PathBuf,
    /// It lies where Mendline looks for its own.
    pub is_ours: bool,
}

/// There is no configuration, and this is where one would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoConfigFile {
    /// The first place that is looked at when nothing is named.
    pub expected: Option<PathBuf>,
}

impl std::fmt::Display for NoConfigFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.expected {
            Some(path) => write!(
                f,
                "there is no configuration: {} does not exist, and neither --config nor {VARIABLE} names one",
                path.display()
            ),
            None => write!(
                f,
                "there is no configuration: neither --config nor {VARIABLE} names one, and there is no home directory"
            ),
        }
    }
}

/// The file that holds: the one that is named, else the user's own. What is named need not exist; reading it will tell.
pub fn find(named: Option<&Path>, variable: impl Fn(&str) -> Option<OsString>) -> Result<ConfigFile, NoConfigFile> {
    let directory = directory(&variable);
    let own = |path: &Path| directory.as_deref().is_some_and(|own| path.parent() == Some(own));
    let by_variable = || variable(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    if let Some(path) = named.map(Path::to_owned).or_else(by_variable) {
        return Ok(ConfigFile { is_ours: own(&path), path });
    }
    let places = directory.iter().flat_map(|directory| NAMES.map(|name| directory.join(name)));
    match places.clone().find(|path| path.exists()) {
        Some(path) => Ok(ConfigFile { path, is_ours: true }),
        None => Err(NoConfigFile { expected: { places }.next() }),
    }
}

/// The user's configuration directory, in the way of the operating system.
fn directory(variable: &impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = if cfg!(windows) {
        absolute("APPDATA")
    } else if let Some(base) = absolute("XDG_CONFIG_HOME") {
        // Whoever sets it means it, wherever they are.
        Some(base)
    } else if cfg!(target_os = "macos") {
        absolute("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        absolute("HOME").map(|home| home.join(".config"))
    };
    base.map(|base| base.join("mendline"))
}

/// The directory that an editor's file belongs to: `.vscode/mcp.json` and `.cursor/mcp.json` lie one below it.
pub(crate) fn workspace(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    let directory = path.parent()?;
    let is_editors = |name: &std::ffi::OsStr| matches!(name.to_str(), Some(".vscode" | ".cursor" | ".kiro" | ".roo"));
    if directory.file_name().is_some_and(is_editors) {
        return directory.parent().map(Path::to_owned);
    }
    (path.file_name()? == ".mcp.json").then(|| directory.to_owned())
}

/// Can others read secrets that stand in it?
pub(crate) fn permission_warning(source: &Source, servers: &[Server]) -> Option<Finding> {
    use std::os::unix::fs::PermissionsExt;
    let secrets: usize = servers.iter().map(|server| server.literal_secrets).sum();
    let mode = std::fs::metadata(source.path()).ok()?.permissions().mode();
    let readable = secrets > 0 && mode & 0o044 != 0;
    readable.then(|| {
        let what = "others on this machine can read this file, and it holds what look like secrets";
        let mut finding = Finding::warning(0..0, what)
            .help(format!("chmod 600 {}, or put them into variables and write ${{VAR}}", source.path().display()))
            .from_environment();
        finding.at = None;
        finding
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> impl Fn(&str) -> Option<OsString> + use<> {
        let pairs: Vec<(String, OsString)> =
            pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        move |name| pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    #[test]
    fn what_is_named_holds_and_the_command_line_first() {
        let variable = variables(&[("MENDLINE_CONFIG", "/b.json"), ("HOME", "/home/x")]);
        assert_eq!(find(Some(Path::new("/a.json")), &variable).unwrap().path, Path::new("/a.json"));
        assert_eq!(find(None, &variable).unwrap(), ConfigFile { path: "/b.json".into(), is_ours: false });
    }

    #[test]
    fn without_a_name_only_the_users_own_directory_is_looked_into() {
        let home = tempfile::tempdir().unwrap();
        let variable = variables(&[("XDG_CONFIG_HOME", home.path().to_str().unwrap()), ("MENDLINE_CONFIG", "")]);
        let missing = find(None, &variable).unwrap_err();
        assert_eq!(missing.expected.as_deref(), Some(home.path().join("mendline/config.json").as_path()));
        let own = home.path().join("mendline");
        std::fs::create_dir(&own).unwrap();
        std::fs::write(own.join("config.jsonc"), "{}").unwrap();
        assert_eq!(find(None, &variable).unwrap(), ConfigFile { path: own.join("config.jsonc"), is_ours: true });
        std::fs::write(own.join("config.json"), "{}").unwrap();
        assert_eq!(find(None, &variable).unwrap().path, own.join("config.json"));
        let named = find(Some(&own.join("other.json")), &variable).unwrap();
        assert!(named.is_ours, "what lies there is ours by whatever name");
        assert_eq!(find(None, variables(&[("XDG_CONFIG_HOME", "relative")])), Err(NoConfigFile { expected: None }));
    }

    #[test]
    fn an_editors_file_knows_its_workspace() {
        assert_eq!(workspace(Path::new("/home/me/x/.vscode/mcp.json")), Some("/home/me/x".into()));
        assert_eq!(workspace(Path::new("/home/me/x/.mcp.json")), Some("/home/me/x".into()));
        assert_eq!(workspace(Path::new("/home/x/.config/mendline/config.json")), None);
    }
}
