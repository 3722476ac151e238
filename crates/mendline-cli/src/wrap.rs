//! `mendline wrap` and `mendline unwrap`: route a client's servers through Mendline, and undo that.
//!
//! Both find the files, plan each one, show the plan, ask, and write. Nothing is written before everything was shown
//! and confirmed. An invalid file or entry does not stop the others, and everything that is left unchanged is reported
//! with a reason.

mod arguments;
mod backups;
pub(crate) mod binary;
mod bridge;
#[cfg(test)]
mod canaries;
pub(crate) mod client_files;
mod client_login;
pub(crate) mod clients;
pub(crate) mod credential;
mod dialect;
pub(crate) mod diff;
pub(crate) mod document;
pub(crate) mod edit;
#[cfg(test)]
mod entry_tests;
mod file;
mod json;
mod launcher;
pub(crate) mod new_entry;
mod plan;
mod policies;
pub(crate) mod program;
mod proof;
#[cfg(test)]
mod properties;
pub(crate) mod randomness;
#[cfg(test)]
mod sample_tests;
mod secrets;
mod toml;
pub(crate) mod translation;
mod tree;
mod unwrap_entry;
mod wrap_entry;
mod write;
mod yaml;
pub(crate) mod yaml_edit;

use std::collections::BTreeSet;
use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use backups::Backups;
use clients::{Client, ClientDirectories, ConfigLocation, Scope};
use diff::{DiffStyle, plain};
use document::{Section, Syntax};
use file::Source;
use plan::{Action, Chosen, EntryResult, Plan, Server};
use secrets::shown_sentence;

use crate::cli::{NEGATIVE, UNKNOWN, USAGE, UnwrapOptions, WhichServers, WrapOptions};
use crate::output;
use crate::style::Style;

/// Runs `mendline wrap`.
pub(crate) fn wrap(options: &WrapOptions) -> ExitCode {
    let binary = match binary::choose(options.binary.as_deref(), options.which.dry_run) {
        Ok(binary) => binary,
        Err(complaint) => return complain(&complaint, USAGE),
    };
    let action = Action::Wrap { program: &binary.program };
    if let Some(launcher) = binary.launcher {
        println!("Entries run `{}`, because {} starts Mendline from its cache.\n", binary.line, launcher.title());
    }
    let code = WrapRun { which: &options.which, action, clean: false, own: &binary.line }.exit_code();
    if let Some(warning) = binary.warning {
        eprintln!("\nwarning: {warning}");
    }
    code
}

/// Runs `mendline unwrap`.
pub(crate) fn unwrap(options: &UnwrapOptions) -> ExitCode {
    WrapRun { which: &options.which, action: Action::Unwrap, clean: options.clean, own: "mendline" }.exit_code()
}

/// Returns the names of the servers in the files of all clients.
pub(crate) fn server_names() -> Vec<String> {
    let names: BTreeSet<String> = client_files::entries(None).into_iter().map(|entry| entry.name).collect();
    names.into_iter().collect()
}

fn complain(complaint: &str, code: u8) -> ExitCode {
    eprintln!("error: {complaint}");
    ExitCode::from(code)
}

/// The reason why nothing was done, and the exit code.
struct Refusal(String, u8);

/// A file that may be changed.
struct Candidate {
    path: PathBuf,
    /// Its client and scope, as text.
    owner: String,
    /// The sections to change; all of them if it is empty.
    sections: Vec<Section>,
    /// The directory that the file belongs to: the home directory, or that of the project that shares it.
    root: Option<PathBuf>,
    is_shared: bool,
}

/// A file that was read and planned.
struct Planned {
    candidate: Candidate,
    source: Source,
    plan: Plan,
}

/// One run over all files.
struct WrapRun<'a> {
    which: &'a WhichServers,
    action: Action<'a>,
    /// True if backups are deleted.
    clean: bool,
    /// The command by which a person runs this program.
    own: &'a str,
}

