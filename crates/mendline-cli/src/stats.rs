//! `mendline stats`: what was recovered, by server.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use mendline::control::words::span;
use mendline::decisions::recovery::Recoveries;
use mendline::state::state_directory;
use mendline::stats::{KEPT_DAYS, ServerStats, read_all};
use serde::Serialize;

use crate::cli::{UNKNOWN, USAGE};
use crate::named::Refusal;
use crate::names;
use crate::output;
use crate::policy_flags::duration;
use crate::style::Style;
use crate::untrusted_text::{counted, one_line};

const EXAMPLES: &str = "\
Examples:
  mendline stats                      the last seven days, by server
  mendline stats notes --since 24h    one server, the last day
  mendline stats --json | jq '[.servers[].saved] | add'

Counts are kept by the hour, for 35 days, over all processes of a server. A call is saved if the
server answered it with a result although an attempt of it had failed, or its response had broken
off. A call has waited if it arrived while the server was away and was answered afterwards.
Exit codes: 0 ok, 2 wrong usage, 3 nothing of that name.";

/// The time that `status` summarizes.
const USUAL: Duration = Duration::from_secs(7 * 24 * 3600);

/// Options of `mendline stats`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatsOptions {
    /// Server by its name [default: all of them]
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Time to look back, in whole hours: 24h, 7d
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "7d")]
    since: Duration,

    /// Print JSON in a stable format
    #[arg(long)]
    json: bool,
}

/// The statistics, in the format of `--json`.
#[derive(Serialize)]
struct Listing {
    version: u32,
    /// The beginning, in milliseconds since 1970.
    since: u64,
    servers: Vec<Row>,
}

/// The statistics of a server.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    restarts: u64,
    reconnects: u64,
    sessions: u64,
    retries: u64,
    resumed: u64,
    renewals: u64,
    saved: u64,
    waited: u64,
    away_ms: u64,
    answered: u64,
    failed: u64,
}

impl Row {
    fn of(name: &str, counts: &Recoveries) -> Row {
        Row {
            name: name.to_owned(),
            restarts: counts.restarts,
            reconnects: counts.reconnects,
            sessions: counts.sessions,
            retries: counts.retries,
            resumed: counts.resumed,
            renewals: counts.renewals,
            saved: counts.saved,
            waited: counts.waited,
            away_ms: u64::try_from(counts.away.as_millis()).unwrap_or(u64::MAX),
            answered: counts.answered,
            failed: counts.failed,
        }
    }
}

/// Runs `mendline stats`.
pub(crate) fn run(options: &StatsOptions) -> ExitCode {
    match show(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            eprintln!("{}", refusal.words);
            ExitCode::from(refusal.code)
        }
    }
}

fn show(options: &StatsOptions) -> Result<(), Refusal> {
    let mut all = stored()?;
    if options.since > Duration::from_secs(KEPT_DAYS * 24 * 3600) {
        eprintln!("note: counts are kept for {KEPT_DAYS} days");
    }
    if let Some(name) = &options.name {
        let wanted = names::selector(name, |selector| all.iter().any(|server| selector.is(&server.name, 0)));
        let known: Vec<String> = all.iter().map(|server| server.name.clone()).collect();
        all.retain(|server| wanted.is(&server.name, 0));
        if all.is_empty() {
            return Err(nothing(name, &known));
        }
    }
    let from = first_hour(options.since);
    let rows: Vec<(String, Recoveries)> = all
        .iter()
        .map(|server| (server.name.clone(), server.since(from)))
        .filter(|(_, it)| *it != Recoveries::default())
        .collect();
    if options.json {
        let servers = rows.iter().map(|(name, counts)| Row::of(name, counts)).collect();
        let listing = Listing { version: 1, since: from * 3_600_000, servers };
        let json = serde_json::to_string_pretty(&listing).map_err(|error| Refusal::from(error.to_string()))?;
        output::json(&json);
    } else {
        print!("{}", page(&rows, options.since, Style::for_stdout()));
    }
    Ok(())
}

fn stored() -> Result<Vec<ServerStats>, Refusal> {
    let Some(state) = state_directory(|name| std::env::var_os(name)) else {
        let words = "error: there is no state directory: neither HOME nor XDG_STATE_HOME is set".to_owned();
        return Err(Refusal { words, code: USAGE });
    };
    read_all(&state).map_err(|error| Refusal::from(format!("cannot read {}: {error}", state.display())))
}

fn nothing(name: &str, known: &[String]) -> Refusal {
    let mut words = format!("error: there are no statistics of a server {:?}", one_line(name));
    if let Some(meant) = mendline_config::nearest(name, known.iter().map(String::as_str)) {
        let _ = write!(words, "; did you mean {meant:?}?");
    }
    match known {
        [] => words.push_str("\n\nThere are none at all yet: every `mendline run` counts what it recovers."),
        known => {
            let known: Vec<String> = known.iter().map(|name| one_line(name)).collect();
            let _ = write!(words, "\n\nThere are statistics of: {}", known.join(", "));
        }
    }
    Refusal { words, code: UNKNOWN }
}

