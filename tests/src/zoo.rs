//! The zoo: published MCP servers and client libraries of many authors, each directly and through `mendline run`.
//!
//! `tests/zoo/zoo.json` is the [manifest]: packages with exact versions, command lines, and one harmless call
//! for each server. The [server check](server_check) compares the answers through Mendline with those of two direct
//! runs, as [JSON](answers), and kills the server between two calls and during a call. The
//! [client check](client_check) runs a short script on each client library. The result is one [table].
//!
//! `cargo xtask zoo` installs the packages from lock files into `target/zoo` and runs the binary `zoo`.

pub mod answers;
pub mod client_check;
pub mod in_flight;
pub mod listener;
pub mod manifest;
pub mod server_check;
pub mod session;
pub mod table;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the parts of the zoo are.
#[derive(Clone, Debug)]
pub struct Zoo {
    /// The installed packages and the logs.
    pub home: PathBuf,
    /// The `mendline` binary.
    pub mendline: PathBuf,
}

/// Variables for every program: no telemetry, and a proxy that does not exist for all traffic but that of loopback.
const ENVIRONMENT: [(&str, &str); 10] = [
    ("DO_NOT_TRACK", "1"),
    ("CI", "1"),
    ("MCP_USE_ANONYMIZED_TELEMETRY", "false"),
    ("NO_COLOR", "1"),
    ("HTTP_PROXY", "http://127.0.0.1:9"),
    ("HTTPS_PROXY", "http://127.0.0.1:9"),
    ("http_proxy", "http://127.0.0.1:9"),
    ("https_proxy", "http://127.0.0.1:9"),
    ("NO_PROXY", "127.0.0.1,localhost"),
    ("no_proxy", "127.0.0.1,localhost"),
];

impl Zoo {
    /// Returns an empty folder for the logs and files of one check.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be created.
    pub fn folder(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.home.join("runs").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        Ok(folder)
    }

    /// Replaces the placeholders of the manifest: `{install}`, `{clients}`, `{folder}` and `{port}`.
    pub fn fill(&self, text: &str, install: &str, folder: &Path, port: u16) -> OsString {
        let install = self.home.join(install);
        text.replace("{install}", &install.to_string_lossy())
            .replace("{folder}", &folder.to_string_lossy())
            .replace("{clients}", &self.home.join("clients").to_string_lossy())
            .replace("{port}", &port.to_string())
            .into()
    }
}

/// Returns the variables that every program gets. Its home is the folder of the check.
pub fn environment(folder: &Path) -> Vec<(String, OsString)> {
    let common = ENVIRONMENT.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value)));
    common.chain([("HOME".to_owned(), folder.as_os_str().to_owned())]).collect()
}