impl WrapRun<'_> {
    fn exit_code(&self) -> ExitCode {
        match self.run() {
            Ok(code) => ExitCode::from(code),
            Err(Refusal(complaint, code)) => complain(&complaint, code),
        }
    }

    fn run(&self) -> Result<u8, Refusal> {
        let chosen: Chosen = self.which.server.iter().cloned().collect();
        let (mut refused, mut all, mut backups) = (false, Vec::new(), Backups::default());
        for candidate in self.candidates()? {
            let real = candidate.path.canonicalize().unwrap_or_else(|_| candidate.path.clone());
            match self.plan(&candidate, &chosen) {
                Ok(Some((source, plan))) => {
                    let stays_wrapped = plan.servers.iter().any(|server| matches!(server.result, EntryResult::Left(_)));
                    backups.add(&real, stays_wrapped.then_some("a server in its file stays wrapped"));
                    all.push(Planned { candidate, source, plan });
                }
                Ok(None) => backups.add(&real, None),
                Err(reason) => {
                    refused = true;
                    backups.add(&real, Some("its file was left"));
                    eprintln!("{}: left, because {}", shown(&candidate.path), plain(&shown_sentence(&reason)));
                }
            }
        }
        self.check_names(&chosen, &all, refused)?;
        for planned in &all {
            self.print_plan(planned);
        }
        let changing: Vec<&Planned> = all.iter().filter(|planned| planned.plan.changes()).collect();
        let asked_and_left = all
            .iter()
            .flat_map(|planned| &planned.plan.servers)
            .any(|server| matches!(server.result, EntryResult::Left(_)) && chosen.contains(&server.name));
        let code = if refused || asked_and_left { NEGATIVE } else { 0 };
        let code = code.max(self.apply_changes(&changing, &backups)?);
        if matches!(self.action, Action::Unwrap) && !self.clean {
            name(&backups.all());
        }
        Ok(code)
    }

    /// Asks, writes and deletes.
    fn apply_changes(&self, changing: &[&Planned], backups: &Backups) -> Result<u8, Refusal> {
        let unwanted = if self.clean { backups.free() } else { Vec::new() };
        if self.clean {
            unwanted.iter().for_each(|backup| println!("{}: a backup, to be deleted", shown(backup)));
            backups.kept().iter().for_each(|(backup, why)| println!("{}: a backup, kept: {why}", shown(backup)));
        }
        if changing.is_empty() && unwanted.is_empty() {
            println!("Nothing to do.");
            return Ok(0);
        }
        if self.which.dry_run {
            let or_deleted = if unwanted.is_empty() { "" } else { " or deleted" };
            println!("Nothing was written{or_deleted}: this was a dry run.");
            return Ok(0);
        }
        if !self.agreed(changing.len(), unwanted.len())? {
            println!("Nothing was written.");
            return Ok(NEGATIVE);
        }
        let code = if changing.is_empty() { 0 } else { self.write(changing) };
        match (self.clean, code) {
            (false, _) => Ok(code),
            // Writing has made one more backup of each file.
            (true, 0) => Ok(delete(&backups.free())),
            (true, _) => {
                println!("No backup was deleted, since not every file could be written.");
                Ok(code)
            }
        }
    }

    /// Returns the files to change, as far as they may exist.
    fn candidates(&self) -> Result<Vec<Candidate>, Refusal> {
        if !self.which.file.is_empty() {
            return self.named_files();
        }
        let mut clients = Vec::new();
        for word in &self.which.client {
            clients.push(Client::named(word).map_err(|complaint| Refusal(complaint, UNKNOWN))?);
        }
        let scopes = if self.which.scope.is_empty() { &[Scope::User, Scope::Local][..] } else { &self.which.scope };
        let directories = ClientDirectories::of_process().map_err(|complaint| Refusal(complaint, USAGE))?;
        let mut locations = directories.locations();
        locations.retain(|location| clients.is_empty() || clients.contains(&location.client));
        let (meant, others): (Vec<_>, Vec<_>) =
            locations.into_iter().partition(|location| scopes.contains(&location.scope));
        let mut candidates: Vec<Candidate> = Vec::new();
        for location in &meant {
            // A dangling link exists, and is reported.
            if location.path.symlink_metadata().is_err() && !self.finds_backups(&location.path) {
                continue;
            }
            match candidates.iter_mut().find(|candidate| is_same(&candidate.path, &location.path)) {
                Some(candidate) if candidate.sections.contains(&location.section) => {}
                Some(candidate) => {
                    candidate.sections.push(location.section.clone());
                    if !candidate.owner.ends_with(location.scope.word()) {
                        candidate.owner += &format!(" and {}", location.scope.word());
                    }
                }
                None => candidates.push(Candidate {
                    path: location.path.clone(),
                    owner: format!("{}, {}", location.client.title(), location.scope.word()),
                    sections: vec![location.section.clone()],
                    root: Some(directories.root(location.scope).to_owned()),
                    is_shared: location.scope == Scope::Project,
                }),
            }
        }
        if self.which.scope.is_empty() {
            for shared in others.iter().filter(|location| location.scope == Scope::Project && location.path.exists()) {
                let path = shown(&shared.path);
                println!("{path}: skipped, because a project shares it with others; --scope project includes it");
            }
        }
        if candidates.is_empty() {
            return Err(Refusal(self.nothing_found(&meant, !clients.is_empty()), UNKNOWN));
        }
        Ok(candidates)
    }

    /// Returns the error for a user without a file of a client: what was looked for, and what to do.
    fn nothing_found(&self, meant: &[ConfigLocation], are_named: bool) -> String {
        if meant.is_empty() {
            return "none of these clients has files of that scope".to_owned();
        }
        let width = meant.iter().map(|location| location.client.word().len()).max().unwrap_or(0);
        let mut looked: Vec<String> = Vec::new();
        for location in meant {
            let line = format!("  {:width$}  {}", location.client.word(), shown(&location.path));
            if !looked.contains(&line) {
                looked.push(line);
            }
        }
        let own = self.own;
        let next = if are_named {
            "Add a server in that client first, or add one with `mendline add`; then run this again."
        } else {
            "Add a server in your client first, or add one with `mendline add`; then run this again."
        };
        format!(
            "no client's configuration was found; looked for\n{}\n\n{next}\nA client that keeps its file elsewhere: {own} wrap --file FILE",
            looked.join("\n")
        )
    }

    fn named_files(&self) -> Result<Vec<Candidate>, Refusal> {
        let mut candidates: Vec<Candidate> = Vec::new();
        for path in &self.which.file {
            let is_missing = path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
            if is_missing && !self.finds_backups(path) {
                return Err(Refusal(format!("there is no file {}", plain(&path.display().to_string())), UNKNOWN));
            }
            if !candidates.iter().any(|candidate| is_same(&candidate.path, path)) {
                candidates.push(Candidate {
                    path: path.clone(),
                    owner: String::new(),
                    sections: Vec::new(),
                    root: None,
                    is_shared: false,
                });
            }
        }
        Ok(candidates)
    }

    /// Returns whether a missing file has left backups.
    fn finds_backups(&self, path: &Path) -> bool {
        matches!(self.action, Action::Unwrap) && !file::backups(path).is_empty()
    }

    fn plan(&self, candidate: &Candidate, chosen: &Chosen) -> Result<Option<(Source, Plan)>, String> {
        let Some(source) = file::read(&candidate.path)? else { return Ok(None) };
        let syntax = Syntax::of(&source.real);
        let language = syntax.title();
        let plan = Plan::make(source.text.clone(), syntax, &candidate.sections, self.action, chosen)
            .map_err(|fault| format!("it cannot be read as {language}: {fault}"))?;
        Ok(Some((source, plan)))
    }

    /// Checks that every given name exists, unless a file that could not be read may have it.
    fn check_names(&self, chosen: &Chosen, all: &[Planned], refused: bool) -> Result<(), Refusal> {
        let known =
            |name: &String| all.iter().any(|planned| planned.plan.servers.iter().any(|server| server.name == *name));
        match chosen.iter().find(|name| !known(name)) {
            Some(name) if !refused => {
                let there = self.all_names(all);
                let hint = if there.is_empty() {
                    "there are no servers at all".to_owned()
                } else {
                    format!("there are {}", there.join(", "))
                };
                Err(Refusal(format!("no server is called {name:?}; {hint}"), UNKNOWN))
            }
            _ => Ok(()),
        }
    }

    /// Returns the names of the servers in the files that were read.
    fn all_names(&self, all: &[Planned]) -> Vec<String> {
        let everything = Chosen::new();
        let plans = all.iter().filter_map(|planned| self.plan(&planned.candidate, &everything).ok()?);
        let names: BTreeSet<String> =
            plans.flat_map(|(_, plan)| plan.servers.into_iter().map(|server| plain(&server.name))).collect();
        names.into_iter().collect()
    }

    fn print_plan(&self, planned: &Planned) {
        let Planned { candidate, source, plan } = planned;
        let path = shown(&candidate.path);
        if candidate.owner.is_empty() {
            println!("{path}");
        } else {
            println!("{path} ({})", candidate.owner);
        }
        if let Some(note) = candidate.link(&source.real) {
            println!("  {note}");
        }
        print!("{}", result_lines(plan, self.action));
        if plan.changes() {
            let colour = Style::for_stdout().is_coloured();
            println!();
            print!("{}", diff::render(&path, &plan.before, &plan.edits, plan.syntax, DiffStyle { colour }));
        }
        println!();
    }

    /// Writes the confirmed changes, and prints the results.
    fn write(&self, changing: &[&Planned]) -> u8 {
        let chosen: Chosen = self.which.server.iter().cloned().collect();
        let mut code = 0;
        for planned in changing {
            let path = shown(&planned.candidate.path);
            let again = || self.plan(&planned.candidate, &chosen);
            match write::confirmed(&planned.source, &planned.plan, again) {
                Ok(backup) => println!("{path}: written; backup: {}", shown(&backup)),
                Err(reason) => {
                    code = NEGATIVE;
                    eprintln!("{path}: left, because {reason}");
                }
            }
        }
        if code == 0 {
            println!("Restart your clients to apply the changes.");
            if matches!(self.action, Action::Wrap { .. }) {
                println!("Then `{0} status` shows the servers, and `{0} unwrap` undoes all of this.", self.own);
            }
        }
        code
    }

    fn agreed(&self, files: usize, backups: usize) -> Result<bool, Refusal> {
        if self.which.yes {
            return Ok(true);
        }
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            let complaint = "there is no terminal for the confirmation; nothing was written. Use --yes to write, or --dry-run to only show the changes";
            return Err(Refusal(complaint.to_owned(), USAGE));
        }
        let count = |verb: &str, noun: &str, count: usize| match count {
            0 => None,
            1 => Some(format!("{verb} this {noun}")),
            _ => Some(format!("{verb} these {count} {noun}s")),
        };
        let what: Vec<String> =
            [count("write", "file", files), count("delete", "backup", backups)].into_iter().flatten().collect();
        let what = what.join(" and ");
        let (first, rest) = what.split_at(1);
        print!("{}{rest}? [y/N] ", first.to_uppercase());
        if output::has_failed() {
            // A question that the operator cannot see is not confirmed.
            return Ok(false);
        }
        let mut answer = String::new();
        let _ = stdin.lock().read_line(&mut answer);
        Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }
}

