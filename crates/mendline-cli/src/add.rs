//! `mendline add`: adds a server to the configuration file, and to the file of a client if that is wanted.
//!
//! The entry has the form that all clients use. The entry of the client runs `mendline run NAME`, so that later changes
//! of the server need no change of the client.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use mendline_config::{Assignment, ConfigFile, Name, NewValue};

use crate::cli::NEGATIVE;
use crate::client_entry::{self, ClientTarget};
use crate::editing::{Change, FileEdit, own_file, own_file_without_variable, refused};
use crate::named::Refusal;
use crate::server_flags::TransportFlag;
use crate::untrusted_text::one_line;
use crate::wrap::{self, credential};

const EXAMPLES: &str = "\
Examples:
  mendline add notes -- npx -y @modelcontextprotocol/server-memory
  mendline add notes --env 'API_KEY=${NOTES_KEY}' -- uvx notes-server
  mendline add tracker https://mcp.example.com/mcp --header 'Authorization: Bearer ${TOKEN}'
  mendline add notes --client cursor -- uvx notes-server      and Cursor runs it
  mendline add notes --set timeouts.call=2m -- uvx notes-server
  mendline add notes --dry-run -- uvx notes-server            only show the change

${VAR} is expanded when the server starts, so that no secret is in the file; quote it, or the shell
expands it. `mendline set` changes an entry, `mendline remove` removes it.
Exit codes: 0 ok, 1 a file could not be written, 2 wrong usage or a name that is taken,
3 unknown client.";

/// Options of `mendline add`.
#[derive(Args)]
#[command(after_help = EXAMPLES, override_usage = "mendline add [OPTIONS] <NAME> <URL>\n       mendline add [OPTIONS] <NAME> -- <COMMAND> [ARGUMENTS]...")]
pub(crate) struct AddOptions {
    /// Name of the server: letters, digits, - and _
    #[arg(value_name = "NAME")]
    name: Name,

    /// URL of the server
    #[arg(value_name = "URL", conflicts_with = "command", required_unless_present = "command")]
    url: Option<String>,

    /// Command that starts the server, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,

    /// Environment variable of the command, as NAME=VALUE; the value may be a reference such as ${VAR}; may be repeated
    #[arg(long, short, value_name = "NAME=VALUE", requires = "command")]
    env: Vec<String>,

    /// Working directory of the command
    #[arg(long, value_name = "DIRECTORY", requires = "command")]
    cwd: Option<PathBuf>,

    /// Header for every request to the URL, as 'Name: value'; the value may have references such as ${VAR}; may be
    /// repeated
    #[arg(long, short = 'H', value_name = "HEADER", conflicts_with = "command")]
    header: Vec<String>,

    /// Transport of the URL; auto detects it
    #[arg(long, value_name = "auto|http|sse", value_enum, hide_possible_values = true, conflicts_with = "command")]
    transport: Option<TransportFlag>,

    /// Allow credentials to go unencrypted to an http:// URL on another machine: for trusted networks
    #[arg(long, conflicts_with = "command")]
    allow_http: bool,

    /// Any other key of the entry: timeouts.call=2m, auth.type=oauth, disabled=true; may be repeated
    #[arg(long, visible_alias = "policy", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Replace a server of this name
    #[arg(long)]
    replace: bool,

    /// Client whose file gets an entry that runs the server, too; may be repeated
    #[arg(long, value_name = "CLIENT")]
    client: Vec<String>,

    /// Program to write into the entry of a client [default: this one, if it is installed]
    #[arg(long, value_name = "PATH", requires = "client")]
    binary: Option<PathBuf>,

    /// Show the changes, and write nothing
    #[arg(long)]
    dry_run: bool,

