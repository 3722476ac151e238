//! The entries of clients' files, for other commands: which there are, and which file gets a new one.

use std::borrow::Cow;
use std::path::PathBuf;

use mendline_config::start_of_arguments;

use super::clients::{Client, ClientDirectories, ConfigLocation, Scope};
use super::dialect::Dialect;
use super::document::{Document, Entry, Section, Syntax};
use super::file;
use super::plan::{Action, Chosen, EntryResult, Plan};
use super::program::Program;
use super::tree::{Member, Value};
use super::wrap_entry::arguments_of;

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

/// Returns the names of the entries in a section that `mendline wrap` changes, unless it is told otherwise.
pub(crate) fn wrappable(location: &ConfigLocation) -> Vec<String> {
    let program = Program::at(Cow::Borrowed("mendline"));
    let Ok(Some(source)) = file::read(&location.path) else { return Vec::new() };
    let (syntax, section) = (Syntax::of(&source.real), std::slice::from_ref(&location.section));
    let plan = Plan::make(source.text, syntax, section, Action::Wrap { program: &program }, &Chosen::new());
    let servers = plan.map(|plan| plan.servers).unwrap_or_default().into_iter();
    servers.filter(|server| server.result == EntryResult::Changed).map(|server| server.name).collect()
}

/// Returns the names in a section of a text, also of entries that are not servers.
pub(crate) fn names_in(text: &str, syntax: Syntax, section: &Section) -> Vec<String> {
    let document = Document::parse(text, syntax);
    let names = |document: Document<'_>| document.servers(section).iter().map(|member| member.key.clone()).collect();
    document.map(names).unwrap_or_default()
}

/// Returns the place for a new entry of a client's user: in the file that has such entries, else in one that exists, else
/// in a new file at the usual place. `None` if a new file would hide the settings of the existing one.
pub(crate) fn place(directories: &ClientDirectories, client: Client) -> Option<ConfigLocation> {
    let mut locations = directories.locations_of(client);
    locations.retain(|location| location.scope == Scope::User);
    // Continue ignores its older file as soon as there is the newer one, and the older one has other entries.
    let is_usable =
        |location: &ConfigLocation| client != Client::Continue || Syntax::of(&location.path) == Syntax::Yaml;
    let is_there = |location: &ConfigLocation| location.path.exists();
    if client == Client::Continue && !is_there(&locations[0]) {
        let older = locations.iter().any(|location| location.path.ends_with("config.json"));
        let newer = locations.iter().any(|location| location.path.ends_with("config.yml"));
        if older && !newer {
            return None;
        }
    }
    let in_use = |location: &ConfigLocation| {
        let Ok(Some(source)) = file::read(&location.path) else { return false };
        let document = Document::parse(&source.text, Syntax::of(&source.real));
        document.is_ok_and(|document| document.has(&location.section))
    };
    let usable: Vec<&ConfigLocation> = locations.iter().filter(|location| is_usable(location)).collect();
    // opencode has the longer section inside the shorter one.
    let longest_first = usable.iter().rev().find(|location| client == Client::OpenCode && in_use(location));
    let found = longest_first.or_else(|| usable.iter().find(|location| in_use(location)));
    found.or_else(|| usable.iter().find(|location| is_there(location))).or(usable.first()).map(|it| (*it).clone())
}

#[cfg(test)]
#[path = "client_files_tests.rs"]
mod tests;