impl Candidate {
    /// Describes a file that is reached through a link.
    fn link(&self, real: &Path) -> Option<String> {
        if !file::is_through_a_link(&self.path, self.root.as_deref()) {
            return None;
        }
        let root = self.root.as_ref().filter(|_| self.is_shared).and_then(|root| root.canonicalize().ok());
        let leaves = root.is_some_and(|root| !real.starts_with(root));
        let what = if leaves { "a link that leads out of this project" } else { "a link" };
        Some(format!("reached through {what}; the file is {}", shown(real)))
    }
}

/// Lists the backups, and how to delete them.
fn name(backups: &[PathBuf]) {
    if backups.is_empty() {
        return;
    }
    println!("Backups hold old contents of these files, credentials included:");
    backups.iter().for_each(|backup| println!("  {}", shown(backup)));
    println!("To delete them: mendline unwrap --clean");
}

/// Deletes these backups, and prints the results.
fn delete(backups: &[PathBuf]) -> u8 {
    let mut code = 0;
    for backup in backups {
        match std::fs::remove_file(backup) {
            Ok(()) => println!("{}: deleted", shown(backup)),
            Err(error) => {
                code = NEGATIVE;
                eprintln!("{}: not deleted: {error}", shown(backup));
            }
        }
    }
    code
}

