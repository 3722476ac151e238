//! The entries of clients' files, for other commands: which there are, and a new one.
//!
//! A new entry is a text that is inserted, so that everything else in the file stays as it is. The result is parsed
//! again before it is written. In a file whose notation has no place for it, the entry to write by hand is the error.

use std::fs;
use std::path::{Path, PathBuf};

use super::clients::{Client, ClientDirectories, ConfigLocation, Scope};
use super::dialect::Dialect;
use super::diff::{self, DiffStyle};
use super::document::{Document, Entry, Section, Syntax};
use super::edit::Edit;
use super::file::{self, Source};
use super::insertion;
use super::program::start_of_arguments;
use super::tree::{Member, Value};
use super::wrap_entry::arguments_of;

/// Returns all supported clients.
#[allow(dead_code, reason = "`add --client` does not write entries of other forms yet")]
pub(crate) fn clients() -> [Client; Client::ALL.len()] {
    Client::ALL
}

/// An entry of a client's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientEntry {
    pub(crate) client: Client,
    pub(crate) scope: Scope,
    pub(crate) path: PathBuf,
    pub(crate) section: Section,
    pub(crate) name: String,
    /// The server that the client or, if it is wrapped, Mendline reaches.
    pub(crate) server: EntryServer,
    /// The arguments of Mendline, from `run` on, if the entry runs it.
    pub(crate) run: Option<Vec<String>>,
    pub(crate) is_disabled: bool,
}

/// The server of an entry. Values are those of the file: variables in them are not expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EntryServer {
    Command {
        words: Vec<String>,
        environment: Vec<(String, String)>,
    },
    Url {
        url: String,
        transport: Option<String>,
        headers: Vec<(String, String)>,
    },
    /// Mendline runs the server of this name in its own configuration.
    Named(String),
    /// It is not known: the entry has neither a command nor a URL, or is not a table.
    Unknown,
}

/// Returns the entries in the files of one client, or of all. Files that cannot be read are left out.
pub(crate) fn entries(client: Option<Client>) -> Vec<ClientEntry> {
    ClientDirectories::of_process().map(|directories| entries_in(&directories, client)).unwrap_or_default()
}

fn entries_in(directories: &ClientDirectories, client: Option<Client>) -> Vec<ClientEntry> {
    let mut found = Vec::new();
    for location in directories.locations() {
        if client.is_some_and(|client| client != location.client) {
            continue;
        }
        let Ok(Some(source)) = file::read(&location.path) else { continue };
        let Ok(document) = Document::parse(&source.text, Syntax::of(&source.real)) else { continue };
        let servers = document.servers(&location.section).iter();
        let servers = servers.filter(|member| document.is_server(&location.section, member));
        found.extend(servers.map(|member| entry_of(&location, &document, member)));
    }
    found
}

fn entry_of(location: &ConfigLocation, document: &Document<'_>, member: &Member) -> ClientEntry {
    let entry = document.entry(&location.section, member);
    let is_off = |key: &str, value: &str| {
        let found = member.table().and_then(|table| table.get(key));
        found.is_some_and(|found| &document.text[found.value.range.clone()] == value)
    };
    ClientEntry {
        client: location.client,
        scope: location.scope,
        path: location.path.clone(),
        section: location.section.clone(),
        name: member.key.clone(),
        server: entry.as_ref().map_or(EntryServer::Unknown, server_of),
        run: entry.as_ref().and_then(run_of),
        is_disabled: is_off("disabled", "true") || is_off("enabled", "false"),
    }
}

fn run_of(entry: &Entry<'_>) -> Option<Vec<String>> {
    let words = entry.words()?;
    let at = start_of_arguments(&words)?;
    Some(words[at..].iter().map(|word| (*word).to_owned()).collect())
}

/// Returns the server of an entry; behind Mendline, if the entry is wrapped.
fn server_of(entry: &Entry<'_>) -> EntryServer {
    let environment = pairs(entry.environment());
    let variable = |name: &str| environment.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone());
    if let Some(wrapped) = arguments_of(entry) {
        let arguments: Vec<&str> =
            entry.arguments().unwrap_or_default().iter().filter_map(|item| item.text()).collect();
        let url = wrapped.url_variable.as_deref().and_then(variable);
        let target = wrapped.url.and_then(|at| arguments.get(at)).map(|target| (*target).to_owned());
        let headers = wrapped.header_variables.iter();
        let headers = headers.filter_map(|(name, holder)| Some((name.clone(), variable(holder)?))).collect();
        return match (wrapped.command, url, target) {
            (Some(at), ..) => {
                let words = arguments[at.min(arguments.len())..].iter().map(|word| (*word).to_owned()).collect();
                EntryServer::Command { words, environment }
            }
            (None, Some(url), _) => EntryServer::Url { url, transport: wrapped.transport, headers },
            (None, None, Some(url)) if url.contains("://") => {
                EntryServer::Url { url, transport: wrapped.transport, headers }
            }
            (None, None, Some(name)) => EntryServer::Named(name),
            (None, None, None) => EntryServer::Unknown,
        };
    }
    if let Some(words) = entry.words() {
        let words = words.into_iter().map(str::to_owned).collect();
        return EntryServer::Command { words, environment };
    }
    let kind = entry.kind().and_then(Member::text).map(str::to_owned);
    match entry.urls().find_map(|url| Some((url.key.as_str(), url.text()?.to_owned()))) {
        Some((key, url)) => {
            let transport = kind.or_else(|| Dialect::transport_of(key).map(str::to_owned));
            EntryServer::Url { url, transport, headers: pairs(entry.headers()) }
        }
        None => EntryServer::Unknown,
    }
}

