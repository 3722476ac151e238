//! An entry in the file of a client that runs a server of the own file by its name: `mendline run notes`.
//!
//! Only the entry is added or removed, in the form that the client writes. The file is checked and replaced like the own
//! one, and without a backup: nothing that was in it changes.

use std::borrow::Cow;
use std::path::Path;

use mendline_config::{ConfigFile, Editor, NewValue, Source};

use crate::add::{code_of, config_words};
use crate::cli::USAGE;
use crate::editing::{Change, Edited, FileEdit};
use crate::named::Refusal;
use crate::names::{self, load_at};
use crate::plan;
use crate::untrusted_text::one_line;
use crate::wrap::clients::{Client, ClientDirectories, ConfigLocation, Scope};
use crate::wrap::document::Syntax;
use crate::wrap::program::Program;
use crate::wrap::yaml_edit::{self, YamlEditError};
use crate::wrap::{self, binary, client_files, new_entry};

/// The file of a client, and the entry in it.
pub(crate) struct ClientTarget {
    pub(crate) location: ConfigLocation,
    pub(crate) name: String,
    /// The arguments of the entry.
    arguments: Vec<String>,
}

/// An entry of a client that has the name.
enum Existing {
    /// It runs the server.
    Runs,
    /// It is another server.
    Another,
}

