//! The configured servers, without values, and the versions of everything.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use mendline::control::Registry;
use mendline::decisions::Secret;
use mendline::observe::files::FOLDER;
use mendline::observe::redact::{secrets_of_hidden_url, secrets_of_url};
use mendline::os::system;
use mendline::state::state_directory;
use mendline::stats::read_all;
use mendline_config::{Name, nearest};

use crate::cli::UNKNOWN;
use crate::named::{Refusal, locate, read};
use crate::plan::Plan;
use crate::plan::secrets::{of_arguments, of_variables};
use crate::target::ServerSelector;
use crate::untrusted_text::one_line;
use crate::wrap::client_files::{ClientEntry, EntryServer, entries};
use crate::wrap::randomness::random_parts;
use crate::{logs, names};

/// All servers that were found.
pub(super) struct Servers {
    clients: Vec<ClientEntry>,
    /// The file of Mendline itself, and its servers, each with its kind.
    own: Vec<(String, Vec<(String, String)>)>,
    secrets: Vec<Secret>,
}

/// Reads every file: that of Mendline, and those of clients.
pub(super) fn collect() -> Servers {
    let clients = entries(None);
    let mut secrets: Vec<Secret> = of_variables(std::env::vars_os());
    secrets.extend(clients.iter().flat_map(|entry| secrets_of(&entry.server)));
    let mut own = Vec::new();
    if let Ok((found, loaded)) = locate(None).and_then(|found| read(&found).map(|loaded| (found, loaded))) {
        let plans = loaded.servers.iter().filter_map(|server| Plan::of_server(server, None).ok());
        secrets.extend(plans.flat_map(|plan| plan.secrets()));
        let kind = |name: &String| {
            let is_disabled = loaded.server(name).is_some_and(|server| server.is_disabled);
            let is_valid = loaded.obstacles(name).is_empty();
            match (is_disabled, is_valid) {
                (true, _) => "disabled",
                (_, true) => "valid",
                (_, false) => "invalid",
            }
        };
        let servers = loaded.names.iter().map(|name| (name.clone(), kind(name).to_owned())).collect();
        own.push((found.path.display().to_string(), servers));
    }
    Servers { clients, own, secrets }
}

/// Returns every value of a server that may be a secret. A value that a person has written into an environment or a
/// header is one, whatever its name.
fn secrets_of(server: &EntryServer) -> Vec<Secret> {
    match server {
        EntryServer::Command { words, environment } => {
            let arguments: Vec<OsString> = words.iter().skip(1).map(OsString::from).collect();
            let random = words.iter().flat_map(|word| random_parts(word).into_iter().map(|part| &word[part]));
            let mut secrets = of_arguments(&arguments);
            secrets.extend(random.map(Secret::new));
            secrets.extend(environment.iter().map(|(_, value)| Secret::new(value)));
            secrets.extend(environment.iter().flat_map(|(_, value)| secrets_of_url(value)));
            secrets
        }
        EntryServer::Url { url, headers, .. } => {
            let mut secrets = secrets_of_hidden_url(url);
            for (_, value) in headers {
                let parts = value.split_whitespace().filter(|part| part.len() >= SHORTEST);
                secrets.extend(parts.map(Secret::new));
                secrets.push(Secret::new(value));
            }
            secrets
        }
        EntryServer::Named(_) | EntryServer::Unknown => Vec::new(),
    }
}

/// The minimum length of a part of a header that may be a secret.
const SHORTEST: usize = 8;

impl Servers {
    pub(super) fn secrets(&self) -> Vec<Secret> {
        self.secrets.clone()
    }

    /// Lists the servers, or one of them, without values.
    pub(super) fn listed(&self, name: Option<&str>) -> String {
        let mut listed = String::new();
        for (path, servers) in &self.own {
            let is_meant = |other: &str| name.is_none_or(|name| name == other);
            let servers: Vec<_> = servers.iter().filter(|(name, _)| is_meant(name)).collect();
            if servers.is_empty() && name.is_some() {
                continue;
            }
            listed += &format!("{} (Mendline)\n", one_line(path));
            servers.iter().for_each(|(name, kind)| listed += &format!("  {}: {kind}\n", one_line(name)));
        }
        let mut last: Option<&Path> = None;
        for entry in self.clients.iter().filter(|entry| name.is_none_or(|name| is_meant(entry, name))) {
            if last != Some(entry.path.as_path()) {
                let (path, client) = (one_line(&entry.path.display().to_string()), entry.client.title());
                listed += &format!("{path} ({client}, {})\n", entry.scope.word());
                last = Some(&entry.path);
            }
            listed += &format!("  {}: {}\n", one_line(&entry.name), described(entry));
        }
        if listed.is_empty() { "none were found\n".to_owned() } else { listed }
    }
}

