//! The table of a run, as Markdown that can also be read in a terminal.

use std::fmt::Write as _;

use crate::balancer::Row;
use crate::cell::{Cell, SECONDS, Situation};
use crate::form::Form;
use crate::play::Lists;
use crate::run::{Done, Job};

/// Returns the tables of all jobs that were run.
pub(crate) fn markdown(done: &[Done]) -> String {
    let mut text = String::new();
    if done.iter().any(|done| matches!(done.job, Job::Cell(_))) {
        matrix(done, &mut text);
    }
    if done.iter().any(|done| matches!(done.job, Job::Row(_))) {
        rows(done, &mut text);
    }
    text
}

fn matrix(done: &[Done], text: &mut String) {
    text.push_str(
        "For 1, 10 and 30 s: with a session, without one (commands: one mark). `+` passed, `F` failed, `.` not run.\n\n",
    );
    let situations = Situation::ALL.map(Situation::name);
    let _ = writeln!(text, "| {:<20} | {} |", "form", situations.map(|name| format!("{name:<14}")).join(" | "));
    let _ = writeln!(text, "|{}", "---|".repeat(situations.len() + 1));
    let was_run = |form: &Form| done.iter().any(|done| matches!(done.job, Job::Cell(cell) if cell.form == *form));
    for form in Form::ALL.into_iter().filter(was_run) {
        let marks = Situation::ALL.map(|situation| {
            let marks = SECONDS.map(|seconds| {
                let sessions: &[bool] = if form.is_command() { &[true] } else { &[true, false] };
                let cells = sessions.iter().map(|&has_session| Cell { form, seconds, situation, has_session });
                cells.map(|cell| mark(done, &Job::Cell(cell))).collect::<String>()
            });
            format!("{:<14}", marks.join(" "))
        });
        let _ = writeln!(text, "| {:<20} | {} |", form.name(), marks.join(" | "));
    }
}

/// Returns how often each `tools/list` was answered, by the SHA-256 of its bytes.
pub(crate) fn lists(lists: &Lists) -> String {
    let mut text = String::new();
    for (server, digests) in lists {
        for (digest, count) in digests {
            let _ = writeln!(text, "\ntools/list of {server}: {count} answers with the SHA-256 {digest}");
        }
    }
    text
}

fn rows(done: &[Done], text: &mut String) {
    let _ = writeln!(text, "| {:<44} | result |\n|---|---|", "balancer/server/situation");
    let was_run = |row: &Row| done.iter().any(|done| done.job == Job::Row(*row));
    for row in Row::all().into_iter().filter(was_run) {
        let _ = writeln!(text, "| {:<44} | {:<6} |", row.name(), mark(done, &Job::Row(row)));
    }
}

fn mark(done: &[Done], job: &Job) -> char {
    match done.iter().find(|done| done.job == *job) {
        None => '.',
        Some(done) if done.misses.is_empty() => '+',
        Some(_) => 'F',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Miss;

    #[test]
    fn failed_cell_is_marked_in_its_place() {
        let all = Cell::all();
        let is_run = |cell: &Cell| cell.form == Form::Status502 && cell.situation != Situation::FirstStart;
        let cells: Vec<_> = all.into_iter().filter(is_run).collect();
        let fails = |cell: &Cell| cell.name() == "502/10/agent/no-session";
        let done: Vec<Done> = cells
            .iter()
            .map(|cell| Done {
                job: Job::Cell(*cell),
                misses: if fails(cell) { vec![Miss::setup("broken")] } else { Vec::new() },
            })
            .collect();
        let text = markdown(&done);
        let row = text.lines().find(|line| line.starts_with("| 502 ")).unwrap();
        assert!(row.contains("++ +F ++"), "{row}");
        assert_eq!((row.matches('F').count(), row.matches(".. .. ..").count()), (1, 1), "{row}");
        assert_eq!(text.lines().filter(|line| line.starts_with("| ")).count(), 2, "only forms that were run: {text}");
    }
}
