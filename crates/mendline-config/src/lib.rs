//! The configuration: the file that people already have.
//!
//! A file is read as it was written ([`file`](Source)), checked against one table of keys ([`keys`]), and lowered to the
//! typed policies of `mendline_core` and to how a server is reached ([`Server`]). Everything that is wrong is said at once
//! ([`Finding`]), and nothing that might be a secret is ever shown.
//!
//! This is a crate of its own so that a program which embeds Mendline and has its configuration from elsewhere does not
//! carry two parsers and a painter of error messages.
//!
//! # Whose file it is
//!
//! In Mendline's own file an unknown key is an error with the nearest right one. A client's file is read as well, and what
//! is not known there is the client's business. A file is Mendline's own when it lies where Mendline looks for it, or has a
//! top-level `mendline`, or a `$schema` that names Mendline.
//!
//! # What a mistake stops
//!
//! In Mendline's own file a mistake anywhere stops everything: whoever wrote it is there to mend it, and a half-read file
//! is a surprise later. What depends on the circumstances (a variable that is not set here) stops only the server that it
//! concerns. In another program's file, only what concerns a server stops that server.

mod check;
mod env_file;
mod file;
mod finding;
pub mod keys;
mod lower;
mod name;
mod nearest;
mod location;
mod schema;
mod variables;
mod watch;

use std::io;
use std::path::{Path, PathBuf};

use check::Checker;
use file::{Entry, Value};

pub use check::Owner;
pub use file::Source;
pub use file::json::OPTIONS as CLIENT_JSON_OPTIONS;
pub use finding::{Fault, Finding, Paint, Weight};
pub use lower::{LogSettings, Reach, Server};
pub use name::Name;
pub use nearest::nearest;
pub use location::{ConfigFile, NoConfigFile, find};
pub use schema::{key_table, schema};
pub use variables::{VariableError, expand, is_plain_variable_name, is_variable_name};
pub use watch::Watch;

/// What a variable holds.
type Lookup = dyn Fn(&str) -> Option<String> + Send;

/// What another file holds.
type Reader = dyn Fn(&Path) -> io::Result<String> + Send;

/// What a file refers to and does not hold.
pub struct Environment {
    variables: Box<Lookup>,
    files: Box<Reader>,
    home: Option<PathBuf>,
    workspace: Option<PathBuf>,
    /// Where the file lies.
    directory: Option<PathBuf>,
}

impl Environment {
    /// Those of this process.
    pub fn of_process() -> Environment {
        Environment { home: std::env::home_dir(), ..Environment::new(|name| std::env::var(name).ok()) }
    }

    /// An environment that somebody made up.
    pub fn new(variables: impl Fn(&str) -> Option<String> + Send + 'static) -> Environment {
        Environment {
            variables: Box::new(variables),
            files: Box::new(file::text_of),
            home: None,
            workspace: None,
            directory: None,
        }
    }

    /// The same with files that somebody made up, too: then no disk is looked at for what the file refers to.
    pub fn with_files(mut self, files: impl Fn(&Path) -> io::Result<String> + Send + 'static) -> Environment {
        self.files = Box::new(files);
        self
    }

    /// What stands behind a path that the file names: as it is written, or from where the file lies.
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

/// What became of a file.
#[derive(Debug)]
pub struct Loaded {
    /// The file.
    pub source: Source,
    /// Whose it is.
    pub owner: Owner,
    /// The servers that can be understood, in the order of the file.
    pub servers: Vec<Server>,
    /// All names, those that cannot be understood included.
    pub names: Vec<String>,
    /// What it says about log files.
    pub logs: LogSettings,
    /// What is to be said about it, in the order of the file.
    pub findings: Vec<Finding>,
}

impl Loaded {
    /// The server of this name, if it can be understood.
    pub fn server(&self, name: &str) -> Option<&Server> {
        self.servers.iter().find(|server| server.name == name)
    }

