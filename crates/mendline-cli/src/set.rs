//! `mendline set` and `mendline unset`: change keys of a server in the configuration file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use mendline_config::{Assignment, AssignmentError, EditError, Editor, KeyPath};

use crate::cli::UNKNOWN;
use crate::editing::{Change, FileEdit, own_file, refused};
use crate::named::Refusal;
use crate::untrusted_text::one_line;
use crate::wrap;

const SET_EXAMPLES: &str = "\
Examples:
  mendline set notes timeouts.call=2m
  mendline set notes autoReconnect.maxRetries=-1 keepAlive.interval=15s
  mendline set notes 'env.API_KEY=${NOTES_KEY}'      quoted, or the shell expands it
  mendline set notes 'args=[\"-y\", \"notes-server\"]'
  mendline set notes tools.search.effect=read
  mendline set notes disabled=true

Keys are those of the configuration file; `mendline schema --table` lists them. A running server
takes the change over. `mendline unset` removes a key.
Exit codes: 0 ok, 1 the file could not be written, 2 wrong usage or value, 3 unknown name.";

/// Options of `mendline set`.
#[derive(Args)]
#[command(after_help = SET_EXAMPLES)]
pub(crate) struct SetOptions {
    /// Name of the server
    #[arg(value_name = "NAME")]
    name: String,

    /// Keys with their values
    #[arg(value_name = "KEY=VALUE", required = true)]
    assignments: Vec<String>,

    #[command(flatten)]
    edit: EditFlags,
}

const UNSET_EXAMPLES: &str = "\
Examples:
  mendline unset notes timeouts.call
  mendline unset notes env.API_KEY autoReconnect

An object without keys is removed, too.
Exit codes: 0 ok, 1 the file could not be written, 2 wrong usage, 3 unknown name or key.";

/// Options of `mendline unset`.
#[derive(Args)]
#[command(after_help = UNSET_EXAMPLES)]
pub(crate) struct UnsetOptions {
    /// Name of the server
    #[arg(value_name = "NAME")]
    name: String,

    /// Keys to remove
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,

    #[command(flatten)]
    edit: EditFlags,
}

/// The flags of an edit.
#[derive(Args)]
struct EditFlags {
    /// Show the change, and write nothing
    #[arg(long)]
    dry_run: bool,

    /// Configuration file [default: $MENDLINE_CONFIG, else config.json in the user's configuration directory for
    /// mendline]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs `mendline set`.
pub(crate) fn set(options: &SetOptions) -> ExitCode {
    let parsed: Result<Vec<Assignment>, AssignmentError> =
        options.assignments.iter().map(|text| Assignment::parse(text)).collect();
    let done = parsed.map_err(|error| key_refused(&error)).and_then(|assignments| {
        edit(&options.name, &options.edit, &|editor, name| {
            assignments.iter().try_for_each(|assignment| editor.set(name, assignment))
        })
    });
    finish(done)
}

/// Runs `mendline unset`.
pub(crate) fn unset(options: &UnsetOptions) -> ExitCode {
    let parsed: Result<Vec<KeyPath>, AssignmentError> = options.keys.iter().map(|text| KeyPath::parse(text)).collect();
    let done = parsed.map_err(|error| key_refused(&error)).and_then(|paths| {
        edit(&options.name, &options.edit, &|editor, name| paths.iter().try_for_each(|path| editor.unset(name, path)))
    });
    finish(done)
}

fn key_refused(error: &AssignmentError) -> Refusal {
    Refusal::from(format!("{}\n\n`mendline schema --table` lists all keys.", one_line(&error.to_string())))
}

fn finish(done: Result<(), Refusal>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            eprintln!("{}", refusal.words);
            ExitCode::from(refusal.code)
        }
    }
}

fn edit(name: &str, flags: &EditFlags, change: &dyn Fn(&Editor, &str) -> Result<(), EditError>) -> Result<(), Refusal> {
    let file = own_file(flags.config.as_deref())?;
    let change = |editor: &Editor| {
        change(editor, name).map_err(|error| match error {
            EditError::NoKey(path) => {
                let (name, path) = (one_line(name), one_line(&path.to_string()));
                let words = format!("error: {name} has no key `{path}` in {}", wrap::shown(&file.path));
                Refusal { words, code: UNKNOWN }
            }
            error => refused(name, &file, editor, &error),
        })
    };
    let edit = FileEdit { file: file.clone(), section: None, change: Change::Servers(&change) };
    let edited = if flags.dry_run { edit.preview()? } else { edit.write()? };
    edited.print_warnings(&[name]);
    report(name, &file.path, edited.is_change(), flags.dry_run);
    if flags.dry_run {
        edited.print_diff(&file.path);
        println!("Nothing was written: this was a dry run.");
    }
    Ok(())
}

fn report(name: &str, path: &Path, is_change: bool, is_dry_run: bool) {
    let (name, path) = (one_line(name), wrap::shown(path));
    match (is_change, is_dry_run) {
        (true, false) => println!("Changed {name} in {path}."),
        (true, true) => {}
        (false, _) => println!("Nothing to do: {name} in {path} has these values already."),
    }
}
