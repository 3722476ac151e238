//! A server of the configuration file: locates, reads and checks the file, and turns the entry into a plan.

use std::path::Path;

use mendline::observe::log::{LogHandle, LogLevel};
use mendline_config::{ConfigFile, Environment, Finding, Loaded, RenderStyle, Severity, Source, find, load, nearest};

use crate::cli::{UNKNOWN, USAGE};
use crate::names::{self, may_hold_a_secret};
use crate::plan::{Plan, check_headers};
use crate::server_flags::Line;
use crate::style::Style;
use crate::untrusted_text::one_line;
use crate::wrap::clients::ConfigLocation;
use crate::wrap::translation;

/// The reason why nothing was started, and the exit code.
pub(crate) struct Refusal {
    pub(crate) words: String,
    pub(crate) code: u8,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.words)
    }
}

impl From<String> for Refusal {
    fn from(complaint: String) -> Refusal {
        Refusal { words: format!("error: {complaint}"), code: USAGE }
    }
}

/// A plan from a file, and the file.
pub(crate) struct Named {
    pub(crate) plan: Plan,
    pub(crate) loaded: Loaded,
    pub(crate) file: NamedFile,
    /// The name of the entry in the file.
    pub(crate) name: String,
}

/// A file that has a server.
#[derive(Clone)]
pub(crate) struct NamedFile {
    pub(crate) found: ConfigFile,
    /// The section of a client's file.
    pub(crate) section: Option<Vec<String>>,
}

impl NamedFile {
    /// Returns the file of a client.
    pub(crate) fn of_client(location: &ConfigLocation) -> NamedFile {
        let found = ConfigFile { path: location.path.clone(), is_ours: false };
        NamedFile { found, section: Some(location.section.clone()) }
    }

    /// Reads and parses the file as far as possible.
    pub(crate) fn read(&self) -> Result<Loaded, String> {
        Source::read(&self.found.path).map(|source| self.load(source)).map_err(|error| error.to_string())
    }

    /// Parses a text of the file as far as possible.
    pub(crate) fn load(&self, source: Source) -> Loaded {
        match &self.section {
            Some(section) => names::load_at(source, section),
            None => load_whole(source, self.found.is_ours),
        }
    }
}

/// Parses a whole file as far as possible. A file that is not the own one may be that of a client.
pub(crate) fn load_whole(source: Source, is_ours: bool) -> Loaded {
    let source = if is_ours { Err(source) } else { translation::load_file(source) };
    source.unwrap_or_else(|source| load(source, is_ours, Environment::of_process()))
}

/// Returns the plan of the server with this name: in the named file, or else in the own one, or else in that of a client.
pub(crate) fn named(name: &str, line: &Line<'_>) -> Result<Named, Refusal> {
    // A header without quotes around it puts its value in the place of the name, which must not be shown then.
    check_headers(line)?;
    let file = line.server.config.as_deref();
    let (found, own) = match locate(file) {
        Ok(found) => {
            let loaded = read(&found)?;
            (Ok(found), Some(loaded))
        }
        Err(why) => (Err(why), None),
    };
    let is_own = |loaded: &Loaded| loaded.names.iter().any(|known| known == name) || is_unreadable(loaded);
    match (found, own) {
        (Ok(found), Some(loaded)) if file.is_some() || is_own(&loaded) => {
            let plan = entry(&loaded, name, line)?;
            let file = NamedFile { found, section: None };
            Ok(Named { plan, loaded, file, name: name.to_owned() })
        }
        (found, own) => names::of_clients(name, line).unwrap_or_else(|| {
            Err(match found {
                Err(why) if names::configured(None).is_empty() => match names::elsewhere(name, line.verb) {
                    Some(_) => names::unknown(name, line.verb, None),
                    None => Refusal::from(unresolved(name, line.verb, &why)),
                },
                _ => names::unknown(name, line.verb, own.as_ref()),
            })
        }),
    }
}

/// Returns the plan of the server that a command line selects, and its file if it comes from one.
pub(crate) fn resolve(line: &Line<'_>) -> Result<(Plan, Option<Named>), Refusal> {
    match line.by_name() {
        Some(name) => named(name, line).map(|named| (named.plan.clone(), Some(named))),
        None => Ok((Plan::of_flags(line)?, None)),
    }
}

/// Locates the configuration file.
pub(crate) fn locate(named: Option<&Path>) -> Result<ConfigFile, String> {
    find(named, |name| std::env::var_os(name)).map_err(|missing| missing.to_string())
}

