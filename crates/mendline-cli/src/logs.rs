//! `mendline logs`: the output of the servers and the decisions of Mendline, of all processes, by time.
//!
//! Every `mendline run` and `mendline serve` writes its own files (`mendline::observe::files`). This command finds them (`folder`), reads
//! them from the end or from a point in time (`lines`), merges them by time (`merge`), selects lines (`filter`), prints
//! them (`show`), and follows new ones (`follow`). Only the next lines are held in memory, so a log may be arbitrarily
//! long.

mod filter;
mod folder;
mod follow;
mod lines;
mod merge;
mod message;
mod record;
mod show;
mod when;
mod zone;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use mendline::observe::files::FOLDER;
use mendline::observe::log::LogLevel;
use mendline::state::state_directory;
use mendline_config::nearest;

use crate::cli::{NEGATIVE, UNKNOWN, USAGE};
use crate::output;
use crate::style::Style;
use crate::target::ServerSelector;
use crate::untrusted_text::one_line;
use filter::{CallId, Filter};
use folder::Folder;
use lines::Line;
use merge::Merge;
use record::Record;
use show::Show;
use when::{TimeArg, Timestamp};
use zone::Zone;

/// Number of lines without `--lines` and without a filter.
const DEFAULT_LINES: usize = 200;

/// Number of lines that are printed before following.
const BEFORE_FOLLOWING: usize = 10;

/// Maximum number of lines of one call.
const MAX_HISTORY: usize = 10_000;

const EXAMPLES: &str = "\
Examples:
  mendline logs                        the last 200 lines of all servers
  mendline logs notes -f               of one server, and new ones
  mendline logs notes#4711             of one process, as `mendline status` names it
  mendline logs serve                  of a gateway itself, without its servers
  mendline logs --since 10m --level warn
  mendline logs --since 22:00 --until 23:00
  mendline logs --grep ETIMEDOUT       in every wording of the error
  mendline logs --grep 503 --since yesterday
  mendline logs notes --call 65537     the history of one call; errors name it as `call`
  mendline logs notes --wire           also the messages, if `run --record-wire` logged them

The files are in logs/ of the state directory: $MENDLINE_STATE_DIR, else
$XDG_STATE_HOME/mendline, else ~/.local/state/mendline. `mendline run` logs more with
`--log-file-level debug`, and nothing with `--no-log-files`.
Times on a terminal, and those of --since and --until, are local (of TZ, if it is set). In pipes,
files and --json they are in UTC, and end with Z.
Exit codes: 0 ok, 1 nothing matches, 2 wrong usage, 3 no logs, or unknown name.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LogsOptions {
    /// Server by its name, or by NAME#PID or PID
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Follow new lines, until Ctrl-C
    #[arg(long, short)]
    follow: bool,

    /// Start: a duration before now such as 10m or 2h, a time such as 22:00, yesterday or `yesterday 22:00`, a date such
    /// as 2026-11-15 or `2026-11-15 22:00`, or with a zone 2026-11-15T21:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = when::parse)]
    since: Option<TimeArg>,

    /// End, in the same form
    #[arg(long, value_name = "WHEN", value_parser = when::parse, conflicts_with = "follow")]
    until: Option<TimeArg>,

    /// Number of last lines, or all [default: 200; all with --since, --until, --grep or --call; 10 with --follow]
    #[arg(long, short = 'n', value_name = "LINES|all", value_parser = Count::parse)]
    lines: Option<Count>,

    /// Lowest level: error, warn, info or debug [default: info; all with --call]
    #[arg(long, value_name = "LEVEL")]
    level: Option<LogLevel>,

    /// Only lines with this text, in any case; a system error such as ETIMEDOUT, a signal such as SIGKILL and a status such as
    /// 503 match every wording
    #[arg(long, value_name = "TEXT")]
    grep: Option<String>,

    /// History of one call, by its number in other lines and in errors; PID:ID if there are several
    #[arg(long, value_name = "ID", value_parser = CallId::parse)]
    call: Option<CallId>,

    /// Also the messages themselves, if they were logged
    #[arg(long)]
    wire: bool,

    /// Messages in full length
    #[arg(long)]
    full: bool,

    /// Lines as they were logged: one JSON object each
    #[arg(long, conflicts_with = "full")]
    json: bool,
}

/// Number of lines to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    All,
    Last(usize),
}

impl Count {
    fn parse(text: &str) -> Result<Count, String> {
        match text {
            "all" => Ok(Count::All),
            _ => text.parse().map(Count::Last).map_err(|_| "a number of lines, or `all`".to_owned()),
        }
    }
}

/// The selected time.
#[derive(Clone, Copy)]
struct Range {
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl Range {
    /// Returns the range of the options, or `None` if it ends before it begins.
    fn of(options: &LogsOptions) -> Option<Range> {
        let until = match options.until {
            Some(until) => Some(until.end_after(options.since)?),
            None => None,
        };
        Some(Range { since: options.since.map(TimeArg::stamp), until: until.map(TimeArg::stamp) })
    }
}

/// Runs `mendline logs`.
pub(crate) fn run(options: &LogsOptions) -> ExitCode {
    match answer(options) {
        Ok(code) => code,
        // A closed reader is no error; any other failed write is reported at the end.
        Err(_) if output::has_failed() => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(NEGATIVE)
        }
    }
}

