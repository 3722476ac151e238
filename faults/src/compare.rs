//! Compares how bridges handle a client's calls when a server fails.
//!
//! ```text
//! mendline-faults compare mendline=PATH [peers=FOLDER] [fastmcp=FOLDER] [rounds=2] [calls=10]
//! ```
//!
//! Each bridge runs between the same client and the same server, and the same fault happens at the same call. The table
//! counts the answers of the client and the executions on the server. Every bridge runs with its defaults, with one
//! exception: where a call is never answered, Mendline gets a call timeout, because its default of five minutes is
//! longer than the run. The output is the Markdown table of the README.

mod bridge;
mod client;
mod trial;

use std::io::Write;
use std::path::PathBuf;

use bridge::Bridge;
use serde_json::{Map, Value};
use trial::{CallCounts, FaultCase};

use crate::command::{Failure, print_line};

/// Runs every bridge through every fault case and prints a table.
pub(crate) async fn run(mut options: Map<String, Value>) -> Result<(), Failure> {
    let folder = |value: Option<Value>| value.and_then(|value| value.as_str().map(PathBuf::from));
    let mendline = folder(options.remove("mendline")).ok_or_else(|| Failure::new("compare needs mendline=PATH"))?;
    let (peers, fastmcp) = (folder(options.remove("peers")), folder(options.remove("fastmcp")));
    let number =
        |value: Option<Value>, default| value.and_then(|value| value.as_u64()).unwrap_or(default).clamp(1, 100);
    let rounds = number(options.remove("rounds"), 2);
    let calls = number(options.remove("calls"), 10).max(5);
    if let Some(name) = options.keys().next() {
        return Err(Failure::new(&format!("compare has no option {name}")));
    }
    let bridges = bridge::all(&mendline, peers.as_deref(), fastmcp.as_deref());
    let mut rows = Vec::new();
    for case in FaultCase::ALL {
        let mut cells = Vec::new();
        for bridge in &bridges {
            let mut results = Vec::new();
            for round in 1..=rounds {
                let result = trial::run(bridge, case, calls).await;
                let text = result.as_ref().map_or_else(ToString::to_string, |counts| counts.to_string());
                // Progress goes to stderr, because stdout is reserved for the table.
                report_progress(&format!("{} · {} · round {round}: {text}", case.label(), bridge.name));
                results.push(text);
            }
            results.dedup();
            cells.push(results.join(" / "));
        }
        rows.push((case.label(), cells));
    }
    print_line(&table(&bridges, &rows, calls, rounds))
}

/// Prints a progress line to stderr.
fn report_progress(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn table(bridges: &[Bridge], rows: &[(&str, Vec<String>)], calls: u64, rounds: u64) -> String {
    let names: Vec<_> = bridges.iter().map(|bridge| format!("{} {}", bridge.name, bridge.version)).collect();
    let mut table = format!("| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for (label, cells) in rows {
        table += &format!("| {label} | {} |\n", cells.join(" | "));
    }
    let seconds = client::ANSWER_TIMEOUT.as_secs();
    table
        + &format!(
            "\n{calls} calls each, {rounds} rounds; *failed*: answered with an error, *lost*: no answer and the bridge has ended, \
         *hung*: no answer {seconds} s after the last call was made."
        )
}

impl std::fmt::Display for CallCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} answered", self.answered)?;
        let rest = [
            (self.failed, "failed"),
            (self.lost, "lost"),
            (self.hung, "hung"),
            (self.ran_twice, "**ran twice**"),
            (self.not_run, "**answered without running**"),
        ];
        for (count, what) in rest.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, ", {count} {what}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cell_shows_only_nonzero_counts() {
        let counts = CallCounts { answered: 9, failed: 1, ..CallCounts::default() };
        assert_eq!(counts.to_string(), "9 answered, 1 failed");
        assert_eq!(
            CallCounts { answered: 3, hung: 7, ran_twice: 1, ..CallCounts::default() }.to_string(),
            "3 answered, 7 hung, 1 **ran twice**"
        );
    }
}