/// Formats the result for each server of a file, a line for each.
fn result_lines(plan: &Plan, action: Action<'_>) -> String {
    if plan.servers.is_empty() {
        return "  no servers\n".to_owned();
    }
    let (changed, already) = match action {
        Action::Wrap { .. } => ("wrapped", "already wrapped"),
        Action::Unwrap => ("unwrapped", "not wrapped"),
    };
    let width = plan.servers.iter().map(|server| plain(&server.name).chars().count()).max().unwrap_or(0);
    let line = |server: &Server| {
        let result = match &server.result {
            EntryResult::Changed => changed.to_owned(),
            EntryResult::Already => already.to_owned(),
            EntryResult::Left(reason) => format!("left: {reason}"),
        };
        let text = std::iter::once(&result).chain(&server.notes).map(String::as_str).collect::<Vec<_>>().join("; ");
        format!("  {:width$}  {}\n", plain(&server.name), plain(&shown_sentence(&text)))
    };
    plan.servers.iter().map(line).collect()
}

/// Returns whether two paths lead to one file, which must not be changed twice at once.
fn is_same(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// Formats a path, with `~` for the home directory.
pub(crate) fn shown(path: &Path) -> String {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let short = home.and_then(|home| path.strip_prefix(home).ok().map(|rest| format!("~/{}", rest.display())));
    plain(&short.unwrap_or_else(|| path.display().to_string()))
}