fn answer(options: &LogsOptions) -> io::Result<ExitCode> {
    if options.level == Some(LogLevel::Off) {
        eprintln!("error: --level off would show nothing; use one of error, warn, info, debug");
        return Ok(ExitCode::from(USAGE));
    }
    let Some(path) = state_directory(|name| std::env::var_os(name)).map(|state| state.join(FOLDER)) else {
        eprintln!("error: there is no state directory: neither HOME nor XDG_STATE_HOME is set");
        return Ok(ExitCode::from(USAGE));
    };
    let Some(range) = Range::of(options) else {
        eprintln!("error: --until is before --since; nothing can be between them");
        return Ok(ExitCode::from(USAGE));
    };
    let whole = Folder::read(&path, options.wire)?.with_served();
    let is_there = |wanted: &ServerSelector| !whole.of(Some(wanted)).is_empty();
    let server = options.name.as_deref().map(|name| crate::names::selector(name, is_there));
    let folder = whole.of(server.as_ref());
    if folder.is_empty() {
        let words = nothing_there(&path.display().to_string(), options.name.as_deref(), &whole);
        if !options.follow {
            eprintln!("{words}");
            return Ok(ExitCode::from(UNKNOWN));
        }
        eprintln!("{words}\n\nWaiting for it; Ctrl-C ends.");
    }
    let mut filter = Filter::new(options, server.as_ref());
    if options.wire && options.call.is_some() {
        // A message may be logged before the line that names its call.
        let mut merge = Merge::forward(&folder.without_messages(), range.since);
        while let Some(line) = merge.next()? {
            filter.learn(&line);
        }
    }
    let zone = io::stdout().is_terminal().then(Zone::local);
    let show = Show::new(&folder, Style::for_stdout(), zone, options.json, options.full);
    let mut out = Output { out: BufWriter::new(output::Stdout), show, shown: 0 };
    let mut merge = match &options.call {
        Some(_) if !options.follow => history(options, range, &folder, &filter, &mut out)?,
        _ => lines(options, range, &folder, &filter, &mut out)?,
    };
    out.out.flush()?;
    remark(options, &folder, merge.take_unreadable(), out.shown);
    if options.follow {
        follow::follow(&folder, server.as_ref(), &mut filter, &mut out)?;
        return Ok(ExitCode::SUCCESS);
    }
    Ok(if out.shown == 0 { ExitCode::from(NEGATIVE) } else { ExitCode::SUCCESS })
}

/// Returns the names of the servers that have log files in this directory.
pub(crate) fn servers(directory: &Path) -> Vec<String> {
    let folder = Folder::read(directory, true).map(Folder::with_served);
    folder.map(|folder| folder.servers().into_iter().map(str::to_owned).collect()).unwrap_or_default()
}

/// The lines of all log files of this user, without messages, for other commands.
pub(crate) struct LogLines(Folder);

impl LogLines {
    /// Lists the log files.
    pub(crate) fn of_user() -> io::Result<LogLines> {
        let state = state_directory(|name| std::env::var_os(name));
        let path = state.ok_or_else(|| io::Error::other("there is no state directory"))?.join(FOLDER);
        Folder::read(&path, false).map(LogLines)
    }

    /// Returns the names of the servers.
    pub(crate) fn servers(&self) -> Vec<String> {
        self.0.servers().into_iter().map(str::to_owned).collect()
    }

    /// Returns whether the selected server has log files.
    pub(crate) fn has(&self, selector: &ServerSelector) -> bool {
        !self.0.of(Some(selector)).is_empty()
    }

    /// Returns the lines of the selected servers, or all, from the newest to the oldest.
    pub(crate) fn backward(&self, selector: Option<&ServerSelector>) -> BackwardLines {
        BackwardLines(Merge::backward(&self.0.of(selector), None))
    }
}

/// Lines from the newest to the oldest.
pub(crate) struct BackwardLines(Merge);

impl BackwardLines {
    /// Returns the next line, which is older than the last one.
    pub(crate) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.next()?.map(|line| line.text))
    }
}

/// Output of lines.
struct Output {
    out: BufWriter<output::Stdout>,
    show: Show,
    shown: usize,
}

impl Output {
    /// Prints a line, if it can be read and is selected.
    fn line(&mut self, line: &Line, filter: &Filter) -> io::Result<()> {
        if let Some(record) = Record::parse(&line.text).filter(|record| filter.takes(record)) {
            if filter.shows_history() {
                for before in &record.before {
                    self.show.write_before(&record, before, &mut self.out)?;
                }
            }
            self.show.write(&record, &line.text, &mut self.out)?;
            self.shown += 1;
        }
        Ok(())
    }

