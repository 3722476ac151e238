//! An entry in the file of a client that runs a server of the own file by its name: `mendline run notes`.
//!
//! Only the entry is added or removed. The file is checked and replaced like the own one, and without a backup: nothing
//! that was in it changes.

use std::borrow::Cow;
use std::path::Path;

use mendline_config::{ConfigFile, Editor, NewValue};

use crate::add::{code_of, config_words};
use crate::cli::{UNKNOWN, USAGE};
use crate::editing::{Edited, FileEdit};
use crate::named::Refusal;
use crate::names::{self, load_at};
use crate::plan;
use crate::wrap::clients::{ClientDirectories, ConfigLocation, Scope};
use crate::wrap::program::Program;
use crate::wrap::{self, binary};

/// The sections whose entries have `command` and `args`.
const USUAL: [&str; 4] = ["mcpServers", "servers", "mcp_servers", "context_servers"];

/// The file of a client, and the entry in it.
pub(crate) struct ClientTarget {
    pub(crate) location: ConfigLocation,
    pub(crate) name: String,
    /// The arguments of the entry.
    arguments: Vec<String>,
}

impl ClientTarget {
    /// Finds the files of these clients: the usual one of the user.
    pub(crate) fn find(words: &[String], name: &str, own: &ConfigFile) -> Result<Vec<ClientTarget>, Refusal> {
        let mut targets: Vec<ClientTarget> = Vec::new();
        for word in words {
            let client = names::client(word)?;
            let directories = ClientDirectories::of_process().map_err(Refusal::from)?;
            let is_meant = |location: &ConfigLocation| location.client == client && location.scope == Scope::User;
            let location = directories.locations().into_iter().find(is_meant).ok_or_else(|| Refusal {
                words: format!("error: {} has no file of the user", client.title()),
                code: UNKNOWN,
            })?;
            let is_usual = matches!(location.section.as_slice(), [only] if USUAL.contains(&only.as_str()));
            if !is_usual || !(is_json(&location.path) || is_toml(&location.path)) {
                let (title, path) = (client.title(), wrap::shown(&location.path));
                let words = format!(
                    "error: the entries of {title} have a form of their own; add one to {path} with the command `mendline run {name}`"
                );
                return Err(Refusal { words, code: USAGE });
            }
            if !targets.iter().any(|target| target.location.path == location.path) {
                let mut arguments = vec!["run".to_owned()];
                arguments.extend(config_words(own));
                arguments.push(name.to_owned());
                targets.push(ClientTarget { location, name: name.to_owned(), arguments });
            }
        }
        Ok(targets)
    }

