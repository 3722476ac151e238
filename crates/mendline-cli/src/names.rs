//! The names of servers: one set for all commands.
//!
//! A server is known by an entry of the own configuration file, by an entry in the file of a client, wrapped or not, or
//! by a process that runs it. The own file comes first: its author has chosen its names for this program. Then the files
//! of clients follow, in which a name may occur more than once. Entries that lead to the same server count as one; others
//! are ambiguous, and are told apart by their client: `cursor/notes`.
//!
//! The files of a project in the working directory are not searched: a repository must not choose commands to run. An
//! error names them, with the flag that uses them.

use std::path::{Path, PathBuf};

use mendline::control::Registry;
use mendline::control::snapshot::TransportKind;
use mendline::decisions::config::Transport;
use mendline_config::{Environment, Loaded, Name, Server, Source, load, load_section, nearest};

use crate::cli::{UNKNOWN, USAGE};
use crate::named::{Named, NamedFile, Refusal, entry, locate, own_entry, read};
use crate::plan::{self, Plan};
use crate::server_flags::Line;
use crate::target::ServerSelector;
use crate::untrusted_text::one_line;
use crate::wrap::clients::{Client, ClientDirectories, ConfigLocation, Scope};
use crate::wrap::{client_files, translation};

/// The longest list of names in an error.
const MOST_NAMES: usize = 40;

/// A file of a client.
pub(crate) struct ClientFile {
    pub(crate) location: ConfigLocation,
    pub(crate) loaded: Loaded,
}

/// An entry in the file of a client.
#[derive(Clone, Copy)]
pub(crate) struct ClientEntry<'a> {
    pub(crate) file: &'a ClientFile,
    pub(crate) name: &'a str,
    /// The entry, if it is valid.
    pub(crate) server: Option<&'a Server>,
}

/// The entries in the files of all clients.
#[derive(Default)]
pub(crate) struct ClientFiles {
    files: Vec<ClientFile>,
    /// The own file, whose names come first.
    own: Option<Loaded>,
}

impl ClientFiles {
    /// Reads the files of this user, without those of projects that are shared with others.
    pub(crate) fn of_user() -> ClientFiles {
        let own = locate(None).and_then(|found| read(&found)).ok();
        ClientFiles { own, ..ClientFiles::of_scopes(|scope| scope != Scope::Project) }
    }

    /// Reads the files of the project in the working directory.
    fn of_project() -> ClientFiles {
        ClientFiles::of_scopes(|scope| scope == Scope::Project)
    }

    fn of_scopes(is_meant: impl Fn(Scope) -> bool) -> ClientFiles {
        let Ok(directories) = ClientDirectories::of_process() else { return ClientFiles::default() };
        let locations = directories.locations().into_iter().filter(|location| is_meant(location.scope));
        ClientFiles { files: locations.filter_map(ClientFile::read).collect(), own: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub(crate) fn files(&self) -> &[ClientFile] {
        &self.files
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = ClientEntry<'_>> {
        self.files.iter().flat_map(|file| {
            let names = file.loaded.names.iter();
            names.map(move |name| ClientEntry { file, name, server: file.loaded.server(name) })
        })
    }

    /// Returns the entries that a text names: `notes`, or `cursor/notes`, or the name under which a server runs.
    pub(crate) fn matching(&self, text: &str) -> Vec<ClientEntry<'_>> {
        let by = |is_it: &dyn Fn(&ClientEntry<'_>) -> bool| self.entries().filter(is_it).collect::<Vec<_>>();
        let is_qualified = text.contains('/');
        let exact = by(&|entry| entry.name == text || (is_qualified && entry.ids().iter().any(|id| id == text)));
        if !exact.is_empty() {
            return exact;
        }
        by(&|entry| entry.running_names().iter().any(|name| name == text))
    }

    /// Returns the shortest name of each entry that no other server has.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.entries().map(|entry| self.id(&entry)).collect()
    }

    /// Returns the shortest name of an entry that no other server has.
    pub(crate) fn id(&self, entry: &ClientEntry<'_>) -> String {
        let candidates = [vec![entry.name.to_owned()], entry.ids()].concat();
        let is_unique =
            |id: &String| self.is_free(id, entry) && self.matching(id).iter().all(|other| other.is_same(entry));
        candidates.into_iter().find(is_unique).unwrap_or_else(|| entry.name.to_owned())
    }

    /// Returns whether the own file has no other server of this name.
    fn is_free(&self, id: &str, entry: &ClientEntry<'_>) -> bool {
        let own = self.own.as_ref().filter(|own| own.names.iter().any(|name| name == id));
        own.is_none_or(|own| entry.is_of_own(own, id))
    }

    /// Returns the ids of the entries of a name that lead to other servers than the entry of the own file.
    fn ids_beside_own(&self, name: &str) -> Vec<String> {
        let others = self.matching(name).into_iter().filter(|entry| !self.is_free(name, entry));
        dedup(others.map(|entry| self.id(&entry)).collect())
    }
}

impl ClientFile {
    /// Returns the names of its entries that `mendline wrap` changes.
    pub(crate) fn wrappable(&self) -> Vec<String> {
        client_files::wrappable(&self.location)
    }

