//! The configuration, in the file formats that users already have.
//!
//! A file is parsed ([`file`](Source)), checked against one table of keys ([`keys`]), and lowered to the policies of
//! `mendline_core` and to the endpoint of a server ([`Server`]). All mistakes are reported at once ([`Finding`]), and
//! no possible secret is ever shown.
//!
//! This is a separate crate, so that a program that embeds Mendline with another configuration needs neither the
//! parsers nor the rendering of findings.
//!
//! # The owner of a file
//!
//! In Mendline's own file an unknown key is an error that names the nearest known key. In a file of a client an unknown
//! key belongs to the client. A file is Mendline's own if it is in Mendline's configuration directory, or has a
//! top-level `mendline`, or a `$schema` that names Mendline.
//!
//! # The effect of a mistake
//!
//! In Mendline's own file any mistake stops all servers, because its author can correct it and a partly applied file
//! would be surprising. A cause in the environment (an unset variable, for example) stops only its server. In a file of
//! another program a mistake stops only its server.

mod assignment;
mod auth;
mod check;
mod env_file;
mod file;
mod finding;
mod foreign;
mod invocation;
pub mod keys;
mod location;
mod lower;
mod name;
mod nearest;
mod schema;
mod variables;
mod watch;

use std::io;
use std::path::{Path, PathBuf};

use check::Checker;
use file::{Entry, Value};

pub use assignment::{Assignment, AssignmentError, KeyPath};
pub use auth::{
    Auth, ClientAuthMethod, ClientCredentials, ClientProof, CredentialHeader, KeyringUse, LoginStart, OAuth, Resource,
};
pub use check::Owner;
pub use file::json::OPTIONS as CLIENT_JSON_OPTIONS;
pub use file::{EditError, Editor, NewText, NewValue, ReadError, ReplaceError, Source, replace};
pub use finding::{Cause, Finding, RenderStyle, Scope, Severity};
pub use foreign::{ForeignEntry, load_foreign};
pub use invocation::{is_our_name, start_of_arguments};
pub use location::{ConfigFile, NoConfigFile, find};
pub use lower::{
    AccessSettings, CertificatePaths, Endpoint, LogSettings, PolicyError, PolicySet, Server, Tls, is_policy,
};
pub use name::{InvalidName, Name};
pub use nearest::nearest;
pub use schema::{key_table, schema};
pub use variables::{VariableError, expand, is_plain_variable_name, is_variable_name};
pub use watch::Watch;

/// Returns the value of a variable.
type Lookup = dyn Fn(&str) -> Option<String> + Send;

/// Returns the text of another file.
type Reader = dyn Fn(&Path) -> io::Result<String> + Send;

/// The environment of a file: variables, other files and directories that it refers to.
pub struct Environment {
    variables: Box<Lookup>,
    files: Box<Reader>,
    home: Option<PathBuf>,
    workspace: Option<PathBuf>,
    /// The directory of the file.
    directory: Option<PathBuf>,
}

impl Environment {
    /// Returns the environment of this process.
    pub fn of_process() -> Environment {
        Environment { home: std::env::home_dir(), ..Environment::new(|name| std::env::var(name).ok()) }
    }

    /// Creates an environment with these variables.
    pub fn new(variables: impl Fn(&str) -> Option<String> + Send + 'static) -> Environment {
        Environment {
            variables: Box::new(variables),
            files: Box::new(file::text_of),
            home: None,
            workspace: None,
            directory: None,
        }
    }

    /// Replaces the file system by these files, for tests.
    pub fn with_files(mut self, files: impl Fn(&Path) -> io::Result<String> + Send + 'static) -> Environment {
        self.files = Box::new(files);
        self
    }

