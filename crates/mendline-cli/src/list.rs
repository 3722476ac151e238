//! `mendline list`: every known server, of the own file, of clients and of running processes.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use mendline::control::Registry;
use mendline::control::snapshot::StateKind;
use mendline::decisions::config::{Dialect, Transport};
use mendline_config::{Endpoint, Loaded, Server};
use serde::Serialize;

use crate::cli::USAGE;
use crate::named::{Refusal, locate, read};
use crate::names::{ClientFile, ClientFiles};
use crate::output;
use crate::plan::Plan;
use crate::style::Style;
use crate::untrusted_text::one_line;
use crate::wrap;

const EXAMPLES: &str = "\
Examples:
  mendline list                      every server, with the file that has it
  mendline list --json | jq -r '.servers[] | select(.runs | not) | .name'

The names are those that all commands take. Where several clients have different servers of one
name, `cursor/notes` is the one of Cursor.
Exit codes: 0 ok, 2 wrong usage or configuration.";

/// Options of `mendline list`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ListOptions {
    /// Print JSON in a stable format
    #[arg(long)]
    json: bool,

    /// Configuration file, and no other [default: $MENDLINE_CONFIG, else config.json in the user's configuration
    /// directory for mendline; and the files of the clients]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// All servers, in the format of `--json`.
#[derive(Serialize)]
struct Listing {
    version: u32,
    servers: Vec<Row>,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    /// The name that every command takes.
    name: String,
    /// Its transport, if its entry is valid.
    transport: Option<&'static str>,
    /// Its program or origin, if its entry is valid.
    target: Option<String>,
    /// The client that has the entry; none for the own file.
    client: Option<&'static str>,
    /// The file; none for a server that only runs.
    file: Option<String>,
    /// True if the entry goes through Mendline: an own one, or a wrapped one.
    is_wrapped: bool,
    is_disabled: bool,
    /// The reason why the entry cannot be used.
    error: Option<String>,
    /// True if a process runs a server of this name.
    runs: bool,
    /// True if `mendline wrap` would route it through Mendline.
    #[serde(skip)]
    is_wrappable: bool,
}

/// Runs `mendline list`.
pub(crate) fn run(options: &ListOptions) -> ExitCode {
    match rows(options) {
        Ok(servers) if options.json => match serde_json::to_string_pretty(&Listing { version: 1, servers }) {
            Ok(json) => {
                output::json(&json);
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::from(USAGE)
            }
        },
        Ok(servers) => {
            print!("{}", page(&servers, Style::for_stdout()));
            ExitCode::SUCCESS
        }
        Err(refusal) => {
            eprintln!("{}", refusal.words);
            ExitCode::from(refusal.code)
        }
    }
}

fn rows(options: &ListOptions) -> Result<Vec<Row>, Refusal> {
    let mut rows = Vec::new();
    let mut running: Vec<(String, String, bool)> = Vec::new();
    for found in Registry::of_user().snapshots() {
        for server in found.snapshot.into_iter().flat_map(|snapshot| snapshot.servers) {
            let is_used = server.state.kind != StateKind::Stopping;
            running.push((server.name, server.target, is_used));
        }
    }
    let runs = |name: &str| running.iter().any(|(it, _, is_used)| it == name && *is_used);
    match locate(options.config.as_deref()) {
        Ok(found) => {
            let loaded = read(&found)?;
            for name in &loaded.names {
                rows.push(Row { is_wrapped: true, ..row(name, name, &loaded, &runs) });
            }
        }
        Err(why) if options.config.is_some() => return Err(Refusal::from(why)),
        Err(_) => {}
    }
    if options.config.is_none() {
        let files = ClientFiles::of_user();
        let wrappable: Vec<Vec<String>> = files.files().iter().map(ClientFile::wrappable).collect();
        let of_file = |file: &ClientFile| files.files().iter().position(|it| std::ptr::eq(it, file));
        for entry in files.entries() {
            let location = &entry.file.location;
            let is_wrapped = entry.server.is_some_and(|server| matches!(server.endpoint, Endpoint::Wrapped { .. }));
            let reference = entry.reference();
            let mut row = row(&files.id(&entry), entry.name, &entry.file.loaded, &runs);
            if let Some((name, _)) = &reference {
                // The entry is correct; its server is that of the own file.
                (row.error, row.target) = (None, Some(format!("mendline run {}", one_line(name))));
                row.runs = runs(name);
            }
            let wrappable = of_file(entry.file).map(|at| &wrappable[at]);
            let is_wrappable = wrappable.is_some_and(|names| names.iter().any(|name| name == entry.name));
            rows.push(Row { client: Some(location.client.word()), is_wrapped, is_wrappable, ..row });
        }
        for (name, target, _) in &running {
            if !rows.iter().any(|row| row.runs && (row.name == *name || row.name.ends_with(&format!("/{name}")))) {
                rows.push(Row::running(name, target));
            }
        }
    }
    Ok(rows)
}

