//! A file of each client, as the client writes it or its documentation shows it, before and after wrapping.

use std::borrow::Cow;
use std::fmt::Write;
use std::path::Path;

use super::document::{Document, Syntax};
use super::plan::{Action, Chosen, EntryResult, Plan};
use super::program::Program;

static PROGRAM: Program = Program::at(Cow::Borrowed("/usr/bin/mendline"));

const SAMPLES: [(&str, &str); 15] = [
    ("claude-code.json", include_str!("../../tests/clients/claude-code.json")),
    ("claude-desktop.json", include_str!("../../tests/clients/claude-desktop.json")),
    ("cursor.json", include_str!("../../tests/clients/cursor.json")),
    ("vscode.json", include_str!("../../tests/clients/vscode.json")),
    ("codex.toml", include_str!("../../tests/clients/codex.toml")),
    ("gemini.json", include_str!("../../tests/clients/gemini.json")),
    ("opencode.jsonc", include_str!("../../tests/clients/opencode.jsonc")),
    ("opencode2.json", include_str!("../../tests/clients/opencode2.json")),
    ("windsurf.json", include_str!("../../tests/clients/windsurf.json")),
    ("cline.json", include_str!("../../tests/clients/cline.json")),
    ("roo.json", include_str!("../../tests/clients/roo.json")),
    ("zed.json", include_str!("../../tests/clients/zed.json")),
    ("goose.yaml", include_str!("../../tests/clients/goose.yaml")),
    ("continue.yaml", include_str!("../../tests/clients/continue.yaml")),
    ("junie.json", include_str!("../../tests/clients/junie.json")),
];

fn plan(name: &str, text: &str, action: Action<'_>, chosen: &Chosen) -> Plan {
    let syntax = Syntax::of(Path::new(name));
    Plan::make(text.to_owned(), syntax, &[], action, chosen).unwrap_or_else(|fault| panic!("{name}: {fault}\n{text}"))
}

/// The names of all servers of a file.
fn all(name: &str, text: &str) -> Chosen {
    plan(name, text, Action::Unwrap, &Chosen::new()).servers.into_iter().map(|server| server.name).collect()
}

/// The result for each server, and the text afterwards.
fn shown(plan: &Plan) -> String {
    let mut shown = String::new();
    for server in &plan.servers {
        let result = match &server.result {
            EntryResult::Changed => "wrapped".to_owned(),
            EntryResult::Already => "already wrapped".to_owned(),
            EntryResult::Left(reason) => format!("left: {reason}"),
        };
        let notes: String = server.notes.iter().map(|note| format!("; {note}")).collect();
        writeln!(shown, "{}: {result}{notes}", server.name).unwrap();
    }
    shown + "\n" + &plan.after
}

#[test]
fn file_of_every_client_is_wrapped_as_recorded() {
    for (name, text) in SAMPLES {
        let wrapped = plan(name, text, Action::Wrap { program: &PROGRAM }, &all(name, text));
        insta::assert_snapshot!(name, shown(&wrapped));
    }
}

#[test]
fn file_of_every_client_is_restored_byte_for_byte() {
    let launched = Program { command: "uvx".into(), before: vec!["mendline@1.2.3".into()] };
    for (name, text) in SAMPLES {
        let (lines, mark) = (text.replace('\n', "\r\n"), format!("\u{feff}{text}"));
        let unfinished = text.trim_end();
        let mut counts = Vec::new();
        for text in [text, &lines, &mark, unfinished] {
            for program in [&PROGRAM, &launched] {
                for chosen in [Chosen::new(), all(name, text)] {
                    let wrapped = plan(name, text, Action::Wrap { program }, &chosen);
                    let is_changed = |result: &EntryResult| *result == EntryResult::Changed;
                    let count = wrapped.servers.iter().filter(|server| is_changed(&server.result)).count();
                    counts.push(count);
                    let again = plan(name, &wrapped.after, Action::Wrap { program }, &Chosen::new());
                    let others: Vec<_> = again.servers.iter().filter(|server| is_changed(&server.result)).collect();
                    assert!(others.is_empty() || !chosen.is_empty(), "{name}: wrapped twice");
                    let back = plan(name, &wrapped.after, Action::Unwrap, &Chosen::new());
                    assert_eq!(back.after, text, "{name}");
                    let dropped = back.servers.iter().flat_map(|server| &server.notes).find(|it| it.contains("drops"));
                    assert!(
                        dropped.is_none_or(|_| name == "goose.yaml" || name == "claude-desktop.json"),
                        "{dropped:?}"
                    );
                }
            }
        }
        // The notation of line ends and the program make no difference.
        let (some, every) = (counts[0], counts[1]);
        assert!(some > 0 && counts.chunks(2).all(|pair| pair == [some, every]), "{name}: {counts:?}");
    }
}

#[test]
fn file_of_every_client_has_its_section_found() {
    for (name, text) in SAMPLES {
        let document = Document::parse(text, Syntax::of(Path::new(name))).unwrap();
        assert!(!document.sections().is_empty(), "{name}");
    }
}
