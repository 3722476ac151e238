//! The location of the configuration file.
//!
//! The file is named on the command line or by `MENDLINE_CONFIG`, or is in the configuration directory of the user. The
//! working directory is never searched: a cloned repository must not choose commands to run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use mendline::os::directories;
use mendline::os::files::is_readable_by_others;

use crate::file::Source;
use crate::finding::Finding;
use crate::lower::Server;

/// The variable that names the file.
const VARIABLE: &str = "MENDLINE_CONFIG";

/// The file names in the configuration directory, in the order of preference.
const NAMES: [&str; 2] = ["config.json", "config.jsonc"];

/// A configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFile {
    /// Its path.
    pub path: PathBuf,
    /// It is in Mendline's configuration directory.
    pub is_ours: bool,
}

/// The error for a missing configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoConfigFile {
    /// The default path.
    pub expected: Option<PathBuf>,
}

impl std::fmt::Display for NoConfigFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.expected {
            Some(path) => write!(
                f,
                "no configuration file: {} does not exist, and neither --config nor {VARIABLE} is set; `mendline add` creates it, or name a file",
                path.display()
            ),
            None => write!(
                f,
                "no configuration file: neither --config nor {VARIABLE} is set, and there is no home directory; name a file"
            ),
        }
    }
}

/// Returns the named file, or else the file of the user. A named file need not exist; reading it reports that.
pub fn find(named: Option<&Path>, variable: impl Fn(&str) -> Option<OsString>) -> Result<ConfigFile, NoConfigFile> {
    let directory = directory(&variable);
    let own = |path: &Path| directory.as_deref().is_some_and(|own| path.parent() == Some(own));
    let by_variable = || variable(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    if let Some(path) = named.map(Path::to_owned).or_else(by_variable) {
        return Ok(ConfigFile { is_ours: own(&path), path });
    }
    let paths = directory.iter().flat_map(|directory| NAMES.map(|name| directory.join(name)));
    match paths.clone().find(|path| path.exists()) {
        Some(path) => Ok(ConfigFile { path, is_ours: true }),
        None => Err(NoConfigFile { expected: { paths }.next() }),
    }
}

/// Returns the configuration directory of the user, by the conventions of the operating system.
fn directory(variable: &impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    directories::configuration(variable).map(|base| base.join("mendline"))
}

/// Returns the workspace of an editor file: `.vscode/mcp.json` and `.cursor/mcp.json` are one level below it.
pub(crate) fn workspace(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    let directory = path.parent()?;
    let is_editors = |name: &std::ffi::OsStr| matches!(name.to_str(), Some(".vscode" | ".cursor" | ".kiro" | ".roo"));
    if directory.file_name().is_some_and(is_editors) {
        return directory.parent().map(Path::to_owned);
    }
    (path.file_name()? == ".mcp.json").then(|| directory.to_owned())
}

/// Returns a warning if other users can read secrets in the file.
pub(crate) fn permission_warning(source: &Source, servers: &[Server]) -> Option<Finding> {
    let secrets: usize = servers.iter().map(|server| server.literal_secrets).sum();
    let readable = secrets > 0 && is_readable_by_others(&std::fs::metadata(source.path()).ok()?);
    readable.then(|| {
        let what = "others on this machine can read this file, and it holds what look like secrets";
        let mut finding = Finding::warning(0..0, what)
            .help(format!(
                "run `chmod 600 {}`, or move the secrets to environment variables and write ${{VAR}}",
                source.path().display()
            ))
            .with_environment();
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
    fn command_line_overrides_the_variable() {
        let variable = variables(&[("MENDLINE_CONFIG", "/b.json"), ("HOME", "/home/x")]);
        assert_eq!(find(Some(Path::new("/a.json")), &variable).unwrap().path, Path::new("/a.json"));
        assert_eq!(find(None, &variable).unwrap(), ConfigFile { path: "/b.json".into(), is_ours: false });
    }

    #[test]
    fn without_a_name_only_the_user_directory_is_searched() {
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
        assert!(named.is_ours, "every file in the configuration directory is ours");
        assert_eq!(find(None, variables(&[("XDG_CONFIG_HOME", "relative")])), Err(NoConfigFile { expected: None }));
    }

    #[test]
    fn editor_file_yields_its_workspace() {
        assert_eq!(workspace(Path::new("/home/me/x/.vscode/mcp.json")), Some("/home/me/x".into()));
        assert_eq!(workspace(Path::new("/home/me/x/.mcp.json")), Some("/home/me/x".into()));
        assert_eq!(workspace(Path::new("/home/x/.config/mendline/config.json")), None);
    }
}