    fn title(&self) -> &'static str {
        self.location.client.title()
    }

    fn path(&self) -> String {
        wrap::shown(&self.location.path)
    }

    fn file(&self) -> ConfigFile {
        ConfigFile { path: self.location.path.clone(), is_ours: false }
    }

    fn entry(&self, program: &Program) -> NewValue {
        let mut members = Vec::new();
        if self.location.section.last().is_some_and(|key| key == "servers") {
            members.push(("type".to_owned(), NewValue::text("stdio")));
        }
        members.push(("command".to_owned(), NewValue::text(&*program.command)));
        let before = program.before.iter().map(|word| NewValue::text(&**word));
        let arguments = before.chain(self.arguments.iter().map(NewValue::text)).collect();
        members.push(("args".to_owned(), NewValue::List(arguments)));
        NewValue::Table(members)
    }

    /// Adds the entry, unless it is there already.
    fn add(&self, editor: &Editor, program: &Program, replaces: bool) -> Result<(), Refusal> {
        match self.existing() {
            Some(true) => Ok(()),
            Some(false) if !replaces => Err(Refusal {
                words: format!(
                    "error: nothing was written: {} has another server {:?} in {}\n\n  mendline wrap --client {} --server {}   routes that one through Mendline\n  --replace                                replaces it",
                    self.title(),
                    self.name,
                    self.path(),
                    self.location.client.word(),
                    self.name
                ),
                code: USAGE,
            }),
            _ => editor.add(&self.name, &self.entry(program), replaces).map_err(|error| Refusal {
                words: format!("error: nothing was written: {}: {error}", self.path()),
                code: USAGE,
            }),
        }
    }

    /// Returns whether the client has an entry of this name, and whether that one runs the server.
    fn existing(&self) -> Option<bool> {
        let source = mendline_config::Source::read(&self.location.path).ok()?;
        let loaded = load_at(source, &self.location.section);
        if !loaded.names.contains(&self.name) {
            return None;
        }
        let reference = loaded.server(&self.name).and_then(plan::reference);
        Some(reference.is_some_and(|(name, _)| name == self.name))
    }

    /// Returns whether the client has the entry that runs the server.
    pub(crate) fn runs_it(&self) -> bool {
        self.existing() == Some(true)
    }

    /// Runs an edit of the file.
    fn edit<T>(
        &self,
        change: &dyn Fn(&Editor) -> Result<(), Refusal>,
        run: impl FnOnce(&FileEdit<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        run(&FileEdit { file: self.file(), section: Some(&self.location.section), change })
    }

    fn make<T>(
        &self,
        program: &Program,
        replaces: bool,
        run: impl FnOnce(&FileEdit<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        self.edit(&|editor| self.add(editor, program, replaces), run)
    }
}

fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|extension| ["json", "jsonc"].iter().any(|it| extension.eq_ignore_ascii_case(it)))
}

/// Returns the program to write into the entries; an empty one if there are none.
pub(crate) fn program(clients: &[ClientTarget], option: Option<&Path>, is_dry_run: bool) -> Result<Program, Refusal> {
    if clients.is_empty() {
        return Ok(Program::at(Cow::Borrowed("")));
    }
    binary::choose(option, is_dry_run).map(|binary| binary.program).map_err(Refusal::from)
}

/// Makes the edits without writing them.
pub(crate) fn preview(clients: &[ClientTarget], program: &Program, replaces: bool) -> Result<Vec<Edited>, Refusal> {
    clients.iter().map(|client| client.make(program, replaces, |edit| edit.preview())).collect()
}

/// Writes the entries, and prints the results. Returns the exit code.
pub(crate) fn write(clients: &[ClientTarget], program: &Program, replaces: bool) -> u8 {
    let mut failed = false;
    for client in clients {
        let (title, path, name) = (client.title(), client.path(), &client.name);
        match client.make(program, replaces, |edit| edit.write()) {
            Ok(edited) if edited.is_change() => println!("{title} runs {name} now: {path}."),
            Ok(_) => println!("{title} runs {name} already: {path}."),
            Err(refusal) => {
                failed = true;
                eprintln!("{}", refusal.words);
            }
        }
    }
    code_of(failed)
}

/// Removes the entries that run the server, and prints the results. Returns the exit code.
pub(crate) fn remove(clients: &[ClientTarget], is_dry_run: bool) -> u8 {
    let mut failed = false;
    for client in clients {
        let (title, path, name) = (client.title(), client.path(), &client.name);
        if client.existing() != Some(true) {
            println!("{title} has no entry that runs {name}: {path}.");
            continue;
        }
        let change = |editor: &Editor| {
            editor.remove(name).map_err(|error| Refusal::from(format!("{path}: {error}; nothing was written there")))
        };
        let removed = match is_dry_run {
            true => client.edit(&change, |edit| edit.preview()).map(|edited| edited.print_diff(&client.location.path)),
            false => {
                client.edit(&change, |edit| edit.write()).map(|_| println!("Removed {name} from {title}: {path}."))
            }
        };
        if let Err(refusal) = removed {
            failed = true;
            eprintln!("{}", refusal.words);
        }
    }
    code_of(failed)
}
