//! `mendline remove`: removes servers from the configuration file, and from the file of a client if that is wanted.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use mendline_config::{ConfigFile, EditError, Editor, Source};

use crate::client_entry::{self, ClientTarget};
use crate::editing::{Change, FileEdit, own_file, refused};
use crate::named::Refusal;
use crate::names::ClientFiles;
use crate::untrusted_text::one_line;
use crate::wrap;

const EXAMPLES: &str = "\
Examples:
  mendline remove notes
  mendline remove notes tracker               both, or none if a name is wrong
  mendline remove notes --client cursor       also the entry of Cursor that runs it
  mendline remove notes --dry-run             only show the change

Logs, statistics and logins stay: `mendline logout NAME` ends a login.
Exit codes: 0 ok, 1 a file could not be written, 2 wrong usage or configuration, 3 unknown name.";

/// Options of `mendline remove`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RemoveOptions {
    /// Names of the servers
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,

    /// Client whose entries that run these servers are removed, too; may be repeated
    #[arg(long, value_name = "CLIENT")]
    client: Vec<String>,

    /// Show the changes, and write nothing
    #[arg(long)]
    dry_run: bool,

    /// Configuration file [default: $MENDLINE_CONFIG, else config.json in the user's configuration directory for
    /// mendline]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs `mendline remove`.
pub(crate) fn run(options: &RemoveOptions) -> ExitCode {
    match remove(options) {
        Ok(code) => ExitCode::from(code),
        Err(refusal) => {
            eprintln!("{}", refusal.words);
            ExitCode::from(refusal.code)
        }
    }
}

fn remove(options: &RemoveOptions) -> Result<u8, Refusal> {
    let file = own_file(options.config.as_deref())?;
    let mut names: Vec<&String> = Vec::new();
    for name in &options.names {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut clients = Vec::new();
    for name in &names {
        clients.extend(ClientTarget::find(&options.client, name, &file)?);
    }
    // An entry of a client may have been left when the server was removed.
    let is_left = |name: &str| clients.iter().any(|client| client.name == name && client.runs_it());
    let change = |editor: &Editor| {
        names.iter().try_for_each(|name| match editor.remove(name) {
            Err(EditError::Unknown) if is_left(name) => Ok(()),
            removed => removed.map_err(|error| refused(name, &file, editor, &error)),
        })
    };
    let edit = FileEdit { file: file.clone(), section: None, change: Change::Servers(&change) };
    if options.dry_run {
        edit.preview()?.print_diff(&file.path);
        let code = client_entry::remove(&clients, true);
        println!("Nothing was written: this was a dry run.");
        return Ok(code);
    }
    let before = Source::new(&file.path, edit.write()?.before);
    let before = Editor::parse(&before, None).map(|editor| editor.names()).unwrap_or_default();
    for name in names.iter().filter(|name| before.contains(name)) {
        println!("Removed {} from {}.", one_line(name), wrap::shown(&file.path));
    }
    let code = client_entry::remove(&clients, false);
    for name in &names {
        report_references(name, &file);
    }
    Ok(code)
}

/// Names the entries of clients that still run the removed server.
fn report_references(name: &str, file: &ConfigFile) {
    let files = ClientFiles::of_user();
    for entry in files.entries() {
        let is_ours = |config: Option<PathBuf>| config.is_none_or(|config| config == file.path);
        if entry.reference().is_some_and(|(it, config)| it == name && is_ours(config)) {
            let (shown, word) = (one_line(name), entry.file.location.client.word());
            eprintln!(
                "note: {} still has an entry that runs it, in {}; `mendline remove {shown} --client {word}` removes it",
                entry.owner(),
                wrap::shown(&entry.file.location.path)
            );
        }
    }
}