/// Reads and parses the file as far as possible.
pub(crate) fn read(found: &ConfigFile) -> Result<Loaded, String> {
    let source = Source::read(&found.path).map_err(|error| error.to_string())?;
    Ok(load_whole(source, found.is_ours))
}

/// Returns the plan of the server with this name in this file. A name of another file is an error.
pub(crate) fn entry(loaded: &Loaded, name: &str, line: &Line<'_>) -> Result<Plan, Refusal> {
    if !loaded.names.iter().any(|known| known == name) && !is_unreadable(loaded) {
        return Err(Refusal { words: unknown(name, loaded), code: UNKNOWN });
    }
    own_entry(loaded, name, line)
}

/// Returns the plan of an entry of this file.
pub(crate) fn own_entry(loaded: &Loaded, name: &str, line: &Line<'_>) -> Result<Plan, Refusal> {
    refuse_obstacles(loaded, &loaded.obstacles(name))?;
    let server = loaded.server(name).ok_or_else(|| format!("the entry of {name:?} is invalid"))?;
    if server.is_disabled {
        return Err(Refusal::from(format!("{name:?} is disabled in {}", loaded.source.path().display())));
    }
    Plan::of_server(server, Some(line)).map_err(Refusal::from)
}

/// Shows the findings that prevent a start, if there are any.
pub(crate) fn refuse_obstacles(loaded: &Loaded, obstacles: &[&Finding]) -> Result<(), Refusal> {
    if obstacles.is_empty() {
        return Ok(());
    }
    let rendered = loaded.render(obstacles.iter().copied(), render_style());
    let mistakes =
        if obstacles.len() == 1 { "one mistake".to_owned() } else { format!("{} mistakes", obstacles.len()) };
    let words = format!("{rendered}\n\nerror: nothing was started: {mistakes} in {}", loaded.source.path().display());
    Err(Refusal { words, code: USAGE })
}

/// Returns whether the file could not be parsed: such a file has no names.
fn is_unreadable(loaded: &Loaded) -> bool {
    loaded.names.is_empty() && loaded.has_errors()
}

/// Logs the findings that do not prevent the start.
pub(crate) fn log_findings(loaded: &Loaded, name: &str, log: &LogHandle) {
    let concerns = |finding: &&Finding| finding.server.as_deref().is_none_or(|server| server == name);
    for finding in loaded.findings.iter().filter(concerns) {
        let level = if finding.severity == Severity::Note { LogLevel::Debug } else { LogLevel::Warn };
        log.write(level, &finding.line(&loaded.source));
    }
    let elsewhere = loaded.findings.iter().filter(|finding| finding.is_error() && !concerns(finding)).count();
    if elsewhere > 0 {
        let path = loaded.source.path().display();
        log.write(
            LogLevel::Warn,
            &format!("{path}: other servers in it cannot be used; `mendline check {path}` says why"),
        );
    }
}

/// Returns the colour setting for findings.
pub(crate) fn render_style() -> RenderStyle {
    if Style::for_stderr().is_coloured() { RenderStyle::Coloured } else { RenderStyle::Plain }
}

fn unknown(name: &str, loaded: &Loaded) -> String {
    let path = loaded.source.path().display();
    let names: Vec<&str> = loaded.names.iter().map(String::as_str).collect();
    let shown = if may_hold_a_secret(name) { "of that name".to_owned() } else { format!("{name:?}") };
    let mut words = format!("error: there is no server {shown} in {}", one_line(&path.to_string()));
    if let Some(meant) = nearest(name, names.iter().copied()) {
        words.push_str(&format!("; did you mean {meant:?}?"));
    }
    match names.as_slice() {
        [] => words.push_str("\n\nThe file has no servers."),
        names => {
            let names: Vec<String> = names.iter().map(|name| one_line(name)).collect();
            words.push_str(&format!("\n\nIts servers are: {}", names.join(", ")));
        }
    }
    words
}

fn unresolved(target: &str, verb: &str, why: &str) -> String {
    if may_hold_a_secret(target) {
        return format!(
            "the server is neither a URL, which begins with https:// or http://, nor a name that can be looked up\n\n  {why}"
        );
    }
    format!(
        "{target:?} is not a URL, and as a name it cannot be looked up\n\n  {why}\n\nA command comes after `--`:\n\n  mendline {verb} -- {target} …"
    )
}