/// Returns the texts of a table.
fn pairs(member: Option<&Member>) -> Vec<(String, String)> {
    match member.map(|member| &member.value.value) {
        Some(Value::Table(table) | Value::Dotted(table)) => {
            table.members.iter().filter_map(|member| Some((member.key.clone(), member.text()?.to_owned()))).collect()
        }
        _ => Vec::new(),
    }
}

/// A new entry that was not written yet.
#[allow(dead_code, reason = "`add --client` does not write entries of other forms yet")]
pub(crate) struct NewEntry {
    /// The file that gets it.
    pub(crate) path: PathBuf,
    source: Option<Source>,
    edits: Vec<Edit>,
    after: String,
    syntax: Syntax,
}

/// Plans an entry of this name and command line in the usual file of a client. An error says why it cannot be added, and
/// names the next step.
#[allow(dead_code, reason = "`add --client` does not write entries of other forms yet")]
pub(crate) fn insert(client: Client, scope: Scope, name: &str, words: &[String]) -> Result<NewEntry, String> {
    insert_in(&ClientDirectories::of_process()?, client, scope, name, words)
}

fn insert_in(
    directories: &ClientDirectories,
    client: Client,
    scope: Scope,
    name: &str,
    words: &[String],
) -> Result<NewEntry, String> {
    let locations = directories.locations_of(client);
    let fitting: Vec<&ConfigLocation> = locations.iter().filter(|location| location.scope == scope).collect();
    // A file with the section is the one in use, otherwise a file that exists, otherwise the usual one.
    let text = |location: &ConfigLocation| file::read(&location.path).ok().flatten();
    let has_section = |location: &ConfigLocation| {
        text(location).is_some_and(|source| {
            let document = Document::parse(&source.text, Syntax::of(&source.real));
            document.is_ok_and(|document| document.has(&location.section))
        })
    };
    let location = fitting.iter().find(|location| has_section(location));
    let location = location.or_else(|| fitting.iter().find(|location| location.path.exists())).or(fitting.first());
    let location = location.ok_or_else(|| no_file(client, scope, &locations))?;
    let path = location.path.clone();
    let source = file::read(&path).map_err(|reason| format!("{}: {reason}", path.display()))?;
    let syntax = Syntax::of(source.as_ref().map_or(&path, |source| &source.real));
    let before = source.as_ref().map_or("", |source| source.text.as_str());
    let edits = insertion::plan(before, syntax, client, &location.section, name, words)
        .map_err(|reason| format!("{}: {reason}", path.display()))?;
    let after = super::edit::apply(before, &edits);
    Ok(NewEntry { path, source, edits, after, syntax })
}

fn no_file(client: Client, scope: Scope, locations: &[ConfigLocation]) -> String {
    let mut scopes: Vec<&str> = locations.iter().map(|location| location.scope.word()).collect();
    scopes.dedup();
    let (title, scope) = (client.title(), scope.word());
    format!("{title} has no file of the scope {scope}; it has {}", scopes.join(", "))
}

#[allow(dead_code, reason = "`add --client` does not write entries of other forms yet")]
impl NewEntry {
    /// Formats the change, without secrets.
    pub(crate) fn diff(&self, colour: bool) -> String {
        let before = self.source.as_ref().map_or("", |source| source.text.as_str());
        diff::render(&super::shown(&self.path), before, &self.edits, self.syntax, DiffStyle { colour })
    }

    /// Writes the file. Returns the path of the backup, if there was a file before.
    pub(crate) fn write(&self) -> Result<Option<PathBuf>, String> {
        let told = |reason: String| format!("{}: not written, because {reason}", self.path.display());
        match &self.source {
            Some(source) => source.replace(&self.after).map(Some).map_err(|reason| told(reason.to_string())),
            None => create(&self.path, &self.after).map(|()| None).map_err(told),
        }
    }
}

/// Creates a file with its directories. An existing one is not replaced.
#[allow(dead_code, reason = "`add --client` does not write entries of other forms yet")]
fn create(path: &Path, text: &str) -> Result<(), String> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| format!("its directory cannot be made: {error}"))?;
    }
    file::create(path, text)
}

#[cfg(test)]
#[path = "client_files_tests.rs"]
mod tests;
