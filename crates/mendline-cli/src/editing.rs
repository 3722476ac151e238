//! Edits of configuration files by commands: locates the file, edits it, checks the result, shows it and writes it.
//!
//! Nothing is written that `mendline check` would reject for a new reason. Mistakes that the file had before do not
//! prevent an edit, because an edit may be the way to correct them.

use std::path::Path;

use mendline_config::{
    Cause, ConfigFile, EditError, Editor, Finding, Loaded, NewText, ReplaceError, Severity, Source, find, replace,
};

use crate::cli::{NEGATIVE, UNKNOWN, USAGE};
use crate::named::{Refusal, load_whole, render_style};
use crate::style::Style;
use crate::untrusted_text::{counted, one_line};
use crate::wrap;
use crate::wrap::diff::{self, DiffStyle};
use crate::wrap::document::Syntax;
use crate::wrap::edit::Edit;

const BOM: char = '\u{feff}';

/// The variable that names the configuration file.
const VARIABLE: &str = "MENDLINE_CONFIG";

/// An edit of a file.
pub(crate) struct FileEdit<'a> {
    pub(crate) file: ConfigFile,
    /// The path of keys to the servers, in the file of a client.
    pub(crate) section: Option<&'a [String]>,
    /// The change. It may be made more than once, if another program changes the file at the same time.
    pub(crate) change: Change<'a>,
}

/// A change of a file.
pub(crate) enum Change<'a> {
    /// By the editor of JSON and TOML files.
    Servers(&'a dyn Fn(&Editor) -> Result<(), Refusal>),
    /// Of the text of a file in another syntax. Returns the new text.
    Text(&'a dyn Fn(&str) -> Result<String, Refusal>),
}

/// The result of an edit.
pub(crate) struct Edited {
    pub(crate) before: String,
    pub(crate) after: String,
    /// The new file, checked.
    pub(crate) loaded: Loaded,
    /// What the edit adds that has no effect.
    notes: Vec<Finding>,
}

/// Returns the file to edit: the named one, or that of the user, which need not exist yet.
pub(crate) fn own_file(config: Option<&Path>) -> Result<ConfigFile, Refusal> {
    find(config, |name| std::env::var_os(name)).or_else(|missing| match missing.expected.clone() {
        Some(path) => Ok(ConfigFile { path, is_ours: true }),
        None => Err(Refusal::from(missing.to_string())),
    })
}

/// Returns the file of the user that is used if neither a flag nor a variable names another one.
pub(crate) fn own_file_without_variable() -> Option<ConfigFile> {
    let found = find(None, |name| std::env::var_os(name).filter(|_| name != VARIABLE));
    found.or_else(|missing| missing.expected.map(|path| ConfigFile { path, is_ours: true }).ok_or(())).ok()
}

impl FileEdit<'_> {
    /// Makes the edit without writing it.
    pub(crate) fn preview(&self) -> Result<Edited, Refusal> {
        let before = match std::fs::read_to_string(&self.file.path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(self.left(&ReplaceError::Read(error))),
        };
        self.make(before.as_deref())
    }

    /// Makes the edit and writes the file.
    pub(crate) fn write(&self) -> Result<Edited, Refusal> {
        let mut edited = None;
        let written = replace(&self.file.path, |before| {
            let made = self.make(before)?;
            let new = (made.before != made.after).then(|| NewText {
                text: made.after.clone(),
                is_private: self.section.is_none() && holds_secrets(&made.loaded),
            });
            edited = Some(made);
            Ok(new)
        });
        match (written, edited) {
            (Ok(_), Some(edited)) => Ok(edited),
            (Ok(_), None) => self.preview(),
            (Err(ReplaceError::Edit(refusal)), _) => Err(refusal),
            (Err(error), _) => Err(self.left(&error)),
        }
    }

    fn left(&self, error: &ReplaceError<Refusal>) -> Refusal {
        let words = format!("error: {} was not changed: {error}", self.path());
        Refusal { words, code: NEGATIVE }
    }

    fn path(&self) -> String {
        wrap::shown(&self.file.path)
    }

    fn make(&self, before: Option<&str>) -> Result<Edited, Refusal> {
        let before = before.unwrap_or_default();
        let (mark, text) = before.strip_prefix(BOM).map_or(("", before), |text| ("\u{feff}", text));
        let source = Source::new(&self.file.path, text);
        let after = match &self.change {
            Change::Servers(_) if Syntax::of(&self.file.path) == Syntax::Yaml => {
                return Err(self.unreadable(&source, &EditError::Language));
            }
            Change::Servers(change) => {
                let editor = Editor::parse(&source, self.section).map_err(|error| self.unreadable(&source, &error))?;
                change(&editor)?;
                editor.text()
            }
            Change::Text(change) => change(text)?,
        };
        let loaded = self.load(&after);
        // A file without text has nothing that could be wrong.
        let old = (!text.trim().is_empty()).then(|| self.load(text));
        let known: Vec<&Finding> = old.iter().flat_map(|old| &old.findings).collect();
        let is_known =
            |finding: &Finding| known.iter().any(|old| old.what == finding.what && old.server == finding.server);
        let is_new = |finding: &&Finding| finding.is_error() && finding.cause == Cause::File && !is_known(finding);
        let wrong: Vec<&Finding> = loaded.findings.iter().filter(is_new).collect();
        if !wrong.is_empty() {
            let rendered = loaded.render(wrong.iter().copied(), render_style());
            let count = counted(wrong.len(), "mistake");
            let words = format!("{rendered}\n\nerror: nothing was written: {} would have {count}", self.path());
            return Err(Refusal { words, code: USAGE });
        }
        let is_note = |finding: &&Finding| finding.severity == Severity::Note && !is_known(finding);
        let notes = loaded.findings.iter().filter(is_note).cloned().collect();
        Ok(Edited { before: before.to_owned(), after: format!("{mark}{after}"), loaded, notes })
    }

    fn load(&self, text: &str) -> Loaded {
        let source = Source::new(&self.file.path, text);
        match self.section {
            Some(section) => crate::names::load_at(source, section),
            None => load_whole(source, self.file.is_ours),
        }
    }

    fn unreadable(&self, source: &Source, error: &EditError) -> Refusal {
        let words = match error {
            EditError::Syntax(finding) => {
                let rendered = finding.render(source, render_style());
                format!("{rendered}\n\nerror: nothing was written: {} cannot be read", self.path())
            }
            EditError::Language => format!(
                "error: nothing was written: {} is not JSON, and only JSON files can be edited by this command",
                self.path()
            ),
            other => format!("error: nothing was written: {}: {}", self.path(), one_line(&other.to_string())),
        };
        Refusal { words, code: USAGE }
    }
}

