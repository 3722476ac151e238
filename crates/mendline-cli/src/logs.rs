//! `mendline logs`: what the servers said and what Mendline decided, of all processes, by time.
//!
//! Every `mendline run` leaves files of its own behind (`mendline::observe::files`). This command finds them (`folder`),
//! reads them from the end or from a moment on without reading what lies before (`lines`), merges them by time (`merge`),
//! picks what was asked for (`filter`) and shows it (`show`), and goes on with what comes (`follow`). Nothing is held in
//! memory but what is shown next: a log may be as long as it likes.

mod filter;
mod folder;
mod follow;
mod lines;
mod merge;
mod message;
mod record;
mod show;
mod when;

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use mendline::observe::files::FOLDER;
use mendline::observe::log::LogLevel;
use mendline::state::state_directory;
use mendline_config::{Name, nearest};

use crate::cli::{NEGATIVE, UNKNOWN, USAGE};
use crate::ink::Ink;
use crate::output;
use crate::outside::one_line;
use filter::{CallId, Filter};
use folder::Folder;
use lines::Line;
use merge::Merge;
use record::Record;
use show::Show;
use when::{Moment, Stamp};

/// How many lines are shown when nobody says how many, or what to look for.
const USUAL: usize = 200;

/// How many of the last lines are shown before new ones are waited for.
const BEFORE_FOLLOWING: usize = 10;

/// No story of a call has more lines.
const LONGEST_STORY: usize = 10_000;

const EXAMPLES: &str = "\
Examples:
  mendline logs                        the last 200 lines of all servers
  mendline logs notes -f               of one server, and what comes
  mendline logs --since 10m --level warn
  mendline logs --grep ETIMEDOUT       whoever said it, and in whichever words
  mendline logs --grep 503 --since 2026-11-15
  mendline logs notes --call 65537     the story of one call; errors name it as `call`
  mendline logs notes --wire           the messages, too, if `run --record-wire` kept them

The files are in logs/ of the state directory: $MENDLINE_STATE_DIR, else
$XDG_STATE_HOME/mendline, else ~/.local/state/mendline. `mendline run` keeps more in them with
`--log-file-level debug`, and nothing with `--no-log-files`. Times are in UTC.
Exit codes: 0 ok, 1 nothing matches, 2 wrong usage, 3 nothing is logged, or unknown name.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LogsOptions {
    /// A server by its name, and no other
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Go on with what comes, until Ctrl-C
    #[arg(long, short)]
    follow: bool,

    /// From when on: a duration before now such as 10m or 2h, or a time such as 2026-11-15T12:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = when::parse)]
    since: Option<Moment>,

    /// Until when
    #[arg(long, value_name = "WHEN", value_parser = when::parse, conflicts_with = "follow")]
    until: Option<Moment>,

    /// The last so many lines, or all [default: 200; all with --since, --until, --grep or --call; 10 with --follow]
    #[arg(long, short = 'n', value_name = "LINES|all", value_parser = Count::parse)]
    lines: Option<Count>,

    /// What is loud enough: error, warn, info or debug [default: info; all with --call]
    #[arg(long, value_name = "LEVEL")]
    level: Option<LogLevel>,

    /// Only lines with this text, in whichever case; ETIMEDOUT and the like, and a status such as 503, are found in
    /// everybody's words
    #[arg(long, value_name = "TEXT")]
    grep: Option<String>,

    /// The story of one call, by its number in other lines and in errors; PID:ID when there are several
    #[arg(long, value_name = "ID", value_parser = CallId::parse)]
    call: Option<CallId>,

    /// The messages themselves, too, if they were kept
    #[arg(long)]
    wire: bool,

    /// Messages in full length
    #[arg(long)]
    full: bool,

    /// The lines as they were kept: one JSON object each
    #[arg(long, conflicts_with = "full")]
    json: bool,
}

/// How many lines are wanted.
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