    fn read(location: ConfigLocation) -> Option<ClientFile> {
        let source = Source::read(&location.path).ok()?;
        let loaded = load_at(source, &location.section);
        (!loaded.names.is_empty()).then_some(ClientFile { location, loaded })
    }
}

/// Loads the servers in a section of a client's file.
pub(crate) fn load_at(source: Source, section: &[String]) -> Loaded {
    let source = match translation::load(source, section) {
        Ok(loaded) => return loaded,
        Err(source) => source,
    };
    match section {
        // The usual sections may have defaults beside them.
        [_] => load(source, false, Environment::of_process()),
        section => load_section(source, section, Environment::of_process()),
    }
}

impl<'a> ClientEntry<'a> {
    /// Returns the names that tell it from an entry of another client or scope.
    fn ids(&self) -> Vec<String> {
        let (client, scope) = (self.file.location.client.word(), self.file.location.scope.word());
        vec![format!("{client}/{}", self.name), format!("{client}:{scope}/{}", self.name)]
    }

    /// Returns the client in words, with the scope if it is not the usual one.
    pub(crate) fn owner(&self) -> String {
        let ConfigLocation { client, scope, .. } = &self.file.location;
        match scope {
            Scope::User => client.title().to_owned(),
            scope => format!("{}, {}", client.title(), scope.word()),
        }
    }

    /// Returns the names under which its server may run: that of its entry, or one that is derived from its host.
    fn running_names(&self) -> Vec<String> {
        let Some(server) = self.server else { return vec![Name::sanitized(self.name).to_string()] };
        let mut names = vec![server.policies.name.clone()];
        if let Ok(plan) = Plan::of_server(server, None)
            && plan.upstream.transport != Transport::Child
        {
            names.push(Name::of_origin(&plan.upstream.place).to_string());
        }
        names
    }

    /// Returns the name of the entry in another file that it runs, and that file if it is not the own one.
    pub(crate) fn reference(&self) -> Option<(String, Option<PathBuf>)> {
        plan::reference(self.server?)
    }

    /// Returns its plan.
    fn named(&self, line: &Line<'_>) -> Result<Named, Refusal> {
        if let Some((name, config)) = self.reference() {
            let found = locate(config.as_deref())?;
            let loaded = read(&found)?;
            let plan = entry(&loaded, &name, line).map_err(|refusal| {
                let (entry, path) = (one_line(self.name), self.path());
                Refusal { words: format!("{}\n\n{entry:?} in {path} runs it.", refusal.words), ..refusal }
            })?;
            return Ok(Named { plan, loaded, file: NamedFile { found, section: None }, name });
        }
        let file = NamedFile::of_client(&self.file.location);
        let loaded = file.read()?;
        let plan = own_entry(&loaded, self.name, line)?;
        Ok(Named { plan, loaded, file, name: self.name.to_owned() })
    }

    fn path(&self) -> String {
        one_line(&self.file.location.path.display().to_string())
    }

    /// Returns whether two entries lead to the same server.
    fn is_same(&self, other: &ClientEntry<'_>) -> bool {
        let is_identical = std::ptr::eq(self.file, other.file) && self.name == other.name;
        is_identical || matches!((self.endpoint(), other.endpoint()), (Some(one), Some(two)) if one == two)
    }