    /// Returns the text of a file, by a path relative to the configuration file.
    pub(crate) fn text_beside(&self, path: &str) -> io::Result<String> {
        match &self.directory {
            Some(directory) => (self.files)(&directory.join(path)),
            None => (self.files)(Path::new(path)),
        }
    }

    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
        (self.variables)(name).or_else(|| match name {
            "userHome" => path(&self.home),
            "workspaceFolder" => path(&self.workspace),
            "workspaceFolderBasename" => {
                self.workspace.as_ref()?.file_name().map(|name| name.to_string_lossy().into_owned())
            }
            _ => None,
        })
    }
}

/// A loaded file.
#[derive(Debug)]
pub struct Loaded {
    /// The file.
    pub source: Source,
    /// Its owner.
    pub owner: Owner,
    /// The valid servers, in the order of the file.
    pub servers: Vec<Server>,
    /// The names of all servers, including invalid ones.
    pub names: Vec<String>,
    /// The settings of log files.
    pub logs: LogSettings,
    /// Access to the gateway.
    pub access: AccessSettings,
    /// The findings, in the order of the file.
    pub findings: Vec<Finding>,
}

impl Loaded {
    /// Returns the server with this name, if it is valid.
    pub fn server(&self, name: &str) -> Option<&Server> {
        self.servers.iter().find(|server| server.name == name)
    }

    /// Returns the findings that prevent this server from running.
    pub fn obstacles(&self, name: &str) -> Vec<&Finding> {
        let stops = |finding: &&Finding| {
            let is_of_servers = finding.scope == Scope::Servers;
            let concerns_it = is_of_servers && finding.server.as_deref().is_none_or(|server| server == name);
            let concerns_all = self.owner == Owner::Mendline && finding.cause == Cause::File;
            finding.is_error() && (concerns_it || concerns_all)
        };
        self.findings.iter().filter(stops).collect()
    }

    /// Returns the findings that prevent the gateway from running, whatever its servers are.
    pub fn gateway_obstacles(&self) -> Vec<&Finding> {
        self.findings.iter().filter(|finding| finding.is_error() && finding.scope == Scope::Gateway).collect()
    }

    /// Returns whether the file has errors.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(Finding::is_error)
    }

    /// Returns these findings, rendered for a user, with an empty line between them.
    pub fn render<'a>(&self, findings: impl IntoIterator<Item = &'a Finding>, style: RenderStyle) -> String {
        let rendered: Vec<_> = findings.into_iter().map(|finding| finding.render(&self.source, style)).collect();
        rendered.join("\n\n")
    }
}

/// Loads a file. `is_ours` means that it is in Mendline's configuration directory.
pub fn load(source: Source, is_ours: bool, environment: Environment) -> Loaded {
    load_with(source, environment, |tree, source| owner_of(tree, source, is_ours), check_file)
}

/// Loads the servers of a client below this path of keys, such as those of one project.
pub fn load_section(source: Source, section: &[String], environment: Environment) -> Loaded {
    let check = |tree: &Value, checker: &mut Checker<'_>, loaded: &mut Loaded| {
        // The rest of the file belongs to the client and is not shown.
        checker.mask(tree);
        let entries = section.iter().try_fold(tree, |value, key| value.get(key)).and_then(Value::table);
        for entry in entries.unwrap_or_default() {
            lower::server(entry, &Default::default(), checker, loaded);
        }
    };
    load_with(source, environment, |_, _| Owner::OtherProgram, check)
}