impl Edited {
    /// Prints the difference.
    pub(crate) fn print_diff(&self, path: &Path) {
        let style = DiffStyle { colour: Style::for_stdout().is_coloured() };
        let edits = [difference(&self.before, &self.after)];
        let syntax = Syntax::of(path);
        print!("{}", diff::render(&wrap::shown(path), &self.before, &edits, syntax, style));
    }

    /// Returns whether the edit changes anything.
    pub(crate) fn is_change(&self) -> bool {
        self.before != self.after
    }

    /// Prints what is not wrong but worth knowing about these servers.
    pub(crate) fn print_warnings(&self, names: &[&str]) {
        let concerns = |finding: &&Finding| finding.server.as_deref().is_some_and(|server| names.contains(&server));
        for finding in self.loaded.findings.iter().filter(concerns) {
            if finding.is_error() || finding.severity == Severity::Warning {
                eprintln!("warning: {}", finding.line(&self.loaded.source));
            }
        }
        for note in self.notes.iter().filter(concerns) {
            eprintln!("note: {}", note.line(&self.loaded.source));
        }
    }
}

/// Returns the edit of whole lines that makes one text of another.
fn difference(before: &str, after: &str) -> Edit {
    let same = before.split_inclusive('\n').zip(after.split_inclusive('\n')).take_while(|(one, two)| one == two);
    let start: usize = same.map(|(line, _)| line.len()).sum();
    let (old, new) = (&before[start..], &after[start..]);
    let backward = |text: &'_ str| text.split_inclusive('\n').rev().map(str::len).collect::<Vec<_>>();
    let mut end = 0;
    for (one, two) in backward(old).into_iter().zip(backward(new)) {
        let (old_end, new_end) = (old.len() - end, new.len() - end);
        if one != two || old[old_end - one..old_end] != new[new_end - two..new_end] {
            break;
        }
        end += one;
    }
    Edit::replace(start..before.len() - end, &new[..new.len() - end])
}

/// Returns whether a file holds what look like secrets.
fn holds_secrets(loaded: &Loaded) -> bool {
    loaded.servers.iter().any(|server| server.literal_secrets > 0)
}

/// Returns the refusal of an edit of a server.
pub(crate) fn refused(name: &str, file: &ConfigFile, editor: &Editor, error: &EditError) -> Refusal {
    let (path, shown) = (wrap::shown(&file.path), one_line(name));
    match error {
        EditError::Unknown => {
            let names = editor.names();
            let meant = mendline_config::nearest(name, names.iter().map(String::as_str));
            let meant = meant.map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default();
            let names: Vec<String> = names.iter().map(|name| one_line(name)).collect();
            let there = match names.as_slice() {
                [] => "It has no servers.".to_owned(),
                names => format!("Its servers are: {}", names.join(", ")),
            };
            let elsewhere = of_client(name).unwrap_or_default();
            let words = format!("error: there is no server {shown:?} in {path}{meant}\n\n{there}{elsewhere}");
            Refusal { words, code: UNKNOWN }
        }
        EditError::Taken => Refusal {
            words: format!(
                "error: {path} has a server {shown:?} already; nothing was written\n\n  mendline set {shown} KEY=VALUE      changes it\n  mendline add {shown} --replace …    replaces it"
            ),
            code: USAGE,
        },
        other => {
            let why = one_line(&other.to_string());
            Refusal { words: format!("error: nothing was written: {path}: {shown}: {why}"), code: USAGE }
        }
    }
}

/// Returns where a client has a server of this name, which this command does not change.
fn of_client(name: &str) -> Option<String> {
    let files = crate::names::ClientFiles::of_user();
    let entry = files.entries().find(|entry| entry.name == name)?;
    let path = wrap::shown(&entry.file.location.path);
    // Files of other forms are not edited by their keys.
    let section = entry.file.location.section.first().map_or("", String::as_str);
    let is_editable = Syntax::of(&entry.file.location.path) == Syntax::Json && section != "mcp";
    let next =
        if is_editable { format!("To change that file: --config {path}") } else { "Change it there.".to_owned() };
    Some(format!("\n\n{} has it, in {path}. {next}", entry.owner()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wrap::edit::apply;

    #[test]
    fn difference_has_whole_lines_and_makes_the_new_text() {
        for (before, after, range) in [
            ("a\nb\nc\n", "a\nx\nc\n", 2..4),
            ("a\nc\n", "a\nb\nc\n", 2..2),
            ("a\nb\nc\n", "a\nc\n", 2..4),
            ("", "a\n", 0..0),
            ("a\na\n", "a\na\na\n", 4..4),
            ("a", "a\n", 0..1),
        ] {
            let edit = difference(before, after);
            assert_eq!((apply(before, std::slice::from_ref(&edit)).as_str(), edit.range), (after, range));
        }
    }
}