    /// Returns whether it leads to the server of this name in the own file.
    fn is_of_own(&self, own: &Loaded, name: &str) -> bool {
        match self.endpoint() {
            Some(Endpoint::Reference(its, config)) => {
                its == name && config.is_none_or(|config| config == own.source.path())
            }
            Some(Endpoint::Plan(its)) => {
                let plan = own.server(name).and_then(|server| Plan::of_server(server, None).ok());
                plan.is_some_and(|plan| plan.endpoint == its)
            }
            None => false,
        }
    }

    fn endpoint(&self) -> Option<Endpoint> {
        let server = self.server?;
        match self.reference() {
            Some((name, config)) => Some(Endpoint::Reference(name, config)),
            None => Plan::of_server(server, None).ok().map(|plan| Endpoint::Plan(plan.endpoint)),
        }
    }
}

/// The server of an entry, to compare entries.
#[derive(PartialEq, Eq)]
enum Endpoint {
    Plan(plan::Endpoint),
    /// An entry of another file.
    Reference(String, Option<PathBuf>),
}

/// Looks for a name in the files of clients. `None`: no file has it.
pub(crate) fn of_clients(name: &str, line: &Line<'_>) -> Option<Result<Named, Refusal>> {
    let files = ClientFiles::of_user();
    let mut found = files.matching(name);
    // An entry that is in use counts before one that is disabled.
    let is_enabled = |entry: &ClientEntry<'_>| entry.server.is_some_and(|server| !server.is_disabled);
    if found.iter().any(is_enabled) {
        found.retain(is_enabled);
    }
    let first = *found.first()?;
    if found.iter().all(|entry| entry.is_same(&first)) {
        return Some(first.named(line));
    }
    Some(Err(Refusal { words: ambiguous(name, line.verb, &files, &found), code: USAGE }))
}

/// Writes which file has a server, if the name alone does not tell.
pub(crate) fn say_which(named: Option<&Named>, line: &Line<'_>) {
    if let Some(note) = named.and_then(|named| which(named, line)) {
        eprintln!("note: {note}");
    }
}

/// Returns which file has a server: that of a client, that of a running process, or the own one if a client has another
/// server of that name.
fn which(named: &Named, line: &Line<'_>) -> Option<String> {
    let (name, path) = (one_line(&named.name), crate::wrap::shown(&named.file.found.path));
    if named.file.section.is_some() {
        return Some(format!("{name} is an entry of {path}"));
    }
    if line.server.config.is_some() {
        return None;
    }
    let is_own = locate(None).is_ok_and(|own| own.path == named.file.found.path);
    if !is_own {
        return Some(format!("{name} is an entry of {path}, which a running process uses"));
    }
    let others = ClientFiles::of_user().ids_beside_own(line.by_name().filter(|it| *it == named.name)?);
    let are = if others.len() == 1 { "is another server" } else { "are other servers" };
    (!others.is_empty()).then(|| format!("{name} is the entry of {path}; {} {are}", listed(&others)))
}

fn ambiguous(name: &str, verb: &str, files: &ClientFiles, found: &[ClientEntry<'_>]) -> String {
    let mut words = format!("error: {name:?} is ambiguous: these entries lead to different servers\n");
    let ids: Vec<String> = found.iter().map(|entry| one_line(&files.id(entry))).collect();
    let is_told_apart = |id: &String| *id != one_line(name) && ids.iter().filter(|other| *other == id).count() == 1;
    let rows: Vec<(String, String)> = ids
        .iter()
        .zip(found)
        .map(|(id, entry)| match is_told_apart(id) {
            true => (id.clone(), entry.path()),
            false => (format!("--config {} {}", entry.path(), one_line(entry.name)), entry.owner()),
        })
        .collect();
    let width = rows.iter().map(|(id, _)| id.chars().count()).max().unwrap_or(0);
    for (id, path) in rows {
        words.push_str(&format!("\n  {}   {path}", command_line(verb, &format!("{id:width$}"))));
    }
    words
}

/// Returns a command line that names a server. Only in a command line with a command, a tool comes before the server.
fn command_line(verb: &str, server: &str) -> String {
    match verb.split_once(' ') {
        Some((verb, more)) => format!("mendline {verb} {server} {more}"),
        None => format!("mendline {verb} {server}"),
    }
}

/// Returns the names under which the server of this name may run, and the file that has it.
pub(crate) fn running_names(text: &str) -> Option<(Vec<String>, PathBuf)> {
    if let Ok(loaded) = locate(None).and_then(|found| read(&found))
        && let Some(name) = loaded.names.iter().find(|name| *name == text)
    {
        let running = loaded.server(name).map_or_else(|| name.clone(), |server| server.policies.name.clone());
        return Some((vec![running], loaded.source.path().to_owned()));
    }
    let files = ClientFiles::of_user();
    let entry = *files.matching(text).first()?;
    let mut names = entry.running_names();
    names.extend(entry.reference().map(|(name, _)| Name::sanitized(&name).to_string()));
    Some((names, entry.file.location.path.clone()))
}

/// Returns the selection of running servers that a text means. `is_there` tells whether a selection finds any. A name
/// that finds none may be that of an entry, whose server runs under another name.
pub(crate) fn selector(text: &str, is_there: impl Fn(&ServerSelector) -> bool) -> ServerSelector {
    let plain = ServerSelector::parse(text);
    if is_there(&plain) {
        return plain;
    }
    let (names, _) = running_names(text).unwrap_or_default();
    names.iter().map(|name| ServerSelector::parse(name)).find(|it| is_there(it)).unwrap_or(plain)
}

/// Returns the sentence about a name that no process runs, if a file has it.
pub(crate) fn does_not_run(text: &str) -> Option<String> {
    let (_, path) = running_names(text)?;
    let (name, path) = (one_line(text), one_line(&path.display().to_string()));
    let files = ClientFiles::of_user();
    let found = if is_own(text) { Vec::new() } else { files.matching(text) };
    let are_one = found.iter().all(|entry| found.first().is_some_and(|first| entry.is_same(first)));
    if !are_one {
        let ids: Vec<String> = found.iter().map(|entry| one_line(&files.id(entry))).collect();
        let width = ids.iter().map(|id| id.chars().count()).max().unwrap_or(0);
        let entry = |(id, entry): (&String, &ClientEntry<'_>)| format!("  {id:width$}   {}", entry.path());
        let entries: Vec<String> = ids.iter().zip(&found).map(entry).collect();
        return Some(format!(
            "error: {name:?} does not run, and these entries of the name lead to different servers, which start with their clients\n\n{}\n\n  mendline doctor {}   finds out what is wrong with one, if it should run",
            entries.join("\n"),
            ids[0]
        ));
    }
    Some(format!(
        "error: {name:?} does not run; it is an entry of {path}, and starts with its client\n\n  mendline status {name} --probe   contacts it now\n  mendline doctor {name}           finds out what is wrong, if it should run"
    ))
}

/// Returns whether the own file has the name.
fn is_own(text: &str) -> bool {
    locate(None).and_then(|found| read(&found)).is_ok_and(|loaded| loaded.names.iter().any(|name| name == text))
}

/// Returns the plan of a configured server, for commands that start nothing.
pub(crate) fn plan(name: &str, config: Option<&Path>) -> Option<Plan> {
    let own = locate(config).and_then(|found| read(&found)).ok();
    if let Some(server) = own.as_ref().and_then(|own| own.server(name)) {
        return Plan::of_server(server, None).ok();
    }
    let files = ClientFiles::of_user();
    let entry = *files.matching(name).first().filter(|_| config.is_none())?;
    match entry.reference() {
        Some((name, config)) => {
            let loaded = locate(config.as_deref()).and_then(|found| read(&found)).ok()?;
            Plan::of_server(loaded.server(&name)?, None).ok()
        }
        None => Plan::of_server(entry.server?, None).ok(),
    }
}

/// Returns all names: of the own file, of clients and of running processes. The own file may be another one.
pub(crate) fn all(config: Option<&Path>, within: std::time::Duration) -> Vec<String> {
    let mut names = configured(config);
    if config.is_none() {
        for found in Registry::of_user().snapshots_within(within) {
            match found.snapshot {
                Ok(snapshot) => names.extend(snapshot.servers.into_iter().map(|server| server.name)),
                Err(_) => names.push(found.process.name),
            }
        }
    }
    dedup(names)
}

/// Returns the names of the own file and, unless a file is named, of the clients.
pub(crate) fn configured(config: Option<&Path>) -> Vec<String> {
    let mut names = Vec::new();
    if let Ok(loaded) = locate(config).and_then(|found| read(&found)) {
        let is_disabled = |name: &String| loaded.server(name).is_some_and(|server| server.is_disabled);
        names.extend(loaded.names.iter().filter(|name| !is_disabled(name)).cloned());
    }
    if config.is_none() {
        names.extend(ClientFiles::of_user().ids());
    }
    dedup(names)
}

fn dedup(names: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    names.into_iter().filter(|name| seen.insert(name.clone())).collect()
}

/// Returns the error about a name that neither the own file nor a client has.
pub(crate) fn unknown(name: &str, verb: &str, own: Option<&Loaded>) -> Refusal {
    let shown = if may_hold_a_secret(name) { "of that name".to_owned() } else { format!("{name:?}") };
    let place = own.map(|own| one_line(&own.source.path().display().to_string()));
    let mut words = match &place {
        Some(path) => format!("error: there is no server {shown} in {path}"),
        None => format!("error: there is no server {shown}"),
    };
    let clients = ClientFiles::of_user();
    let client_names = dedup(clients.ids());
    if !client_names.is_empty() {
        words.push_str(if place.is_some() {
            " or in the files of the clients"
        } else {
            " in the files of the clients"
        });
    }
    let own_names = own.map(|own| own.names.clone()).unwrap_or_default();
    let everything = own_names.iter().chain(&client_names).map(String::as_str);
    if let Some(meant) = nearest(name, everything) {
        words.push_str(&format!("; did you mean {meant:?}?"));
    }
    match own_names.as_slice() {
        [] if place.is_some() => words.push_str("\n\nThe file has no servers."),
        [] => {}
        names => words.push_str(&format!("\n\nIts servers are: {}", listed(names))),
    }
    if !client_names.is_empty() {
        words.push_str(&format!("\n\nServers of clients: {}", listed(&client_names)));
    }
    words.push_str(&elsewhere(name, verb).unwrap_or_default());
    Refusal { words, code: UNKNOWN }
}

/// Returns where a name is that is not used by itself: in a file of the project, or only in a running process.
pub(crate) fn elsewhere(name: &str, verb: &str) -> Option<String> {
    let project = ClientFiles::of_project();
    if let Some(entry) = project.entries().find(|entry| entry.name == name) {
        let (path, name) = (entry.path(), one_line(name));
        return Some(format!(
            "\n\n{path} has it. The files of a project are used only if they are named:\n\n  {}",
            command_line(verb, &format!("--config {path} {name}"))
        ));
    }
    let is_it = |found: &mendline::control::ProcessStatus| match &found.snapshot {
        Ok(snapshot) => snapshot.servers.iter().any(|server| server.name == name),
        Err(_) => found.process.name == name,
    };
    let running = Registry::of_user().snapshots().into_iter().find(is_it)?;
    let (name, pid) = (one_line(name), running.process.pid);
    let server = running.snapshot.ok().and_then(|it| it.servers.into_iter().find(|server| server.name == name));
    let target = match server {
        Some(server) if server.transport == TransportKind::Child => format!("-- {} …", one_line(&server.target)),
        Some(server) => format!("{}/…", one_line(&server.target)),
        None => "URL|-- CMD".to_owned(),
    };
    let (status, add) = (format!("mendline status {name}"), format!("mendline add {name} {target}"));
    let width = status.chars().count().max(add.chars().count());
    Some(format!(
        "\n\nProcess {pid} runs a server of that name, from a command line that no file has.\n\n  {status:width$}   shows it\n  {add:width$}   makes the name known to every command"
    ))
}

pub(crate) fn listed(names: &[String]) -> String {
    let mut shown: Vec<String> = names.iter().take(MOST_NAMES).map(|name| one_line(name)).collect();
    if names.len() > MOST_NAMES {
        shown.push(format!("and {} more", names.len() - MOST_NAMES));
    }
    shown.join(", ")
}

/// Returns whether a name may be something else: a URL without its scheme, with a password or a key in it.
pub(crate) fn may_hold_a_secret(name: &str) -> bool {
    name.contains(['@', '?', '='])
}

/// Returns the client with this word, or an error that names them all.
pub(crate) fn client(word: &str) -> Result<Client, Refusal> {
    Client::named(word).map_err(|_| {
        let known = Client::ALL.map(Client::word);
        let meant = nearest(word, known).map(|meant| format!("did you mean {meant:?}? ")).unwrap_or_default();
        let words = format!("error: no client is called {:?}; {meant}known are {}", one_line(word), known.join(", "));
        Refusal { words, code: UNKNOWN }
    })
}