fn load_with(
    source: Source,
    environment: Environment,
    owner: impl Fn(&Value, &Source) -> Owner,
    check: impl Fn(&Value, &mut Checker<'_>, &mut Loaded),
) -> Loaded {
    let tree = source.parse();
    load_tree(source, tree, environment, owner, check)
}

/// Checks the tree of a file.
fn load_tree(
    source: Source,
    tree: Result<Value, Finding>,
    environment: Environment,
    owner: impl Fn(&Value, &Source) -> Owner,
    check: impl Fn(&Value, &mut Checker<'_>, &mut Loaded),
) -> Loaded {
    let mut environment = environment;
    environment.workspace = location::workspace(source.path());
    environment.directory = source.path().parent().map(Path::to_owned);
    let mut loaded = Loaded {
        owner: Owner::OtherProgram,
        source,
        servers: Vec::new(),
        names: Vec::new(),
        logs: LogSettings::default(),
        access: AccessSettings::default(),
        findings: Vec::new(),
    };
    let tree = match tree {
        Ok(tree) => tree,
        Err(finding) => {
            loaded.findings.push(finding);
            return loaded;
        }
    };
    loaded.owner = owner(&tree, &loaded.source);
    let mut checker = Checker::new(&environment, loaded.owner);
    check(&tree, &mut checker, &mut loaded);
    let Checker { mut findings, secrets, .. } = checker;
    findings.sort_by_key(|finding| finding.at.as_ref().map(|at| at.start));
    let shown = file::mask(loaded.source.text(), secrets);
    loaded.source.show_as(shown);
    findings.extend(location::permission_warning(&loaded.source, &loaded.servers));
    loaded.findings = findings;
    loaded
}

fn owner_of(tree: &Value, source: &Source, is_ours: bool) -> Owner {
    let names_us = |value: &Value| matches!(&value.kind, file::ValueKind::Text(text) if text.contains("mendline"));
    let says_so = tree.get("mendline").is_some() || tree.get("$schema").is_some_and(names_us);
    // TOML files belong to Codex, which has many other keys.
    if (is_ours || says_so) && source.language() == file::Language::Json {
        Owner::Mendline
    } else {
        Owner::OtherProgram
    }
}

fn check_file(tree: &Value, checker: &mut Checker<'_>, loaded: &mut Loaded) {
    let Some(entries) = tree.table() else {
        let what = format!("a configuration must be an object, not {}", tree.kind_name());
        checker.report(Finding::error(tree.at.clone(), what).help("write `{ \"mcpServers\": {} }`"));
        return;
    };
    // Servers are checked one by one under their names; everything else at the top level is checked as one object.
    let (servers, rest): (Vec<_>, Vec<_>) = entries.iter().cloned().partition(|entry| holds_servers(&entry.key));
    let top = match checker.owner {
        Owner::Mendline => checker.block(&rest, keys::TOP, false),
        // Other keys of a client are ignored; `mendline` is checked.
        Owner::OtherProgram => {
            let ours: Vec<Entry> = rest.iter().filter(|entry| entry.key == "mendline").cloned().collect();
            rest.iter().filter(|entry| entry.key != "mendline").for_each(|entry| checker.mask(&entry.value));
            checker.block(&ours, keys::TOP, false)
        }
    };
    let defaults = lower::defaults(&top, checker);
    loaded.logs = lower::logs(&top, checker);
    let nested = tree.get("mcp").and_then(|mcp| mcp.get("servers")).filter(|_| checker.owner == Owner::OtherProgram);
    let tables = servers.iter().map(|entry| (entry.key.as_str(), &entry.value)).chain(nested.map(|it| ("servers", it)));
    let mut is_there = false;
    for (key, value) in tables {
        let Some(entries) = value.table() else {
            checker.mask(value);
            let what = format!("`{key}` must be an object of servers, not {}", value.kind_name());
            checker.report(
                Finding::error(value.at.clone(), what).help("for example { \"notes\": { \"command\": \"…\" } }"),
            );
            continue;
        };
        is_there = true;
        for entry in entries {
            lower::server(entry, &defaults, checker, loaded);
        }
    }
    loaded.access = lower::access(&top, checker, &loaded.names);
    if !is_there && !checker.findings.iter().any(Finding::is_error) {
        let at = tree.at.start..tree.at.start;
        checker.report(Finding::warning(at, "this file has no servers").help("add them under `mcpServers`"));
    }
}

fn holds_servers(key: &str) -> bool {
    matches!(key, "mcpServers" | "servers" | "context_servers") || key == keys::CODEX_SERVERS
}