/// Returns the first hour since 1970 that counts.
fn first_hour(back: Duration) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(back).as_secs() / 3600
}

/// Returns the line of `mendline status`: what the selected servers recovered in the last days, if anything.
pub(crate) fn summary(is_meant: impl Fn(&str) -> bool) -> Option<String> {
    let (all, from) = (stored().ok()?, first_hour(USUAL));
    let mut sum = Recoveries::default();
    all.iter().filter(|server| is_meant(&server.name)).for_each(|server| sum += server.since(from));
    let parts = parts(&sum);
    (!parts.is_empty()).then(|| format!("Recovered in the last 7 days: {} (`mendline stats`)", parts.join(", ")))
}

/// Returns what was recovered, in words, without zeros.
fn parts(counts: &Recoveries) -> Vec<String> {
    let count =
        |count: u64, what: &str| (count > 0).then(|| counted(usize::try_from(count).unwrap_or(usize::MAX), what));
    let calls = |count: u64, what: &str| {
        (count > 0).then(|| format!("{count} {} {what}", if count == 1 { "call" } else { "calls" }))
    };
    [
        count(counts.restarts, "restart"),
        count(counts.reconnects, "reconnect"),
        count(counts.retries, "retry").map(|text| text.replace("retrys", "retries")),
        count(counts.resumed, "resumed stream"),
        count(counts.renewals, "renewal"),
        calls(counts.saved, "saved"),
        calls(counts.waited, "that waited"),
        (counts.away > Duration::ZERO).then(|| format!("{} away", span(counts.away))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn page(rows: &[(String, Recoveries)], since: Duration, style: Style) -> String {
    let time = in_words(since);
    if rows.is_empty() {
        return format!("Nothing was counted in the last {time}: no server was lost, and no call was retried.\n");
    }
    let heads = [
        "NAME",
        "RESTARTS",
        "RECONNECTS",
        "RETRIES",
        "RESUMED",
        "RENEWALS",
        "AWAY",
        "SAVED",
        "WAITED",
        "CALLS",
        "FAILED",
    ];
    let cells: Vec<[String; 11]> = rows
        .iter()
        .map(|(name, it)| {
            let counts = [it.restarts, it.reconnects, it.retries, it.resumed, it.renewals].map(shown);
            let [restarts, reconnects, retries, resumed, renewals] = counts;
            let away = if it.away.is_zero() { "-".to_owned() } else { span(it.away) };
            let [saved, waited, answered, failed] = [it.saved, it.waited, it.answered, it.failed].map(shown);
            let name = one_line(name);
            [name, restarts, reconnects, retries, resumed, renewals, away, saved, waited, answered, failed]
        })
        .collect();
    let width = |column: usize| {
        let widest = cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        widest.max(heads[column].len())
    };
    let line = |row: [&str; 11]| {
        let cell = |(column, text): (usize, &str)| match column {
            0 => format!("{text:<width$}", width = width(column)),
            _ => format!("{text:>width$}", width = width(column)),
        };
        row.into_iter().enumerate().map(cell).collect::<Vec<_>>().join("  ")
    };
    let mut out = format!("Recovered in the last {time}:\n\n{}\n", style.faint(&line(heads)));
    for row in &cells {
        let _ = writeln!(out, "{}", line(row.each_ref().map(String::as_str)));
    }
    out
}

/// Formats a time to look back: `7 days`, `24 hours`.
fn in_words(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds >= 2 * 86_400 && seconds % 86_400 == 0 => format!("{} days", seconds / 86_400),
        seconds => counted(usize::try_from(seconds.div_ceil(3600)).unwrap_or(usize::MAX), "hour"),
    }
}

fn shown(count: u64) -> String {
    if count == 0 { "-".to_owned() } else { count.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_names_what_happened_and_leaves_out_zeros() {
        let counts =
            Recoveries { restarts: 1, retries: 2, saved: 1, away: Duration::from_secs(65), ..Default::default() };
        assert_eq!(parts(&counts).join(", "), "1 restart, 2 retries, 1 call saved, 1 min away");
        assert_eq!(parts(&Recoveries { answered: 9, failed: 1, ..Default::default() }), Vec::<String>::new());
    }

    #[test]
    fn table_is_aligned() {
        let counts = Recoveries { restarts: 3, saved: 12, answered: 1204, ..Default::default() };
        let page = page(&[("notes".to_owned(), counts)], Duration::from_secs(7 * 86_400), Style::none());
        assert!(page.starts_with("Recovered in the last 7 days:\n\nNAME   RESTARTS"), "{page}");
        assert!(
            page.ends_with(
                "notes         3           -        -        -         -     -     12       -   1204       -\n"
            ),
            "{page}"
        );
    }
}
