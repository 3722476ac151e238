//! Runs the zoo: `zoo HOME MENDLINE [--only NAME] [--sample] [--jobs N] [--write FILE]`.
//!
//! `cargo xtask zoo` installs the packages into HOME and starts this program. It prints the table and the reasons of
//! failed checks, and exits with 1 if a check failed.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool prints to the terminal")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use mendline_peers::zoo::manifest::{Client, Manifest, Server};
use mendline_peers::zoo::table::{Row, markdown, replace_table};
use mendline_peers::zoo::{Zoo, client_check, server_check};

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("zoo: {why}");
            ExitCode::FAILURE
        }
    }
}

/// One check.
enum Task<'a> {
    Server(&'a Server),
    Client(&'a Client),
}

impl Task<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Server(server) => &server.name,
            Self::Client(client) => &client.name,
        }
    }

    fn is_sample(&self) -> bool {
        match self {
            Self::Server(server) => server.sample,
            Self::Client(client) => client.sample,
        }
    }

    fn check(&self, zoo: &Zoo) -> Row {
        match self {
            Self::Server(server) => server_check::check(zoo, server),
            Self::Client(client) => client_check::check(zoo, client),
        }
    }
}

fn run() -> Result<bool, String> {
    let mut args = std::env::args().skip(1);
    let (Some(home), Some(mendline)) = (args.next(), args.next()) else {
        return Err("usage: zoo HOME MENDLINE [--only NAME] [--sample] [--jobs N] [--write FILE]".into());
    };
    let (mut only, mut sample, mut jobs, mut write) = (None, false, 2, None);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--only" => only = Some(value()?),
            "--sample" => sample = true,
            "--jobs" => jobs = value()?.parse().map_err(|why| format!("--jobs: {why}"))?,
            "--write" => write = Some(PathBuf::from(value()?)),
            other => return Err(format!("unknown option `{other}`")),
        }
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("zoo");
    let manifest = Manifest::read(&source)?;
    let zoo = Zoo { home: home.into(), mendline: mendline.into() };
    let all = manifest.servers.iter().map(Task::Server).chain(manifest.clients.iter().map(Task::Client));
    let chosen = all
        .filter(|task| !sample || task.is_sample())
        .filter(|task| only.as_ref().is_none_or(|only| task.name().contains(only)));
    let tasks: Vec<Task> = chosen.collect();
    if tasks.is_empty() {
        return Err("no server or client has this name".into());
    }

    let rows = check_all(&zoo, &tasks, jobs);
    let table = markdown(&rows);
    println!("\n{table}");
    if let Some(file) = write {
        let page = std::fs::read_to_string(&file).unwrap_or_default();
        std::fs::write(&file, replace_table(&page, &table)).map_err(|why| format!("{}: {why}", file.display()))?;
    }
    let failures: Vec<String> = rows.iter().flat_map(Row::failures).collect();
    for failure in &failures {
        println!("{failure}\n");
    }
    let folder = zoo.home.join("runs");
    println!("{} rows, {} failed checks; logs: {}", rows.len(), failures.len(), folder.display());
    Ok(failures.is_empty())
}

/// Runs the checks with several threads and returns the rows in the order of the tasks.
fn check_all(zoo: &Zoo, tasks: &[Task], jobs: usize) -> Vec<Row> {
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, tasks.len()) {
            scope.spawn(|| {
                while let Some((number, task)) = {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    tasks.get(number).map(|task| (number, task))
                } {
                    let begun = Instant::now();
                    let row = task.check(zoo);
                    let result = if row.failures().next().is_some() { "FAILED" } else { "ok" };
                    eprintln!("{:<28}{:>6.1} s  {result}", task.name(), begun.elapsed().as_secs_f64());
                    if let Ok(mut rows) = rows.lock() {
                        rows.push((number, row));
                    }
                }
            });
        }
    });
    let mut rows = rows.into_inner().unwrap_or_default();
    rows.sort_by_key(|(number, _)| *number);
    rows.into_iter().map(|(_, row)| row).collect()
}