/// Returns whether a name means an entry: `notes`, `cursor/notes` or `cursor:user/notes`, or the name under which its
/// server runs.
fn is_meant(entry: &ClientEntry, name: &str) -> bool {
    let (client, scope) = (entry.client.word(), entry.scope.word());
    let ids = [entry.name.clone(), format!("{client}/{}", entry.name), format!("{client}:{scope}/{}", entry.name)];
    ids.iter().any(|id| id == name) || Name::sanitized(&entry.name).to_string() == name
}

/// Returns the error about a name that no file, no process, no log and no statistics have.
pub(super) fn unknown(name: &str) -> Option<Refusal> {
    let clients = entries(None);
    if names::running_names(name).is_some() || clients.iter().any(|entry| is_meant(entry, name)) {
        return None;
    }
    let (mut running, mut logged, mut counted) = (Vec::new(), Vec::new(), Vec::new());
    for found in Registry::of_user().snapshots() {
        let servers = found.snapshot.map(|snapshot| snapshot.servers).unwrap_or_default();
        running.push((found.process.name, found.process.pid));
        running.extend(servers.into_iter().map(|server| (server.name, found.process.pid)));
    }
    if let Some(state) = state_directory(|name| std::env::var_os(name)) {
        logged = logs::servers(&state.join(FOLDER));
        counted.extend(read_all(&state).unwrap_or_default().into_iter().map(|server| server.name));
    }
    let wanted = ServerSelector::parse(name);
    if running.iter().any(|(name, pid)| wanted.is(name, *pid))
        || logged.iter().chain(&counted).any(|known| wanted.is(known, 0))
    {
        return None;
    }
    let shown = if names::may_hold_a_secret(name) { "of that name".to_owned() } else { format!("{name:?}") };
    let running = running.into_iter().map(|(name, _)| name);
    let known: BTreeSet<String> =
        names::configured(None).into_iter().chain(running).chain(logged).chain(counted).collect();
    let mut words = format!("error: no server {shown} is known, so nothing was collected");
    if let Some(meant) = nearest(name, known.iter().map(String::as_str)) {
        words.push_str(&format!("; did you mean {:?}?", one_line(meant)));
    }
    if !known.is_empty() {
        words.push_str(&format!("\n\nServers: {}", names::listed(&known.into_iter().collect::<Vec<_>>())));
    }
    words.push_str("\n\n  mendline report   collects everything");
    Some(Refusal { words, code: UNKNOWN })
}

/// Describes an entry without values.
fn described(entry: &ClientEntry) -> String {
    let server = match &entry.server {
        EntryServer::Command { words, environment } => {
            let program = words.first().map_or("", String::as_str);
            let program = program.rsplit(['/', '\\']).next().unwrap_or(program);
            let flags: Vec<&str> = words.iter().skip(1).filter_map(|word| flag(word)).collect();
            let count = words.len().saturating_sub(1);
            let flags = if flags.is_empty() { String::new() } else { format!(", flags {}", flags.join(" ")) };
            format!("command {}, {count} arguments{flags}{}", one_line(program), keys("variables", environment))
        }
        EntryServer::Url { url, transport, headers } => {
            let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
            let transport = transport.as_ref().map(|kind| format!(", {}", one_line(kind))).unwrap_or_default();
            format!("url {}://…{transport}{}", one_line(scheme), keys("headers", headers))
        }
        EntryServer::Named(_) => "a server of the file of Mendline".to_owned(),
        EntryServer::Unknown => "neither a command nor a url".to_owned(),
    };
    let wrapped = if entry.run.is_some() { "; runs Mendline" } else { "; not wrapped" };
    let disabled = if entry.is_disabled { "; disabled" } else { "" };
    format!("{server}{wrapped}{disabled}")
}

/// Returns the name of a flag, if a word is one.
fn flag(word: &str) -> Option<&str> {
    let name = word.split('=').next().unwrap_or(word);
    let is_name = name.strip_prefix("--").is_some_and(|name| {
        !name.is_empty()
            && name.chars().all(|sign| sign.is_ascii_lowercase() || sign == '-')
            && random_parts(name).is_empty()
    });
    is_name.then_some(name)
}

fn keys(what: &str, pairs: &[(String, String)]) -> String {
    if pairs.is_empty() {
        return String::new();
    }
    let names: Vec<String> = pairs.iter().map(|(name, _)| one_line(name)).collect();
    format!(", {what} {}", names.join(" "))
}

/// Returns the versions of this program and of the system.
pub(super) fn versions() -> String {
    let mut facts = vec![("mendline", env!("CARGO_PKG_VERSION").to_owned())];
    facts.extend(system::describe());
    facts.push(("architecture", std::env::consts::ARCH.to_owned()));
    facts.extend(std::env::var("MENDLINE_LAUNCHER").ok().map(|launcher| ("launcher", one_line(&launcher))));
    facts.extend(std::env::current_exe().ok().map(|path| ("program", one_line(&path.display().to_string()))));
    facts.iter().map(|(name, fact)| format!("{name}: {fact}\n")).collect()
}