    /// What keeps this server from being run.
    pub fn obstacles(&self, name: &str) -> Vec<&Finding> {
        let stops = |finding: &&Finding| {
            let concerns_it = finding.server.as_deref().is_none_or(|server| server == name);
            let concerns_all = self.owner == Owner::Mendline && finding.fault == Fault::File;
            finding.is_error() && (concerns_it || concerns_all)
        };
        self.findings.iter().filter(stops).collect()
    }

    /// Is anything in it unusable?
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(Finding::is_error)
    }

    /// These findings, painted for a person, with an empty line between them.
    pub fn render<'a>(&self, findings: impl IntoIterator<Item = &'a Finding>, paint: Paint) -> String {
        let painted: Vec<_> = findings.into_iter().map(|finding| finding.render(&self.source, paint)).collect();
        painted.join("\n\n")
    }
}

/// Reads what a file means. `is_ours` says that it lies where Mendline looks for its own.
pub fn load(source: Source, is_ours: bool, environment: Environment) -> Loaded {
    let mut environment = environment;
    environment.workspace = location::workspace(source.path());
    environment.directory = source.path().parent().map(Path::to_owned);
    let mut loaded = Loaded {
        owner: Owner::OtherProgram,
        source,
        servers: Vec::new(),
        names: Vec::new(),
        logs: LogSettings::default(),
        findings: Vec::new(),
    };
    let tree = match loaded.source.parse() {
        Ok(tree) => tree,
        Err(finding) => {
            loaded.findings.push(finding);
            return loaded;
        }
    };
    loaded.owner = owner_of(&tree, &loaded.source, is_ours);
    let mut checker = Checker::new(&environment, loaded.owner);
    check_file(&tree, &mut checker, &mut loaded);
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
    // TOML is Codex's, which has a hundred other keys in there.
    if (is_ours || says_so) && source.language() == file::Language::Json { Owner::Mendline } else { Owner::OtherProgram }
}

fn check_file(tree: &Value, checker: &mut Checker<'_>, loaded: &mut Loaded) {
    let Some(entries) = tree.table() else {
        let what = format!("a configuration is a block in braces, and this is {}", tree.kind_name());
        checker.report(Finding::error(tree.at.clone(), what).help("write `{ \"mcpServers\": {} }`"));
        return;
    };
    // Servers are read one by one, each under its own name; everything else at the top is read as one block.
    let (servers, rest): (Vec<_>, Vec<_>) = entries.iter().cloned().partition(|entry| holds_servers(&entry.key));
    let top = match checker.owner {
        Owner::Mendline => checker.block(&rest, keys::TOP, false),
        // Whatever else a client keeps there, it is not for us; but what is for us is read.
        Owner::OtherProgram => {
            let ours: Vec<Entry> = rest.iter().filter(|entry| entry.key == "mendline").cloned().collect();
            rest.iter().filter(|entry| entry.key != "mendline").for_each(|entry| checker.mask(&entry.value));
            checker.block(&ours, keys::TOP, false)
        }
    };
    let defaults = lower::defaults(&top, checker);
    loaded.logs = lower::logs(&top, checker);
    let nested = tree.get("mcp").and_then(|mcp| mcp.get("servers")).filter(|_| checker.owner == Owner::OtherProgram);
    let places = servers.iter().map(|entry| (entry.key.as_str(), &entry.value)).chain(nested.map(|it| ("servers", it)));
    let mut is_there = false;
    for (key, value) in places {
        let Some(entries) = value.table() else {
            checker.mask(value);
            let what = format!("`{key}` must be names with blocks in braces, and is {}", value.kind_name());
            checker.report(Finding::error(value.at.clone(), what).help("for example { \"notes\": { \"command\": \"…\" } }"));
            continue;
        };
        is_there = true;
        for entry in entries {
            lower::server(entry, &defaults, checker, loaded);
        }
    }
    if !is_there && !checker.findings.iter().any(Finding::is_error) {
        let at = tree.at.start..tree.at.start;
        checker.report(Finding::warning(at, "there are no servers in this file").help("they stand under `mcpServers`"));
    }
}

fn holds_servers(key: &str) -> bool {
    matches!(key, "mcpServers" | "servers" | "context_servers") || key == keys::CODEX_SERVERS
}