    /// Configuration file [default: $MENDLINE_CONFIG, else config.json in the user's configuration directory for
    /// mendline]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs `mendline add`.
pub(crate) fn run(options: &AddOptions) -> ExitCode {
    match add(options) {
        Ok(code) => ExitCode::from(code),
        Err(refusal) => {
            eprintln!("{}", refusal.words);
            ExitCode::from(refusal.code)
        }
    }
}

fn add(options: &AddOptions) -> Result<u8, Refusal> {
    let name = options.name.to_string();
    let file = own_file(options.config.as_deref())?;
    let entry = NewValue::Table(entry(options)?);
    let assignments = assignments(options)?;
    let change = |editor: &mendline_config::Editor| {
        let added = editor.add(&name, &entry, options.replace);
        let set = |assignment| editor.set(&name, assignment);
        added.and_then(|()| assignments.iter().try_for_each(set)).map_err(|error| refused(&name, &file, editor, &error))
    };
    let edit = FileEdit { file: file.clone(), section: None, change: Change::Servers(&change) };
    let clients = ClientTarget::find(&options.client, &name, &file)?;
    let program = client_entry::program(&clients, options.binary.as_deref(), options.dry_run)?;
    // Everything is checked before anything is written.
    let edited = edit.preview()?;
    let previews = client_entry::preview(&clients, &program, options.replace)?;
    edited.print_warnings(&[&name]);
    if options.dry_run {
        edited.print_diff(&file.path);
        previews.iter().zip(&clients).for_each(|(preview, client)| preview.print_diff(&client.location.path));
        println!("Nothing was written: this was a dry run.");
        return Ok(0);
    }
    edit.write()?;
    let verb = if options.replace { "Replaced" } else { "Added" };
    println!("{verb} {name} in {}.", wrap::shown(&file.path));
    advise_about_secrets(options, &name);
    let written = client_entry::write(&clients, &program, options.replace);
    if clients.is_empty() {
        println!("Next: `mendline tools {name}` tries it; `mendline add --help` shows how a client gets it.");
    } else if written == 0 {
        println!("Next: restart the client; `mendline status {name}` shows the server then.");
    } else {
        eprintln!(
            "The server is in {}. The same command with --replace tries the client again.",
            wrap::shown(&file.path)
        );
    }
    Ok(written)
}

/// Returns the members of the entry.
fn entry(options: &AddOptions) -> Result<Vec<(String, NewValue)>, Refusal> {
    let mut members = Vec::new();
    let mut put = |key: &str, value: NewValue| members.push((key.to_owned(), value));
    if let Some(url) = &options.url {
        if !url.contains("://") && !url.contains("${") {
            let words = "the URL does not begin with https:// or http://; a command comes after `--`";
            return Err(Refusal::from(format!("{words}\n\n  mendline add {} -- COMMAND …", options.name)));
        }
        match options.transport {
            Some(TransportFlag::Http) => put("type", NewValue::text("http")),
            Some(TransportFlag::Sse) => put("type", NewValue::text("sse")),
            Some(TransportFlag::Auto) | None => {}
        }
        put("url", NewValue::text(url));
        if options.allow_http {
            put("allowHttp", NewValue::Flag(true));
        }
        return Ok(members);
    }
    let word = |word: &OsString| match word.to_str() {
        Some(word) => Ok(NewValue::text(word)),
        None => Err(Refusal::from("the command is not valid UTF-8 and cannot be written".to_owned())),
    };
    if let [program, arguments @ ..] = options.command.as_slice() {
        put("command", word(program)?);
        if !arguments.is_empty() {
            put("args", NewValue::List(arguments.iter().map(word).collect::<Result<_, _>>()?));
        }
    }
    if let Some(cwd) = &options.cwd {
        let path = std::path::absolute(cwd).map_err(|error| Refusal::from(format!("--cwd: {error}")))?;
        put("cwd", NewValue::text(path.to_string_lossy()));
    }
    Ok(members)
}

/// Returns the keys that are set one by one.
fn assignments(options: &AddOptions) -> Result<Vec<Assignment>, Refusal> {
    let mut assignments = Vec::new();
    for variable in &options.env {
        // The value is not shown, because it may be a secret.
        let form = || Refusal::from("--env takes NAME=VALUE, for example --env 'API_KEY=${API_KEY}'".to_owned());
        let (name, value) = variable.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(form)?;
        assignments.push(Assignment::below("env", name, value));
    }
    for header in &options.header {
        let form = || {
            let words = "--header takes 'Name: value' in quotes, for example --header 'Authorization: Bearer ${TOKEN}'";
            Refusal::from(words.to_owned())
        };
        let (name, value) = header.split_once(':').filter(|(name, _)| !name.trim().is_empty()).ok_or_else(form)?;
        assignments.push(Assignment::below("headers", name.trim(), value.trim()));
    }
    for text in &options.set {
        assignments.push(
            Assignment::parse(text)
                .map_err(|error| Refusal::from(format!("--set: {}", one_line(&error.to_string()))))?,
        );
    }
    Ok(assignments)
}

/// Names the values that look like secrets and are in the file now, with the reference that keeps them out.
fn advise_about_secrets(options: &AddOptions, name: &str) {
    let is_literal = |value: &str| !value.trim().is_empty() && !value.contains("${");
    let mut advice = Vec::new();
    for (key, value) in options.env.iter().filter_map(|variable| variable.split_once('=')) {
        if credential::is_secret(key) && is_literal(value) {
            advice.push(format!("mendline set {name} 'env.{key}=${{{key}}}'"));
        }
    }
    for (key, value) in options.header.iter().filter_map(|header| header.split_once(':')) {
        if credential::is_secret(key) && is_literal(value) {
            let scheme = value.trim().split_once(' ').map_or(String::new(), |(scheme, _)| format!("{scheme} "));
            advice.push(format!("mendline set {name} 'headers.{}={scheme}${{VARIABLE}}'", one_line(key.trim())));
        }
    }
    if !advice.is_empty() {
        eprintln!(
            "note: what looks like a secret is in the file, which only you can read, and in the history of your shell. A reference to an environment variable keeps it out:"
        );
        advice.iter().for_each(|line| eprintln!("  {}", one_line(line)));
    }
}

/// Returns the exit code for files of clients that could not be written.
pub(crate) fn code_of(failed: bool) -> u8 {
    if failed { NEGATIVE } else { 0 }
}

/// The own file, as words of a command line that names it. The usual one needs none; a client does not have the variable
/// that names another one here.
pub(crate) fn config_words(file: &ConfigFile) -> Vec<String> {
    let usual = own_file_without_variable();
    if usual.is_some_and(|usual| usual.path == file.path) {
        return Vec::new();
    }
    let path = std::path::absolute(&file.path).unwrap_or_else(|_| file.path.clone());
    vec!["--config".to_owned(), path.to_string_lossy().into_owned()]
}
