//! The manifest of the zoo, `tests/zoo/zoo.json`.
//!
//! An installation is `npm/NAME` or `pypi/NAME`: a folder below `tests/zoo` with `package.json` and
//! `package-lock.json`, or the file `tests/zoo/pypi/NAME.txt` with hashes. Servers whose dependencies agree share one.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

/// The manifest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The servers.
    pub servers: Vec<Server>,
    /// The client libraries.
    pub clients: Vec<Client>,
}

/// A package with its exact version.
#[derive(Clone, Debug, Deserialize)]
pub struct Package {
    /// The name in its registry.
    pub package: String,
    /// The version in the lock file.
    pub version: String,
    /// `npm/NAME` or `pypi/NAME`.
    pub install: String,
}

/// A server.
#[derive(Clone, Debug, Deserialize)]
pub struct Server {
    /// The name in the table. The same package may have several names, one per transport.
    pub name: String,
    /// The package.
    #[serde(flatten)]
    pub package: Package,
    /// The language of the server, not that of a wrapper around it.
    pub language: String,
    /// The transport.
    pub transport: Transport,
    /// The command line, with placeholders.
    pub command: Vec<String>,
    /// Variables, with placeholders.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The path of its URL.
    #[serde(default = "mcp")]
    pub path: String,
    /// Files that it needs in its folder, by name; the contents have placeholders.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// A shell command in its folder that creates what files cannot express, such as a repository.
    #[serde(default)]
    pub prepare: Option<String>,
    /// A harmless call, whose answer does not depend on earlier calls.
    pub call: Call,
    /// A call that takes a moment. Without it, the server is stopped before `call` and killed when the call has
    /// arrived.
    #[serde(default)]
    pub work: Option<Work>,
    /// Options of `mendline run` that this server needs.
    #[serde(default)]
    pub flags: Vec<String>,
    /// Values of the answer to `call` that vary without Mendline too, although two direct runs agree.
    #[serde(default)]
    pub quirks: Vec<Quirk>,
    /// Whether `cargo xtask test` runs it.
    #[serde(default)]
    pub sample: bool,
    /// A remark for readers of the manifest.
    #[serde(default)]
    pub remark: Option<String>,
}

/// A value that a server varies by itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quirk {
    /// The JSON pointer of the value in the message. It must exist, and its content is not compared.
    pub path: String,
    /// When it varies.
    pub reason: String,
}

/// The transport of a server.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub enum Transport {
    /// A child with pipes.
    #[serde(rename = "stdio")]
    Stdio,
    /// Streamable HTTP.
    #[serde(rename = "http")]
    Http,
    /// HTTP with SSE, of revision 2024-11-05.
    #[serde(rename = "sse")]
    Sse,
}

impl Transport {
    /// Returns the name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "Streamable HTTP",
            Self::Sse => "SSE",
        }
    }
}

/// A call of a tool.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The tool.
    pub tool: String,
    /// Its arguments, with placeholders in strings.
    #[serde(default)]
    pub arguments: Value,
}

/// A call that takes a moment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// The tool.
    pub tool: String,
    /// Its arguments, with placeholders in strings.
    #[serde(default)]
    pub arguments: Value,
    /// What shows that the server is at work.
    pub shown_by: Sign,
}

/// What shows that a server is at work.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Sign {
    /// A progress notification.
    Progress,
    /// A child process of the server.
    Process,
}

/// A client library.
#[derive(Clone, Debug, Deserialize)]
pub struct Client {
    /// The name in the table.
    pub name: String,
    /// The package.
    #[serde(flatten)]
    pub package: Package,
    /// The language.
    pub language: String,
    /// The command line of its script, with placeholders. The command line of the server follows.
    pub command: Vec<String>,
    /// Whether `cargo xtask test` runs it.
    #[serde(default)]
    pub sample: bool,
}

impl Manifest {
    /// Reads the manifest in this folder.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be read or is not valid.
    pub fn read(source: &Path) -> Result<Self, String> {
        let file = source.join("zoo.json");
        let text = std::fs::read_to_string(&file).map_err(|why| format!("{}: {why}", file.display()))?;
        serde_json::from_str(&text).map_err(|why| format!("{}: {why}", file.display()))
    }
}

fn mcp() -> String {
    "/mcp".into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use serde_json::Value;

    use super::{Manifest, Package, Transport};

    fn source() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("zoo")
    }

    fn manifest() -> Manifest {
        Manifest::read(&source()).unwrap()
    }

    /// Returns the version in the lock file.
    fn locked(package: &Package) -> Option<String> {
        let (registry, name) = package.install.split_once('/')?;
        if registry == "npm" {
            let lock = std::fs::read_to_string(source().join("npm").join(name).join("package-lock.json")).ok()?;
            let lock: Value = serde_json::from_str(&lock).ok()?;
            let locked = &lock["packages"][format!("node_modules/{}", package.package)];
            assert!(locked["integrity"].is_string(), "{package:?} has no hash");
            return locked["version"].as_str().map(ToOwned::to_owned);
        }
        let lock = std::fs::read_to_string(source().join("pypi").join(format!("{name}.txt"))).ok()?;
        let start = format!("{}==", package.package.replace('.', "-"));
        let line = lock.lines().find_map(|line| line.strip_prefix(&start))?;
        Some(line.trim_end_matches([' ', '\\']).to_owned())
    }

    #[test]
    fn every_package_is_pinned_in_its_lock_file() {
        let manifest = manifest();
        let packages = manifest.servers.iter().map(|server| &server.package);
        for package in packages.chain(manifest.clients.iter().map(|client| &client.package)) {
            assert_eq!(locked(package).as_ref(), Some(&package.version), "{package:?}");
        }
    }

    #[test]
    fn manifest_has_forty_packages_and_ten_clients() {
        let manifest = manifest();
        let packages: BTreeSet<_> = manifest.servers.iter().map(|server| &server.package.package).collect();
        let languages: BTreeSet<_> = manifest.servers.iter().map(|server| server.language.as_str()).collect();
        assert!(packages.len() >= 40, "{}", packages.len());
        assert_eq!(languages, BTreeSet::from(["C#", "Go", "Python", "Rust", "TypeScript"]));
        for transport in [Transport::Stdio, Transport::Http, Transport::Sse] {
            assert!(manifest.servers.iter().any(|server| server.transport == transport), "{transport:?}");
        }
        let clients: BTreeSet<_> =
            manifest.clients.iter().map(|client| (&client.package.package, &client.package.version)).collect();
        assert!(clients.len() >= 10, "{clients:?}");
    }

    #[test]
    fn sample_has_eight_servers_of_all_languages_and_three_clients() {
        let manifest = manifest();
        let sample: Vec<_> = manifest.servers.iter().filter(|server| server.sample).collect();
        let kinds: BTreeSet<_> =
            sample.iter().map(|server| (server.language.as_str(), server.transport.name())).collect();
        let languages: BTreeSet<_> = kinds.iter().map(|(language, _)| *language).collect();
        let transports: BTreeSet<_> = kinds.iter().map(|(_, transport)| *transport).collect();
        assert_eq!((sample.len(), kinds.len(), languages.len(), transports.len()), (8, 8, 5, 3), "{kinds:?}");
        assert_eq!(manifest.clients.iter().filter(|client| client.sample).count(), 3);
    }

    #[test]
    fn names_are_unique() {
        let manifest = manifest();
        let servers = manifest.servers.iter().map(|server| &server.name);
        let names: Vec<_> = servers.chain(manifest.clients.iter().map(|client| &client.name)).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
    }
}