/// Shows what was asked for.
pub(crate) fn run(options: &LogsOptions) -> ExitCode {
    match answer(options) {
        Ok(code) => code,
        // A reader that has gone has seen enough; any other failed write is reported at the end.
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
    let server = options.name.as_deref().map(|name| Name::tidied(name).to_string());
    let whole = Folder::read(&path, options.wire)?;
    let folder = whole.of(server.as_deref());
    if folder.is_empty() {
        let words = nothing_there(&path.display().to_string(), options.name.as_deref(), &whole);
        if !options.follow {
            eprintln!("{words}");
            return Ok(ExitCode::from(UNKNOWN));
        }
        eprintln!("{words}\n\nWaiting for it. Ctrl-C ends that.");
    }
    let mut filter = Filter::new(options);
    if options.wire && options.call.is_some() {
        // A message may have been written down before the line that says whose it is.
        let mut merge = Merge::forward(&folder.without_messages(), options.since.map(|moment| moment.stamp));
        while let Some(line) = merge.next()? {
            filter.learn(&line);
        }
    }
    let show = Show::new(&folder, Ink::for_stdout(), options.json, options.full);
    let mut out = Output { out: BufWriter::new(output::Stdout), show, shown: 0 };
    let mut merge = match &options.call {
        Some(_) if !options.follow => story(options, &folder, &filter, &mut out)?,
        _ => lines(options, &folder, &filter, &mut out)?,
    };
    out.out.flush()?;
    remark(options, &folder, merge.take_unreadable(), out.shown);
    if options.follow {
        follow::follow(&folder, server.as_deref(), &mut filter, &mut out)?;
        return Ok(ExitCode::SUCCESS);
    }
    Ok(if out.shown == 0 { ExitCode::from(NEGATIVE) } else { ExitCode::SUCCESS })
}

/// The names of the servers that something is logged of in this directory.
pub(crate) fn servers(directory: &Path) -> Vec<String> {
    let folder = Folder::read(directory, true);
    folder.map(|folder| folder.servers().into_iter().map(str::to_owned).collect()).unwrap_or_default()
}

/// Where lines are shown.
struct Output {
    out: BufWriter<output::Stdout>,
    show: Show,
    shown: usize,
}

impl Output {
    /// Shows a line, if it can be read and was asked for.
    fn line(&mut self, line: &Line, filter: &Filter) -> io::Result<()> {
        if let Some(record) = Record::parse(&line.text).filter(|record| filter.takes(record)) {
            if filter.tells_stories() {
                for before in &record.before {
                    self.show.write_before(&record, before, &mut self.out)?;
                }
            }
            self.show.write(&record, &line.text, &mut self.out)?;
            self.shown += 1;
        }
        Ok(())
    }

    /// Shows the story of one call: what its lines say, and what they say of earlier, in the order of time.
    fn story(&mut self, lines: &[&Line]) -> io::Result<()> {
        let records: Vec<Record<'_>> = lines.iter().filter_map(|line| Record::parse(&line.text)).collect();
        let mut order = Vec::new();
        for (record, line) in records.iter().zip(lines) {
            order.extend(record.before.iter().map(|before| (Stamp::of_text(&before.time), record, line, Some(before))));
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

/// The last lines, or all that there are.
fn lines(options: &LogsOptions, folder: &Folder, filter: &Filter, out: &mut Output) -> io::Result<Merge> {
    let is_narrowed = options.since.is_some() || options.until.is_some() || options.grep.is_some();
    let usual = match (options.follow, is_narrowed || options.call.is_some()) {
        (true, false) => Count::Last(BEFORE_FOLLOWING),
        (false, false) => Count::Last(USUAL),
        (_, true) => Count::All,
    };
    match options.lines.unwrap_or(usual) {
        Count::All => {
            let mut merge = Merge::forward(folder, options.since.map(|moment| moment.stamp));
            while let Some(line) = merge.next()? {
                if options.until.is_some_and(|until| line.stamp > until.stamp) {
                    break;
                }
                out.line(&line, filter)?;
            }
            Ok(merge)
        }
        Count::Last(count) => {
            let mut merge = Merge::backward(folder, options.until.map(|moment| moment.stamp));
            let mut last = Vec::new();
            while last.len() < count
                && let Some(line) = merge.next()?
            {
                if options.since.is_some_and(|since| line.stamp < since.stamp) {
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

/// The story of one call. Calls of several processes may have the same number: the latest one is meant.
fn story(options: &LogsOptions, folder: &Folder, filter: &Filter, out: &mut Output) -> io::Result<Merge> {
    let mut merge = Merge::forward(folder, options.since.map(|moment| moment.stamp));
    let mut found: Vec<Line> = Vec::new();
    while let Some(line) = merge.next()? {
        if options.until.is_some_and(|until| line.stamp > until.stamp) || found.len() >= LONGEST_STORY {
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
    out.story(&meant)?;
    if let (false, Some(call)) = (others.is_empty(), &options.call) {
        let others: Vec<String> = others.iter().map(|pid| format!("--call {pid}:{}", call.number)).collect();
        eprintln!(
            "\nThis is of process {}; others had a call of that number, too: {}",
            folder.pid(latest),
            others.join(", ")
        );
    }
    Ok(merge)
}

/// What there is to say beside the lines.
fn remark(options: &LogsOptions, folder: &Folder, unreadable: u64, shown: usize) {
    if unreadable > 0 {
        let lines = if unreadable == 1 { "one line".to_owned() } else { format!("{unreadable} lines") };
        eprintln!("note: {lines} in the log files cannot be read and were left out");
    }
    if options.wire && !folder.has_messages() {
        eprintln!("note: no messages were kept; `mendline run --record-wire …` keeps them from then on");
    }
    if shown == 0 && !options.follow && !folder.is_empty() {
        let more = match (options.level, &options.call) {
            (_, Some(_)) => ": calls that go well are kept only with `mendline run --log-file-level debug`",
            (Some(LogLevel::Debug), _) => ": `mendline run --log-file-level debug` keeps more",
            _ => "",
        };
        eprintln!("nothing in the log matches{more}");
    }
}

fn nothing_there(path: &str, name: Option<&str>, all: &Folder) -> String {
    let names = all.servers();
    let Some(name) = name.filter(|_| !names.is_empty()) else {
        return format!(
            "nothing is logged yet: there are no log files in {path}\n\n\
             Every `mendline run` writes some, unless MENDLINE_LOG_FILES=off, `--no-log-files` or the configuration say \
             otherwise."
        );
    };
    let mut words = format!("error: nothing is logged of a server {name:?}");
    if let Some(meant) = nearest(name, names.iter().copied()) {
        words.push_str(&format!("; did you mean {meant:?}?"));
    }
    let names: Vec<String> = names.iter().map(|name| one_line(name)).collect();
    format!("{words}\n\nThere are logs of: {}", names.join(", "))
}