fn row(id: &str, name: &str, loaded: &Loaded, runs: &dyn Fn(&str) -> bool) -> Row {
    let server = loaded.server(name);
    let plan = server.map(|server| Plan::of_server(server, None));
    let error = match (&plan, loaded.obstacles(name).first()) {
        (_, Some(finding)) => Some(finding.line(&loaded.source)),
        (Some(Err(why)), None) => Some(why.clone()),
        (None, None) => Some("its entry is invalid".to_owned()),
        (Some(Ok(_)), None) => None,
    };
    let plan = plan.and_then(Result::ok);
    Row {
        name: id.to_owned(),
        transport: plan.as_ref().map(|plan| transport(plan.upstream.transport)),
        target: plan.map(|plan| plan.upstream.place),
        client: None,
        file: Some(loaded.source.path().display().to_string()),
        is_wrapped: false,
        is_disabled: server.is_some_and(|server: &Server| server.is_disabled),
        error,
        runs: runs(server.map_or(name, |server| &server.policies.name)),
        is_wrappable: false,
    }
}

impl Row {
    fn running(name: &str, target: &str) -> Row {
        Row {
            name: name.to_owned(),
            transport: None,
            target: Some(target.to_owned()),
            client: None,
            file: None,
            is_wrapped: true,
            is_disabled: false,
            error: None,
            runs: true,
            is_wrappable: false,
        }
    }

    fn state(&self) -> &'static str {
        match self {
            Row { runs: true, .. } => "running",
            Row { is_disabled: true, .. } => "disabled",
            Row { error: Some(_), .. } => "invalid",
            Row { is_wrapped: false, .. } => "not wrapped",
            _ => "ready to run",
        }
    }
}

fn transport(transport: Transport) -> &'static str {
    match transport {
        Transport::Child => "stdio",
        Transport::Http(Dialect::Sse) => "sse",
        Transport::Http(_) => "http",
    }
}

fn page(rows: &[Row], style: Style) -> String {
    if rows.is_empty() {
        return "No servers are known.\n\n  mendline add notes -- npx -y @modelcontextprotocol/server-memory   adds one\n  mendline wrap                                                       routes those of your clients through Mendline\n".to_owned();
    }
    let cells: Vec<[String; 4]> = rows
        .iter()
        .map(|row| {
            let file = row.file.as_deref().map(|file| wrap::shown(file.as_ref()));
            [
                one_line(&row.name),
                row.state().to_owned(),
                row.target.as_deref().map(one_line).unwrap_or_default(),
                file.unwrap_or_else(|| "only a running process".to_owned()),
            ]
        })
        .collect();
    let heads = ["NAME", "STATE", "SERVER", "FILE"];
    let width = |column: usize| {
        let widest = cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        widest.max(heads[column].len())
    };
    let widths: Vec<usize> = (0..4).map(width).collect();
    let line = |row: &[&str]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut out = format!("{}\n", style.faint(&line(&heads)));
    for row in &cells {
        let _ = writeln!(out, "{}", line(&row.each_ref().map(String::as_str)));
    }
    for row in rows.iter().filter(|row| row.error.is_some() && !row.is_disabled) {
        let error = row.error.as_deref().unwrap_or_default();
        let _ = write!(out, "\n{}: {}\n", style.bold(&one_line(&row.name)), one_line(error));
    }
    if rows.iter().any(|row| row.is_wrappable) {
        out.push_str("\nNext: `mendline wrap` routes the servers that are not wrapped through Mendline.\n");
    } else if rows.iter().any(|row| row.state() == "not wrapped") {
        out.push_str("\n`mendline wrap --dry-run` says why it leaves the servers that are not wrapped.\n");
    }
    out
}