impl ClientTarget {
    /// Finds the files of these clients that have the entry, or get it.
    pub(crate) fn find(words: &[String], name: &str, own: &ConfigFile) -> Result<Vec<ClientTarget>, Refusal> {
        let mut targets: Vec<ClientTarget> = Vec::new();
        for word in words {
            let client = names::client(word)?;
            let directories = ClientDirectories::of_process().map_err(Refusal::from)?;
            let mut arguments = vec!["run".to_owned()];
            arguments.extend(config_words(own));
            arguments.push(name.to_owned());
            let target = |location| ClientTarget { location, name: name.to_owned(), arguments: arguments.clone() };
            let of_user = directories.locations_of(client).into_iter().filter(|it| it.scope == Scope::User);
            let found = of_user.map(target).find(|target| target.existing().is_some());
            let usual = || client_files::place(&directories, client).map(target);
            let target = found.or_else(usual).ok_or_else(|| no_place(client, name))?;
            if !targets.iter().any(|other| other.location.path == target.location.path) {
                targets.push(target);
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

    fn members(&self, program: &Program) -> Vec<(String, NewValue)> {
        let ConfigLocation { client, section, .. } = &self.location;
        let before = program.before.iter().map(|word| word.clone().into_owned());
        let arguments: Vec<String> = before.chain(self.arguments.iter().cloned()).collect();
        new_entry::members(*client, section, &self.name, &program.command, &arguments)
    }

    /// Adds the entry, unless it is there already.
    fn add<T>(
        &self,
        program: &Program,
        replaces: bool,
        run: impl FnOnce(&FileEdit<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let members = self.members(program);
        let is_wanted = || match self.existing() {
            Some(Existing::Runs) => Ok(false),
            Some(Existing::Another) if !replaces => Err(self.taken()),
            _ => Ok(true),
        };
        let by_editor = |editor: &Editor| match is_wanted()? {
            true => editor
                .add(&self.name, &NewValue::Table(members.clone()), replaces)
                .map_err(|error| self.left(&error.to_string())),
            false => Ok(()),
        };
        let by_text = |text: &str| match is_wanted()? {
            true if self.is_part_of_client(text) => Err(self.left(&format!(
                "{} has a part of its own that is called {:?}; choose another name",
                self.title(),
                self.name
            ))),
            true => yaml_edit::put(text, &self.location.section, &self.name, &members)
                .map_err(|error| self.not_edited(&error)),
            false => Ok(text.to_owned()),
        };
        self.edit(&by_editor, &by_text, run)
    }

    /// Removes the entry.
    fn remove<T>(&self, run: impl FnOnce(&FileEdit<'_>) -> Result<T, Refusal>) -> Result<T, Refusal> {
        let by_editor = |editor: &Editor| editor.remove(&self.name).map_err(|error| self.left(&error.to_string()));
        let by_text = |text: &str| {
            yaml_edit::remove(text, &self.location.section, &self.name).map_err(|error| self.not_edited(&error))
        };
        self.edit(&by_editor, &by_text, run)
    }

    /// Runs an edit of the file by the editor of its syntax.
    fn edit<T>(
        &self,
        by_editor: &dyn Fn(&Editor) -> Result<(), Refusal>,
        by_text: &dyn Fn(&str) -> Result<String, Refusal>,
        run: impl FnOnce(&FileEdit<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let change = match Syntax::of(&self.location.path) {
            Syntax::Json | Syntax::Toml => Change::Servers(by_editor),
            Syntax::Yaml => Change::Text(by_text),
        };
        run(&FileEdit { file: self.file(), section: Some(&self.location.section), change })
    }

    /// Returns the entry of this name that the client has.
    fn existing(&self) -> Option<Existing> {
        let source = Source::read(&self.location.path).ok()?;
        let loaded = load_at(source, &self.location.section);
        if !loaded.names.contains(&self.name) {
            return None;
        }
        let reference = loaded.server(&self.name).and_then(plan::reference);
        let runs_it = reference.is_some_and(|(name, _)| name == self.name);
        Some(if runs_it { Existing::Runs } else { Existing::Another })
    }

    /// Returns whether the client has the entry that runs the server.
    pub(crate) fn runs_it(&self) -> bool {
        matches!(self.existing(), Some(Existing::Runs))
    }

    /// Returns whether the name belongs to a part of the client itself, such as an extension that comes with Goose.
    fn is_part_of_client(&self, text: &str) -> bool {
        let names = client_files::names_in(text, Syntax::of(&self.location.path), &self.location.section);
        self.existing().is_none() && names.contains(&self.name)
    }

    fn taken(&self) -> Refusal {
        let (title, path, word, name) = (self.title(), self.path(), self.location.client.word(), &self.name);
        let words = format!(
            "error: nothing was written: {title} has another server {name:?} in {path}\n\n  mendline wrap --client {word} --server {name}   routes that one through Mendline\n  --replace                                replaces it"
        );
        Refusal { words, code: USAGE }
    }

    fn left(&self, reason: &str) -> Refusal {
        let words = format!("error: nothing was written: {}: {}", self.path(), one_line(reason));
        Refusal { words, code: USAGE }
    }

    fn not_edited(&self, error: &YamlEditError) -> Refusal {
        match error {
            YamlEditError::NoPlace => self
                .left(&format!("{error}; change it by hand: the command is `mendline {}`", self.arguments.join(" "))),
            YamlEditError::Unreadable(_) => self.left(&error.to_string()),
        }
    }
}

/// Returns the refusal for a client whose existing settings a new file would hide.
fn no_place(client: Client, name: &str) -> Refusal {
    let title = client.title();
    let words = format!(
        "error: {title} has only its older file config.json, which it would ignore beside a new config.yaml; nothing was written\n\nMove its settings to config.yaml first, or add a server with the command `mendline run {name}` in {title}."
    );
    Refusal { words, code: USAGE }
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
    clients.iter().map(|client| client.add(program, replaces, |edit| edit.preview())).collect()
}

/// Writes the entries, and prints the results. Returns the exit code.
pub(crate) fn write(clients: &[ClientTarget], program: &Program, replaces: bool) -> u8 {
    let mut failed = false;
    for client in clients {
        let (title, path, name) = (client.title(), client.path(), &client.name);
        match client.add(program, replaces, |edit| edit.write()) {
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
        if !client.runs_it() {
            println!("{title} has no entry that runs {name}: {path}.");
            continue;
        }
        let removed = match is_dry_run {
            true => client.remove(|edit| edit.preview()).map(|edited| edited.print_diff(&client.location.path)),
            false => client.remove(|edit| edit.write()).map(|_| println!("Removed {name} from {title}: {path}.")),
        };
        if let Err(refusal) = removed {
            failed = true;
            eprintln!("{}", refusal.words);
        }
    }
    code_of(failed)
}