    /// Prints the history of one call in order of time: its lines, and the earlier entries in them.
    fn history(&mut self, lines: &[&Line]) -> io::Result<()> {
        let records: Vec<Record<'_>> = lines.iter().filter_map(|line| Record::parse(&line.text)).collect();
        let mut order = Vec::new();
        for (record, line) in records.iter().zip(lines) {
            order.extend(
                record.before.iter().map(|before| (Timestamp::of_text(&before.time), record, line, Some(before))),
            );
            order.push((Some(line.stamp), record, line, None));
        }
        order.sort_by_key(|(stamp, ..)| *stamp);
        for (_, record, line, before) in order {
            match before {
                Some(before) => self.show.write_before(record, before, &mut self.out)?,
                None => self.show.write(record, &line.text, &mut self.out)?,
            }
        }
        self.shown += lines.len();
        Ok(())
    }
}

/// Prints the last lines, or all of them.
fn lines(options: &LogsOptions, range: Range, folder: &Folder, filter: &Filter, out: &mut Output) -> io::Result<Merge> {
    let is_narrowed = range.since.is_some() || range.until.is_some() || options.grep.is_some();
    let usual = match (options.follow, is_narrowed || options.call.is_some()) {
        (true, false) => Count::Last(BEFORE_FOLLOWING),
        (false, false) => Count::Last(DEFAULT_LINES),
        (_, true) => Count::All,
    };
    match options.lines.unwrap_or(usual) {
        Count::All => {
            let mut merge = Merge::forward(folder, range.since);
            while let Some(line) = merge.next()? {
                if range.until.is_some_and(|until| line.stamp > until) {
                    break;
                }
                out.line(&line, filter)?;
            }
            Ok(merge)
        }
        Count::Last(count) => {
            let mut merge = Merge::backward(folder, range.until);
            let mut last = Vec::new();
            while last.len() < count
                && let Some(line) = merge.next()?
            {
                if range.since.is_some_and(|since| line.stamp < since) {
                    break;
                }
                if Record::parse(&line.text).is_some_and(|record| filter.takes(&record)) {
                    last.push(line);
                }
            }
            for line in last.iter().rev() {
                out.line(line, filter)?;
            }
            Ok(merge)
        }
    }
}

/// Prints the history of one call. If several processes have a call with that number, the latest is meant.
fn history(
    options: &LogsOptions,
    range: Range,
    folder: &Folder,
    filter: &Filter,
    out: &mut Output,
) -> io::Result<Merge> {
    let mut merge = Merge::forward(folder, range.since);
    let mut found: Vec<Line> = Vec::new();
    while let Some(line) = merge.next()? {
        if range.until.is_some_and(|until| line.stamp > until) || found.len() >= MAX_HISTORY {
            break;
        }
        if Record::parse(&line.text).is_some_and(|record| filter.takes(&record)) {
            found.push(line);
        }
    }
    let Some(latest) = found.last().map(|line| line.process) else { return Ok(merge) };
    let mut others: Vec<u32> = found
        .iter()
        .filter(|line| !folder.is_same(line.process, latest))
        .map(|line| folder.pid(line.process))
        .collect();
    others.dedup();
    let meant: Vec<&Line> = found.iter().filter(|line| folder.is_same(line.process, latest)).collect();
    out.history(&meant)?;
    if let (false, Some(call)) = (others.is_empty(), &options.call) {
        let others: Vec<String> = others.iter().map(|pid| format!("--call {pid}:{}", call.number)).collect();
        eprintln!(
            "\nThis call is of process {}; other processes have a call with that number, too: {}",
            folder.pid(latest),
            others.join(", ")
        );
    }
    Ok(merge)
}

/// Prints remarks about the result.
fn remark(options: &LogsOptions, folder: &Folder, unreadable: u64, shown: usize) {
    if unreadable > 0 {
        let lines = if unreadable == 1 { "one line".to_owned() } else { format!("{unreadable} lines") };
        eprintln!("note: {lines} in the log files cannot be read and were left out");
    }
    if options.wire && !folder.has_messages() {
        eprintln!("note: no messages were logged; `mendline run --record-wire …` logs them");
    }
    if shown == 0 && !options.follow && !folder.is_empty() {
        let more = match (options.level, &options.call) {
            (_, Some(_)) => ": successful calls are logged only with `mendline run --log-file-level debug`",
            (Some(LogLevel::Debug), _) => ": `mendline run --log-file-level debug` logs more",
            _ => "",
        };
        eprintln!("nothing in the log matches{more}");
    }
}

fn nothing_there(path: &str, name: Option<&str>, all: &Folder) -> String {
    let names = all.servers();
    let Some(name) = name.filter(|_| !names.is_empty()) else {
        return format!(
            "there are no log files in {path} yet\n\n\
             Every `mendline run` writes some, unless MENDLINE_LOG_FILES=off, `--no-log-files` or the configuration say \
             otherwise."
        );
    };
    let mut words = format!("error: there are no logs of a server {name:?}");
    if let Some(meant) = nearest(name, names.iter().copied()) {
        words.push_str(&format!("; did you mean {meant:?}?"));
    }
    let names: Vec<String> = names.iter().map(|name| one_line(name)).collect();
    format!("{words}\n\nThere are logs of: {}", names.join(", "))
}
